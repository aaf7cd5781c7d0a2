//! What the tests of several rooms do alike.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use weft_check::explore::{Entry, Options, Report, Size};
use weft_check::record::Recorder;
use weft_check::run::{RunOptions, World};
use weft_check::scenario::{FaultKind, Scenario};
use weft_check::seeds::{Summary, assert_held};
use weft_check::system::System;
use weft_check::systems::worlds;
use weft_protocols::rt::Rt;
use weft_sim::Sim;

/// A world of the list.
pub fn entry(name: &str) -> Entry {
    worlds().into_iter().find(|entry| entry.name == name).expect("it is in the list")
}

/// Explores a world of the list.
pub fn explore(name: &str, size: &Size, options: &Options) -> Report {
    let mut world = entry(name).build(size).unwrap_or_else(|why| panic!("{name}: {why}"));
    world.explore(options, &mut |_| ControlFlow::Continue(())).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Whether some execution came to a branch.
pub fn reached(report: &Report, branch: &str) -> bool {
    report.coverage.get(branch).is_some_and(|times| *times > 0)
}

/// A scenario that a swarm found, which failed with this seed, holds.
pub fn assert_kept(scenario: &str, seed: u64) -> Summary {
    let scenario = weft_check::parse(scenario).expect("a scenario");
    assert_held(&scenario, seed..seed + 1)
}

/// A small cluster whose links are cut, and whose completions are lost so often a second.
pub fn stormy(nodes: u32, workload: &str, lost: u32) -> Scenario {
    let text = format!(
        r#"
[cluster]
nodes = {nodes}
[transport]
ack_timeout = 4
retries = 1
[workload]
{workload}
[run]
limit = "20ms"
settle = "3s"
[[faults]]
kind = "cut"
rate = "1500/s"
lasts = {{ min = "100us", max = "2ms" }}
[[faults]]
kind = "lose-completion"
rate = "{lost}/s"
lasts = "400us"
"#
    );
    weft_check::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// How many faults of a kind struck an operation in flight.
pub fn struck(summary: &Summary, kind: FaultKind) -> u64 {
    summary.faults.get(&kind).map_or(0, |fault| fault.struck)
}

/// The oracles that a run without faults violates in which a task of node 1 records what was not.
pub fn broken_by<S: System, F: Future<Output = ()> + 'static>(
    mut scenario: Scenario,
    made_up: impl FnOnce(Recorder<S::Oracles, S::Meter>, Rt<Sim>) -> F,
) -> Vec<&'static str> {
    scenario.faults.clear();
    let mut world = World::<S>::seeded(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    world.start_clients();
    let task = made_up(world.recorder().clone(), world.machines()[1].place.rt.clone());
    world.start(1, task);
    let report = world.run(RunOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    report.checks.into_iter().filter(|check| !check.held).map(|check| check.oracle).collect()
}

/// What a call returns that does not wait for anything. One that does is dropped there.
pub async fn unless_it_waits<T>(call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
