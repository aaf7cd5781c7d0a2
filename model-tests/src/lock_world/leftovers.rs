//! What should be gone at rest, collected from all machines and from the fabric.

use super::world::{Machine, World};
use crate::oracle::Leftover;

/// What the machines still keep although nobody asks for anything.
///
/// Lock words are looked at only while no operation is in flight: an audit does that by the processor's own
/// loads, which may not meet an atomic.
pub(super) fn at_rest(machines: &[Machine]) -> Vec<Leftover> {
    let numbered = || (0..).zip(machines);
    let mut left: Vec<Leftover> = numbered().flat_map(|(node, machine)| of_mesh(node, machine)).collect();
    if numbered().all(|(_, machine)| is_still(machine)) {
        left.extend(numbered().flat_map(|(node, machine)| of_locks(node, machine)));
    }
    left
}

fn is_still(machine: &Machine) -> bool {
    let mesh = machine.mesh.audit();
    mesh.outstanding + mesh.waiting == 0
}

/// Whether the machines keep nothing.
pub(super) fn is_clean(machines: &[Machine]) -> bool {
    at_rest(machines).iter().all(|left| left.count == 0)
}

fn leftover(node: u32, what: &str, count: u64) -> Leftover {
    Leftover { node: Some(node), what: what.to_owned(), count }
}

fn of_mesh(node: u32, machine: &Machine) -> [Leftover; 3] {
    let mesh = machine.mesh.audit();
    [
        leftover(node, "messages not acknowledged", mesh.unacked),
        leftover(node, "requests outstanding", mesh.outstanding),
        leftover(node, "operations waiting to be posted", mesh.waiting),
    ]
}

fn of_locks(node: u32, machine: &Machine) -> impl Iterator<Item = Leftover> {
    machine.locks.audit().leftovers().map(|(what, count)| leftover(node, what, count)).into_iter()
}

/// What is alive in the fabric after every machine has been shut down: a queue pair, a completion queue or
/// registered memory that nobody can reach any more.
pub(super) fn left_alive(world: &mut World) -> Vec<Leftover> {
    for machine in &world.machines {
        machine.rt.shutdown();
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
