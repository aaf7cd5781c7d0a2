//! What a system says of itself holds in a world that is made of it.

use super::{Call, DdssOracles, DdssWork, NAME, Request, Segments};
use crate::explore::{Options, Report, Size, explore};
use crate::harness::{Harness, Model as _, OfSystem, SystemModel, of_system};
use crate::history::ClientId;
use crate::systems::ddss::workload::Store;
use std::ops::ControlFlow;
use weft_protocols::ddss::Model;
use weft_sim::explore::{FaultSet, Outcome};

/// Puts, of values that do not fit into a world's messages where they go by message.
#[derive(Clone)]
struct Puts(Store);

impl SystemModel for Puts {
    type System = Segments;

    const LETTERS: &'static str = "p to put";

    fn work(&self) -> DdssWork {
        DdssWork { bytes: 256, store: self.0, ..DdssWork::of(Model::Write, 0) }
    }

    fn request(&self, _: ClientId, letter: char) -> Option<Request> {
        (letter == 'p').then_some(Request { segment: NAME, call: Call::Put })
    }

    fn faults(&self) -> FaultSet {
        self.usual_faults().with(Outcome::Crash)
    }

    /// The home of the segment.
    fn needs(&self, node: u32, _: &DdssOracles) -> bool {
        node == 0
    }
}

fn world(store: Store, calls: &str) -> OfSystem<Puts> {
    of_system(&Size::default(), Puts(store), calls).expect("calls that it knows")
}

fn explored(store: Store, calls: &str, options: &Options) -> Report {
    let mut harness = Harness::new("puts", world(store, calls));
    explore(&mut harness, options, &mut |_| ControlFlow::Continue(())).expect("it is deterministic")
}

#[test]
fn messages_are_as_long_as_the_system_wants_them() {
    let report = explored(Store::Rpc, ",p", &Options::default());
    assert!(report.held(), "{:?}", report.counterexample.map(|found| found.violation));
}

#[test]
fn a_dead_client_s_call_need_not_end_and_the_others_must() {
    let kinds = Some(FaultSet::one(Outcome::Crash));
    let report = explored(Store::Segments, ",p,p", &Options { faults: 1, kinds, ..Options::default() });
    assert!(report.held() && report.struck["crash"] > 0, "{:?}", report.counterexample);
}

#[test]
fn a_system_whose_users_break_connections_or_drop_calls_has_worlds_where_they_do() {
    let dropped = world(Store::Segments, ",p,p!p");
    assert!(dropped.breaks_connections(), "memory that was released may be read");
    assert_eq!(dropped.size().to_string(), "calls=,p,p!p");
}
