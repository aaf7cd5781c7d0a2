//! Members by themselves, explored: the shipped state machine of `weft_protocols::members` on nodes whose clocks drift, whose
//! messages take as long as they like, and which crash and come back.
//!
//! What members are for is a right that one of them has at a time, granted by the lowest rank of the view: the least that a
//! lock service does with views and leases ([`node`]). The oracles judge who has it ([`world`]). No fabric lies below: that one
//! is explored with the tasks that carry members over it. Of the mesh there is what members rely on: sessions end with a boot, and who
//! has left an incarnation out refuses it and says so.
//!
//! The events of these worlds depend on one another by the clocks, so partial orders reduce nothing; they are explored by
//! their states.

mod node;
mod planted;
mod rules;
mod world;

use crate::explore::{AnyModel, Entry, Expected, Key, ModelFactory, Reduction, Size, SizeError};
use planted::Planted;
use rules::Rules;
use world::{Start, World};

const KEYS: &[Key] = &[
    Key { name: "nodes", help: "how many nodes" },
    Key { name: "wants", help: "how many of them want what one can have at a time, the highest ranks first" },
    Key { name: "crashes", help: "how many crashes there may be" },
    Key { name: "restarts", help: "how many of the crashed nodes may come back" },
    Key { name: "cuts", help: "how often the link between two of them may be cut for a while" },
    Key { name: "early", help: "how often time may go on before everything has come" },
    Key { name: "ticks", help: "how often time goes on" },
];

/// A membership as a world.
struct Members {
    name: &'static str,
    rules: Rules,
    /// The root of each initial configuration: which node's clock differs from the others'.
    roots: Vec<World>,
}

impl Members {
    fn of(
        name: &'static str,
        size: &Size,
        usual: [u32; 7],
        start: Start,
        planted: Option<Planted>,
    ) -> Result<Members, SizeError> {
        let [nodes, wants, crashes, restarts, cuts, early, ticks] = usual;
        let value = |key, usual, bounds| size.within(key, size.number(key)?.unwrap_or(usual), bounds);
        let rules = Rules {
            nodes: value("nodes", nodes, 1..=5)?,
            wants: value("wants", wants, 0..=5)?,
            crashes: value("crashes", crashes, 0..=3)?,
            restarts: value("restarts", restarts, 0..=3)?,
            cuts: value("cuts", cuts, 0..=3)?,
            early: value("early", early, 0..=40)?,
            ticks: value("ticks", ticks, 0..=40)?,
            planted,
            crashing: (planted == Some(Planted::Amnesia)).then_some(1),
            cutting: (planted == Some(Planted::LeaseFromReceipt)).then_some(1),
        };
        let drifts = 0..rules.nodes;
        let roots = drifts.map(|drifts| World::new(rules, drifts, start)).collect();
        Ok(Members { name, rules, roots })
    }

    fn boxed(self) -> Box<dyn AnyModel> {
        Box::new(self)
    }
}

impl ModelFactory for Members {
    type System = world::Execution;

    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        let Rules { nodes, wants, crashes, restarts, cuts, early, ticks, .. } = self.rules;
        let values = [nodes, wants, crashes, restarts, cuts, early, ticks];
        Size::new(KEYS.iter().map(|key| key.name).zip(values))
    }

    fn configurations(&self) -> usize {
        self.roots.len()
    }

    fn faults(&self) -> weft_sim::explore::FaultSet {
        weft_sim::explore::FaultSet::NONE
    }

    fn reduction(&self) -> Option<Reduction> {
        Some(Reduction::Cache)
    }

    fn root(&mut self) -> world::Execution {
        world::Execution::new(self.roots.clone())
    }

    fn reset(&mut self, system: &mut world::Execution) {
        system.reset();
    }
}

macro_rules! worlds {
    ($($name:literal $expected:ident $start:ident $planted:expr, $usual:expr, $about:literal;)*) => {
        /// The worlds of members, those with planted bugs included.
        pub fn worlds() -> Vec<Entry> {
            vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: KEYS,
                make: |size| Ok(Members::of($name, size, $usual, Start::$start, $planted)?.boxed()),
            }),*]
        }
    };
}

// Nodes, wants, crashes, restarts, cuts, early, ticks.
worlds! {
    "members" Held Standing None, [3, 2, 1, 0, 0, 0, 9],
        "views and leases by themselves; a member crashes";
    "members-cut" Held Standing None, [3, 2, 0, 0, 1, 0, 7],
        "the same; the link between two is cut for a while";
    "members-restart" Held Standing None, [3, 1, 1, 1, 0, 0, 9],
        "the same; a member crashes and comes back";
    "members-restart-cut" Held Standing None, [3, 1, 1, 1, 1, 0, 4],
        "the same, and a link is cut for a while";
    "members-cold" Held Cold None, [3, 1, 0, 0, 0, 0, 8],
        "the same, from a cold start";
    "members-lost" Held Standing None, [3, 1, 2, 2, 0, 0, 7],
        "the same; a majority crashes and comes back";
    "members-late" Held Standing None, [3, 2, 1, 0, 0, 1, 5],
        "the same; a member crashes, and time goes on early";
    "members-cold-crash" Held Cold None, [3, 1, 1, 1, 0, 0, 8],
        "the same, from a cold start; a member crashes and comes back";
    "members-cold-cuts" Held Cold None, [4, 0, 0, 0, 2, 0, 2],
        "the same, of four; two links are cut for a while";
    "planted-members-amnesia" Violated Held Some(Planted::Amnesia), [3, 2, 1, 1, 0, 0, 6],
        "a node that restarts votes as the member that it was";
    "planted-members-cold-start-does-not-wait" Violated Held Some(Planted::ColdStartDoesNotWait),
        [3, 2, 2, 2, 0, 0, 0], "a cold start grants at once";
    "planted-members-grants-at-once" Violated Standing Some(Planted::GrantsAtOnce), [3, 2, 0, 0, 1, 0, 3],
        "who grants anew does not wait for leases";
    "planted-members-no-drift" Violated Standing Some(Planted::NoDrift), [3, 2, 0, 0, 2, 0, 7],
        "who grants anew waits for a lease, without the drift";
    "planted-members-lease-from-receipt" Violated Standing Some(Planted::LeaseFromReceipt), [3, 2, 0, 0, 2, 0, 9],
        "a lease runs from when its renewal was answered";
    "planted-members-by-rank" Violated Standing Some(Planted::ByRank), [3, 2, 1, 1, 0, 0, 3],
        "what a view leaves out is found by ranks, not by incarnations";
}

#[cfg(test)]
mod tests;
