//! The way from one adapter to another in virtual time, and what faults do to packets on it.
//!
//! Every figure is computed when a packet leaves, so that a packet costs one event, its arrival. A port sends one packet
//! after the other, and takes in one after the other; the switch cuts packets through.

use crate::cm::{self, Address, Message};
use crate::fault::{Op, PacketClass, PacketInfo, Verdict};
use crate::hca::{Body, Key, Packet, Shape, Syndrome};
use crate::log::Kind;
use crate::profile::Profile;
use crate::world::World;
use crate::world::events::Event;
use crate::world::wire::Cargo;
use weft_verbs::Nanos;

/// What packets cost on their way, from the profile, in the form that is quickest to apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Nanoseconds a byte on a cable, times 2^20.
    byte: u64,
    /// Nanoseconds a byte between adapter and memory, times 2^20.
    dma_byte: u64,
    /// Cable, switch, cable.
    pub(in crate::world) way: Nanos,
    pub(in crate::world) rx: Nanos,
    ack: Nanos,
    read: Nanos,
    compare_swap: Nanos,
    fetch_add: Nanos,
    completion: Nanos,
    pub(in crate::world) tx_gap: Nanos,
    pub(in crate::world) rx_gap: Nanos,
    /// From a connection manager's call to the other's, wire excluded.
    cm: Nanos,
    /// From a machine's call to its adapter, for a segment of a byte stream.
    pub(in crate::world) stream: Nanos,
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
            stream: Nanos(a.tx_ns + profile.cpu.syscall_ns + profile.cpu.interrupt_ns),
        }
    }

    pub(in crate::world) fn on_cable(&self, bytes: u32) -> Nanos {
        Nanos((u64::from(bytes) * self.byte) >> SHIFT)
    }

    fn dma(&self, bytes: u32) -> Nanos {
        Nanos((u64::from(bytes) * self.dma_byte) >> SHIFT)
    }
}

impl World {
    /// Sends a packet on its way.
    #[inline]
    pub(in crate::world) fn transmit_timed(&mut self, id: u32, flow: Option<Key>) {
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
            Verdict::Drop | Verdict::Corrupt => self.lose(id),
            Verdict::Delay(late) => {
                self.log_way(Kind::Disturb, id);
                self.out_of_order(Cargo::Packet(id), arrival + late);
            }
            Verdict::Late(late) => {
                self.log_way(Kind::Disturb, id);
                self.queue(id, flow, arrival + late);
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
        let Some(flow) = flow else {
            let from = self.state.packets.get(id).route.from;
            let arrival = self.in_turn(from, PacketClass::Datagram, arrival);
            return self.out_of_order(Cargo::Packet(id), arrival);
        };
        let Some(open) = self.state.flows.get_mut(flow) else { return self.discard(id) };
        let arrival = arrival.max(open.last);
        open.last = arrival;
        let first = open.line.is_empty();
        self.state.packets.join(&mut open.line, id, arrival);
        if first {
            self.schedule(arrival, Event::Deliver(flow.index));
        }
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
            return self.vary(begin + effect, effect);
        }
        let begin = ready.max(port.sends);
        port.sends = begin + on_cable.max(costs.tx_gap).max(dma);
        let Some(port) = self.state.ports.get_mut(target) else { return begin };
        let begin = (begin + costs.way).max(port.takes);
        port.takes = begin + on_cable.max(costs.rx_gap).max(dma);
        self.vary(begin + on_cable + effect, costs.way + on_cable + effect)
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

    /// What faults do to what no queue pair sent; nothing if it is lost, and the log then tells `what`. From a port to
    /// itself it crosses no link, and no rule names it.
    pub(in crate::world) fn judge_foreign(&mut self, info: &PacketInfo, what: &str) -> Option<Verdict> {
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
    pub(in crate::world) fn transmit_cm_timed(&mut self, to: Address, message: Message) {
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
        let Some(verdict) = self.judge_foreign(&info, "cm") else { return };
        let late = match verdict {
            Verdict::Delay(late) | Verdict::Late(late) => late,
            _ => Nanos::ZERO,
        };
        let latency = self.costs.cm + self.costs.way + self.costs.on_cable(cm::WIRE_BYTES as u32);
        let at = self.vary(self.local_time(sender) + latency, latency);
        let at = self.in_turn(shape.port(from.hca, from.port), PacketClass::Cm, at) + late;
        let copies = if verdict == Verdict::Duplicate { 2 } else { 1 };
        for _ in 0..copies {
            let message = Box::new(message.clone());
            self.out_of_order(Cargo::Cm { to, message }, at);
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
