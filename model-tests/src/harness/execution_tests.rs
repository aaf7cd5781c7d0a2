//! What a model is told of a restart belongs to the event that restarts the node.

use super::*;
use crate::explore::{Described, ModelFactory, Options, Report, explore};
use crate::harness::accesses::JUDGED;
use crate::harness::{Explored, Harness, Meeting, Shape};
use crate::history::{HistoryEvent, Stage};
use crate::oracle::{self, Oracles};
use crate::record::Record;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::Hasher;
use std::ops::ControlFlow;
use weft_sim::explore::Touch;
use weft_verbs::{Nanos, Wait};

/// What happens in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Happens {
    /// The second node works.
    Works,
    /// The first one is back.
    IsBack,
}

impl fmt::Display for Happens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl HistoryEvent for Happens {
    fn at(&self) -> Nanos {
        Nanos::ZERO
    }

    fn by_another_clock(self, _: Nanos) -> Happens {
        self
    }

    fn node(&self) -> u32 {
        u32::from(*self == Happens::Works)
    }

    fn stage(&self) -> Stage {
        Stage::Other
    }
}

/// Refuses one order of the two, or one that is the last.
#[derive(Clone, Copy)]
struct InOrder {
    unwanted: Unwanted,
    last: Option<Happens>,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwanted {
    InTurn([Happens; 2]),
    /// Which only an end shows.
    AtLast(Happens),
}

impl Oracles for InOrder {
    type Event = Happens;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        vec![("in order", "one comes before the other")]
    }

    fn observe(&mut self, event: &Happens, broken: &mut dyn FnMut(oracle::Violation)) {
        let last = self.last.replace(*event);
        if last.is_some_and(|last| self.unwanted == Unwanted::InTurn([last, *event])) {
            broken(oracle::Violation { oracle: "in order", at: Nanos::ZERO, text: event.to_string() });
        }
    }

    fn ended(&self) -> u64 {
        0
    }

    fn unended(&self) -> u64 {
        0
    }

    fn finish(&mut self, _: Nanos, _: Nanos) -> Vec<oracle::Violation> {
        let last = self.last.filter(|last| self.unwanted == Unwanted::AtLast(*last));
        let violation =
            |last| oracle::Violation { oracle: "in order", at: Nanos::ZERO, text: format!("{last}") };
        last.map(violation).into_iter().collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.last.hash(&mut to);
    }
}

impl Explored for InOrder {
    fn access(_: &Happens) -> Option<AccessKind> {
        Some(AccessKind::Write)
    }
}

/// Two nodes that know nothing of each other: one may restart, and the other one works once.
struct Strangers {
    unwanted: Unwanted,
}

impl Model for Strangers {
    type State = ();
    type Oracles = InOrder;

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn meeting(&self) -> Meeting {
        Meeting::Unmet
    }

    fn mortal(&self) -> Option<NodeId> {
        Some(NodeId(0))
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::one(Outcome::Restart)
    }

    fn oracles(&self) -> InOrder {
        InOrder { unwanted: self.unwanted, last: None }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) {
        let recorder = recorder.clone();
        drop(members[1].rt.spawn(async move { recorder.record(Happens::Works) }));
    }

    fn restart(&self, _: &mut (), _: NodeId, _: &Member, recorder: &Recorder<InOrder>) {
        recorder.record(Happens::IsBack);
    }
}

#[test]
fn what_a_restart_tells_the_oracles_is_in_its_footprint() {
    let mut harness = Harness::new("strangers", Strangers { unwanted: Unwanted::AtLast(Happens::IsBack) });
    harness.allow(harness.usual_faults());
    let mut execution = harness.root();
    let mut enabled = Vec::new();
    execution.enabled(&mut enabled);
    let restarts = enabled.iter().find(|event| event.faults.contains(Outcome::Restart));
    let mut touched = Footprint::new();
    let event = restarts.expect("a node may restart").event;
    execution.take(event, Outcome::Restart, Some(&mut touched)).expect("it is enabled");
    assert!(touched.touches().contains(&Touch { object: JUDGED, kind: AccessKind::Write }), "{touched}");
}

#[test]
fn a_restart_is_tried_before_and_after_what_the_oracles_judge_by_it() {
    use Happens::{IsBack, Works};
    for unwanted in [[Works, IsBack], [IsBack, Works]] {
        let report = explored(Unwanted::InTurn(unwanted), 1);
        assert!(!report.held(), "{unwanted:?}");
    }
}

#[test]
fn what_only_an_end_shows_is_told_where_every_request_has_ended() {
    let report = explored(Unwanted::AtLast(Happens::Works), 0);
    let told = report.counterexample.map(|found| found.violation);
    assert_eq!(told, Some(Violation::new("in order", "Works")));
}

fn explored(unwanted: Unwanted, faults: u32) -> Report {
    let mut harness = Harness::new("strangers", Strangers { unwanted });
    harness.allow(harness.usual_faults());
    let options = Options { faults, ..Options::default() };
    explore(&mut harness, &options, &mut |_| ControlFlow::Continue(())).expect("explores")
}
