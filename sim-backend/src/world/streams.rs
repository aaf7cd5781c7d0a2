//! Byte streams in their world: what they send, when they are called, whom they wake.

use super::World;
use super::events::Event;
use crate::NodeId;
use crate::fault::{Op, PacketClass, PacketInfo, Verdict};
use crate::hca::{News, PortId};
use crate::log::Kind;
use crate::profile::Profile;
use crate::stats::Cause;
use crate::streams::{Actions, EndId, Ready, Segment, Settings, Streams};
use std::io;
use std::task::Waker;
use weft_verbs::{Nanos, Result, Service};

/// Bytes of a segment's headers and checks: those of a datagram's packet, four of IP over InfiniBand (RFC 4391), 40 of
/// IP and TCP.
const SEGMENT_HEADERS: u32 = 26 + 8 + 4 + 40;

/// What streams have in common, from a profile: their segments fill packets, and they are as patient as connection
/// managers.
pub(super) fn settings(profile: &Profile) -> Settings {
    let transport = &profile.transport;
    Settings {
        segment: (transport.mtu().bytes() - SEGMENT_HEADERS) as usize,
        timeout: transport.cm_timeout().span().unwrap_or(Nanos::MAX),
        retries: transport.cm_retries as u8,
    }
}

impl World {
    /// Calls the streams at a time of a machine, and carries out what they want.
    fn streams<T>(&mut self, at: Nanos, call: impl FnOnce(&mut Streams, &mut Actions) -> T) -> T {
        let mut actions = std::mem::take(&mut self.actions);
        let answer = call(&mut self.state.streams, &mut actions);
        for segment in actions.segments.drain(..) {
            let (node, name, len) = (segment.from_node, segment.name(), segment.bytes.len());
            let details = format_args!("{name} to {} at={} len={len}", segment.at_node, segment.at);
            self.log.line(at, node, Kind::Stream, details);
            self.send_segment(at, segment);
        }
        for id in actions.timers.drain(..) {
            if let Some(at) = self.state.streams.timer_to_set(id) {
                self.schedule(at, Event::StreamTimer(id));
            }
        }
        for (id, what) in actions.ready.drain(..) {
            if let Some(waker) = self.wakers.remove(&(id, what)) {
                self.woken.push(waker);
            }
            if let Some(node) = self.state.streams.node_of(id) {
                self.wake(node, News { urgent: true, ..News::default() });
            }
        }
        self.actions = actions;
        answer
    }

    /// A program's call of the operating system; the time afterwards.
    fn system_call(&mut self, node: NodeId, copied: usize) -> Nanos {
        let copy = if copied == 0 { 0 } else { self.profile.stream(copied as u64).0 };
        self.charge(node, Cause::System, self.profile.cpu.syscall_ns.saturating_add(copy))
    }

    /// Remembers whom to wake when a stream or listener is ready, until it is dropped.
    pub fn wake_when(&mut self, id: EndId, what: Ready, waker: &Waker) {
        self.wakers.insert((id, what), waker.clone());
    }

    pub fn listen(&mut self, node: NodeId, service: Service) -> Result<EndId> {
        self.system_call(node, 0);
        self.state.streams.listen(node, service)
    }

    pub fn connect_stream(&mut self, node: NodeId, peer: NodeId, service: Service) -> EndId {
        let at = self.system_call(node, 0);
        self.streams(at, |streams, out| streams.connect(at, (node, peer), service, out))
    }

    pub fn accept_stream(&mut self, node: NodeId, listener: EndId) -> io::Result<Option<EndId>> {
        self.system_call(node, 0);
        self.state.streams.accept(listener)
    }

    pub fn read_stream(&mut self, node: NodeId, id: EndId, into: &mut [u8]) -> io::Result<Option<usize>> {
        let at = self.local_time(node);
        let answer = self.streams(at, |streams, out| streams.read(id, into, out));
        self.system_call(node, copied(&answer));
        answer
    }

    pub fn write_stream(&mut self, node: NodeId, id: EndId, bytes: &[u8]) -> io::Result<Option<usize>> {
        let at = self.local_time(node);
        let answer = self.streams(at, |streams, out| streams.write(at, id, bytes, out));
        self.system_call(node, copied(&answer));
        answer
    }

