//! What should be gone at rest, collected from all machines and from the fabric.

use super::world::{Machine, World};
use crate::oracle::Leftover;

/// What the machines still keep although nobody asks for anything.
pub(super) fn at_rest(machines: &[Machine]) -> Vec<Leftover> {
    (0..).zip(machines).flat_map(|(node, machine)| of_machine(node, machine)).collect()
}

/// Whether the machines keep nothing.
pub(super) fn is_clean(machines: &[Machine]) -> bool {
    at_rest(machines).iter().all(|left| left.count == 0)
}

fn of_machine(node: u32, machine: &Machine) -> Vec<Leftover> {
    let leftover = |what: &str, count: u64| Leftover { node: Some(node), what: what.to_owned(), count };
    let mesh = machine.mesh.audit();
    let mut left = vec![
        leftover("messages not acknowledged", mesh.unacked),
        leftover("requests outstanding", mesh.outstanding),
        leftover("operations waiting to be posted", mesh.waiting),
    ];
    left.extend(machine.locks.audit().leftovers().map(|(what, count)| leftover(what, count)));
    left
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
    let of_node = |(node, alive): (u32, &sim_backend::Alive)| {
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
