//! The tests of the program `weft`, run as its users run it.
//!
//! One binary, whose tests run beside one another.

mod bad_input;
mod bench;
mod common;
mod daemon;
mod determinism;
mod docs;
mod explore;
mod findings;
mod first_hour;
mod fsck;
mod lists;
mod paper;
mod run;
mod third_system;
mod transcript;
