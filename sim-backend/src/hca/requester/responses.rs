//! Answers to requests: acknowledgements, data, refusals; time-outs and retries (IBA 9.7.5, 9.9.2).

use super::wc_op;
use crate::hca::packet::{Body, Nak, Packet, Part, Syndrome};
use crate::hca::qp::Qp;
use crate::hca::wqe::Op;
use crate::hca::{Hardware, Io};
use crate::log::Kind;
use crate::sanitizer::Side;
use weft_verbs::{Done, Nanos, Psn, Retries, RnrTimer, WcError, WcOp};

impl Qp {
    /// An answer has arrived.
    pub(in crate::hca) fn on_response(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
        match packet.body {
            Body::Ack { syndrome: Syndrome::Ack, .. } => {
                let complete = !self.sq.is_open(packet.psn) || self.acknowledge(packet.psn, hw, io);
                if !complete {
                    self.fetch_was_lost(io);
                }
            }
            Body::Ack { syndrome: Syndrome::Rnr(timer), .. } => self.on_rnr(packet.psn, timer, hw, io),
            Body::Ack { syndrome: Syndrome::Nak(nak), .. } => self.on_nak(packet.psn, nak, hw, io),
            Body::ReadResponse { part, .. } => self.on_read_response(packet, part, hw, io),
            Body::AtomicResponse { original, .. } => self.on_atomic_response(packet, original, hw, io),
            _ => self.ignore(packet, "of another service", hw, io),
        }
    }

    /// Everything up to and including a packet number was executed. `false` if a read or an atomic among it
    /// lacks its answer, which is lost then: order holds within a queue pair (IBA 9.7.5.1.2).
    fn acknowledge(&mut self, psn: Psn, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        while let Some(wqe) = self.sq.queue.front() {
            if !wqe.begun || psn.since(self.sq.unacked) < 0 {
                break;
            }
            if wqe.op.is_fetch() {
                return false;
            }
            let end = wqe.end();
            if psn.plus(1).since(end) < 0 {
                self.sq.unacked = psn.plus(1);
                self.progress(hw, io);
                break;
            }
            let done = Done { op: wc_op(&wqe.op), len: wqe.len, imm: None, from: None };
            self.sq.unacked = end;
            self.complete_send(Ok(done), hw, io);
            self.progress(hw, io);
        }
        true
    }

    /// Something was acknowledged or answered: counters and timer begin again (IBA 9.9.2.1.1).
    fn progress(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        let sq = &mut self.sq;
        sq.catch_up();
        sq.retries_left = sq.retries;
        sq.rnr_left = sq.rnr_retries;
        sq.rnr_wait = false;
        if sq.gap_known.is_some_and(|known| sq.unacked.since(known) >= 0) {
            sq.gap_known = None;
        }
        self.restart_timer(io.now);
        self.note_drained(hw, io);
    }

    fn restart_timer(&mut self, now: Nanos) {
        let waits = self.sq.unacked.since(self.sq.psn) < 0;
        self.deadline = if waits { now + self.sq.timeout } else { Nanos::MAX };
    }

    fn on_read_response(&mut self, packet: &Packet, part: Part, hw: &mut Hardware, io: &mut Io<'_>) {
        if !self.answers_the_oldest(packet, hw, io) {
            return;
        }
        let mtu = self.mtu;
        let Some(wqe) = self.sq.queue.front() else { return };
        let index = packet.psn.since(wqe.psn) as u32;
        let last = index + 1 == wqe.packets;
        let len = if last { wqe.len - index * mtu } else { mtu };
        if !matches!(wqe.op, Op::Read { .. }) || part.ends() != last || packet.data.len() != len {
            return self.fail(WcError::BadResp, hw, io);
        }
        let touch = &mut Qp::touch(io.now, io.access);
        hw.scatter((self.num, wqe.wr_id), &wqe.data, index * mtu, packet.data.bytes(io.buffers), touch);
        self.watch_scatter(Side::Requester, part, (wqe.wr_id, &wqe.data), hw, io);
        let done = Done { op: WcOp::Read, len: wqe.len, imm: None, from: None };
        self.sq.unacked = packet.psn.plus(1);
        if last {
            self.complete_fetch(done, hw, io);
        }
        self.progress(hw, io);
    }

    fn on_atomic_response(&mut self, packet: &Packet, original: u64, hw: &mut Hardware, io: &mut Io<'_>) {
        if !self.answers_the_oldest(packet, hw, io) {
            return;
        }
        let Some(wqe) = self.sq.queue.front() else { return };
        let Op::Atomic { .. } = wqe.op else { return self.fail(WcError::BadResp, hw, io) };
        let touch = &mut Qp::touch(io.now, io.access);
        hw.scatter((self.num, wqe.wr_id), &wqe.data, 0, &original.to_ne_bytes(), touch);
        let done = Done { op: wc_op(&wqe.op), len: 8, imm: None, from: None };
        self.sq.unacked = packet.psn.plus(1);
        self.complete_fetch(done, hw, io);
        self.progress(hw, io);
    }

