//! From one adapter to another: ports, flows, and what is under way. How long it takes, and what may happen to it on its
//! way, is the [driver's](super::driver).

use super::World;
use super::events::Event;
use crate::choice::EventId;
use crate::cm::{Address, Message};
use crate::explore::identity;
use crate::hca::{Body, HcaId, Key, Line, Packet};
use crate::log::Kind;
use crate::log::entry::OnItsWay;
use weft_verbs::Nanos;

/// A directed pair of queue pairs: order holds within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Its identity among events.
    pub id: u64,
    pub line: Line,
    /// When the last packet of the line arrives.
    pub(super) last: Nanos,
    /// Whether its queue pair still uses it.
    pub attached: bool,
    /// In an untimed world: how many packets have left it.
    pub number: u32,
    /// In an untimed world: the requester of the packet at the head has given up.
    pub requester_gave_up: bool,
}

impl Flow {
    /// In an untimed world: the delivery of the packet at its head.
    pub fn next(&self) -> EventId {
        let gave_up = if self.requester_gave_up { identity::GAVE_UP } else { 0 };
        identity::delivery(self.name(), self.number | gave_up)
    }

    /// In an untimed world: its name within identities.
    pub fn name(&self) -> u64 {
        identity::flow((self.id >> 52) as u8, (self.id >> 24) as u32 & 0xfff_ffff, self.id as u32 & 0xff_ffff)
    }
}

/// What travels outside of any flow's order.
#[derive(Clone, Debug)]
pub(crate) struct OutOfOrder {
    /// Its identity among events: how many there were before it.
    pub id: u64,
    pub cargo: Cargo,
}

#[derive(Clone, Debug)]
pub(crate) enum Cargo {
    /// A packet that was delayed, or a datagram.
    Packet(u32),
    /// A message of the connection managers.
    Cm { to: Address, message: Box<Message> },
}

/// An adapter's port, and the units behind it that do one thing at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// Whether it has its link.
    pub up: bool,
    /// Until when it sends.
    pub(super) sends: Nanos,
    /// Until when it takes in.
    pub(super) takes: Nanos,
    /// Until when packets to itself are under way.
    pub(super) loops: Nanos,
    /// Until when an atomic is executed. (The unit is the port's, so that an adapter of two ports has two.)
    pub(super) atomics: Nanos,
    /// How long before the port is free a queue pair's next turn may begin.
    pub(super) lead: Nanos,
}

impl Default for Port {
    fn default() -> Port {
        let zero = Nanos::ZERO;
        Port { up: true, sends: zero, takes: zero, loops: zero, atomics: zero, lead: zero }
    }
}

impl Port {
    /// When a queue pair that has more to send gets its next turn.
    pub fn next_service(&self) -> Nanos {
        self.sends.max(self.loops) - self.lead
    }
}

impl World {
    /// A new flow for a queue pair that has just been connected, or has moved to another path.
    #[cold]
    pub(super) fn open_flow(&mut self, hca: HcaId, key: Key) {
        self.close_flow(hca, key);
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        // One of an earlier path or connection may still have packets under way.
        let id = u64::from(qp.flows) << 52 | u64::from(hca.0) << 24 | u64::from(qp.num.0);
        (qp.flows, qp.moved) = (qp.flows.wrapping_add(1), false);
        let (line, last) = (Line::EMPTY, Nanos::ZERO);
        qp.flow = Some(self.state.flows.insert(Flow {
            id,
            line,
            last,
            attached: true,
            number: 0,
            requester_gave_up: false,
        }));
    }

    /// A queue pair leaves its flow; what is under way in it arrives yet.
    pub(super) fn close_flow(&mut self, hca: HcaId, key: Key) {
        let qp = self.state.hcas[hca.0 as usize].qps.get_mut(key);
        let Some(flow) = qp.and_then(|qp| qp.flow.take()) else { return };
        if let Some(open) = self.state.flows.get_mut(flow) {
            open.attached = false;
            if open.line.is_empty() {
                self.state.flows.remove(flow);
            }
        }
    }

