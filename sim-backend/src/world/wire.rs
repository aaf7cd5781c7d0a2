//! From one adapter to another: ports, cables, the switch, and what faults do to packets on their way.
//!
//! Every figure is computed when a packet leaves, so that a packet costs one event, its arrival. A port sends
//! one packet after the other, and takes in one after the other; the switch cuts packets through.

use super::World;
use super::events::Event;
use crate::NodeId;
use crate::cm::{self, Message};
use crate::fault::{Op, PacketClass, PacketInfo, Verdict};
use crate::hca::{Body, HcaId, Key, Packet, Syndrome};
use crate::log::Kind;
use crate::profile::Profile;
use std::collections::VecDeque;
use verbs_trait::Nanos;

/// A directed pair of queue pairs: order holds within it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Its identity among events.
    pub id: u64,
    queue: VecDeque<(Nanos, u32)>,
    /// When the last packet of the queue arrives.
    last: Nanos,
    /// Whether its queue pair still uses it.
    attached: bool,
}

/// What travels outside of any flow's order.
#[derive(Clone, Debug)]
pub(crate) struct Stray {
    /// Its identity among events: how many there were before it.
    pub id: u64,
    cargo: Cargo,
}

#[derive(Clone, Debug)]
enum Cargo {
    /// A packet that was delayed, or a datagram.
    Packet(u32),
    /// A message of the connection managers.
    Cm { from: NodeId, to: NodeId, message: Box<Message> },
}

/// An adapter's port, and the units behind it that do one thing at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// Whether it has its link.
    pub up: bool,
    /// Until when it sends.
    sends: Nanos,
    /// Until when it takes in.
    takes: Nanos,
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
    way: Nanos,
    rx: Nanos,
    ack: Nanos,
    read: Nanos,
    compare_swap: Nanos,
    fetch_add: Nanos,
    completion: Nanos,
    tx_gap: Nanos,
    rx_gap: Nanos,
    /// From a connection manager's call to the other's, wire excluded.
    cm: Nanos,
}

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
        }
    }

    fn on_cable(&self, bytes: u32) -> Nanos {
        Nanos((u64::from(bytes) * self.byte) >> SHIFT)
    }

    fn dma(&self, bytes: u32) -> Nanos {
        Nanos((u64::from(bytes) * self.dma_byte) >> SHIFT)
    }
}

impl World {
    /// The flow of a queue pair that has just been connected.
    pub(super) fn open_flow(&mut self, hca: HcaId, key: Key) {
        self.close_flow(hca, key);
        let Some(qp) = self.state.hcas[hca.0 as usize].qps.get_mut(key) else { return };
        let id = u64::from(hca.0) << 24 | u64::from(qp.num.0);
        let last = Nanos::ZERO;
        qp.flow = Some(self.state.flows.insert(Flow { id, queue: VecDeque::new(), last, attached: true }));
    }

    /// A queue pair leaves its flow; what is under way in it arrives yet.
    pub(super) fn close_flow(&mut self, hca: HcaId, key: Key) {
        let qp = self.state.hcas[hca.0 as usize].qps.get_mut(key);
        let Some(flow) = qp.and_then(|qp| qp.flow.take()) else { return };
        if let Some(open) = self.state.flows.get_mut(flow) {
            open.attached = false;
            if open.queue.is_empty() {
                self.state.flows.remove(flow);
            }
        }
    }

    /// Sends what the engine put out for a queue pair.
    #[inline]
    pub(super) fn send_out(&mut self, hca: HcaId, key: Key) {
        if self.state.packets.nothing_fresh() {
            return;
        }
        let flow = self.state.hcas[hca.0 as usize].qps.get(key).and_then(|qp| qp.flow);
        let mut fresh = std::mem::take(&mut self.fresh);
        self.state.packets.take_fresh(&mut fresh);
        for &id in &fresh {
            match flow {
                None if !self.state.packets.get(id).is_datagram() => self.discard(id),
                flow => self.send(id, flow),
            }
        }
        fresh.clear();
        self.fresh = fresh;
    }

