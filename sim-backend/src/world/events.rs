//! Events: what can happen next, in which order, and what follows from it.

use super::World;
use crate::NodeId;
use crate::choice::EventId;
use crate::config::Order;
use crate::fault::FaultId;
use crate::hca::{HcaId, Key, Qp};
use crate::streams::EndId;
use weft_verbs::Nanos;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The packet at the head of a flow arrives.
    Deliver(u32),
    /// A packet arrives that left its flow's order.
    Stray(u32),
    /// A queue pair may have more to send.
    Attend(HcaId, u32),
    /// A queue pair's deadline may have come.
    Timer(HcaId, u32),
    /// A node's processor runs.
    Step(NodeId),
    /// A planned fault strikes, changes or ends.
    Fault(FaultId),
    /// A timer of an adapter's connection manager.
    CmTimer(HcaId),
    /// A segment of a byte stream arrives.
    Segment(u32),
    /// A timer of a byte stream.
    StreamTimer(EndId),
}

/// An event as the queue keeps it: one word, since a value that is put together from pieces and moved as a whole
/// at once stalls the processor (it was a tenth of a run's time).
///
/// Objects go by their place only. That is enough: a flow and a stray keep their place while an event of theirs is
/// pending, and a queue pair that finds an event of its place's earlier owner has nothing to do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u64);

impl Code {
    const fn new(kind: u64, unit: u32, place: u32) -> Code {
        Code(kind << 60 | ((unit as u64) & 0xfff_ffff) << 32 | place as u64)
    }

    const fn event(self) -> Event {
        let (unit, place) = ((self.0 >> 32 & 0xfff_ffff) as u32, self.0 as u32);
        match self.0 >> 60 {
            1 => Event::Deliver(place),
            2 => Event::Stray(place),
            3 => Event::Attend(HcaId(unit), place),
            4 => Event::Timer(HcaId(unit), place),
            5 => Event::Step(NodeId(unit)),
            6 => Event::Fault(FaultId(place)),
            8 => Event::StreamTimer(EndId(place)),
            9 => Event::Segment(place),
            _ => Event::CmTimer(HcaId(unit)),
        }
    }
}

impl Event {
    const fn code(self) -> Code {
        match self {
            Event::Deliver(flow) => Code::new(1, 0, flow),
            Event::Stray(place) => Code::new(2, 0, place),
            Event::Attend(hca, qp) => Code::new(3, hca.0, qp),
            Event::Timer(hca, qp) => Code::new(4, hca.0, qp),
            Event::Step(node) => Code::new(5, node.0, 0),
            Event::Fault(id) => Code::new(6, 0, id.0),
            Event::CmTimer(hca) => Code::new(7, hca.0, 0),
            Event::StreamTimer(id) => Code::new(8, 0, id.0),
            Event::Segment(place) => Code::new(9, 0, place),
        }
    }
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
    /// The same, and the node waits for another program.
    Restarted(NodeId),
}

impl World {
    #[inline]
    pub fn schedule(&mut self, at: Nanos, event: Event) {
        if self.untimed {
            return;
        }
        self.state.events.insert(at.max(self.state.now), event.code());
    }

