//! What is due when nothing else happens: acknowledgements that no message carried, probes of peers that stay silent, and messages
//! for which there was no memory.

use super::carried::BEFORE_IT_IS_TRIED_AGAIN;
use super::driver::Driver;
use super::mesh::Shared;
use super::peer::Peer;
use crate::rt::{BufferGuard, Local, Pending, Rt, Sleep};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_verbs::{Nanos, RemoteSlice, SendOp, Verbs};

/// Peers for which something is due, in order: all wait equally long. One timer serves them all.
pub(super) struct Due<V: Verbs> {
    list: VecDeque<(Nanos, usize)>,
    timer: Option<Sleep<V>>,
}

impl<V: Verbs> Due<V> {
    pub(super) fn new() -> Due<V> {
        Due { list: VecDeque::new(), timer: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.timer.is_none()
    }

    fn push(&mut self, at: Nanos, index: usize) {
        self.list.push_back((at, index));
    }

    /// The next peer whose time has come.
    fn poll(&mut self, rt: &Rt<V>, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(&(at, index)) = self.list.front() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| rt.sleep_until(at));
        if Pin::new(timer).poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.timer = None;
        self.list.pop_front();
        Poll::Ready(index)
    }
}

impl<V: Verbs> Driver<V> {
    pub(super) fn what_is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let shared = Rc::clone(&self.shared);
        for index in shared.to_do.unprobed.take() {
            self.probes.push(shared.rt.now() + shared.config.probe_after, index);
        }
        for index in shared.to_do.unsupplied.take() {
            self.supplies.push(shared.rt.now() + BEFORE_IT_IS_TRIED_AGAIN, index);
        }
        let mut busy = false;
        while let Poll::Ready(index) = self.acks.poll(&shared.rt, cx) {
            shared.with_peer(index, |peer| self.late_ack(index, peer));
            busy = true;
        }
        while let Poll::Ready(index) = self.probes.poll(&shared.rt, cx) {
            shared.with_peer(index, |peer| self.probe(index, peer));
            busy = true;
        }
        while let Poll::Ready(index) = self.supplies.poll(&shared.rt, cx) {
            shared.with_peer(index, |peer| {
                peer.supply_listed = false;
                shared.pump(index, peer);
            });
            busy = true;
        }
        busy
    }

    /// Notes that an acknowledgement to a peer is due some time from now, unless a message carries it.
    pub(super) fn list_ack(&mut self, index: usize, peer: &mut Peer<V>) {
        let delay = self.shared.config.ack_delay;
        if peer.ack_listed || delay == Nanos::MAX || !peer.session.owes_ack() || !peer.link.is_up() {
            return;
        }
        peer.ack_listed = true;
        self.acks.push(self.shared.rt.now() + delay, index);
    }

    fn late_ack(&mut self, index: usize, peer: &mut Peer<V>) {
        peer.ack_listed = false;
        if !self.shared.has_room_for_control(index, peer) {
            // It is due again once there is room: sooner, nothing would have changed.
            return;
        }
        if let Some(header) = peer.session.late_ack() {
            self.shared.send_control(index, peer, header);
        }
        // Where there was no credit for it, the frame that brings some puts it on the list again.
    }

    /// A peer has not acknowledged for long. It may have restarted and know nothing of us.
    fn probe(&mut self, index: usize, peer: &mut Peer<V>) {
        peer.probe_listed = false;
        if peer.standing().is_none() {
            return;
        }
        if peer.session.first_kept() == peer.probe_from {
            drop(self.shared.touch(index, peer));
        }
        self.shared.list_probe(index, peer);
    }
}

impl<V: Verbs> Shared<V> {
    /// Finds out whether a peer is there: an empty write touches nothing and needs neither key nor credit (IBA 9.7.4.1.5, a length of
    /// zero), and fails if there is nobody. Says how that ends, if there is a connection, and room for it.
    pub(super) fn touch(&self, index: usize, peer: &mut Peer<V>) -> Option<Pending<V>> {
        let queue = peer.standing().filter(|queue| queue.room() > 0)?;
        let empty = SendOp::Write { to: RemoteSlice::default(), imm: None };
        let posted = queue.post(empty, Local::Guarded(BufferGuard::Nothing));
        self.stats.borrow_mut().probes += 1;
        if posted.is_err() {
            self.broken(index, peer);
        }
        posted.ok()
    }

    /// An acknowledgement waits for a message that may carry it. If no more can be kept until the peer acknowledges some, none will
    /// come: two ends that both wait so would do it for as long as acknowledgements are delayed.
    pub(super) fn ack_if_full(&self, index: usize, peer: &mut Peer<V>) {
        if peer.session.kept() as u32 >= self.config.max_queued
            && !peer.session.has_unsent()
            && peer.session.owes_ack()
            && self.has_room_for_control(index, peer)
            && let Some(header) = peer.session.late_ack()
        {
            self.send_control(index, peer, header);
        }
    }
}