    #[inline]
    fn send(&mut self, id: u32, flow: Option<Key>) {
        self.state.stats.packets += 1;
        if self.log.is_on() {
            self.log_way(Kind::Tx, id);
        }
        let (arrival, verdict) = (self.arrival(id), self.judge(id));
        match verdict {
            Verdict::Pass => self.queue(id, flow, arrival),
            _ => self.disturb(id, flow, arrival, verdict),
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
        open.queue.push_back((arrival, id));
        if open.queue.len() == 1 {
            self.schedule(arrival, Event::Deliver(flow.index));
        }
    }

    fn stray(&mut self, cargo: Cargo, at: Nanos) {
        self.state.strays_made += 1;
        let stray = self.state.strays.insert(Stray { id: self.state.strays_made, cargo });
        self.schedule(at, Event::Stray(stray.index));
    }

    fn discard(&mut self, id: u32) {
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
    #[inline]
    fn judge(&mut self, id: u32) -> Verdict {
        let packet = self.state.packets.get(id);
        let faults = &mut self.state.faults;
        if packet.route.from == packet.route.to {
            if faults.rules().is_empty() {
                return Verdict::Pass;
            }
            let info = packet.info(self.ports);
            return faults.rules().judge(&info, &mut *self.choice);
        }
        faults.judge(self.state.now, &packet.info(self.ports), &mut *self.choice)
    }

    #[cold]
    fn lose(&mut self, id: u32) {
        self.state.stats.dropped += 1;
        self.log_way(Kind::Drop, id);
        self.discard(id);
    }

    #[cold]
    fn log_way(&mut self, kind: Kind, id: u32) {
        let packet = self.state.packets.get(id);
        let (from, to, name) = (packet.from.qp, packet.to, packet.body.name());
        let (node, psn, len) = (NodeId(packet.from.hca.0), packet.psn.get(), packet.data.len());
        let details = format_args!("{from} -> n{}/{} {name} psn={psn} len={len}", to.hca.0, to.qp);
        self.log.line(self.state.now, node, kind, details);
    }

    #[inline]
    pub(super) fn deliver(&mut self, place: u32) {
        let Some((key, flow)) = self.state.flows.at_mut(place) else { return };
        let Some((_, id)) = flow.queue.pop_front() else { return };
        match flow.queue.front() {
            Some(&(at, _)) => self.schedule(at, Event::Deliver(place)),
            None if !flow.attached => drop(self.state.flows.remove(key)),
            None => {}
        }
        self.arrive(id);
    }

    pub(super) fn deliver_stray(&mut self, place: u32) {
        let Some((key, _)) = self.state.strays.at(place) else { return };
        match self.state.strays.remove(key).map(|stray| stray.cargo) {
            Some(Cargo::Packet(id)) => self.arrive(id),
            Some(Cargo::Cm { from, to, message }) => self.arrive_cm(from, to, *message),
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
                self.engine(to, Some(key), |hca, io| hca.receive(key, &packet, io));
                packet.data.release(&mut self.state.buffers);
            }
            _ => self.lose(id),
        }
    }

    /// Sends a message of the connection managers: a datagram that can be lost.
    pub(crate) fn send_cm(&mut self, from: NodeId, to: NodeId, message: Message) {
        let info = PacketInfo {
            src: from,
            src_port: 1,
            dst: to,
            dst_port: 1,
            class: PacketClass::Cm,
            op: Op::Other,
            qp: 0,
            psn: 0,
        };
        let verdict = match from == to {
            true => Verdict::Pass,
            false => self.state.faults.judge(self.state.now, &info, &mut *self.choice),
        };
        let late = match verdict {
            Verdict::Drop | Verdict::Corrupt => {
                self.state.stats.dropped += 1;
                self.log.line(self.state.now, from, Kind::Drop, format_args!("cm to {to}"));
                return;
            }
            Verdict::Delay(late) => late,
            Verdict::Pass | Verdict::Shorten | Verdict::Duplicate => Nanos::ZERO,
        };
        let costs = self.costs;
        let at = self.local_time(from) + costs.cm + costs.way + costs.on_cable(cm::WIRE_BYTES as u32) + late;
        let copies = if verdict == Verdict::Duplicate { 2 } else { 1 };
        for _ in 0..copies {
            let message = Box::new(message.clone());
            self.stray(Cargo::Cm { from, to, message }, at);
        }
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

    fn info(&self, ports: u8) -> PacketInfo {
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
            src: NodeId(self.from.hca.0),
            src_port: self.route.from.local(ports),
            dst: NodeId(self.to.hca.0),
            dst_port: self.route.to.local(ports),
            class,
            op: self.op,
            qp: self.to.qp.0,
            psn: self.psn.get(),
        }
    }
}
