//! The systems, a room each, and the registry that knows them all.
//!
//! A system is one folder here, one in `protocols/src`, and one line in the [registry](crate::systems). Everything that
//! runs systems is written for any [`System`] and reaches this one by its kind.

pub mod ddss;
pub mod dsm;
pub mod locks;
pub mod messages;
pub mod pario;
pub mod sdp;

use crate::bench::{BenchError, SystemBench, SystemFigures};
use crate::explore::Entry;
use crate::paper::Paper;
use crate::run::{Report, RunError, RunOptions};
use crate::scenario::{self, Kind, Scenario};
use crate::system::{Example, System};
use std::marker::PhantomData;
use weft_sim::choice::Choice;

/// Something that is done with a system, whichever it is.
pub trait Visitor {
    /// What comes of it.
    type Out;

    /// Does it.
    fn visit<S: System>(self) -> Self::Out;
}

macro_rules! registry {
    ($($system:ty),* $(,)?) => {
        /// Every system.
        const ALL: &[&dyn Registered] = &[$(&Room::<$system>(PhantomData)),*];

        /// The kinds of workloads that scenarios can have.
        pub const KINDS: &[Kind] = &[$(Kind::of::<$system>()),*];

        /// Does something with the system of a kind; `None` if there is no such kind.
        pub fn visit<T: Visitor>(kind: &str, visitor: T) -> Option<T::Out> {
            $(if kind == <$system>::KIND {
                return Some(visitor.visit::<$system>());
            })*
            None
        }
    };
}

// The registry: a line a system.
registry! {
    locks::Locks,
    messages::Messages,
    ddss::Segments,
    sdp::Sockets,
    pario::Files,
    dsm::SharedMemory,
}

/// A system as the registry knows it: by what can be done with a scenario of it.
pub trait Registered: Sync {
    /// Its name, as `kind` in `[workload]`.
    fn kind(&self) -> &'static str;

    /// What it is, in a few words.
    fn about(&self) -> &'static str;

    /// The variants that random scenarios are drawn of; one without a name if there are none.
    fn variants(&self) -> &'static [&'static str];

    /// Runs a scenario of the system from a seed, and judges it; see [`crate::run::run`].
    ///
    /// # Errors
    ///
    /// As that.
    fn run(&self, scenario: &Scenario, seed: u64, options: RunOptions<'_>) -> Result<Report, RunError>;

    /// Runs a scenario of the system whose fabric asks `choice` for all that it leaves open.
    ///
    /// # Errors
    ///
    /// As [`crate::run::run`].
    fn run_by(&self, scenario: &Scenario, seed: u64, choice: Box<dyn Choice>) -> Result<Report, RunError>;

    /// What a fuzzer's bytes do with the system; see [`crate::fuzz::system`].
    fn fuzz(&self) -> crate::fuzz::Body;

    /// Further targets of fuzzers; see [`System::TARGETS`].
    fn targets(&self) -> &'static [crate::system::Target];

    /// Its worlds.
    fn worlds(&self) -> Vec<Entry>;

    /// What is measured beside its variants; see [`System::RIVALS`].
    fn rivals(&self) -> &'static [&'static str];

    /// Measures each variant of the system; see [`SystemBench::run`].
    ///
    /// # Errors
    ///
    /// As that.
    fn bench(&self, bench: &SystemBench, variant: &'static str) -> Result<SystemFigures, BenchError>;

    /// What a request costs, as `weft bench` tells it; see [`System::COSTS`].
    fn costs(&self) -> &'static [(&'static str, &'static str)];

    /// The papers whose experiments can be repeated.
    fn papers(&self) -> &'static [Paper];

    /// What a user may begin with, for help texts.
    fn examples(&self) -> &'static [Example];

    /// A random scenario of the system, of one of its variants, on so many nodes or a few.
    fn swarm(&self, seed: u64, nodes: Option<u32>, variant: &str) -> Scenario;
}

/// A system's place in the registry.
struct Room<S>(PhantomData<fn() -> S>);

impl<S: System> Registered for Room<S> {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn about(&self) -> &'static str {
        S::ABOUT
    }

    fn variants(&self) -> &'static [&'static str] {
        S::VARIANTS
    }

    fn rivals(&self) -> &'static [&'static str] {
        S::RIVALS
    }

    fn run(&self, scenario: &Scenario, seed: u64, options: RunOptions<'_>) -> Result<Report, RunError> {
        crate::run::run::<S>(scenario, seed, options)
    }

    fn run_by(&self, scenario: &Scenario, seed: u64, choice: Box<dyn Choice>) -> Result<Report, RunError> {
        let mut world = crate::run::World::<S>::new(scenario, seed, choice)?;
        world.start_clients();
        world.run(RunOptions::default())
    }

    fn fuzz(&self) -> crate::fuzz::Body {
        crate::fuzz::system::<S>
    }

    fn targets(&self) -> &'static [crate::system::Target] {
        S::TARGETS
    }

    fn worlds(&self) -> Vec<Entry> {
        S::worlds()
    }

    fn bench(&self, bench: &SystemBench, variant: &'static str) -> Result<SystemFigures, BenchError> {
        bench.run::<S>(variant)
    }

    fn costs(&self) -> &'static [(&'static str, &'static str)] {
        S::COSTS
    }

    fn papers(&self) -> &'static [Paper] {
        S::PAPERS
    }

    fn examples(&self) -> &'static [Example] {
        S::EXAMPLES
    }

    fn swarm(&self, seed: u64, nodes: Option<u32>, variant: &str) -> Scenario {
        scenario::seeded_swarm::<S>(seed, nodes, variant)
    }
}

/// The worlds of every system, in the order of the systems, and those of what all of them stand on.
pub fn worlds() -> Vec<Entry> {
    ALL.iter().flat_map(|system| system.worlds()).chain(crate::members::worlds()).collect()
}

/// Every system, in a fixed order.
pub fn all() -> &'static [&'static dyn Registered] {
    ALL
}

/// The system of a kind.
pub fn find(kind: &str) -> Option<&'static dyn Registered> {
    ALL.iter().copied().find(|system| system.kind() == kind)
}

/// The papers of every system.
pub fn papers() -> impl Iterator<Item = &'static Paper> {
    ALL.iter().flat_map(|system| system.papers())
}

/// The system that a scenario is about.
///
/// # Errors
///
/// The registry does not know it: the scenario was read with other kinds.
pub fn of(scenario: &Scenario) -> Result<&'static dyn Registered, RunError> {
    let kind = scenario.workload.kind().name;
    find(kind).ok_or_else(|| RunError::Cluster(format!("there is no system '{kind}'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::Size;

    #[test]
    fn every_world_has_a_name_of_its_own_and_can_be_built() {
        let mut names: Vec<&str> = worlds().iter().map(|entry| entry.name).collect();
        for entry in worlds() {
            let built = entry.build(&Size::default()).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
            assert_eq!(built.name(), entry.name);
            // A failure file names the whole size.
            let again = entry.build(&built.size()).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
            assert_eq!(again.size(), built.size(), "{}", entry.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), worlds().len());
    }
}
