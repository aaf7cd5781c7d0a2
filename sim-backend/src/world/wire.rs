//! From one adapter to another: ports, cables, the switch, and what faults do to packets on their way.
//!
//! Every figure is computed when a packet leaves, so that a packet costs one event, its arrival. A port sends
//! one packet after the other, and takes in one after the other; the switch cuts packets through.

use super::World;
use super::events::Event;
use crate::choice::EventId;
use crate::cm::{self, Address, Message};
use crate::explore::identity;
use crate::fault::{Op, PacketClass, PacketInfo, Verdict};
use crate::hca::{Body, HcaId, Key, Line, Packet, Shape, Syndrome};
use crate::log::Kind;
use crate::log::entry::OnItsWay;
use crate::profile::Profile;
use weft_verbs::Nanos;

/// A directed pair of queue pairs: order holds within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Its identity among events.
    pub id: u64,
    pub line: Line,
    /// When the last packet of the line arrives.
    last: Nanos,
    /// Whether its queue pair still uses it.
    pub attached: bool,
    /// In an untimed world: how many packets have left it.
    pub number: u32,
    /// In an untimed world: the requester of the packet at the head has given up.
    pub stranded: bool,
}

impl Flow {
    /// In an untimed world: the delivery of the packet at its head.
    pub fn next(&self) -> EventId {
        let stranded = if self.stranded { identity::STRANDED } else { 0 };
        identity::delivery(self.name(), self.number | stranded)
    }

    /// In an untimed world: its name within identities.
    pub fn name(&self) -> u64 {
        identity::flow((self.id >> 52) as u8, (self.id >> 24) as u32 & 0xfff_ffff, self.id as u32 & 0xff_ffff)
    }
}

/// What travels outside of any flow's order.
#[derive(Clone, Debug)]
pub(crate) struct Stray {
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
    loops: Nanos,
    /// Until when an atomic is executed. (The unit is the port's, so that an adapter of two ports has two.)
    atomics: Nanos,
    /// How long before the port is free a queue pair's next turn may begin.
    lead: Nanos,
}

impl Default for Port {
    fn default() -> Port {
        let zero = Nanos::ZERO;
        Port { up: true, sends: zero, takes: zero, loops: zero, atomics: zero, lead: zero }
    }
}

impl Port {
    /// When a queue pair that has more to send gets its next turn.
    pub fn next_turn(&self) -> Nanos {
        self.sends.max(self.loops) - self.lead
    }
}

/// What packets cost on their way, from the profile, in the form that is quickest to apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Nanoseconds a byte on a cable, times 2^20.
    byte: u64,
    /// Nanoseconds a byte between adapter and memory, times 2^20.
    dma_byte: u64,
    /// Cable, switch, cable.
    pub(super) way: Nanos,
    pub(super) rx: Nanos,
    ack: Nanos,
    read: Nanos,
    compare_swap: Nanos,
    fetch_add: Nanos,
    completion: Nanos,
    pub(super) tx_gap: Nanos,
    pub(super) rx_gap: Nanos,
    /// From a connection manager's call to the other's, wire excluded.
    cm: Nanos,
    /// From a machine's call to its adapter, for a segment of a byte stream.
    pub(super) stream: Nanos,
}

/// Bytes of a segment's headers and checks: those of a datagram's packet, four of IP over InfiniBand (RFC 4391), 40 of
/// IP and TCP.
pub(crate) const SEGMENT_HEADERS: u32 = 26 + 8 + 4 + 40;

const SHIFT: u32 = 20;

impl Costs {
    pub fn of(profile: &Profile) -> Costs {
        let a = &profile.adapter;
        let byte = (8_000_000_000u128 << SHIFT) / u128::from(profile.link.bits_per_second);
        Costs {
            byte: byte as u64,
            dma_byte: (a.dma_ns_per_kib << SHIFT) / 1024,
            way: Nanos(2 * profile.link.propagation_ns + profile.switch.latency_ns),
            rx: Nanos(a.rx_ns),
            ack: Nanos(a.ack_ns),
            read: Nanos(a.read_ns),
            compare_swap: Nanos(a.compare_swap_ns),
            fetch_add: Nanos(a.fetch_add_ns),
            completion: Nanos(a.completion_ns),
            tx_gap: Nanos(a.tx_gap_ns),
            rx_gap: Nanos(a.rx_gap_ns),
            cm: Nanos(a.tx_ns + a.rx_ns + profile.cpu.cm_ns),
            stream: Nanos(a.tx_ns + profile.cpu.syscall_ns + profile.cpu.interrupt_ns),
        }
    }

    pub(super) fn on_cable(&self, bytes: u32) -> Nanos {
        Nanos((u64::from(bytes) * self.byte) >> SHIFT)
    }

