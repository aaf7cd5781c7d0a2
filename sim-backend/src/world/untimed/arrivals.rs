//! Events of connections and of the devices, in one order with completions ([`Policy::in_order`]).
//!
//! Adapters have several queues for their node, and a node that finds something in two of them takes it in an order of its
//! own. Where everything is shown in the one order in which it came, they are like one queue, first in, first out: what
//! is younger than something that was not taken is not there yet. Then it makes no difference whether something
//! comes while something older waits to be taken, or after that; what matters is what comes first. So
//!
//! - each event *writes* itself and the ends of all queues, as completions write the end of theirs, and is its own *enabling edge*;
//! - taking it *reads* it; finding nothing at all reads the event that comes next (and the completion, by the poll);
//! - finding nothing because of something older reads that;
//! - where a spinning node steps for no other reason than that it is there, it is the step's *enabling edge*.
//!
//! Completions are stamped as they come, and each event knows the place that it has among them: it is shown once none of those before it
//! waits any more, whether they were taken or went with their queue pair.
//!
//! The order is the node's, not an adapter's. Where a node has several adapters, the queue of a younger completion is shown empty while
//! an older one waits. Then the end of the one order is an
//! object that all completions and events of the node write: which of two adapters was first is a race, and is explored.
//!
//! [`Policy::in_order`]: crate::explore::Policy::in_order

use super::super::World;
use crate::NodeId;
use crate::explore::identity::object;
use crate::explore::{AccessKind, Object};
use crate::hca::{Cq, HcaId, Key};
use crate::in_place::clone_in_place;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Which queue an event is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The connection manager's.
    Connections,
    /// That of asynchronous events.
    Device,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    hca: HcaId,
    source: Source,
    /// The place that the next completion of the node has: those before it came before this.
    after: u32,
}

/// The events of a node that were not taken, oldest first.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    waiting: VecDeque<Arrival>,
    /// How many were taken.
    taken: u32,
    /// Completions stamped.
    stamps: u32,
}

clone_in_place! { Arrivals { waiting, taken, stamps } }

/// What a node would be shown next.
enum Oldest {
    Nothing,
    Completion(HcaId, Key),
    Event(HcaId, Source),
}

/// The place of no completion queue: events have an end, too.
const EVENTS: u32 = 0xff_ffff;

impl World {
    pub(in crate::world) fn in_order(&self) -> bool {
        self.state.driver.if_untimed().is_some_and(|untimed| untimed.policy.in_order)
    }

    fn arrivals(&self, node: NodeId) -> &Arrivals {
        &self.state.driver.untimed().arrivals[node.index()]
    }

    fn arrivals_mut(&mut self, node: NodeId) -> &mut Arrivals {
        &mut self.state.driver.untimed_mut().arrivals[node.index()]
    }

    /// Whether completions of several adapters are in one order.
    fn has_rails(&self) -> bool {
        self.shape.devices > 1
    }

    /// The adapter by which a node's one order is named.
    fn first(&self, node: NodeId) -> HcaId {
        HcaId(node.0 * u32::from(self.shape.devices))
    }

    /// Whether events wait to be taken, and are shown in one order with completions.
    pub(in crate::world) fn has_arrivals(&self, node: NodeId) -> bool {
        self.is_untimed() && !self.arrivals(node).waiting.is_empty()
    }

    /// Completions were queued at an adapter: they get their places in the one order of its node.
    #[cold]
    pub(in crate::world) fn stamp_completions(&mut self, hca: HcaId) {
        let node = self.shape.node(hca);
        let mut next = self.arrivals(node).stamps;
        for place in 0..self.state.hcas[hca.0 as usize].hw.completions.cqs.places() {
            if let Some((_, cq)) = self.state.hcas[hca.0 as usize].hw.completions.cqs.at_mut(place) {
                cq.stamp(&mut next);
            }
        }
        self.arrivals_mut(node).stamps = next;
        if self.has_rails() {
            self.touch(object::last(self.first(node).0, EVENTS), AccessKind::Write);
        }
    }

