//! The tests of the rooms, of the explorer on real systems, and of the structure of the sources.
//!
//! One binary: each further one would be linked with all systems once more.

mod common;
mod commute;
mod corpora;
mod ddss;
mod dsm;
mod leases;
mod locks;
mod memoised;
mod merges;
mod messages;
mod parallel;
mod pario;
mod sdp;
mod shipped_scenarios;
mod smaller;
mod structure;
mod worlds;