    fn dma(&self, bytes: u32) -> Nanos {
        Nanos((u64::from(bytes) * self.dma_byte) >> SHIFT)
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
            stranded: false,
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
        if self.untimed {
            return self.send_untimed(id, flow);
        }
        let arrival = self.arrival(id);
        if self.state.faults.are_none() {
            return self.queue(id, flow, arrival);
        }
        match self.judge(id) {
            Verdict::Pass => self.queue(id, flow, arrival),
            verdict => self.disturb(id, flow, arrival, verdict),
        }
    }

    #[cold]
    fn disturb(&mut self, id: u32, flow: Option<Key>, arrival: Nanos, verdict: Verdict) {
        match verdict {
            Verdict::Pass => self.queue(id, flow, arrival),
            Verdict::Drop => self.lose(id),
            Verdict::Corrupt => {
                self.state.stats.corrupted += 1;
                self.lose(id);
            }
            Verdict::Delay(late) => {
                self.log_way(Kind::Disturb, id);
                self.stray(Cargo::Packet(id), arrival + late);
            }
            Verdict::Shorten => {
                self.log_way(Kind::Disturb, id);
                let packet = self.state.packets.take(id);
                let data = packet.data.shortened(&mut self.state.buffers);
                let short = self.state.packets.keep(Packet { data, ..packet });
                self.queue(short, flow, arrival);
            }
            Verdict::Duplicate => {
                self.log_way(Kind::Disturb, id);
                let packet = *self.state.packets.get(id);
                let data = packet.data.duplicate(&mut self.state.buffers);
                let copy = self.state.packets.keep(Packet { data, ..packet });
                self.queue(id, flow, arrival);
                self.queue(copy, flow, arrival);
            }
        }
    }

    /// Lets a packet arrive: in its flow's order, or by itself if it belongs to none.
    #[inline]
    fn queue(&mut self, id: u32, flow: Option<Key>, arrival: Nanos) {
        let Some(flow) = flow else { return self.stray(Cargo::Packet(id), arrival) };
        let Some(open) = self.state.flows.get_mut(flow) else { return self.discard(id) };
        let arrival = arrival.max(open.last);
        open.last = arrival;
        let first = open.line.is_empty();
        self.state.packets.join(&mut open.line, id, arrival);
        if first {
            self.schedule(arrival, Event::Deliver(flow.index));
        }
    }

    pub(super) fn stray(&mut self, cargo: Cargo, at: Nanos) {
        self.state.strays_made += 1;
        let stray = self.state.strays.insert(Stray { id: self.state.strays_made, cargo });
        self.schedule(at, Event::Stray(stray.index));
    }

    pub(super) fn discard(&mut self, id: u32) {
        let packet = self.state.packets.take(id);
        packet.data.release(&mut self.state.buffers);
    }

    /// When a packet that the adapter has just made will have its effect.
    #[inline]
    fn arrival(&mut self, id: u32) -> Nanos {
        let packet = self.state.packets.get(id);
        let costs = self.costs;
        let now = self.state.now;
        let (source, target) = (packet.route.from.0 as usize, packet.route.to.0 as usize);
        let dma = costs.dma(packet.body.moves(packet.data.len()));
        let on_cable = costs.on_cable(packet.body.header_bytes() + packet.data.len());
        let port = &mut self.state.ports[source];
        let ready = match packet.body {
            Body::Ack { .. } => now + costs.ack,
            Body::AtomicResponse { .. } => {
                let execution = if packet.op == Op::FetchAdd { costs.fetch_add } else { costs.compare_swap };
                port.atomics = port.atomics.max(now) + execution;
                port.atomics + costs.ack
            }
            Body::ReadResponse { part, .. } if part.begins() => now + costs.read + dma + costs.ack,
            _ => now + dma,
        };
        port.lead = dma;
        let effect = costs.rx + dma + if packet.completes() { costs.completion } else { Nanos::ZERO };
        if source == target {
            // Through the adapter and back, and over no link.
            let begin = ready.max(port.loops);
            port.loops = begin + costs.tx_gap.max(dma);
            return begin + effect;
        }
        let begin = ready.max(port.sends);
        port.sends = begin + on_cable.max(costs.tx_gap).max(dma);
        let Some(port) = self.state.ports.get_mut(target) else { return begin };
        let begin = (begin + costs.way).max(port.takes);
        port.takes = begin + on_cable.max(costs.rx_gap).max(dma);
        begin + on_cable + effect
    }

