//! The requester: segmentation, outstanding requests, answers, retries (IBA 9.7.2 to 9.7.5, 9.9.2).

pub(crate) mod canonical;
mod query;
mod responses;

use super::packet::{Body, Data, Part, Reth, packets_of};
use super::qp::{Outgoing, Qp};
use super::wqe::{Atomic, Op, SendWqe};
use super::{Hardware, Io};
use crate::fault;
use crate::in_place::clone_in_place;
use std::collections::VecDeque;
use weft_verbs::{AckTimeout, Nanos, Psn, QpState, SendFlags, ToRts, WcError, WcOp};

/// Packets that may be unacknowledged before the requester waits: enough for any path's delay, few enough that
/// a long message does not fill the fabric's memory.
const WINDOW: i32 = 64;

/// An acknowledgement is asked for at least once in so many packets.
const ACK_EVERY: u32 = 16;

/// The send queue of a reliable connection.
///
/// Requests in `queue` are in four parts: begun and wholly sent, the one at `next` (of which `sent` packets are
/// out), begun earlier and to be sent again after a loss, and not begun.
#[derive(Debug, Default, Hash)]
pub(super) struct Requester {
    pub queue: VecDeque<SendWqe>,
    /// The request to send from, as an index into `queue`.
    next: usize,
    /// How many of its packets are sent. For a read: how many of its answers have arrived, when it is resumed.
    sent: u32,
    /// The next packet's number.
    psn: Psn,
    /// The oldest number that is neither acknowledged nor answered.
    unacked: Psn,
    /// The first number that was never sent.
    next_psn: Psn,
    /// Reads and atomics in flight.
    fetches: u32,
    /// Packets since an acknowledgement was asked for.
    unasked: u32,
    /// Slots in use: requests in `queue`, and completed ones whose completion, or a later one, was not polled.
    pub slots: u32,
    /// Completed requests whose slots the next completion will free.
    pub unsignaled: u32,
    /// Raise the event when drained.
    pub notify_drained: bool,
    max_fetches: u32,
    /// How long the timer runs; `MAX` is for ever.
    timeout: Nanos,
    /// By how much it stretches a nominal time-out, in percent.
    stretch: u64,
    retries: u8,
    retries_left: u8,
    rnr_retries: u8,
    rnr_left: u8,
    /// Waits for the time that a receiver-not-ready answer asked for.
    rnr_wait: bool,
    /// Answers below this number belong to requests that were sent before the last retry: a gap among them is
    /// no news.
    gap_known: Option<Psn>,
}

clone_in_place! { Requester { queue, next, sent, psn, unacked, next_psn, fetches, unasked, slots, unsignaled, notify_drained, max_fetches, timeout, stretch, retries, retries_left, rnr_retries, rnr_left, rnr_wait, gap_known } }

impl Requester {
    pub fn start(&mut self, rts: &ToRts, stretch: u64) {
        (self.psn, self.unacked, self.next_psn) = (rts.sq_psn, rts.sq_psn, rts.sq_psn);
        self.max_fetches = u32::from(rts.max_rd_atomic);
        (self.retries, self.stretch) = (rts.retry.count(), stretch);
        self.begin_path(rts.timeout);
        (self.rnr_retries, self.rnr_left) = (rts.rnr_retry.count(), rts.rnr_retry.count());
    }

    /// A path is taken into use, with all retries.
    pub fn begin_path(&mut self, timeout: AckTimeout) {
        self.timeout = timeout.span().map_or(Nanos::MAX, |span| span * self.stretch / 100);
        self.retries_left = self.retries;
    }

