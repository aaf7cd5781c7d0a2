//! What should be gone at rest, collected from all machines and from the fabric.

use super::world::{Machine, World};
use crate::oracle::Leftover;
use crate::system::System;
use weft_protocols::members::Members;

/// What the machines still keep although nobody asks for anything.
///
/// What a service keeps is looked at only while no operation is in flight: an audit does that by the processor's own
/// loads, which may not meet an atomic. Nor is it looked at on a node that has heard that others have left it out of their view: what it keeps
/// is of a view that is over, and they end nothing there any more. It is to be started again.
pub(super) fn at_rest<S: System>(machines: &[Machine<S>]) -> Vec<Leftover> {
    let numbered = || (0..).zip(machines);
    let mut left: Vec<Leftover> = numbered().flat_map(|(node, machine)| of_mesh(node, machine)).collect();
    if numbered().all(|(_, machine)| is_still(machine)) {
        let takes_part = numbered().filter(|(_, machine)| !is_out(machine));
        left.extend(takes_part.flat_map(|(node, machine)| of_service(node, machine)));
    }
    left
}

/// Whether a node has heard that others have left it out.
pub(super) fn is_out<S: System>(machine: &Machine<S>) -> bool {
    machine.place.members.as_ref().is_some_and(Members::is_out)
}

fn is_still<S: System>(machine: &Machine<S>) -> bool {
    let mesh = machine.place.mesh.audit();
    mesh.outstanding + mesh.waiting == 0
}

/// Whether the machines keep nothing.
pub(super) fn is_clean<S: System>(machines: &[Machine<S>]) -> bool {
    at_rest(machines).iter().all(|left| left.count == 0)
}

fn leftover(node: u32, what: &str, count: u64) -> Leftover {
    Leftover { node: Some(node), what: what.to_owned(), count }
}

fn of_mesh<S: System>(node: u32, machine: &Machine<S>) -> [Leftover; 3] {
    let mesh = machine.place.mesh.audit();
    [
        leftover(node, "messages not acknowledged", mesh.unacked),
        leftover(node, "requests outstanding", mesh.outstanding),
        leftover(node, "operations waiting to be posted", mesh.waiting),
    ]
}

fn of_service<S: System>(node: u32, machine: &Machine<S>) -> impl Iterator<Item = Leftover> {
    S::leftovers(&machine.service).into_iter().map(move |(what, count)| leftover(node, what, count))
}

/// What is alive in the fabric after every machine has been shut down: a queue pair, a completion queue or
/// registered memory that nobody can reach any more.
pub(super) fn left_alive<S: System>(world: &mut World<S>) -> Vec<Leftover> {
    for machine in &world.machines {
        machine.place.rt.shutdown();
    }
    world.machines.clear();
    world.clients.clear();
    world.fabric.run_until(world.fabric.now());
    let alive = world.fabric.stats().alive;
    let of_node = |(node, alive): (u32, &weft_sim::Alive)| {
        let counts = [
            ("queue pairs alive after its end", alive.qps),
            ("completion queues alive after its end", alive.cqs),
            ("memory regions alive after its end", alive.mrs),
            ("protection domains alive after its end", alive.pds),
        ];
        counts.map(|(what, count)| Leftover { node: Some(node), what: what.to_owned(), count: count.into() })
    };
    (0..).zip(&alive).flat_map(of_node).collect()
}