    /// Sends what the engine put out for a queue pair.
    #[inline(never)]
    pub(super) fn send_out(&mut self, hca: HcaId, key: Key) {
        if self.state.hcas[hca.0 as usize].qps.get(key).is_some_and(|qp| qp.moved) {
            self.open_flow(hca, key);
        }
        let flow = self.state.hcas[hca.0 as usize].qps.get(key).and_then(|qp| qp.flow);
        let mut sent = 0;
        while let Some(id) = self.state.packets.fresh(sent) {
            sent += 1;
            match flow {
                None if !self.state.packets.get(id).is_datagram() => self.discard(id),
                flow => self.send(id, flow),
            }
        }
        self.state.packets.clear_fresh();
    }

    #[inline]
    fn send(&mut self, id: u32, flow: Option<Key>) {
        self.state.stats.packets += 1;
        if self.log.is_on() {
            self.log_way(Kind::Tx, id);
        }
        self.transmit(id, flow);
    }

    pub(super) fn out_of_order(&mut self, cargo: Cargo, at: Nanos) {
        self.state.out_of_order_made += 1;
        let out_of_order =
            self.state.out_of_order.insert(OutOfOrder { id: self.state.out_of_order_made, cargo });
        self.schedule(at, Event::OutOfOrder(out_of_order.index));
    }

    pub(super) fn discard(&mut self, id: u32) {
        let packet = self.state.packets.take(id);
        packet.data.release(&mut self.state.buffers);
    }

    #[cold]
    pub(super) fn lose(&mut self, id: u32) {
        self.state.stats.dropped += 1;
        self.log_way(Kind::Drop, id);
        self.discard(id);
    }

    #[cold]
    pub(super) fn log_way(&mut self, kind: Kind, id: u32) {
        let packet = self.state.packets.get(id);
        let (node, peer) = (self.shape.node(packet.from.hca), self.shape.node(packet.to.hca));
        self.log.entry(self.state.now, node, kind, &OnItsWay::new(packet, peer));
    }

    #[inline]
    pub(super) fn deliver(&mut self, place: u32) {
        let Some((key, flow)) = self.state.flows.at_mut(place) else { return };
        let Some((id, next)) = self.state.packets.leave(&mut flow.line) else { return };
        match next {
            Some(at) => self.schedule(at, Event::Deliver(place)),
            None if !flow.attached => drop(self.state.flows.remove(key)),
            None => {}
        }
        self.arrive(id);
    }

    pub(super) fn deliver_out_of_order(&mut self, place: u32) {
        let Some((key, _)) = self.state.out_of_order.at(place) else { return };
        match self.state.out_of_order.remove(key).map(|out_of_order| out_of_order.cargo) {
            Some(Cargo::Packet(id)) => self.arrive(id),
            Some(Cargo::Cm { to, message }) => self.arrive_cm(to, *message),
            None => {}
        }
    }

    fn arrive(&mut self, id: u32) {
        let packet = self.state.packets.get(id);
        let to = packet.to.hca;
        self.log
            .came(self.shape.node(to), u64::from(packet.from.hca.0) << 32 | u64::from(packet.from.qp.0) << 8);
        let route = packet.route;
        let link = route.from == route.to || self.state.ports[route.to.0 as usize].up;
        let hca = &self.state.hcas[to.0 as usize];
        match hca.find(packet.to.qp) {
            Some(key) if link && !hca.gone => {
                let packet = self.state.packets.take(id);
                self.engine_of(to, key, |qp, hw, io| qp.on_packet(&packet, hw, io));
                packet.data.release(&mut self.state.buffers);
            }
            _ => self.lose(id),
        }
    }
}

impl Packet {
    fn is_datagram(&self) -> bool {
        matches!(self.body, Body::Datagram(_))
    }
}
