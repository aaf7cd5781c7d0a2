//! What the users of a lock service do: which locks they ask for, how, and for how long they hold them.
//!
//! What a client will do is drawn from a stream of its own ([`Plan`]), so that it does not depend on when its
//! requests are granted: two schemes under one seed are asked for the same.

mod fields;
mod keys;
mod plan;
mod scheme;

pub use fields::{Keys, LockWork};
pub use keys::KeyPicker;
pub use plan::{Plan, Request, WaitPolicy};
