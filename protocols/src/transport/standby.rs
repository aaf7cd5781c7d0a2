//! A queue pair that stands by on another rail.
//!
//! To make a queue pair takes commands of the adapter, and its receive buffers have to be registered with it: on the hardware of the
//! sources more than half of a millisecond at each end, one after the other, in the middle of a stall. So a node of several rails
//! makes it when a connection stands and there is nothing else to do: in state Init, with its receive buffers posted. What is left for
//! a failover is to fence the old one and to connect this one.
//!
//! It belongs to no connection. Only when one is made over its rail it takes the place of a new queue pair, with the number that its
//! receives were posted with. Until then it rests: it completes nothing, and where a completion queue is only that of queue pairs
//! that rest, nobody looks at it.

use super::driver::Driver;
use super::mesh::Shared;
use super::peer::Peer;
use crate::rt::QpHandle;
use crate::rt::fingerprint::AdapterState;
use std::hash::{Hash, Hasher};
use std::task::Context;
use weft_verbs::Verbs;

/// A queue pair that is ready to be connected.
pub(super) struct Standby<V: Verbs> {
    rail: u8,
    /// Its number: what its receives were posted with.
    epoch: u32,
    queue: QpHandle<V>,
}

impl<V: Verbs> Standby<V> {
    /// Adds it to a hash; how many requests are outstanding at it.
    pub(super) fn hash_queue(&self, adapter: &impl AdapterState, to: &mut impl Hasher) -> usize {
        (self.rail, self.epoch).hash(to);
        self.queue.fingerprint(adapter, to)
    }
}

impl<V: Verbs> Peer<V> {
    /// The queue pair that stands by on a rail; from now on it is the peer's.
    pub(super) fn take_standby(&mut self, rail: u8) -> Option<QpHandle<V>> {
        let ready = self.standby.take_if(|standby| standby.rail == rail && !standby.queue.is_broken())?;
        self.epoch = ready.epoch;
        ready.queue.wake();
        Some(ready.queue)
    }
}

impl<V: Verbs> Shared<V> {
    /// A connection came to stand: a queue pair may be needed for its end.
    pub(super) fn wants_standby(&self, index: usize, peer: &mut Peer<V>) {
        if self.config.standby && peer.link.next_rail().is_some() && !peer.standby_listed {
            peer.standby_listed = true;
            self.unready.borrow_mut().push(index);
            self.wake_driver();
        }
    }

    /// Makes the queue pair that a peer needs. One that cannot be had is made when it is needed.
    fn make_standby(&self, index: usize, peer: &mut Peer<V>) {
        peer.standby_listed = false;
        let Some(rail) = peer.link.next_rail() else { return };
        if peer.standby.as_ref().is_some_and(|standby| standby.rail == rail) {
            return;
        }
        let epoch = peer.number();
        let made = self.new_queue(index, epoch, rail);
        peer.standby = made.ok().map(|queue| {
            queue.rest();
            Standby { rail, epoch, queue }
        });
    }
}

impl<V: Verbs> Driver<V> {
    /// Makes queue pairs that stand by, once there is nothing else to do: no message waits for that.
    pub(super) fn stand_by(&mut self, cx: &mut Context<'_>) -> bool {
        self.unready.append(&mut self.shared.unready.borrow_mut());
        if self.unready.is_empty() || self.shared.rt.poll_idle(cx).is_pending() {
            return false;
        }
        for index in self.unready.drain(..) {
            self.shared.with_peer(index, |peer| self.shared.make_standby(index, peer));
        }
        true
    }
}