    /// Whether a request is queued that is not wholly sent.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.next < self.queue.len()
    }

    pub fn stop(&mut self) {
        self.rnr_wait = false;
        self.notify_drained = false;
    }

    /// Whether requests are in flight or half sent.
    pub fn is_busy(&self) -> bool {
        self.queue.front().is_some_and(|wqe| wqe.begun)
    }

    /// Takes the oldest request out.
    pub fn pop(&mut self) -> Option<SendWqe> {
        let wqe = self.queue.pop_front()?;
        if self.queue.is_empty() {
            // Begins again at the front of its memory, the part that the caches hold.
            self.queue.clear();
        }
        match self.next.checked_sub(1) {
            Some(next) => self.next = next,
            // It was acknowledged although it was about to be sent again.
            None => self.sent = 0,
        }
        Some(wqe)
    }

    /// The number of the next datagram, which nobody compares with anything.
    pub fn next_number(&mut self) -> Psn {
        let psn = self.psn;
        self.psn = psn.plus(1);
        psn
    }

    /// Everything from the oldest unanswered packet on will be sent again.
    fn go_back(&mut self) {
        self.next = 0;
        self.psn = self.unacked;
        self.fetches = 0;
        self.sent = match self.queue.front() {
            Some(wqe) if wqe.begun => self.unacked.since(wqe.psn).max(0) as u32,
            _ => 0,
        };
    }

    /// Acknowledgements overtook what was to be sent again: goes on behind them.
    fn catch_up(&mut self) {
        if self.unacked.since(self.psn) > 0 {
            self.go_back();
        }
    }

    /// Whether a packet number was sent and not yet acknowledged.
    fn is_open(&self, psn: Psn) -> bool {
        psn.since(self.unacked) >= 0 && psn.since(self.next_psn) < 0
    }

    /// Whether the request behind the current one will follow it at once, so that an acknowledgement can be
    /// left to that one.
    fn another_follows(&self, now: Nanos, state: QpState) -> bool {
        self.queue.get(self.next + 1).is_some_and(|wqe| {
            wqe.posted_at <= now
                && wqe.wrong.is_none()
                && !wqe.op.is_fetch()
                && !wqe.flags.contains(SendFlags::FENCE)
                && state == QpState::Rts
        })
    }
}

/// Why the requester cannot send now.
enum Hold {
    /// Something will come in: an answer, a timer, a post.
    Wait,
    /// The request at `next` becomes visible to the adapter then.
    Until(Nanos),
    /// The oldest request fails.
    Fail(WcError),
}

impl Qp {
    /// Sends requests until something holds them up or the turn is over.
    pub(super) fn send_requests(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return;
        }
        loop {
            if !self.sq.has_more() {
                return;
            }
            match self.may_send(io.now) {
                Ok(()) if self.budget == 0 => {
                    self.service_at = io.now;
                    return;
                }
                Ok(()) => self.send_request_packet(hw, io),
                Err(Hold::Wait) => return,
                Err(Hold::Until(at)) => {
                    self.service_at = at;
                    return;
                }
                Err(Hold::Fail(why)) => return self.fail(why, hw, io),
            }
        }
    }

    /// Whether the next packet of the request at `next` may leave. Begins the request if it is new.
    fn may_send(&mut self, now: Nanos) -> Result<(), Hold> {
        let sq = &mut self.sq;
        if sq.rnr_wait {
            return Err(Hold::Wait);
        }
        let wqe = &mut sq.queue[sq.next];
        if !wqe.begun {
            if wqe.posted_at > now {
                return Err(Hold::Until(wqe.posted_at));
            }
            if self.state == QpState::Sqd {
                return Err(Hold::Wait);
            }
            let no_room = wqe.op.is_fetch() && sq.max_fetches == 0;
            if let Some(why) = wqe.wrong.or(no_room.then_some(WcError::LocQpOp)) {
                // It fails in its turn: those before it come to their own end first.
                return Err(if sq.next == 0 { Hold::Fail(why) } else { Hold::Wait });
            }
        }
        if sq.sent == 0 || wqe.op.is_fetch() {
            let fenced = wqe.flags.contains(SendFlags::FENCE) && sq.fetches > 0;
            if fenced || (wqe.op.is_fetch() && sq.fetches >= sq.max_fetches) {
                return Err(Hold::Wait);
            }
        }
        if sq.psn.since(sq.unacked) >= WINDOW {
            return Err(Hold::Wait);
        }
        if !wqe.begun {
            wqe.begun = true;
            wqe.psn = sq.psn;
            wqe.packets = match wqe.op {
                Op::Atomic { .. } => 1,
                _ => packets_of(wqe.len, self.mtu),
            };
        }
        Ok(())
    }

    #[inline]
    fn send_request_packet(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        let mtu = self.mtu;
        let sq = &self.sq;
        let wqe = &sq.queue[sq.next];
        let (index, psn) = (sq.sent, sq.psn);
        let last = wqe.op.is_fetch() || index + 1 == wqe.packets;
        let again = psn.since(sq.next_psn) < 0;
        let signaled = self.new.sq_sig_all || wqe.flags.contains(SendFlags::SIGNALED);
        // The window's last packet asks too, or nothing would open it again.
        let closes = psn.plus(1).since(sq.unacked) >= WINDOW;
        let ack_req = closes
            || sq.unasked + 1 >= ACK_EVERY
            || (last && (signaled || again || !sq.another_follows(io.now, self.state)));
        let body = request_body(wqe, index, mtu);
        let data = if wqe.op.is_fetch() { Data::NONE } else { payload(self.num, wqe, index, mtu, hw, io) };
        let solicited = last && wqe.flags.contains(SendFlags::SOLICITED);
        let op = op_class(&wqe.op);
        let takes = if wqe.op.is_fetch() { wqe.packets - index } else { 1 };

        let sq = &mut self.sq;
        sq.unasked = if ack_req { 0 } else { sq.unasked + 1 };
        if again {
            io.stats.retransmitted += 1;
        }
        if sq.queue[sq.next].op.is_fetch() {
            sq.fetches += 1;
        }
        sq.psn = sq.psn.plus(takes);
        if sq.psn.since(sq.next_psn) > 0 {
            sq.next_psn = sq.psn;
        }
        if last {
            (sq.next, sq.sent) = (sq.next + 1, 0);
        } else {
            sq.sent += 1;
        }
        if self.deadline == Nanos::MAX {
            self.deadline = io.now + self.sq.timeout;
        }
        self.emit(Outgoing { psn, ack_req, solicited, body, data, op }, io);
    }
}

