//! Shared memory, over seeds and explored: programs come to what sequential consistency allows, and to all of that.

use std::ops::ControlFlow;
use weft_check::explore::{Options, Report, Size};
use weft_check::history::{ClientId, RequestId};
use weft_check::record::Record;
use weft_check::run::{RunOptions, World};
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::assert_held;
use weft_check::systems::dsm::SharedMemory;
use weft_check::systems::dsm::history::{At, Event, Op, What};
use weft_check::systems::worlds;
use weft_sim::explore::FaultSet;

const STORMY: &str = r#"
[cluster]
nodes = 4
[transport]
ack_timeout = 4
retries = 1
[workload]
kind = "dsm"
threads = 2
minipages = 4
words = 2
reads = 0.5
barrier_every = 20
requests = 400
think = { min = "0us", max = "20us" }
[run]
limit = "20ms"
settle = "3s"
[[faults]]
kind = "cut"
rate = "1500/s"
lasts = { min = "100us", max = "2ms" }
[[faults]]
kind = "lose-completion"
rate = "3000/s"
lasts = "400us"
"#;

fn scenario() -> Scenario {
    weft_check::parse(STORMY).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn memory_is_sequentially_consistent_while_links_fail_and_answers_are_lost() {
    let summary = assert_held(&scenario(), 0..12);
    let struck = |kind| summary.faults.get(&kind).map_or(0, |fault| fault.struck);
    assert!(struck(FaultKind::Cut) > 0 && struck(FaultKind::LoseCompletion) > 0);
    for count in ["transfers", "invalidations", "upgrades", "joined", "orders_waited", "reconnects"] {
        assert!(summary.metrics.count("protocol", count) > 0, "{count}");
    }
}

/// The oracles that a run violates in which one thread saw something that was not.
fn made_up(what: What) -> Vec<&'static str> {
    let mut scenario = scenario();
    scenario.faults.clear();
    let mut world = World::<SharedMemory>::seeded(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    world.start_clients();
    let (recorder, rt) = (world.recorder().clone(), world.machines()[1].place.rt.clone());
    world.start(1, async move {
        // Late, so that the words have a past.
        rt.sleep(weft_verbs::Nanos::from_millis(2)).await;
        let request = RequestId { client: ClientId { node: 1, index: 99 }, number: 0 };
        let asks = match what {
            What::Accessed { word, op, .. } => What::Accesses { word, op },
            _ => What::Enters(1_000),
        };
        for what in [asks, what] {
            recorder.record(Event { at_ns: rt.now().0, request, what });
        }
    });
    let report = world.run(RunOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    report.checks.into_iter().filter(|check| !check.held).map(|check| check.oracle).collect()
}

#[test]
fn an_old_value_a_second_writer_and_a_barrier_left_too_soon_are_noticed_in_a_running_world() {
    let saw = |op, place| What::Accessed { word: 0, op, found: 0, place, hops: None };
    for wrong in [saw(Op::Load, At(0, u32::MAX)), saw(Op::Store(7), At(1, 1)), saw(Op::Load, At(9, 1))] {
        assert_eq!(made_up(wrong), ["sequential consistency"], "{wrong:?}");
    }
    assert_eq!(made_up(What::Leaves(1_000)), ["barrier"]);
}

fn explore(name: &str, size: Size, faults: u32, kinds: FaultSet) -> Report {
    let entry = worlds().into_iter().find(|entry| entry.name == name).expect("it is in the list");
    let mut world = entry.build(&size).unwrap_or_else(|why| panic!("{name}: {why}"));
    let options = Options { faults, kinds, livelock: 400, ..Options::default() };
    world
        .explore(&options, &mut |_: &_| ControlFlow::Continue(()))
        .unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// The worlds that a debug build explores in seconds.
const LITMUS: [&str; 12] = [
    "dsm-sb",
    "dsm-mp",
    "dsm-lb",
    "dsm-s",
    "dsm-r",
    "dsm-2+2w",
    "dsm-corr",
    "dsm-cowr",
    "dsm-two-writers",
    "dsm-false-sharing",
    "dsm-upgrade",
    "dsm-barrier",
];

#[test]
fn litmus_tests_have_the_outcomes_of_sequential_consistency_and_each_of_them() {
    for name in LITMUS {
        let report = explore(name, Size::default(), 0, FaultSet::NONE);
        assert!(report.held() && report.exhaustive, "{name}");
        let missing: Vec<&str> =
            report.unreached().filter(|branch| branch.starts_with("threads see")).collect();
        assert!(missing.is_empty(), "{name} never comes to: {missing:?}");
    }
}

/// Where two threads of a node run in turn, and where a minipage is asked back at once.
#[test]
fn threads_of_one_node_share_its_requests_and_grants_stay_until_they_had_them() {
    for (name, branch) in
        [("dsm-joins", "an access joined a request"), ("dsm-robbed", "an order waited for an access")]
    {
        let report = explore(name, Size::default(), 0, FaultSet::NONE);
        assert!(report.held() && report.exhaustive, "{name}");
        assert!(report.coverage.get(branch).is_some_and(|reached| *reached > 0), "{name}: {branch}");
    }
}

#[test]
fn one_fault_of_any_kind_at_any_point_changes_no_outcome() {
    for name in ["dsm-two-writers", "dsm-corr"] {
        let report = explore(name, Size::new([("words", "apart")]), 1, FaultSet::ALL);
        assert!(report.held() && report.exhaustive, "{name}");
    }
}

#[test]
fn data_and_the_message_behind_them_come_together_whatever_breaks_once() {
    let report = explore("place", Size::default(), 1, FaultSet::ALL);
    assert!(report.held() && report.exhaustive);
    let reached = |branch| report.coverage.get(branch).is_some_and(|reached| *reached > 0);
    assert!(reached("a connection was made again") && reached("a message was sent again"));
}
