//! Events of connections and of the device, in one order with completions ([`Policy::in_order`]).
//!
//! An adapter has several queues for its node, and a node that finds something in two of them takes it in an order of its
//! own. Where everything is shown in the one order in which it came, they are like one queue, first in, first out: what
//! is younger than something that was not taken is not there yet. Then it makes no difference whether something
//! comes while something older waits to be taken, or after that; what matters is what comes first. So
//!
//! - each event *writes* itself and the ends of all queues, as completions write the end of theirs, and is its own *enabling edge*;
//! - taking it *reads* it; finding nothing at all reads the event that comes next (and the completion, by the poll);
//! - finding nothing because of something older reads that;
//! - where a spinning node steps for no other reason than that it is there, it is the step's *enabling edge*.
//!
//! Each event knows how many completions were queued before it: it is shown once they are taken.
//!
//! [`Policy::in_order`]: crate::explore::Policy::in_order

use super::super::World;
use crate::explore::identity::object;
use crate::explore::{AccessKind, Object};
use crate::hca::HcaId;
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
    source: Source,
    /// How many completions were queued before it.
    after: u32,
}

/// The events of an adapter that were not taken, oldest first.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    waiting: VecDeque<Arrival>,
    /// How many were taken.
    taken: u32,
}

clone_in_place! { Arrivals { waiting, taken } }

/// What a node would be shown next.
enum Oldest {
    Nothing,
    Completion(Object),
    Event(Source),
}

/// The place of no completion queue: events have an end, too.
const EVENTS: u32 = 0xff_ffff;

impl World {
    pub(in crate::world) fn in_order(&self) -> bool {
        self.state.driver.if_untimed().is_some_and(|untimed| untimed.policy.in_order)
    }

    /// Whether events wait to be taken, and are shown in one order with completions.
    pub(in crate::world) fn has_arrivals(&self, hca: HcaId) -> bool {
        let untimed = self.state.driver.if_untimed();
        untimed.is_some_and(|untimed| !untimed.arrivals[hca.0 as usize].waiting.is_empty())
    }

    /// Events were raised at an adapter.
    #[cold]
    pub(in crate::world) fn note_arrivals(&mut self, hca: HcaId) {
        let device = self.state.hcas[hca.0 as usize].hw.completions.events.iter().map(VecDeque::len).sum();
        let connections = self.state.cms[hca.0 as usize].pending_events();
        let after = self.completions(hca, |pushed, _| pushed);
        for (source, there) in [(Source::Device, device), (Source::Connections, connections)] {
            let arrivals = &mut self.state.driver.untimed_mut().arrivals[hca.0 as usize];
            let known = arrivals.waiting.iter().filter(|arrival| arrival.source == source).count();
            for _ in known..there {
                self.touch_event(hca, source, after);
            }
        }
    }

    fn touch_event(&mut self, hca: HcaId, source: Source, after: u32) {
        let arrivals = &mut self.state.driver.untimed_mut().arrivals[hca.0 as usize];
        arrivals.waiting.push_back(Arrival { source, after });
        let number = arrivals.taken + arrivals.waiting.len() as u32 - 1;
        self.touch(object::event(hca, number), AccessKind::Write);
        self.touch(object::event(hca, number), AccessKind::EnablingEdge);
        self.touch(object::last(hca.0, EVENTS), AccessKind::Write);
        for place in 0..self.state.hcas[hca.0 as usize].hw.completions.cqs.places() {
            self.touch(object::last(hca.0, place), AccessKind::Write);
        }
    }

    /// Whether the oldest thing that an adapter has for its node is an event of this queue.
    pub(in crate::world) fn may_take(&mut self, hca: HcaId, source: Source) -> bool {
        if !self.in_order() {
            return true;
        }
        match self.oldest(hca) {
            Oldest::Completion(completion) => {
                self.touch_unless_reason(completion);
                false
            }
            Oldest::Nothing => {
                self.touch_unless_reason(self.event_in_front(hca));
                false
            }
            Oldest::Event(of) => {
                self.touch_unless_reason(self.event_in_front(hca));
                of == source
            }
        }
    }

    /// An event was taken.
    pub(in crate::world) fn note_taken(&mut self, hca: HcaId) {
        if self.in_order() {
            let arrivals = &mut self.state.driver.untimed_mut().arrivals[hca.0 as usize];
            arrivals.waiting.pop_front();
            arrivals.taken += 1;
        }
    }

    /// How many completions of at most `max` a poll is shown: those that came before the oldest event.
    pub(in crate::world) fn shown(&mut self, hca: HcaId, max: usize) -> usize {
        let front = self.state.driver.untimed().arrivals[hca.0 as usize].waiting.front();
        let Some(after) = front.map(|arrival| arrival.after) else { return max };
        let taken = self.completions(hca, |_, taken| taken);
        let before = after.saturating_sub(taken) as usize;
        if before < max {
            self.touch_unless_reason(self.event_in_front(hca));
        }
        before.min(max)
    }

    /// For what a spinning node steps, if it is for an event.
    pub(super) fn event_shown(&self, hca: HcaId) -> Option<Object> {
        matches!(self.oldest(hca), Oldest::Event(_)).then(|| self.event_in_front(hca))
    }

    /// A context was closed, or the node crashed: its events are gone.
    pub(in crate::world) fn forget_arrivals(&mut self, hca: HcaId) {
        if let Some(untimed) = self.state.driver.if_untimed_mut() {
            let arrivals = &mut untimed.arrivals[hca.0 as usize];
            arrivals.taken += arrivals.waiting.len() as u32;
            arrivals.waiting.clear();
        }
    }

    pub(super) fn digest_arrivals(&self, hca: HcaId, to: &mut impl Hasher) {
        let taken = self.completions(hca, |_, taken| taken);
        for arrival in &self.state.driver.untimed().arrivals[hca.0 as usize].waiting {
            (arrival.source, arrival.after.saturating_sub(taken)).hash(to);
        }
    }

    fn oldest(&self, hca: HcaId) -> Oldest {
        let taken = self.completions(hca, |_, taken| taken);
        match self.state.driver.untimed().arrivals[hca.0 as usize].waiting.front() {
            Some(arrival) if arrival.after <= taken => return Oldest::Event(arrival.source),
            _ => {}
        }
        let mut queues = self.state.hcas[hca.0 as usize].hw.completions.cqs.iter();
        let held = queues.find(|(_, cq)| !cq.is_empty());
        held.map_or(Oldest::Nothing, |(key, cq)| {
            Oldest::Completion(object::completion(hca.0, key.index, cq.oldest()))
        })
    }

    /// Of all completion queues of an adapter: how many completions were ever queued, or taken.
    fn completions(&self, hca: HcaId, which: impl Fn(u32, u32) -> u32) -> u32 {
        let queues = self.state.hcas[hca.0 as usize].hw.completions.cqs.iter();
        queues.fold(0, |sum, (_, cq)| sum + which(cq.pushed, cq.oldest()))
    }

    fn event_in_front(&self, hca: HcaId) -> Object {
        object::event(hca, self.state.driver.untimed().arrivals[hca.0 as usize].taken)
    }

    fn touch_unless_reason(&mut self, object: Object) {
        if self.scratch.untimed.reason != Some(object) {
            self.touch(object, AccessKind::Read);
        }
    }
}
