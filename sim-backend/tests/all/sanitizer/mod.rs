//! The sanitizer: every violation planted is found with both of its sides, and its lawful neighbours are not.

mod deregistered;
mod pending;
mod reports;
mod shared;
mod support;
mod unfinished;
mod words;
