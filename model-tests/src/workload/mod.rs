//! What the users of a lock service do: which locks they ask for, how, and for how long they hold them.
