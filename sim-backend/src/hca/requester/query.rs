//! What an untimed world asks of a queue pair: what it waits for, and what its next step depends on.

use crate::explore::state_hash::StateHash;
use crate::hca::packet::{Body, Packet, packets_of};
use crate::hca::qp::Qp;
use crate::hca::{Buffers, Hardware, Io, Key, Route};
use std::hash::Hash;
use weft_verbs::{Nanos, Psn, QpState, Retries};

impl Qp {
    /// All that decides what it does next.
    pub(crate) fn digest(&self, buffers: &Buffers, hash: &mut StateHash) {
        (self.num, self.state(), self.new.caps.max_inline, self.peer(), self.route()).hash(hash);
        self.digest_attributes(hash);
        (&self.sq, &self.rq, self.deadline != Nanos::MAX).hash(hash);
        for wqe in &self.sq.queue {
            wqe.inline.map(|id| buffers.get(id)).hash(hash);
        }
    }

    /// Whether the requester waits until its receiver is ready.
    pub fn is_in_rnr_wait(&self) -> bool {
        self.sq.rnr_wait
    }

    /// Whether it asks a receiver that is not ready without end.
    pub fn asks_for_ever(&self) -> bool {
        self.sq.rnr_retries == Retries::FOREVER.count()
    }

    /// How often it may still send again.
    pub fn retries_left(&self) -> u8 {
        self.sq.retries_left
    }

    /// The oldest number that is neither acknowledged nor answered.
    pub fn unacked(&self) -> Psn {
        self.sq.unacked
    }

    /// The newest number that was sent; the oldest that is open if none is newer.
    pub fn newest(&self) -> Psn {
        let sent = self.sq.next_psn.since(self.sq.unacked).max(1) as u32;
        self.sq.unacked.plus(sent - 1)
    }

    /// Whether the requester waits for an answer to a packet.
    pub fn waits_for(&self, psn: Psn) -> bool {
        self.sq.is_open(psn) && self.sq.is_busy() && matches!(self.state(), QpState::Rts | QpState::Sqd)
    }

    /// The last packet that answers one of this requester, or that is an answer: to a read there are several, and the requester waits
    /// for the last of them when it has the first.
    pub fn last_answer_to(&self, packet: &Packet) -> Psn {
        match packet.body {
            Body::ReadRequest { from } => packet.psn.plus(packets_of(from.len, self.mtu) - 1),
            _ => packet.psn,
        }
    }

    /// Whether an answer would be dropped without a word: one before it is missing, and has been asked for again already.
    pub fn drops_answer_unsaid(&self, psn: Psn) -> bool {
        let sq = &self.sq;
        let is_behind_a_fetch =
            || sq.queue.iter().any(|wqe| wqe.begun && wqe.op.is_fetch() && wqe.psn.since(psn) < 0);
        sq.gap_known.is_some() && sq.is_open(psn) && psn != sq.unacked && is_behind_a_fetch()
    }

    /// Whether answers decide what it sends: something is held back, or the window is half full.
    pub fn is_held(&self) -> bool {
        self.sq.next < self.sq.queue.len() || self.sq.psn.since(self.sq.unacked) >= super::WINDOW / 2
    }

    /// Whether a request that comes by this way would be looked at.
    pub fn accepts(&self, way: Route) -> bool {
        let accepting = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd);
        accepting && !self.is_closed() && self.is_reached_by(way)
    }

    /// The same of one that comes by its own path.
    pub fn accepts_own_path(&self) -> bool {
        self.accepts(self.route().back())
    }

    /// Requests in its send queue.
    pub fn sends_queued(&self) -> u32 {
        self.sq.queue.len() as u32
    }

    /// Receive requests in its own queue.
    pub fn receives_queued(&self) -> u32 {
        self.rq.queue.len() as u32
    }

    /// How many its own queue can hold.
    pub fn receive_depth(&self) -> u32 {
        self.new.caps.max_recv_wr
    }

    /// The shared receive queue that it draws from.
    pub fn shared(&self) -> Option<Key> {
        self.new.srq
    }

    /// Whether a message that needs a receive request would find one.
    pub fn has_receives(&self, hw: &Hardware) -> bool {
        self.next_room(hw).is_some()
    }

    /// No answer came, however often it asked.
    pub fn run_out(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.deadline = Nanos::MAX;
        self.exhausted(hw, io);
        self.serve(hw, io);
    }
}
