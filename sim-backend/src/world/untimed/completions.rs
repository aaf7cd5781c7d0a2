//! Completion queues in footprints.
//!
//! A queue is first in, first out. Who queues a completion and who takes an older one commute: the queue's two ends are
//! different objects. Each completion is an object by its number:
//!
//! - Queueing number n *writes* n and the queue's end, and is the *enabling edge* of n.
//! - Taking n *reads* n: before it was queued, the poll would have found less. Finding nothing reads the number that
//!   comes next.
//! - Where a spinning node steps for no other reason than that n is there to be taken, the step would not be without
//!   it: n is its *enabling edge*, and there is nothing to be reversed.
//!
//! How full a queue is matters to one that could overrun: polls that begin with a queue half full write its room, and
//! queueing reads it. Who overruns a queue writes it: nothing is queued there any more.

use super::super::World;
use super::super::cpu::Activity;
use crate::NodeId;
use crate::explore::AccessKind;
use crate::explore::identity::object;
use crate::hca::{HcaId, Key};
use weft_verbs::Wait;

impl World {
    /// Completions were queued at an adapter; `signaled` says that one of them raised an event.
    #[cold]
    pub(in crate::world) fn touch_queued(&mut self, hca: HcaId, signaled: bool) {
        let (hca, places) = (hca.0, self.state.hcas[hca.0 as usize].hw.completions.cqs.places());
        for place in 0..places {
            let queues = &mut self.state.hcas[hca as usize].hw.completions.cqs;
            let Some((_, cq)) = queues.at_mut(place) else { continue };
            let new = cq.told..cq.pushed;
            cq.told = cq.pushed;
            if new.is_empty() {
                continue;
            }
            self.touch(object::last(hca, place), AccessKind::Write);
            self.touch(object::room(hca, place), AccessKind::Read);
            self.touch(
                object::armed(hca, place),
                if signaled { AccessKind::Write } else { AccessKind::Read },
            );
            for number in new {
                self.touch(object::completion(hca, place, number), AccessKind::Write);
                self.touch(object::completion(hca, place, number), AccessKind::EnablingEdge);
            }
        }
    }

    /// A queue had no room for a completion.
    pub(in crate::world) fn queue_overran(&mut self, hca: HcaId, cq: Key) {
        self.touch(object::room(hca.0, cq.index), AccessKind::Write);
    }

    /// Up to `max` completions are about to be taken.
    pub(in crate::world) fn touch_poll(&mut self, hca: HcaId, cq: Key, max: usize) {
        let Some(queue) = self.state.hcas[hca.0 as usize].hw.completions.cqs.get(cq) else { return };
        let (len, oldest, capacity) = (queue.len(), queue.oldest(), queue.capacity as usize);
        if len >= capacity / 2 {
            self.touch(object::room(hca.0, cq.index), AccessKind::Write);
        }
        // One more than it holds, if that is asked for: that it is not there.
        for number in (0..=len.min(max.saturating_sub(1))).map(|n| oldest.wrapping_add(n as u32)) {
            let completion = object::completion(hca.0, cq.index, number);
            if self.scratch.untimed.reason != Some(completion) {
                self.touch(completion, AccessKind::Read);
            }
        }
    }

    /// A node is about to step; `due` says that its deadline has come.
    pub(super) fn touch_reason(&mut self, node: NodeId, due: bool) {
        self.scratch.untimed.reason = None;
        let machine = &self.state.machines[node.index()];
        if machine.activity != Activity::Parked(Wait::Poll) {
            return;
        }
        let alone = !due && !machine.urgent;
        if alone
            && self.in_order()
            && let Some(first) = self.shown_first(node)
        {
            self.scratch.untimed.reason = Some(first);
            return self.touch(first, AccessKind::EnablingEdge);
        }
        let mut held = self.shape.hcas(node).flat_map(|hca| {
            let queues = self.state.hcas[hca.0 as usize].hw.completions.cqs.iter();
            let held = queues.filter(|(_, cq)| !cq.is_empty());
            held.map(move |(key, cq)| object::completion(hca.0, key.index, cq.oldest()))
        });
        if let (true, Some(only), None) = (alone, held.next(), held.next()) {
            drop(held);
            self.scratch.untimed.reason = Some(only);
            self.touch(only, AccessKind::EnablingEdge);
        }
    }

    /// What a queue pair has left in its completion queues is about to be removed: those behind it move up. Where it has
    /// left nothing, nothing moves. (What would still come for it comes to one that accepts it, which it stops to do.)
    pub(in crate::world) fn touch_forgotten(&mut self, hca: HcaId, qp: Key) {
        if !self.is_recorded() {
            return;
        }
        let adapter = &self.state.hcas[hca.0 as usize];
        let queues = adapter.hw.completions.cqs.iter().filter(|(_, cq)| cq.holds_of(qp));
        let held: Vec<_> = queues.map(|(key, cq)| (key.index, cq.oldest()..=cq.pushed)).collect();
        for (place, numbers) in held {
            self.touch(object::last(hca.0, place), AccessKind::Write);
            for number in numbers {
                self.touch(object::completion(hca.0, place, number), AccessKind::Write);
            }
        }
    }
}
