//! Time where clocks differ by a bounded drift: which deadlines may come, and what they say of the other clocks.

use weft_sim::choice::First;
use weft_sim::explore::{Enabled, FaultSet, Outcome, Policy};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order};
use weft_verbs::{Clock, Context, Device, Nanos, Node, Park, Wait};

const DRIFT: Nanos = Nanos(5);

/// A program that sleeps until a time, and ends.
struct Sleeper(Option<Nanos>);

impl Node for Sleeper {
    fn step(&mut self) -> Park {
        match self.0.take() {
            Some(until) => Park::Until { style: Wait::Poll, deadline: Some(until) },
            None => Park::Done,
        }
    }
}

/// Nodes that have gone to sleep until these times, but for one that crashed when it would have.
fn asleep(until: &[u64], crashes: Option<u32>) -> Fabric {
    let profile = Profile::builtin("ncosed-2007").unwrap();
    let config =
        Config { order: Order::Untimed, sanitize: false, ..Config::new(until.len() as u32, profile) };
    let fabric = Fabric::new(config, Box::new(First)).unwrap();
    let faults = FaultSet::one(Outcome::Crash).with(Outcome::Restart).with(Outcome::SlowNode);
    fabric.set_policy(Policy { drift: Some(DRIFT), faults, ..Policy::default() });
    for (node, until) in (0..).zip(until) {
        fabric.mount(NodeId(node), Box::new(Sleeper(Some(Nanos(*until)))));
    }
    for node in 0..until.len() as u32 {
        let outcome = if crashes == Some(node) { Outcome::Crash } else { Outcome::Done };
        let step = enabled(&fabric)[0];
        assert!(!step.quiescent, "it has not gone to sleep");
        fabric.take(step.event, outcome, None).unwrap();
    }
    fabric
}

fn enabled(fabric: &Fabric) -> Vec<Enabled> {
    let mut out = vec![];
    fabric.enabled(&mut out);
    out
}

fn clock(fabric: &Fabric, node: u32) -> Nanos {
    fabric.devices(NodeId(node))[0].open().unwrap().host().now()
}

fn clocks(fabric: &Fabric) -> Vec<Nanos> {
    (0..fabric.nodes()).map(|node| clock(fabric, node)).collect()
}

#[test]
fn a_deadline_waits_for_those_that_are_earlier_by_more_than_the_drift() {
    let fabric = asleep(&[100_000, 100_006, 100_005], None);
    let first = enabled(&fabric);
    assert_eq!(first.len(), 2, "of nodes 0 and 2");
    let late = enabled(&asleep(&[200_000, 100_006, 200_000], None))[0];
    assert!(fabric.take(late.event, Outcome::Done, None).is_err(), "node 1's comes too early");
    fabric.take(first[0].event, Outcome::Done, None).unwrap();
    assert_eq!(enabled(&fabric).len(), 2, "of nodes 2 and 1");
}

#[test]
fn a_deadline_that_comes_brings_the_other_clocks_within_the_drift() {
    let fabric = asleep(&[100_000, 100_004, 900_000], None);
    fabric.take(enabled(&fabric)[1].event, Outcome::Done, None).unwrap();
    assert_eq!(clocks(&fabric)[0], Nanos(99_999));
    assert_eq!(clocks(&fabric)[2], Nanos(99_999));
    assert!(clocks(&fabric)[1] >= Nanos(100_004));
}

#[test]
fn nobody_waits_for_the_deadline_of_a_node_that_crashed() {
    let fabric = asleep(&[100_000, 900_000], Some(0));
    let list = enabled(&fabric);
    assert_eq!(list.len(), 1);
    fabric.take(list[0].event, Outcome::Done, None).unwrap();
}

/// From zero it would live through all that has passed while the other clocks stand still.
#[test]
fn the_clock_of_a_node_that_restarts_goes_on() {
    let fabric = asleep(&[100_000, 900_000], None);
    fabric.take(enabled(&fabric)[0].event, Outcome::Done, None).unwrap();
    fabric.nudge(NodeId(1));
    let step = enabled(&fabric)[0];
    let taken = fabric.take(step.event, Outcome::Restart, None).unwrap();
    assert_eq!(taken.restarted, Some(NodeId(1)));
    assert_eq!(clocks(&fabric)[1], Nanos(100_000) - DRIFT);
}

#[test]
fn a_step_that_a_deadline_brings_may_come_when_time_has_gone_on() {
    let fabric = asleep(&[100_000, 900_000], None);
    let due = enabled(&fabric)[0];
    fabric.take(due.event, Outcome::SlowNode, None).unwrap();
    let list = enabled(&fabric);
    assert_eq!(list.len(), 2, "node 0 may step at last, or node 1's deadline comes before");
    assert!(
        list.iter().all(|enabled| enabled.event != due.event),
        "no two events of a run are called the same"
    );
    assert!(!list[0].faults.contains(Outcome::SlowNode), "it is slow already");
    assert_eq!(clocks(&fabric)[1], Nanos(100_000) - DRIFT);
    fabric.take(list[1].event, Outcome::Done, None).unwrap();
    let late = enabled(&fabric)[0];
    assert_eq!(fabric.take(late.event, Outcome::Done, None).unwrap().stepped, Some(NodeId(0)));
    assert!(clocks(&fabric)[0] >= Nanos(900_000) - DRIFT);
}

#[test]
fn a_node_may_crash_or_restart_before_its_deadline_comes() {
    for outcome in [Outcome::Crash, Outcome::Restart] {
        let fabric = asleep(&[100_000, 100_003], None);
        let due = enabled(&fabric)[1];
        fabric.take(due.event, outcome, None).unwrap();
        assert_eq!(fabric.is_crashed(NodeId(1)), outcome == Outcome::Crash);
        assert!(clock(&fabric, 0) < Nanos(100_000) - DRIFT, "no time has gone on");
        assert_eq!(enabled(&fabric).len(), 1, "{outcome}: node 0's deadline");
    }
}
