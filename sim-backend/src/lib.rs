//! A deterministic simulated InfiniBand fabric that implements the verbs contract.
//!
//! One event queue in nanoseconds of virtual time drives everything: packets, adapters, timers, faults and the
//! nodes' processors. There are no threads, no wall clock and no global state; every decision that a run
//! leaves open is put to one [`choice::Choice`], so the same answers give the same run to the byte.

pub mod access;
pub mod choice;
pub mod cm;
pub mod fault;
mod ids;
pub mod log;
pub mod profile;
pub mod wheel;

pub use ids::NodeId;
