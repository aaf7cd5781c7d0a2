//! What holds Weft's protocols to their promises on the simulated fabric.
//!
//! A [`scenario::Scenario`] says what the cluster is, what its users do and what goes wrong. A world
//! ([`lock_world`]) builds it, runs it from a seed and records what the users saw as a [`history`]. The
//! [`oracle`]s judge the history while it grows, and what is left over at rest. [`seeds`] does that for a range
//! of seeds, [`mod@fuzz`] for the bytes of a fuzzer.
//!
//! [`mod@explore`] goes through every order of events that matters, of the [`worlds`] or of others.
//!
//! Nothing here is global, and nothing but [`mod@bench`] and the limits of [`mod@explore`] looks at the wall clock: the
//! same scenario and seed give the same report, to the byte.

pub mod bench;
mod by_hand;
pub mod explore;
pub mod fuzz;
pub mod history;
pub mod lock_world;
pub mod oracle;
pub mod paper;
pub mod scenario;
pub mod seeds;
pub mod workload;
pub mod worlds;

/// The README's examples are compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The examples of the explorer's page, too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/explorer.md")]
pub struct ExplorerPage;