    fn complete_fetch(&mut self, done: Done, hw: &mut Hardware, io: &mut Io<'_>) {
        // None is counted if the request was about to be sent again when its answer came after all.
        self.sq.fetches = self.sq.fetches.saturating_sub(1);
        self.complete_send(Ok(done), hw, io);
    }

    /// Whether an answer with data is the one that is expected next. It acknowledges what was sent before it.
    fn answers_the_oldest(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        if !self.sq.is_open(packet.psn) {
            self.ignore(packet, "an answer to nothing", hw, io);
            return false;
        }
        let before = packet.psn.plus(u32::MAX);
        if packet.psn != self.sq.unacked && !self.acknowledge(before, hw, io) {
            self.fetch_was_lost(io);
            return false;
        }
        packet.psn == self.sq.unacked && self.sq.is_busy()
    }

    /// A later answer shows that an earlier one was lost: an implied sequence error (IBA 9.7.5.1.2). Each later
    /// answer shows the same gap again, so one retry is all that it starts.
    fn fetch_was_lost(&mut self, io: &mut Io<'_>) {
        if self.sq.gap_known.is_some() {
            return;
        }
        self.sq.gap_known = Some(self.sq.next_psn);
        self.try_again(io);
    }

    fn on_rnr(&mut self, psn: Psn, timer: RnrTimer, hw: &mut Hardware, io: &mut Io<'_>) {
        if !self.refuses_the_oldest(psn, hw, io) || self.sq.rnr_wait {
            return;
        }
        if self.sq.rnr_retries != Retries::FOREVER.count() {
            let Some(left) = self.sq.rnr_left.checked_sub(1) else {
                return self.fail(WcError::RnrRetryExc, hw, io);
            };
            self.sq.rnr_left = left;
        }
        self.sq.go_back();
        self.sq.rnr_wait = true;
        self.deadline = io.now + timer.span();
    }

    fn on_nak(&mut self, psn: Psn, nak: Nak, hw: &mut Hardware, io: &mut Io<'_>) {
        if !self.refuses_the_oldest(psn, hw, io) {
            return;
        }
        match nak {
            Nak::Sequence if self.sq.retries_left == 0 => self.exhausted(hw, io),
            Nak::Sequence => self.try_again(io),
            Nak::InvalidRequest => self.fail(WcError::RemInvReq, hw, io),
            Nak::RemoteAccess => self.fail(WcError::RemAccess, hw, io),
            Nak::RemoteOperation => self.fail(WcError::RemOp, hw, io),
        }
    }

    /// Whether a negative acknowledgement is about the oldest open packet, all before it being acknowledged by
    /// it.
    fn refuses_the_oldest(&mut self, psn: Psn, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        if !self.sq.is_open(psn) {
            return false;
        }
        if psn != self.sq.unacked && !self.acknowledge(psn.plus(u32::MAX), hw, io) {
            self.fetch_was_lost(io);
            return false;
        }
        psn == self.sq.unacked && self.sq.is_busy()
    }

    /// Sends everything unanswered again, at the cost of a retry if one is left; the timer sees to the end of
    /// the last.
    fn try_again(&mut self, io: &mut Io<'_>) {
        let Some(left) = self.sq.retries_left.checked_sub(1) else { return };
        self.sq.retries_left = left;
        self.sq.go_back();
        self.deadline = io.now + self.sq.timeout;
    }

    /// The retries are used up: an armed connection begins them anew on its alternate path (IBA 17.2.8.1.2), any other
    /// fails.
    #[cold]
    pub(super) fn exhausted(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        if !self.is_armed() {
            return self.fail(WcError::RetryExc, hw, io);
        }
        self.migrate(hw, io);
        self.sq.gap_known = None;
        self.sq.go_back();
        self.deadline = io.now + self.sq.timeout;
    }

    /// The deadline has come.
    pub fn on_timer(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.deadline = Nanos::MAX;
        if self.sq.rnr_wait {
            self.sq.rnr_wait = false;
            return self.serve(hw, io);
        }
        io.stats.timeouts += 1;
        io.log.line(io.now, hw.node, Kind::Timer, format_args!("{} psn={}", self.num, self.sq.unacked.get()));
        if self.sq.retries_left == 0 {
            self.exhausted(hw, io);
        } else {
            self.sq.gap_known = None;
            self.try_again(io);
        }
        self.serve(hw, io);
    }
}
