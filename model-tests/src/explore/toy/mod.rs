//! Toy worlds: small programs over shared words and channels, as pure data.
//!
//! They are what the explorer itself is tested by, since all their executions can be listed by other means; and
//! classic bugs that every reduction must find are [programs](planted) of this kind.

mod machine;
mod op;
pub mod planted;

pub use machine::Machine;
pub use op::{Op, Program, Test, Value};

use super::any_model::{Entry, Expected};
use super::system::{Described, LIVELOCK, ModelFactory, PANIC};
use weft_sim::explore::{FaultSet, Outcome};

/// A program as a world to explore.
#[derive(Clone, Debug)]
pub struct Toy {
    name: &'static str,
    root: Machine,
}

impl Toy {
    /// The world of a program.
    pub fn new(name: &'static str, program: Program) -> Toy {
        Toy { name, root: Machine::new(program) }
    }
}

/// The planted bugs, and one world without, as a list of worlds has them.
pub fn all() -> Vec<Entry> {
    use planted::{blind_resend, lost_update, mcs_links_first, sound_lock, ticket_wraps};
    let entry = |name, expected, about, make| Entry { name, about, expected, keys: &[], make };
    vec![
        entry("toy-sound-lock", Expected::Held, "a test-and-set lock of two processes", |_| {
            Ok(Box::new(sound_lock()))
        }),
        entry("toy-lost-update", Expected::Violated, "an increment by reading and writing back", |_| {
            Ok(Box::new(lost_update()))
        }),
        entry(
            "toy-mcs-links-first",
            Expected::Violated,
            "an MCS lock that links before it sets its flag",
            |_| Ok(Box::new(mcs_links_first())),
        ),
        entry(
            "toy-ticket-wraps",
            Expected::Violated,
            "a ticket lock with fewer tickets than processes",
            |_| Ok(Box::new(ticket_wraps())),
        ),
        entry(
            "toy-blind-resend",
            Expected::ViolatedUnderFaults,
            "a request that is sent again though it may yet be executed",
            |_| Ok(Box::new(blind_resend())),
        ),
    ]
}

impl Described for Toy {
    fn name(&self) -> &str {
        self.name
    }

    fn promises(&self) -> Vec<&'static str> {
        vec!["check", "mutual exclusion", "progress", LIVELOCK, PANIC]
    }

    /// Nobody takes the place of a process that is no more, so that toys promise nothing then.
    fn usual_faults(&self) -> FaultSet {
        self.faults().without(Outcome::Crash)
    }
}

impl ModelFactory for Toy {
    type System = Machine;

    fn root(&mut self) -> Machine {
        self.root.clone()
    }

    fn reset(&mut self, world: &mut Machine) {
        world.clone_from(&self.root);
    }
}
