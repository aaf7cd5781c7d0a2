//! The lock service in its world: runs by seeds, determinism, and bugs that must be caught.

mod determinism;
mod naive_locks;
mod planted_bugs;
mod runs;
mod scenarios;
