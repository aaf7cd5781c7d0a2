//! Leases at the server's end: a guest that is silent for longer is forgotten.
//!
//! A lease says only *when* a guest is given up. That it cannot do anything any more is its fence's doing, so no clock of the guest's
//! matters.

use super::mesh::Shared;
use crate::rt::WaitPoint;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// Has guests forgotten whose leases end, as long as the mesh is open.
pub(super) fn watch_leases<V: Verbs>(shared: &Rc<Shared<V>>) {
    if shared.guests.as_ref().is_some_and(|guests| guests.config.lease < Nanos::MAX) {
        drop(shared.rt.spawn(watch(Rc::clone(shared))));
    }
}

async fn watch<V: Verbs>(shared: Rc<Shared<V>>) {
    let Some(guests) = &shared.guests else { return };
    while !shared.closed.get() {
        let oldest =
            guests.known.borrow().values().filter(|guest| !guest.is_leaving).map(|guest| guest.heard).min();
        let Some(oldest) = oldest else {
            let some = || guests.known.borrow().values().any(|guest| !guest.is_leaving);
            guests.came.until(|| shared.closed.get() || some()).at("no guest").await;
            continue;
        };
        let end = oldest + guests.config.lease;
        if shared.rt.now() < end {
            // Who is heard of meanwhile makes this the wrong time, and nobody the worse for it.
            let _ = shared.rt.deadline(end, guests.came.until(|| shared.closed.get())).at("lease").await;
            continue;
        }
        // Where this node did nothing for a while, signs of life lie in its queues that nobody has looked at yet.
        shared.rt.idle().at("idle").await;
        let over = |heard: Nanos| heard + guests.config.lease <= shared.rt.now();
        let known = guests.known.borrow();
        let ended = known.iter().filter(|(_, guest)| !guest.is_leaving && over(guest.heard));
        let ended: Vec<usize> = ended.map(|(index, _)| *index).collect();
        drop(known);
        ended.into_iter().for_each(|index| shared.take_leave(index));
    }
}
