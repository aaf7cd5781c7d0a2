//! How work requests end: completions, errors, flushes, vanishing (IBA 10.3.1, 10.8.5).

use super::Qp;
use crate::hca::{Cqe, Hardware, Io};
use crate::log::Kind;
use weft_verbs::{AsyncEvent, Done, Nanos, QpState, SendFlags, WcError};

impl Qp {
    /// Completes the send request at the head of its queue.
    pub(in crate::hca) fn complete_send(
        &mut self,
        outcome: std::result::Result<Done, WcError>,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) {
        let Some(wqe) = self.sq.pop() else { return };
        hw.memory.release(&wqe.data, io.brought);
        if let Some(buffer) = wqe.inline {
            io.buffers.give_back(buffer);
        }
        self.sq.unsignaled += 1;
        let signaled = self.new.sq_sig_all || wqe.flags.contains(SendFlags::SIGNALED) || outcome.is_err();
        if !signaled {
            hw.outstanding -= 1;
            return;
        }
        let frees = std::mem::take(&mut self.sq.unsignaled);
        let cqe = Cqe { wr_id: wqe.wr_id, qp: self.num, owner: self.key, frees, result: outcome };
        hw.complete(self.new.send_cq, cqe, false, io);
        // One adapter's writes into its host are in order: what the other end of a connection to itself wrote is before this.
        if let Some(peer) = self.peer.filter(|peer| peer.hca == hw.id) {
            hw.late.reveal(peer.qp);
        }
    }

    /// Completes the receive request at the head of its queue.
    pub(in crate::hca) fn complete_recv(
        &mut self,
        outcome: std::result::Result<Done, WcError>,
        solicited: bool,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) {
        let Some(wqe) = self.rq.queue.pop_front() else { return };
        hw.memory.release(&wqe.data, io.brought);
        let cqe = Cqe { wr_id: wqe.wr_id, qp: self.num, owner: self.key, frees: 0, result: outcome };
        hw.complete(self.new.recv_cq, cqe, solicited, io);
    }

    /// Raises the event that the send queue has drained, if that was asked for.
    pub(in crate::hca) fn note_drained(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        if self.state == QpState::Sqd && self.sq.notify_drained && !self.sq.is_busy() {
            self.sq.notify_drained = false;
            hw.completions.raise(hw.node, self.ctx, AsyncEvent::SqDrained(self.num), io);
        }
    }

    /// The send request at the head of the queue failed: it says why, and everything else is flushed.
    pub(in crate::hca) fn fail(&mut self, why: WcError, hw: &mut Hardware, io: &mut Io<'_>) {
        self.complete_send(Err(why), hw, io);
        self.enter_error(hw, io);
    }

    /// Moves it to the error state.
    pub fn enter_error(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        let from = std::mem::replace(&mut self.state, QpState::Err);
        if from != QpState::Err {
            io.log.line(io.now, hw.node, Kind::State, format_args!("{} {from} -> ERR", self.num));
        }
        self.deadline = Nanos::MAX;
        self.service_at = Nanos::MAX;
        self.sq.stop();
        self.rq.stop();
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.failed(hw.id, self.key);
        }
        self.flush(hw, io);
        if from != QpState::Err {
            self.note_last_receive(hw, io);
        }
    }

    /// Flushes both queues, each in order (IBA 10.3.1.7).
    pub(in crate::hca) fn flush(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.flush_sends(hw, io);
        while !self.rq.queue.is_empty() {
            self.complete_recv(Err(WcError::Flush), false, hw, io);
        }
    }

    /// Flushes the send queue.
    pub(in crate::hca) fn flush_sends(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while !self.sq.queue.is_empty() {
            self.complete_send(Err(WcError::Flush), hw, io);
        }
    }

    /// Everything posted, and every completion not yet polled, vanishes.
    pub(in crate::hca) fn vanish(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while let Some(wqe) = self.sq.pop() {
            hw.memory.release(&wqe.data, io.brought);
            if let Some(buffer) = wqe.inline {
                io.buffers.give_back(buffer);
            }
            hw.outstanding -= 1;
        }
        while let Some(wqe) = self.rq.queue.pop_front() {
            hw.memory.release(&wqe.data, io.brought);
            hw.outstanding -= 1;
        }
        hw.late.reveal(self.num);
        hw.completions.forget(self.new.send_cq, self.key);
        hw.completions.forget(self.new.recv_cq, self.key);
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.ended(hw.id, self.key);
        }
    }

    pub(in crate::hca) fn reset(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.vanish(hw, io);
        let (timer_set, service_set, flow, flows) = (self.timer_set, self.service_set, self.flow, self.flows);
        // What is the caller's stays as it is.
        *self = Qp { timer_set, service_set, flow, flows, ..Qp::new(self.key, self.num, self.ctx, self.new) };
    }
}
