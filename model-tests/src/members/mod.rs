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

use crate::explore::{AnyModel, Described, Entry, Expected, Key, ModelFactory, Reduction, Size, SizeError};
use planted::Planted;
use rules::Rules;
use world::{Start, World};

const KEYS: &[Key] = &[
    Key { name: "nodes", help: "how many nodes" },
    Key { name: "wants", help: "how many of them want what one can have at a time, the highest ranks first" },
    Key { name: "crashes", help: "how many crashes there may be" },
    Key { name: "restarts", help: "how many of the crashed nodes may come back" },
    Key { name: "leaves", help: "how many of them may leave" },
    Key { name: "cuts", help: "how often the link between two of them may be cut for a while" },
    Key { name: "early", help: "how often time may go on before everything has come" },
    Key { name: "patience", help: "for how long one is waited for, in ticks of a clock" },
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
    fn of(name: &'static str, size: &Size, usual: Rules, start: Start) -> Result<Members, SizeError> {
        let value = |key, usual, bounds| size.within(key, size.number(key)?.unwrap_or(usual), bounds);
        // Somebody has the right in such a world, so somebody wants it.
        let least_wants = u32::from(start == Start::Held);
        let rules = Rules {
            nodes: value("nodes", usual.nodes, 1..=9)?,
            wants: value("wants", usual.wants, least_wants..=9)?,
            crashes: value("crashes", usual.crashes, 0..=99)?,
            restarts: value("restarts", usual.restarts, 0..=99)?,
            leaves: value("leaves", usual.leaves, 0..=99)?,
            cuts: value("cuts", usual.cuts, 0..=99)?,
            early: value("early", usual.early, 0..=999)?,
            patience: value("patience", usual.patience, 1..=20)?,
            ticks: value("ticks", usual.ticks, 0..=999)?,
            ..usual
        };
        let drifts = 0..rules.nodes;
        let roots = drifts.map(|drifts| World::new(rules, drifts, start)).collect();
        Ok(Members { name, rules, roots })
    }

    fn boxed(self) -> Box<dyn AnyModel> {
        Box::new(self)
    }
}

impl Described for Members {
    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        let rules = &self.rules;
        let values = [
            rules.nodes,
            rules.wants,
            rules.crashes,
            rules.restarts,
            rules.leaves,
            rules.cuts,
            rules.early,
            rules.patience,
            rules.ticks,
        ];
        Size::new(KEYS.iter().map(|key| key.name).zip(values))
    }

    fn configurations(&self) -> usize {
        self.roots.len()
    }

    fn faults(&self) -> weft_sim::explore::FaultSet {
        weft_sim::explore::FaultSet::NONE
    }
}

impl ModelFactory for Members {
    type System = world::Execution;

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
    ($($name:literal $expected:ident $start:ident, $usual:expr, $about:literal;)*) => {
        /// The worlds of members, those with planted bugs included.
        pub fn worlds() -> Vec<Entry> {
            vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: KEYS,
                make: |size| Ok(Members::of($name, size, $usual, Start::$start)?.boxed()),
            }),*]
        }
    };
}

worlds! {
    "members" Held Standing, Rules { crashes: 1, ticks: 9, ..Rules::THREE },
        "views and leases by themselves; a member crashes";
    "members-cut" Held Standing, Rules { cuts: 1, ticks: 7, ..Rules::THREE },
        "the same; the link between two is cut for a while";
    "members-restart" Held Standing, Rules { wants: 1, crashes: 1, restarts: 1, ticks: 9, ..Rules::THREE },
        "the same; a member crashes and comes back";
    "members-newcomer" Held Standing, Rules { wants: 1, crashes: 2, restarts: 1, ticks: 9, ..Rules::THREE },
        "one crashes, comes back and is let in, and another one crashes";
    "members-restart-cut" Held Standing,
        Rules { wants: 1, crashes: 1, restarts: 1, cuts: 1, ticks: 4, ..Rules::THREE },
        "the same, and a link is cut for a while";
    "members-cold" Held Cold, Rules { wants: 1, ticks: 8, ..Rules::THREE },
        "the same, from a cold start";
    "members-lost" Held Standing, Rules { wants: 1, crashes: 2, restarts: 2, ticks: 7, ..Rules::THREE },
        "the same; a majority crashes and comes back";
    "members-late" Held Standing, Rules { crashes: 1, early: 1, ticks: 5, ..Rules::THREE },
        "the same; a member crashes, and time goes on early";
    "members-cold-crash" Held Cold, Rules { wants: 1, crashes: 1, restarts: 1, ticks: 8, ..Rules::THREE },
        "the same, from a cold start; a member crashes and comes back";
    "members-cold-cuts" Held Cold, Rules { nodes: 4, wants: 0, cuts: 2, ticks: 2, ..Rules::THREE },
        "the same, of four; two links are cut for a while";
    "members-leave" Held Standing, Rules { leaves: 1, cuts: 2, patience: 5, ticks: 5, ..Rules::THREE },
        "the same; a member leaves, and two links are cut for a while";
    "members-storm" Held Cold, Rules::STORM,
        "five nodes from a cold start; what is too much to explore, for `weft fuzz`";
    "planted-members-amnesia" Violated Held,
        Rules { crashes: 1, restarts: 1, ticks: 6, ..Rules::wrong(Planted::Amnesia) },
        "a node that restarts votes as the member that it was";
    "planted-members-cold-start-does-not-wait" Violated Held,
        Rules { crashes: 2, restarts: 2, ticks: 0, ..Rules::wrong(Planted::ColdStartDoesNotWait) },
        "a cold start grants at once";
    "planted-members-grants-at-once" Violated Standing,
        Rules { cuts: 1, ticks: 3, ..Rules::wrong(Planted::GrantsAtOnce) },
        "who grants anew does not wait for leases";
    "planted-members-no-drift" Violated Standing, Rules { cuts: 2, ticks: 7, ..Rules::wrong(Planted::NoDrift) },
        "who grants anew waits for a lease, without the drift";
    "planted-members-lease-from-receipt" Violated Standing,
        Rules { cuts: 2, ticks: 9, ..Rules::wrong(Planted::LeaseFromReceipt) },
        "a lease runs from when its renewal was answered";
    "planted-members-by-rank" Violated Standing,
        Rules { crashes: 1, restarts: 1, ticks: 3, ..Rules::wrong(Planted::ByRank) },
        "what a view leaves out is found by ranks, not by incarnations";
    "planted-members-renews-still" Violated Standing,
        Rules { leaves: 1, cuts: 2, patience: 5, ticks: 5, ..Rules::wrong(Planted::RenewsStill) },
        "who has accepted the next view renews leases in this one";
}

#[cfg(test)]
mod tests;
