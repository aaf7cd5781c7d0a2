//! A system in a world that the bytes make up: cluster, rails, whether members agree on who is alive, workload, faults, and then every
//! order and every value that the fabric leaves open.

use crate::fields::Dice;
use crate::run::{RunOptions, World};
use crate::scenario::{Jitter, Workload, some_nodes, swarm};
use crate::system::System;
use weft_sim::choice::{Bytes, Choice};

/// Most requests of a client. A run stays at about a millisecond, and an input of some hundred bytes answers for all
/// of it.
const MOST_REQUESTS: u64 = 6;

/// Runs the world of these bytes to its end: every oracle must hold.
pub fn system<S: System>(data: &[u8]) {
    let mut shape = Bytes::new(data);
    let variant = S::VARIANTS[shape.pick("variant", S::VARIANTS.len() as u64) as usize];
    let mut dice = Dice(&mut shape);
    let nodes = some_nodes(&mut dice).max(S::LEAST_NODES);
    let mut scenario = swarm::<S>(&mut dice, nodes, variant);
    // A delay for each packet and step would use the bytes up that answer for orders and faults.
    scenario.cluster.jitter = Jitter::NONE;
    let requests = 1 + shape.pick("requests", MOST_REQUESTS) as u32;
    if let Some(work) = scenario.workload.get::<S>() {
        scenario.workload = Workload::of::<S>(S::limited(work.clone(), requests));
    }
    let seed = shape.pick("seed", 1 << 16);
    scenario.transport.atomics = (shape.pick("atomics", 6) == 5 && S::ATOMICS).then_some(false);
    if shape.pick("rails", 2) == 1 {
        scenario = scenario.over_rails(2, seed);
    }
    if shape.pick("members", 2) == 1 {
        scenario = scenario.clone().among_members(seed).unwrap_or(scenario);
    }
    let rest = Bytes::new(&data[shape.used().min(data.len())..]);
    let mut world =
        World::<S>::new(&scenario, seed, Box::new(rest)).expect("a swarm's scenario can be built");
    world.start_clients();
    let report = world.run(RunOptions::default()).expect("nothing breaks the run off");
    let complaints: Vec<String> = report.violations.iter().take(3).map(ToString::to_string).collect();
    let file = || toml::to_string(&scenario).unwrap_or_default();
    assert!(report.held(), "{}\nin the scenario\n{}", complaints.join("\n"), file());
}
