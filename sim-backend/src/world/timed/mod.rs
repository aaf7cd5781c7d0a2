//! The timed driver: one event queue in nanoseconds of virtual time.

pub(super) mod jitter;
mod wire;

use super::World;
use super::events::{Code, Event, Happened};
use crate::hca::{HcaId, Key, Qp};
use crate::in_place::clone_in_place;
use crate::wheel::Wheel;
use jitter::InTurn;
use weft_verbs::Nanos;
pub(crate) use wire::Costs;

/// What a timed driver keeps in the state.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(super) events: Wheel<Code>,
    /// Events of this instant that are still to happen.
    ready: Vec<Code>,
    /// Whether the order of events of the same instant is chosen. Otherwise the first that was scheduled is first.
    is_chosen: bool,
    /// How many regions were registered.
    regions: u32,
    /// What keeps its order although latencies vary.
    in_turn: InTurn,
}

clone_in_place! { Timed { events, ready, is_chosen, regions, in_turn } }

impl Timed {
    pub fn new(is_chosen: bool) -> Timed {
        Timed { events: Wheel::new(), ready: Vec::new(), is_chosen, regions: 0, in_turn: InTurn::default() }
    }

    /// The next region's number.
    pub fn next_region(&mut self) -> u32 {
        self.regions += 1;
        self.regions - 1
    }
}

impl World {
    /// Takes the next event that is due by `until`, as the order or the choice has it.
    pub fn next_event(&mut self, until: Nanos) -> Option<Event> {
        let timed = self.state.driver.if_timed_mut()?;
        if timed.is_chosen {
            return self.choose_event(until);
        }
        let (at, event) = timed.events.pop_by(until)?;
        self.state.now = at;
        Some(event.event())
    }

    fn choose_event(&mut self, until: Nanos) -> Option<Event> {
        let timed = self.state.driver.if_timed_mut()?;
        match timed.events.peek_time() {
            // What came to be at this instant joins those that wait.
            Some(at) if at <= self.state.now || (timed.ready.is_empty() && at <= until) => {
                self.state.now = timed.events.take_earliest(&mut timed.ready)?.max(self.state.now);
            }
            _ => {}
        }
        let index = match timed.ready.len() {
            0 => return None,
            1 => 0,
            // They may be thousands, of which most were overtaken.
            count => self.choice.schedule(count).min(count - 1),
        };
        Some(timed.ready.remove(index).event())
    }

    /// Lets an event happen.
    pub fn happen(&mut self, event: Event) -> Happened {
        self.state.stats.events += 1;
        match event {
            Event::Deliver(flow) => self.deliver(flow),
            Event::OutOfOrder(place) => self.deliver_out_of_order(place),
            Event::Service(hca, place) => self.serve(hca, place),
            Event::Timer(hca, place) => self.timer(hca, place),
            Event::Step(node) => return self.begin_step(node),
            Event::Fault(id) => return self.fault_due(id),
            Event::CmTimer(hca) => self.cm_timer(hca),
            Event::StreamTimer(id) => self.stream_timer(id),
            Event::Segment(place) => self.deliver_segment(place),
            Event::Disk(node, call) => drop(self.end_disk_call(node, call)),
        }
        Happened::Done
    }

    /// Brings a queue pair's entries in the event queue into line with what it wants. An entry that is later
    /// overtaken stays and finds nothing to do.
    #[inline]
    pub(in crate::world) fn schedule_qp_timed(&mut self, hca: HcaId, key: Key) {
        let state = &mut self.state;
        let Some(timed) = state.driver.if_timed_mut() else { return };
        let Some(qp) = state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        if qp.deadline < qp.timer_set {
            qp.timer_set = qp.deadline;
            timed.events.insert(qp.deadline.max(state.now), Event::Timer(hca, key.index).code());
        }
        if qp.service_at < Nanos::MAX {
            // A turn that was cut short goes on when the port is free.
            let at = if qp.service_at <= state.now {
                state.ports[qp.port().0 as usize].next_service()
            } else {
                qp.service_at
            };
            let at = at.max(state.now);
            if at < qp.service_set {
                qp.service_set = at;
                timed.events.insert(at, Event::Service(hca, key.index).code());
            }
        }
    }

    fn serve(&mut self, hca: HcaId, place: u32) {
        let now = self.state.now;
        let Some((key, qp)) = self.state.hcas[hca.0 as usize].qps.at_mut(place) else { return };
        if now >= qp.service_set {
            qp.service_set = Nanos::MAX;
        }
        if qp.service_at <= now {
            self.engine_of(hca, key, Qp::serve);
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

    /// When the next event is due, if one is pending.
    pub fn due(&self) -> Option<Nanos> {
        let timed = self.state.driver.if_timed()?;
        if timed.ready.is_empty() { timed.events.peek_time() } else { Some(self.state.now) }
    }

    /// Whether nothing is pending.
    pub fn is_idle(&self) -> bool {
        self.due().is_none()
    }
}