    /// Takes the next event that is due by `until`, as the order or the choice has it.
    pub fn next_event(&mut self, until: Nanos) -> Option<Event> {
        match self.order {
            Order::Fifo => {
                let (at, event) = self.state.events.pop_by(until)?;
                self.state.now = at;
                Some(event.event())
            }
            Order::Chosen => self.choose_event(until),
            Order::Untimed => None,
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
                let mut enabled = std::mem::take(&mut self.enabled);
                enabled.clear();
                enabled.extend(self.state.ready.iter().map(|code| self.identity(code.event())));
                let index = self.choice.schedule(&enabled).min(enabled.len() - 1);
                self.enabled = enabled;
                index
            }
        };
        Some(self.state.ready.remove(index).event())
    }

    /// An event's identity, the same in every run in which the same things happened before.
    fn identity(&self, event: Event) -> EventId {
        let qp = |hca: HcaId, place: u32| {
            let num = self.state.hcas[hca.0 as usize].qps.at(place).map_or(0, |(_, qp)| qp.num.0);
            u64::from(hca.0) << 24 | u64::from(num)
        };
        let (kind, what) = match event {
            Event::Deliver(flow) => (1, self.state.flows.at(flow).map_or(0, |(_, flow)| flow.id)),
            Event::Stray(place) => (2, self.state.strays.at(place).map_or(0, |(_, stray)| stray.id)),
            Event::Attend(hca, key) => (3, qp(hca, key)),
            Event::Timer(hca, key) => (4, qp(hca, key)),
            Event::Step(node) => (5, u64::from(node.0)),
            Event::Fault(id) => (6, u64::from(id.0)),
            Event::CmTimer(hca) => (7, u64::from(hca.0)),
            Event::StreamTimer(id) => (8, u64::from(id.0)),
            Event::Segment(place) => (9, self.state.segments.at(place).map_or(0, |(_, segment)| segment.0)),
        };
        EventId(kind << 60 | (what & ((1 << 60) - 1)))
    }

    /// Lets an event happen.
    pub fn happen(&mut self, event: Event) -> Happened {
        self.state.stats.events += 1;
        match event {
            Event::Deliver(flow) => self.deliver(flow),
            Event::Stray(place) => self.deliver_stray(place),
            Event::Attend(hca, place) => self.attend(hca, place),
            Event::Timer(hca, place) => self.timer(hca, place),
            Event::Step(node) => return self.begin_step(node),
            Event::Fault(id) => return self.fault_due(id),
            Event::CmTimer(hca) => self.cm_timer(hca),
            Event::StreamTimer(id) => self.stream_timer(id),
            Event::Segment(place) => self.deliver_segment(place),
        }
        Happened::Done
    }

    /// Brings a queue pair's entries in the event queue into line with what it wants. An entry that is later
    /// overtaken stays and finds nothing to do.
    #[inline]
    pub(super) fn schedule_qp(&mut self, hca: HcaId, key: Key) {
        if self.untimed {
            return self.wants_turn(hca, key);
        }
        let state = &mut self.state;
        let Some(qp) = state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        if qp.deadline < qp.timer_set {
            qp.timer_set = qp.deadline;
            state.events.insert(qp.deadline.max(state.now), Event::Timer(hca, key.index).code());
        }
        if qp.attend_at < Nanos::MAX {
            // A turn that was cut short goes on when the port is free.
            let at = if qp.attend_at <= state.now {
                state.ports[qp.port().0 as usize].next_turn()
            } else {
                qp.attend_at
            };
            let at = at.max(state.now);
            if at < qp.attend_set {
                qp.attend_set = at;
                state.events.insert(at, Event::Attend(hca, key.index).code());
            }
        }
    }

    fn attend(&mut self, hca: HcaId, place: u32) {
        let now = self.state.now;
        let Some((key, qp)) = self.state.hcas[hca.0 as usize].qps.at_mut(place) else { return };
        if now >= qp.attend_set {
            qp.attend_set = Nanos::MAX;
        }
        if qp.attend_at <= now {
            self.engine_of(hca, key, Qp::attend);
        } else {
            self.schedule_qp(hca, key);
        }
    }

    fn timer(&mut self, hca: HcaId, place: u32) {
        let now = self.state.now;
        let Some((key, qp)) = self.state.hcas[hca.0 as usize].qps.at_mut(place) else { return };
        if now >= qp.timer_set {
            qp.timer_set = Nanos::MAX;
        }
        if qp.deadline <= now {
            self.engine_of(hca, key, Qp::on_timer);
        } else {
            self.schedule_qp(hca, key);
        }
    }
}
