//! One run of any scenario: a system on a simulated cluster, with its clients and its faults.
//!
//! [`run`] is all that most callers need. A [`World`] can also be built by hand, with other clients than the
//! scenario's or with other answers to the fabric's choices than a seed's.
//!
//! A run has three parts. While clients make their requests, faults strike. When all clients are through, or
//! at the scenario's limit, faults stop and everything is healed; from then on every request must end within
//! the scenario's bound. At last, when nothing is under way any more, nothing may be left over.

mod client;
mod course;
mod faults;
mod left_out;
mod leftovers;
mod log;
mod report;
mod restarts;
mod summary;
mod throughput;
mod world;

pub use client::{client, rest};
pub use left_out::left_out;
pub use report::{FaultCount, Report, hit_nothing, named};
pub use throughput::{Struck, Throughput};
pub use world::{Machine, World, members, mesh_config, rail_names};

use crate::scenario::Scenario;
use crate::system::System;
use std::ops::ControlFlow;
use weft_verbs::Nanos;

/// Is told how far a run is, and says whether it goes on.
pub type Watch<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// What a caller may want of a run beyond its report.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// Where the event log goes, one line for each event. Default: only its digest is kept.
    pub log: Option<Box<dyn std::io::Write>>,
    /// Is told from time to time how far the run is, and may break it off.
    pub progress: Option<&'a mut Watch<'a>>,
    /// In which spans of time it is counted what arrives at users ([`System::arrived`]). Default: it is not.
    pub sample: Option<Nanos>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What the run is doing.
    pub phase: Phase,
    /// Virtual time since the start.
    pub now: Nanos,
    /// How many requests have ended, granted or not.
    pub ended: u64,
    /// How many requests there will be, if the scenario says.
    pub total: Option<u64>,
    /// Until when clients go on making requests, if the scenario says so instead.
    pub until: Option<Nanos>,
    /// How many faults have been injected.
    pub faults: u64,
    /// How many events the fabric has processed.
    pub events: u64,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Clients make requests while faults strike.
    Faults,
    /// Faults have stopped; the requests that are left must end.
    Settling,
}

/// Why a run gave no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The caller broke it off.
    #[error("the run was interrupted at {at} of virtual time")]
    Interrupted {
        /// When, in virtual time.
        at: Nanos,
        /// Why the event log up to then could not be written, if it was asked for and could not.
        log_error: Option<String>,
    },
    /// The simulated cluster could not be built as the scenario says.
    #[error("the cluster cannot be built: {0}")]
    Cluster(String),
}

/// Runs `scenario`, whose workload is that of the system, from `seed` to its end and judges it.
///
/// # Errors
///
/// The cluster cannot be built, or the caller broke the run off.
pub fn run<S: System>(scenario: &Scenario, seed: u64, options: RunOptions<'_>) -> Result<Report, RunError> {
    let mut world = World::<S>::seeded(scenario, seed)?;
    world.start_clients();
    world.run(options)
}
