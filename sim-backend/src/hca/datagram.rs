//! Unreliable datagrams: one packet a message, nobody answers, what is lost is lost (IBA 9.8.3).

use super::address::{GRH, Route, Service, global_route_header};
use super::packet::{Body, Packet};
use super::qp::{Qp, log_packet};
use super::requester::payload;
use super::wqe::Op;
use super::{Endpoint, Hardware, Io};
use crate::fault;
use crate::log::Kind;
use weft_verbs::{Done, Nanos, QpState, SendFlags, UdSource, WcError, WcOp};

/// A queue key with this bit asks the adapter to send the queue pair's own instead (IBA 10.2.5).
const CONTROLLED: u32 = 1 << 31;

/// Bytes of a datagram packet between the global route header and the payload, and of the check behind it: BTH 12,
/// DETH 8, ICRC 4.
const AROUND: u32 = 24;
const IMM: u32 = 4;

/// What a datagram's headers say: the datagram extended header (IBA 9.3.2) and the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// How it asked to be carried.
    pub service: Service,
}

impl Qp {
    /// Sends datagrams until something holds them up or the turn is over.
    pub(super) fn send_datagrams(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while self.state() == QpState::Rts {
            let Some(wqe) = self.sq.queue.front() else { return };
            if wqe.posted_at > io.now {
                self.service_at = wqe.posted_at;
                return;
            }
            if let Some(why) = wqe.wrong {
                return self.fail_send_queue(why, hw, io);
            }
            if self.budget == 0 {
                self.service_at = io.now;
                return;
            }
            self.send_datagram(hw, io);
        }
    }

    fn send_datagram(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.budget = self.budget.saturating_sub(1);
        let psn = self.sq.next_number();
        let Some(wqe) = self.sq.queue.front() else { return };
        let Op::Datagram { to, qp, qkey, imm } = wqe.op else { return };
        let len = wqe.len;
        let solicited = wqe.flags.contains(SendFlags::SOLICITED);
        let qkey = if qkey & CONTROLLED == 0 { qkey } else { self.qkey() };
        // A message is one packet. What is longer than the port's MTU does not leave, and that is no error
        // (IBA C10-93.1.1).
        if let Some((hca, way)) = to.to.filter(|_| len <= self.mtu) {
            // A queue pair has one port, whatever the address handle says.
            let route = Route { from: self.route.from, to: way.to };
            let data = payload(self.num, wqe, 0, self.mtu, hw, io);
            let body = Body::Datagram(Deth { qkey, imm, service: to.service });
            let (from, to) = (Endpoint { hca: hw.id, qp: self.num }, Endpoint { hca, qp });
            let op = fault::Op::Send;
            io.out.put(Packet {
                from,
                to,
                route,
                psn,
                ack_req: false,
                solicited,
                migrated: true,
                body,
                data,
                op,
            });
        }
        self.complete_send(Ok(Done { op: WcOp::Send, len, imm: None, from: None }), hw, io);
    }

    /// A send failed here: the rest of the send queue is flushed, and receives go on (IBA 10.3.1.6).
    fn fail_send_queue(&mut self, why: WcError, hw: &mut Hardware, io: &mut Io<'_>) {
        self.complete_send(Err(why), hw, io);
        self.state = QpState::Sqe;
        self.service_at = Nanos::MAX;
        io.log.line(io.now, hw.node, Kind::State, format_args!("{} RTS -> SQE", self.num));
        self.flush_sends(hw, io);
    }

    /// A packet has arrived for a datagram queue pair. Whatever does not fit is dropped, and nobody is told
    /// (IBA 9.6.1, 9.8.3.2).
    pub(super) fn on_datagram(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
        let accepting = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        let Body::Datagram(deth) = packet.body else {
            return self.ignore(packet, "of another service", hw, io);
        };
        if !accepting {
            return self.ignore(packet, "not ready", hw, io);
        }
        if packet.route.to != self.route.from {
            return self.ignore(packet, "another port", hw, io);
        }
        if deth.qkey != self.qkey() {
            return self.ignore(packet, "another queue key", hw, io);
        }
        io.stats.delivered += 1;
        if io.log.is_on() {
            log_packet(Kind::Rx, hw, packet, io);
        }
        self.take_datagram(packet, &deth, hw, io);
    }

    /// A datagram is longer than its receive request. One of the queue pair's own waits for the next (IBA 9.9.3.1,
    /// class D); one of a shared queue is spent on the failure, which nothing else suffers from (class E).
    #[cold]
    fn refuse_datagram(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
        self.ignore(packet, "longer than the receive request", hw, io);
        if self.has_shared_receives() && self.has_receive(hw, io) {
            self.complete_recv(Err(WcError::LocLen), false, hw, io);
        }
    }

    fn take_datagram(&mut self, packet: &Packet, deth: &Deth, hw: &mut Hardware, io: &mut Io<'_>) {
        let Some(room) = self.next_room(hw) else {
            return self.ignore(packet, "no receive request", hw, io);
        };
        let len = packet.data.len();
        if len > self.mtu {
            return self.ignore(packet, "longer than a packet", hw, io);
        }
        if u64::from(GRH + len) > room {
            return self.refuse_datagram(packet, hw, io);
        }
        if !self.has_receive(hw, io) {
            return;
        }
        let Some(wqe) = self.rq.queue.front() else { return };
        if let Some(status) = wqe.wrong {
            self.complete_recv(Err(status), false, hw, io);
            return self.enter_error(hw, io);
        }
        let behind = AROUND + len + if deth.imm.is_some() { IMM } else { 0 };
        let header = global_route_header(packet.route, deth.service, behind);
        let touch = &mut Qp::touch(io.now, io.access);
        hw.scatter((self.num, wqe.wr_id), &wqe.data, 0, &header, touch);
        hw.scatter((self.num, wqe.wr_id), &wqe.data, GRH, packet.data.bytes(io.buffers), touch);
        io.stats.messages += 1;
        let lid = packet.route.from.lid();
        let from = Some(UdSource { qp: packet.from.qp, lid, sl: deth.service.sl, grh: true });
        let done = Done { op: WcOp::Recv, len: GRH + len, imm: deth.imm, from };
        self.complete_recv(Ok(done), packet.solicited, hw, io);
    }
}