    /// Events were raised at an adapter.
    #[cold]
    pub(in crate::world) fn note_arrivals(&mut self, hca: HcaId) {
        let node = self.shape.node(hca);
        let device = self.state.hcas[hca.0 as usize].hw.completions.events.iter().map(VecDeque::len).sum();
        let connections = self.state.cms[hca.0 as usize].pending_events();
        let after = self.arrivals(node).stamps;
        for (source, there) in [(Source::Device, device), (Source::Connections, connections)] {
            let of = |arrival: &&Arrival| (arrival.hca, arrival.source) == (hca, source);
            let known = self.arrivals(node).waiting.iter().filter(of).count();
            for _ in known..there {
                self.touch_event(node, Arrival { hca, source, after });
            }
        }
    }

    fn touch_event(&mut self, node: NodeId, arrival: Arrival) {
        let arrivals = self.arrivals_mut(node);
        arrivals.waiting.push_back(arrival);
        let number = arrivals.taken + arrivals.waiting.len() as u32 - 1;
        let first = self.first(node);
        self.touch(object::event(first, number), AccessKind::Write);
        self.touch(object::event(first, number), AccessKind::EnablingEdge);
        self.touch_ends(node);
    }

    /// Something comes to a node that is in order with all that comes to its queues.
    pub(super) fn touch_ends(&mut self, node: NodeId) {
        self.touch(object::last(self.first(node).0, EVENTS), AccessKind::Write);
        for hca in self.shape.hcas(node) {
            for place in 0..self.state.hcas[hca.0 as usize].hw.completions.cqs.places() {
                self.touch(object::last(hca.0, place), AccessKind::Write);
            }
        }
    }

    /// Whether the oldest thing that a node is shown is an event of this queue of this adapter.
    pub(in crate::world) fn may_take(&mut self, hca: HcaId, source: Source) -> bool {
        if !self.in_order() {
            return true;
        }
        let node = self.shape.node(hca);
        match self.oldest(node) {
            Oldest::Completion(of, cq) => {
                self.touch_unless_reason(self.completion_in_front(of, cq));
                false
            }
            Oldest::Nothing => {
                self.touch_unless_reason(self.event_in_front(node));
                false
            }
            Oldest::Event(of, kind) => {
                self.touch_unless_reason(self.event_in_front(node));
                (of, kind) == (hca, source)
            }
        }
    }

    /// An event was taken.
    pub(in crate::world) fn note_taken(&mut self, hca: HcaId) {
        if self.in_order() {
            let arrivals = self.arrivals_mut(self.shape.node(hca));
            arrivals.waiting.pop_front();
            arrivals.taken += 1;
        }
    }

    /// How many completions of at most `max` a poll of a queue is shown: those that came before the oldest event, and
    /// before any of the node's other queues. `None` where something older hides whether there are any.
    pub(in crate::world) fn shown(&mut self, hca: HcaId, cq: Key, max: usize) -> Option<usize> {
        let node = self.shape.node(hca);
        if self.has_rails() {
            match self.oldest(node) {
                Oldest::Nothing => return Some(max),
                Oldest::Event(..) => {
                    self.touch_unless_reason(self.event_in_front(node));
                    return None;
                }
                Oldest::Completion(of, other) if (of, other) != (hca, cq) => {
                    self.touch_unless_reason(self.completion_in_front(of, other));
                    return None;
                }
                // The next one of this queue may be younger than one of another queue.
                Oldest::Completion(..) => return Some(max.min(1)),
            }
        }
        let front = self.arrivals(node).waiting.front();
        let Some(after) = front.map(|arrival| arrival.after) else { return Some(max) };
        let queue = self.state.hcas[hca.0 as usize].hw.completions.cqs.get(cq);
        let before = queue.map_or(0, |queue| queue.before(after));
        if before < max {
            self.touch_unless_reason(self.event_in_front(node));
        }
        Some(before.min(max))
    }

