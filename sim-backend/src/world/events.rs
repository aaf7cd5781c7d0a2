//! Events: what can happen next, in which order, and what follows from it.

use super::World;
use crate::NodeId;
use crate::choice::EventId;
use crate::config::Order;
use crate::fault::FaultId;
use crate::hca::{HcaId, Key};
use verbs_trait::Nanos;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The packet at the head of a flow arrives.
    Deliver(Key),
    /// A packet arrives that left its flow's order.
    Stray(Key),
    /// A queue pair may have more to send.
    Attend(HcaId, Key),
    /// A queue pair's deadline may have come.
    Timer(HcaId, Key),
    /// A node's processor runs.
    Step(NodeId),
    /// A planned fault strikes, changes or ends.
    Fault(FaultId),
    /// A timer of a connection manager.
    CmTimer(NodeId),
}

/// What the driver has to do for an event, outside of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Nothing: it is done.
    Done,
    /// A node is to be stepped.
    Step(NodeId),
    /// A node crashed: its program is gone.
    Crashed(NodeId),
}

impl World {
    pub fn schedule(&mut self, at: Nanos, event: Event) {
        self.state.events.insert(at.max(self.state.now), event);
    }

    /// Takes the next event that is due by `until`, as the order or the choice has it.
    pub fn next_event(&mut self, until: Nanos) -> Option<Event> {
        match self.order {
            Order::Fifo => {
                if self.state.events.peek_time()? > until {
                    return None;
                }
                let (at, event) = self.state.events.pop()?;
                self.state.now = at;
                Some(event)
            }
            Order::Chosen => self.choose_event(until),
        }
    }

    fn choose_event(&mut self, until: Nanos) -> Option<Event> {
        let state = &mut self.state;
        match state.events.peek_time() {
            // Whatever came to be at this instant joins those that wait.
            Some(at) if at <= state.now || (state.ready.is_empty() && at <= until) => {
                state.now = state.events.take_earliest(&mut state.ready)?.max(state.now);
            }
            _ => {}
        }
        let index = match state.ready.len() {
            0 => return None,
            1 => 0,
            _ => {
                let enabled: Vec<EventId> = self.state.ready.iter().map(|&e| self.identity(e)).collect();
                self.choice.schedule(&enabled).min(enabled.len() - 1)
            }
        };
        Some(self.state.ready.remove(index))
    }

    /// An event's identity, the same in every run in which the same things happened before.
    fn identity(&self, event: Event) -> EventId {
        let qp = |hca: HcaId, key: Key| {
            let num = self.state.hcas[hca.0 as usize].qps.get(key).map_or(0, |qp| qp.num.0);
            u64::from(hca.0) << 24 | u64::from(num)
        };
        let (kind, what) = match event {
            Event::Deliver(flow) => (1, self.state.flows.get(flow).map_or(0, |flow| flow.id)),
            Event::Stray(key) => (2, u64::from(key.index) << 28 | u64::from(key.generation)),
            Event::Attend(hca, key) => (3, qp(hca, key)),
            Event::Timer(hca, key) => (4, qp(hca, key)),
            Event::Step(node) => (5, u64::from(node.0)),
            Event::Fault(id) => (6, u64::from(id.0)),
            Event::CmTimer(node) => (7, u64::from(node.0)),
        };
        EventId(kind << 60 | (what & ((1 << 60) - 1)))
    }

    /// Lets an event happen.
    pub fn happen(&mut self, event: Event) -> Happened {
        self.state.stats.events += 1;
        match event {
            Event::Deliver(flow) => self.deliver(flow),
            Event::Stray(key) => self.deliver_stray(key),
            Event::Attend(hca, key) => self.attend(hca, key),
            Event::Timer(hca, key) => self.timer(hca, key),
            Event::Step(node) => return self.begin_step(node),
            Event::Fault(id) => return self.fault_due(id),
            Event::CmTimer(node) => self.cm_timer(node),
        }
        Happened::Done
    }

    /// Brings a queue pair's entries in the event queue into line with what it wants. An entry that is later
    /// overtaken stays and finds nothing to do.
    #[inline]
    pub(super) fn schedule_qp(&mut self, hca: HcaId, key: Key) {
        let state = &mut self.state;
        let Some(qp) = state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        if qp.deadline < qp.timer_set {
            qp.timer_set = qp.deadline;
            state.events.insert(qp.deadline.max(state.now), Event::Timer(hca, key));
        }
        if qp.attend_at < Nanos::MAX {
            // A turn that was cut short goes on when the port is free.
            let at = if qp.attend_at <= state.now {
                state.ports[hca.0 as usize].next_turn()
            } else {
                qp.attend_at
            };
            let at = at.max(state.now);
            if at < qp.attend_set {
                qp.attend_set = at;
                state.events.insert(at, Event::Attend(hca, key));
            }
        }
    }

    fn attend(&mut self, hca: HcaId, key: Key) {
        let now = self.state.now;
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        if now >= qp.attend_set {
            qp.attend_set = Nanos::MAX;
        }
        if qp.attend_at <= now {
            self.engine(hca, Some(key), |hca, io| hca.attend(key, io));
        } else {
            self.schedule_qp(hca, key);
        }
    }

    fn timer(&mut self, hca: HcaId, key: Key) {
        let now = self.state.now;
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        if now >= qp.timer_set {
            qp.timer_set = Nanos::MAX;
        }
        if qp.deadline <= now {
            self.engine(hca, Some(key), |hca, io| hca.on_timer(key, io));
        } else {
            self.schedule_qp(hca, key);
        }
    }
}
