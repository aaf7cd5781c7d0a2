//! A deterministic simulated InfiniBand fabric that implements the verbs contract.
//!
//! One event queue in nanoseconds of virtual time drives everything: packets, adapters, timers, faults and the
//! nodes' processors. There are no threads, no wall clock and no global state; every decision that a run
//! leaves open is put to one [`choice::Choice`], so the same answers give the same run to the byte.
//!
//! A [`Fabric`] is a cluster. Its [devices](Fabric::devices) are opened like any others of the contract, and
//! programs that are [mounted](Fabric::mount) on its nodes run as the virtual time [passes](Fabric::run_until):
//!
//! ```
//! use weft_sim::{Config, Fabric, NodeId, choice::Seeded, profile::Profile};
//! use weft_verbs::{Context, Device, Nanos};
//!
//! let profile = Profile::builtin("ncosed-2007").unwrap();
//! let fabric = Fabric::new(Config::new(2, profile), Box::new(Seeded::new(1))).unwrap();
//! let ctx = fabric.devices(NodeId(0))[0].open().unwrap();
//! let cq = ctx.create_cq(16, None).unwrap();
//! fabric.run_until(Nanos::from_millis(1));
//! # drop(cq);
//! ```

mod access;
pub mod choice;
mod cm;
mod config;
mod disk;
pub mod explore;
mod fabric;
pub mod fault;
mod hca;
mod ids;
mod in_place;
mod jitter;
pub mod log;
pub mod memo;
pub mod profile;
pub mod sanitizer;
mod stats;
mod streams;
mod verbs;
#[doc(hidden)]
pub mod wheel;
mod world;

/// Two adapters on a bench, without a fabric: for tests and fuzzers of the engine alone.
pub mod bench {
    pub use crate::hca::bench::*;
    pub use crate::hca::{
        Atomic, Body, Data, Deth, Gather, Nak, Op, Packet, Part, RecvRequest, Remote, Reth, SendRequest,
        Service, Sge, Syndrome,
    };
}

pub use access::RegionId;
pub use config::{
    Config, ConfigError, Keys, MAX_DEVICES, MAX_NODES, MAX_PORTS, MAX_UNTIMED_PORTS, Order, Topology,
};
pub use fabric::{Fabric, RunEnd};
pub use ids::NodeId;
pub use jitter::Jitter;
pub use stats::{Alive, Asked, Busy, Stats};
pub use verbs::{
    Sim, SimAh, SimChannel, SimCm, SimContext, SimCq, SimDevice, SimDisk, SimDiskRequest, SimHost, SimMr,
    SimOob, SimPd, SimQp, SimSrq, SimStream, SimStreamListener,
};