    /// For what a spinning node steps, if the order of what it is shown says so: for an event, or for the oldest completion
    /// of several adapters.
    pub(super) fn shown_first(&self, node: NodeId) -> Option<Object> {
        match self.oldest(node) {
            Oldest::Event(..) => Some(self.event_in_front(node)),
            Oldest::Completion(hca, cq) if self.has_rails() => Some(self.completion_in_front(hca, cq)),
            _ => None,
        }
    }

    /// A context was closed, or the node crashed: the adapter's events are gone.
    pub(in crate::world) fn forget_arrivals(&mut self, hca: HcaId) {
        let node = self.shape.node(hca);
        if let Some(untimed) = self.state.driver.if_untimed_mut() {
            let arrivals = &mut untimed.arrivals[node.index()];
            let before = arrivals.waiting.len();
            arrivals.waiting.retain(|arrival| arrival.hca != hca);
            arrivals.taken += (before - arrivals.waiting.len()) as u32;
        }
    }

    pub(super) fn digest_arrivals(&self, hca: HcaId, to: &mut impl Hasher) {
        let node = self.shape.node(hca);
        if self.first(node) != hca {
            return;
        }
        for arrival in &self.arrivals(node).waiting {
            if self.has_rails() {
                (arrival.hca.0 - hca.0).hash(to);
            }
            arrival.source.hash(to);
            self.held(node).for_each(|(_, key, cq)| (key.index, cq.before(arrival.after)).hash(to));
        }
        if self.has_rails() && self.in_order() {
            let mut queued: Vec<(u32, u32, u32)> = Vec::new();
            for of in self.shape.hcas(node) {
                let queues = self.state.hcas[of.0 as usize].hw.completions.cqs.iter();
                queued.extend(
                    queues.flat_map(|(key, cq)| cq.stamps().map(move |stamp| (stamp, of.0, key.index))),
                );
            }
            queued.sort_unstable();
            queued.iter().for_each(|(_, of, place)| (of, place).hash(to));
        }
    }

    fn oldest(&self, node: NodeId) -> Oldest {
        let event = self.arrivals(node).waiting.front();
        let is_older = |cq: &Cq| event.is_none_or(|event| cq.before(event.after) > 0);
        let mut older = self.held(node).filter(|(.., cq)| is_older(cq));
        // Where queues are in no order among themselves, any of them hides the event.
        let completion = match self.has_rails() {
            false => older.next(),
            true => older.min_by_key(|(.., cq)| cq.stamps().next()),
        };
        match (completion, event) {
            (Some((hca, key, _)), _) => Oldest::Completion(hca, key),
            (None, Some(event)) => Oldest::Event(event.hca, event.source),
            (None, None) => Oldest::Nothing,
        }
    }

    /// The completion queues of a node that hold something.
    fn held(&self, node: NodeId) -> impl Iterator<Item = (HcaId, Key, &Cq)> {
        self.shape.hcas(node).flat_map(move |hca| {
            let queues = self.state.hcas[hca.0 as usize].hw.completions.cqs.iter();
            queues.filter(|(_, cq)| !cq.is_empty()).map(move |(key, cq)| (hca, key, cq))
        })
    }

    fn completion_in_front(&self, hca: HcaId, cq: Key) -> Object {
        let oldest = self.state.hcas[hca.0 as usize].hw.completions.cqs.get(cq).map_or(0, |cq| cq.oldest());
        object::completion(hca.0, cq.index, oldest)
    }

    fn event_in_front(&self, node: NodeId) -> Object {
        object::event(self.first(node), self.arrivals(node).taken)
    }

    fn touch_unless_reason(&mut self, object: Object) {
        if self.scratch.untimed.reason != Some(object) {
            self.touch(object, AccessKind::Read);
        }
    }
}