    pub fn shut_stream(&mut self, node: NodeId, id: EndId) -> io::Result<()> {
        let at = self.system_call(node, 0);
        self.streams(at, |streams, out| streams.shutdown(at, id, out))
    }

    /// A program dropped its handle.
    pub fn close_stream(&mut self, node: NodeId, id: EndId) {
        let at = self.local_time(node);
        self.streams(at, |streams, out| streams.close(at, id, out));
        self.forget_wakers(id);
    }

    /// A program dropped its listener.
    pub fn close_listener(&mut self, node: NodeId, id: EndId) {
        let at = self.local_time(node);
        self.streams(at, |streams, out| streams.close_listener(id, out));
        self.forget_wakers(id);
    }

    fn forget_wakers(&mut self, id: EndId) {
        for what in [Ready::Accept, Ready::Read, Ready::Write] {
            // Its destructor can be a program's code, which must not run inside of the world.
            self.woken.extend(self.wakers.remove(&(id, what)));
        }
    }

    /// Sends a segment of a byte stream at a time of its machine: as an IP packet over the fabric, by the first port of
    /// the machine's first adapter.
    fn send_segment(&mut self, at: Nanos, segment: Segment) {
        let (from, to) = (segment.from_node, segment.at_node);
        let arrival = self.segment_arrival(at, &segment);
        let info = PacketInfo {
            src: from,
            src_port: 1,
            dst: to,
            dst_port: 1,
            class: PacketClass::Stream,
            op: Op::Other,
            qp: 0,
            psn: 0,
        };
        match self.judge_foreign(&info, "segment") {
            None => {}
            Some(Verdict::Delay(late) | Verdict::Late(late)) => self.fly(segment, arrival + late),
            Some(Verdict::Duplicate) => {
                self.fly(segment.clone(), arrival);
                self.fly(segment, arrival);
            }
            Some(_) => self.fly(segment, arrival),
        }
    }

    /// When a segment is with its receiver's kernel: ports send and take in segments like packets.
    fn segment_arrival(&mut self, at: Nanos, segment: &Segment) -> Nanos {
        let costs = self.costs;
        let on_cable = costs.on_cable(SEGMENT_HEADERS + segment.bytes.len() as u32);
        let ready = at + costs.stream;
        if segment.from_node == segment.at_node {
            return ready;
        }
        let latency = costs.way + on_cable + costs.rx;
        let first = |node: NodeId| self.shape.at_cable(node, 1).0 as usize;
        let (source, target) = (first(segment.from_node), first(segment.at_node));
        let port = &mut self.state.ports[source];
        let begin = ready.max(port.sends);
        port.sends = begin + on_cable.max(costs.tx_gap);
        let port = &mut self.state.ports[target];
        let begin = (begin + costs.way).max(port.takes);
        port.takes = begin + on_cable.max(costs.rx_gap);
        let arrival = self.vary(begin + on_cable + costs.rx, latency);
        self.in_turn(PortId(source as u32), PacketClass::Stream, arrival)
    }

    fn fly(&mut self, segment: Segment, at: Nanos) {
        self.state.segments_sent += 1;
        let place = self.state.segments.insert((self.state.segments_sent, segment));
        self.schedule(at, Event::Segment(place.index));
    }

    pub(super) fn deliver_segment(&mut self, place: u32) {
        let key = self.state.segments.at(place).map(|(key, _)| key);
        if let Some((_, segment)) = key.and_then(|key| self.state.segments.remove(key)) {
            self.arrive_segment(segment);
        }
    }

    fn arrive_segment(&mut self, segment: Segment) {
        let (node, now) = (segment.at_node, self.state.now);
        self.log.came(node, u64::from(segment.from_node.0) << 32 | 2);
        let port = self.shape.at_cable(node, 1).0 as usize;
        let link = segment.from_node == node || self.state.ports[port].up;
        if link && !self.machine(node).crashed {
            self.streams(now, |streams, out| streams.on_segment(now, segment, out));
        }
    }

    pub(super) fn stream_timer(&mut self, id: EndId) {
        let now = self.state.now;
        self.streams(now, |streams, out| streams.on_timer(now, id, out));
    }
}

/// How many bytes a call moved.
fn copied(answer: &io::Result<Option<usize>>) -> usize {
    answer.as_ref().map_or(0, |n| n.unwrap_or(0))
}