    /// What faults do to a packet. A loopback packet crosses no link, so only rules can name it.
    #[cold]
    fn judge(&mut self, id: u32) -> Verdict {
        let packet = self.state.packets.get(id);
        let faults = &mut self.state.faults;
        if packet.route.from == packet.route.to {
            if faults.rules().is_empty() {
                return Verdict::Pass;
            }
            let info = packet.info(self.shape);
            return faults.rules().judge(&info, &mut *self.choice);
        }
        faults.judge(self.state.now, &packet.info(self.shape), &mut *self.choice)
    }

    #[cold]
    pub(super) fn lose(&mut self, id: u32) {
        self.state.stats.dropped += 1;
        self.log_way(Kind::Drop, id);
        self.discard(id);
    }

    #[cold]
    fn log_way(&mut self, kind: Kind, id: u32) {
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

    pub(super) fn deliver_stray(&mut self, place: u32) {
        let Some((key, _)) = self.state.strays.at(place) else { return };
        match self.state.strays.remove(key).map(|stray| stray.cargo) {
            Some(Cargo::Packet(id)) => self.arrive(id),
            Some(Cargo::Cm { to, message }) => self.arrive_cm(to, *message),
            None => {}
        }
    }

    fn arrive(&mut self, id: u32) {
        let packet = self.state.packets.get(id);
        let to = packet.to.hca;
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

    /// What faults do to what no queue pair sent; nothing if it is lost, and the log then tells `what`. From a port to
    /// itself it crosses no link, and no rule names it.
    pub(super) fn judge_foreign(&mut self, info: &PacketInfo, what: &str) -> Option<Verdict> {
        if (info.src, info.src_port) == (info.dst, info.dst_port) {
            return Some(Verdict::Pass);
        }
        match self.state.faults.judge(self.state.now, info, &mut *self.choice) {
            Verdict::Drop | Verdict::Corrupt => {
                self.state.stats.dropped += 1;
                let now = self.state.now;
                self.log.line(now, info.src, Kind::Drop, format_args!("{what} to {}", info.dst));
                None
            }
            verdict => Some(verdict),
        }
    }

    /// Sends a message of the connection managers: a datagram that can be lost.
    pub(crate) fn send_cm(&mut self, to: Address, message: Message) -> bool {
        if self.untimed {
            return self.send_cm_untimed(to, message);
        }
        let (from, shape) = (message.from, self.shape);
        let (sender, receiver) = (shape.node(from.hca), shape.node(to.hca));
        let info = PacketInfo {
            src: sender,
            src_port: shape.cable(shape.port(from.hca, from.port)),
            dst: receiver,
            dst_port: shape.cable(shape.port(to.hca, to.port)),
            class: PacketClass::Cm,
            op: Op::Other,
            qp: 0,
            psn: 0,
        };
        let Some(verdict) = self.judge_foreign(&info, "cm") else { return true };
        let late = match verdict {
            Verdict::Delay(late) => late,
            _ => Nanos::ZERO,
        };
        let costs = self.costs;
        let at =
            self.local_time(sender) + costs.cm + costs.way + costs.on_cable(cm::WIRE_BYTES as u32) + late;
        let copies = if verdict == Verdict::Duplicate { 2 } else { 1 };
        for _ in 0..copies {
            let message = Box::new(message.clone());
            self.stray(Cargo::Cm { to, message }, at);
        }
        true
    }
}

impl Packet {
    /// Whether its arrival makes a completion.
    fn completes(&self) -> bool {
        match self.body {
            Body::Send { part, .. } => part.ends(),
            Body::Datagram(_) => true,
            Body::Write { imm, .. } => imm.is_some(),
            Body::ReadRequest { .. } | Body::AtomicRequest { .. } => false,
            Body::ReadResponse { part, .. } => part.ends(),
            Body::AtomicResponse { .. } | Body::Ack { .. } => true,
        }
    }

    fn is_datagram(&self) -> bool {
        matches!(self.body, Body::Datagram(_))
    }

    fn info(&self, shape: Shape) -> PacketInfo {
        let class = match self.body {
            Body::ReadResponse { .. } => PacketClass::ReadResponse,
            Body::AtomicResponse { .. } => PacketClass::AtomicResponse,
            Body::Ack { syndrome: Syndrome::Ack, .. } => PacketClass::Ack,
            Body::Ack { syndrome: Syndrome::Rnr(_), .. } => PacketClass::Rnr,
            Body::Ack { syndrome: Syndrome::Nak(_), .. } => PacketClass::Nak,
            Body::Datagram(_) => PacketClass::Datagram,
            _ => PacketClass::Request,
        };
        PacketInfo {
            src: shape.node(self.from.hca),
            src_port: shape.cable(self.route.from),
            dst: shape.node(self.to.hca),
            dst_port: shape.cable(self.route.to),
            class,
            op: self.op,
            qp: self.to.qp.0,
            psn: self.psn.get(),
        }
    }
}
