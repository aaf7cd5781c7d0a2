//! What holds Weft's protocols to their promises on the simulated fabric. (The crate is `weft_check`, its folder `model-tests`.)
//!
//! A [`scenario::Scenario`] says what the cluster is, what its users do and what goes wrong. [`run()`] builds it, runs it
//! from a seed and records what the users saw as a [`mod@history`]. The [`oracle`]s judge the history while it grows, and what
//! is left over at rest. [`seeds`] does that for a range of seeds, [`mod@fuzz`] for the bytes of a fuzzer.
//!
//! What is run is a [`system::System`], which has a room of its own in [`systems`].
//!
//! [`mod@explore`] goes through every order of events that matters, of any transition system; [`harness`] makes one of a
//! model, programs on the nodes of a small cluster. The [`systems`] have their worlds, a room each.
//!
//! | module | idea |
//! |---|---|
//! | [`scenario`], [`fields`] | scenario files, and what their fields are made of |
//! | [`system`], [`systems`] | what a system is; the systems, a room each |
//! | [`run`](mod@run), [`seeds`] | one run of any system; many, summed up |
//! | [`mod@history`], [`calls`], [`record`] | what users saw, and who takes it down; the simplest history |
//! | [`oracle`], `verdict` | who judges it, and what that comes to |
//! | [`metrics`], `counted`, `mesh_counts` | figures, and the counts that they are made of |
//! | [`mod@explore`], [`harness`], `members` | the explorer; what makes its worlds of models; members by themselves |
//! | [`mod@fuzz`], [`mod@bench`] | what fuzzers call; how fast the simulator is |
//! | [`paper`], [`calibrate`], [`diagram`] | experiments of papers; profiles from measurements; drawings of runs |
//! | `named`, `by_hand`, `polled` | small parts that rooms and the harness share |
//!
//! Nothing here is global but the hook that keeps what a caught panic said ([`explore::panics`]), and nothing but [`mod@bench`] and the limits of [`mod@explore`] looks at the wall clock: the
//! same scenario and seed give the same report, to the byte.

pub mod bench;
mod by_hand;
pub mod calibrate;
pub mod calls;
mod counted;
pub mod diagram;
pub mod explore;
pub mod fields;
pub mod fuzz;
pub mod harness;
pub mod history;
mod members;
mod mesh_counts;
pub mod metrics;
mod named;
pub mod oracle;
pub mod paper;
mod polled;
pub mod record;
pub mod run;
pub mod scenario;
pub mod seeds;
pub mod system;
pub mod systems;
mod verdict;

pub use mesh_counts::MeshCounts;
pub use named::Named;
pub use verdict::Verdict;

use run::{Report, RunError, RunOptions};
use scenario::{Override, Scenario, ScenarioError};
use std::path::Path;

/// Reads a scenario file of any system and checks it.
///
/// # Errors
///
/// What is wrong with it, in one line.
pub fn load(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
    load_with(path, &[])
}

/// Reads a scenario file of any system with some of its fields replaced.
///
/// # Errors
///
/// What is wrong with it, in one line.
pub fn load_with(path: impl AsRef<Path>, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
    Scenario::load_with(path, overrides, systems::KINDS)
}

/// Reads a scenario of any system from text that has no file; errors name it `scenario`.
///
/// # Errors
///
/// What is wrong with it, in one line.
pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse_with("scenario", text, &[], systems::KINDS)
}

/// Runs a scenario of any system from `seed` to its end and judges it.
///
/// # Errors
///
/// The cluster cannot be built, or the caller broke the run off.
pub fn run(scenario: &Scenario, seed: u64, options: RunOptions<'_>) -> Result<Report, RunError> {
    systems::of(scenario)?.run(scenario, seed, options)
}

/// Every target of the fuzzers: the adapter, scenario files, and each system.
pub fn fuzz_targets() -> Vec<(&'static str, fuzz::Body)> {
    let systems = systems::all().iter().map(|system| (system.kind(), system.fuzz()));
    let further = systems::all().iter().flat_map(|system| system.targets()).copied();
    fuzz::TARGETS.into_iter().chain(systems).chain(further).collect()
}

/// The guide's examples are compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide.md")]
pub struct Guide;

/// The examples of the explorer's page, too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/explorer.md")]
pub struct ExplorerPage;