fn request_body(wqe: &SendWqe, index: u32, mtu: u32) -> Body {
    let part = Part::of(index, wqe.packets);
    let skip = u64::from(index) * u64::from(mtu);
    let rest = wqe.len.saturating_sub(index * mtu);
    match wqe.op {
        // A connection's queue takes no datagram: it is refused when it is posted.
        Op::Send { imm } | Op::Datagram { imm, .. } => Body::Send { part, imm: imm.filter(|_| part.ends()) },
        Op::Write { to, imm } => Body::Write {
            part,
            to: part.begins().then_some(Reth { addr: to.addr, rkey: to.rkey, len: wqe.len }),
            imm: imm.filter(|_| part.ends()),
        },
        // A read that was answered in part asks for the rest only (IBA 9.7.5.1.2).
        Op::Read { from } => Body::ReadRequest {
            from: Reth { addr: from.addr.wrapping_add(skip), rkey: from.rkey, len: rest },
        },
        Op::Atomic { at, atomic } => Body::AtomicRequest { addr: at.addr, rkey: at.rkey, atomic },
    }
}

/// A packet's part of a request's data, read from memory now: a retransmission reads it again.
#[inline(always)]
pub(super) fn payload(
    qp: weft_verbs::QpNum,
    wqe: &SendWqe,
    index: u32,
    mtu: u32,
    hw: &Hardware,
    io: &mut Io<'_>,
) -> Data {
    let from = index * mtu;
    let len = (wqe.len - from).min(mtu) as usize;
    if let Some(id) = wqe.inline {
        return inline_payload(id, from as usize, len, io);
    }
    let touch = &mut Qp::touch(io.now, io.access);
    Data::new(len, io.buffers, |out| hw.gather((qp, wqe.wr_id), &wqe.data, from, out, touch))
}

fn inline_payload(id: u32, from: usize, len: usize, io: &mut Io<'_>) -> Data {
    let mut copy = [0; super::MAX_INLINE as usize];
    copy[..len].copy_from_slice(&io.buffers.get(id)[from..][..len]);
    Data::new(len, io.buffers, |out| out.copy_from_slice(&copy[..len]))
}

fn op_class(op: &Op) -> fault::Op {
    match op {
        Op::Send { .. } | Op::Datagram { .. } => fault::Op::Send,
        Op::Write { .. } => fault::Op::Write,
        Op::Read { .. } => fault::Op::Read,
        Op::Atomic { atomic, .. } => atomic_class(atomic),
    }
}

pub(super) fn atomic_class(atomic: &Atomic) -> fault::Op {
    match atomic {
        Atomic::CompareSwap { .. } => fault::Op::CompareSwap,
        Atomic::FetchAdd { .. } => fault::Op::FetchAdd,
    }
}

pub(super) fn wc_op(op: &Op) -> WcOp {
    match op {
        Op::Send { .. } | Op::Datagram { .. } => WcOp::Send,
        Op::Write { .. } => WcOp::Write,
        Op::Read { .. } => WcOp::Read,
        Op::Atomic { atomic, .. } => atomic_op(atomic),
    }
}

pub(super) fn atomic_op(atomic: &Atomic) -> WcOp {
    match atomic {
        Atomic::CompareSwap { .. } => WcOp::CompareSwap,
        Atomic::FetchAdd { .. } => WcOp::FetchAdd,
    }
}
