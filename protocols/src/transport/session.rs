//! A session: messages between two nodes, in order and exactly once, however often their connection breaks.
//!
//! A state machine without I/O. What the sender keeps and what the receiver counts outlive the connection;
//! only credits belong to one generation of it.
//!
//! - **Retention.** A message is kept until the *peer's session* has acknowledged it. A completion on a
//!   reliable connection is not enough: it says that the peer's adapter has the message (IBA 9.7.5.1.1), and
//!   the peer may find its queue pair in error before it looks.
//! - **Resumption.** A new generation begins with each side's receive position. The sender drops what lies
//!   before it and repeats what lies behind it.
//! - **Credits.** The receiver grants as many frames as it has posted buffers, as a running total in every
//!   frame. The last [`RESERVE`] credits are kept for frames that return credits; a side that owes half its
//!   buffers uses them. A side can have sent its last control frame only after it received as many frames as
//!   the other side has credits in all, so the two cannot both be without credit and owing: there is no
//!   deadlock, and no receiver is ever not ready.
//! - **Slots.** A guest's credits are slots of its server's shared receive queue ([`guests`](super::guests)), and come and go by load.
//!   Its data leave one credit, with which it returns half of its server's: that one is answered by a grant at once.

use std::collections::VecDeque;

/// Credits that only control frames may use.
const RESERVE: u32 = 2;

/// The fewest buffers with which data can flow beside the reserve.
pub(super) const MIN_BUFFERS: u32 = 8;

/// What precedes the content of every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// The message's number in its session, from 1; 0 for a control frame, which has no content.
    pub(super) seq: u64,
    /// The last message received in order.
    pub(super) ack: u64,
    /// How many frames the receiver may have been sent in this generation in all; wraps.
    pub(super) grant: u32,
    /// Of a guest: messages that wait for a slot, 255 for more. Of its server: slots that it may keep when it has nothing to send; 0 for
    /// nothing said.
    pub(super) more: u8,
    /// Of a guest: slots that it has given back in this generation in all; wraps.
    pub(super) back: u16,
}

/// Whose end of a session it is, and what it knows of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    /// A node's among named peers.
    Peer,
    /// A guest's: slots that it has given back in this generation, and how many it may keep.
    Guest { back: u16, keep: u32 },
    /// A server's toward a guest: frames and returns that came in this generation, what of them were returns, how many slots the
    /// guest may keep, and whether it has more to send than it may.
    Host { came: u32, back: u16, keep: u32, hungry: bool },
}

/// What a received frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The next message: deliver it.
    Deliver,
    /// A message that was received before: drop it.
    Duplicate,
    /// A control frame: nothing to deliver.
    Control,
    /// The peer breaks the protocol: a gap, or an acknowledgement of what was never sent. The connection is
    /// of no more use.
    Violation,
}

impl End {
    /// The same in a new generation.
    fn anew(self) -> End {
        match self {
            End::Peer => End::Peer,
            End::Guest { .. } => End::Guest { back: 0, keep: 0 },
            End::Host { .. } => End::Host { came: 0, back: 0, keep: 0, hungry: false },
        }
    }
}

/// One node's end of a session.
#[derive(Clone, Debug, Hash)]
pub(super) struct Session<M> {
    up: bool,
    /// Messages that the peer has not acknowledged, the first numbered `first`.
    kept: VecDeque<M>,
    first: u64,
    /// The next message to put on this generation.
    next: u64,
    /// Frames sent on this generation, and the total that the peer has granted; both wrap.
    sent: u32,
    limit: u32,
    /// The last message received in order.
    received: u64,
    /// What the peer was last told of `received`.
    ack_told: u64,
    /// Buffers posted ever on this generation, wrapping: what the peer may be told; and what it was told.
    granted: u32,
    grant_told: u32,
    /// Buffers posted at a time.
    buffers: u32,
    end: End,
}

impl<M> Session<M> {
    /// A new session, not connected. `buffers` is how many receive buffers this side posts.
    pub(super) fn new(buffers: u32) -> Session<M> {
        debug_assert!(buffers >= MIN_BUFFERS);
        Session::of(buffers, End::Peer)
    }

    /// The same at a guest.
    pub(super) fn of_guest(buffers: u32) -> Session<M> {
        Session::of(buffers, End::Guest { back: 0, keep: 0 })
    }

    /// The same with a guest, which begins with so many slots.
    pub(super) fn with_guest(slots: u32) -> Session<M> {
        Session::of(slots, End::Host { came: 0, back: 0, keep: 0, hungry: false })
    }

    fn of(buffers: u32, end: End) -> Session<M> {
        Session {
            up: false,
            kept: VecDeque::new(),
            first: 1,
            next: 1,
            sent: 0,
            limit: 0,
            received: 0,
            ack_told: 0,
            granted: buffers,
            grant_told: buffers,
            buffers,
            end,
        }
    }

    /// Keeps a message for sending.
    pub(super) fn push(&mut self, message: M) {
        self.kept.push_back(message);
    }

    /// The message that waits to be put on the connection next, to be moved to other memory.
    pub(super) fn unsent_mut(&mut self) -> Option<&mut M> {
        self.kept.get_mut((self.next - self.first) as usize)
    }

    /// Messages kept: not sent yet, or not acknowledged.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// The number of the first message kept, or of the next one to come.
    pub(super) fn first_kept(&self) -> u64 {
        self.first
    }

    /// The last message received in order: what this side reports when it reconnects.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Frames that the peer has used credits for and not got back.
    pub(super) fn owed(&self) -> u32 {
        self.granted.wrapping_sub(self.grant_told)
    }

    /// Whether received messages wait to be acknowledged.
    pub(super) fn owes_ack(&self) -> bool {
        self.received != self.ack_told
    }

    /// Whether a message waits to be put on the connection, for whatever reason.
    pub(super) fn has_unsent(&self) -> bool {
        self.next < self.first + self.kept.len() as u64
    }

    /// The message that waits to be put on the connection next.
    pub(super) fn unsent(&self) -> Option<&M> {
        self.kept.get((self.next - self.first) as usize)
    }

    /// How many messages were sent beyond a position: those to be repeated from there.
    pub(super) fn sent_beyond(&self, position: u64) -> u64 {
        (self.next - 1).saturating_sub(position)
    }

    fn credits(&self) -> u32 {
        self.limit.wrapping_sub(self.sent)
    }

    /// Credits that only control frames may use.
    fn reserve(&self) -> u32 {
        match self.end {
            End::Guest { .. } => 1,
            _ => RESERVE,
        }
    }

    /// The header of the next frame, which tells the peer all that it is owed.
    fn frame(&mut self, seq: u64) -> Header {
        self.sent = self.sent.wrapping_add(1);
        self.ack_told = self.received;
        self.grant_told = self.granted;
        let (more, back) = match self.end {
            End::Peer => (0, 0),
            End::Guest { back, .. } => (self.first + self.kept.len() as u64 - self.next, back),
            End::Host { keep, .. } => (u64::from(keep), 0),
        };
        let more = u8::try_from(more).unwrap_or(u8::MAX);
        Header { seq, ack: self.received, grant: self.granted, more, back }
    }

    /// Takes the next message to send now, if connection and credits allow one.
    pub(super) fn next_message(&mut self) -> Option<(Header, &M)> {
        if !self.up || self.credits() <= self.reserve() || !self.has_unsent() {
            return None;
        }
        let seq = self.next;
        self.next += 1;
        let header = self.frame(seq);
        Some((header, &self.kept[(seq - self.first) as usize]))
    }

    /// A control frame to send now, if half of the buffers' credits are owed.
    pub(super) fn credit_return(&mut self) -> Option<Header> {
        if !self.up || !self.owes_much() || self.credits() == 0 {
            return None;
        }
        Some(self.frame(0))
    }

    /// Whether there may be a frame to send, as far as connection and credits allow: else a look for one is in vain.
    pub(super) fn has_to_say(&self) -> bool {
        self.has_unsent() || self.owes_much() || matches!(self.end, End::Guest { .. })
    }

    /// Whether the peer is to be told what it is owed although nothing else is to be said: half of its credits; a guest that may send
    /// nothing, whatever it is owed.
    pub(super) fn owes_much(&self) -> bool {
        match self.end {
            End::Host { came, hungry, .. } => {
                let has = self.grant_told.wrapping_sub(came);
                self.owed() > 0 && (has <= 1 || hungry && self.owed() >= has)
            }
            _ => self.owed() >= self.buffers / 2,
        }
    }

    /// A guest's control frame that gives back what it may not keep, if it has nothing to send and its server has all of its messages.
    pub(super) fn give_back(&mut self) -> Option<Header> {
        let (up, credits, none_kept) = (self.up, self.credits(), self.kept.is_empty());
        let End::Guest { back, keep } = &mut self.end else { return None };
        let more = credits.saturating_sub(*keep).min(u32::from(u16::MAX));
        if !up || *keep < 2 || !none_kept || more == 0 {
            return None;
        }
        *back = back.wrapping_add(more as u16);
        self.sent = self.sent.wrapping_add(more);
        Some(self.frame(0))
    }

    /// A control frame by which a guest is heard of, if it may send one.
    pub(super) fn sign_of_life(&mut self) -> Option<Header> {
        if !self.up || self.credits() <= self.reserve() {
            return None;
        }
        Some(self.frame(0))
    }

    /// How many slots a guest of this server may keep, from the next frame on.
    pub(super) fn may_keep(&mut self, slots: u32) {
        if let End::Host { keep, .. } = &mut self.end {
            *keep = slots.min(u32::from(u8::MAX));
        }
    }

    /// A guest of this server gets more slots.
    pub(super) fn grant(&mut self, slots: u32) {
        self.granted = self.granted.wrapping_add(slots);
    }

    /// A frame of a guest came: how many slots it gives back with it.
    pub(super) fn came(&mut self, header: &Header) -> u32 {
        let End::Host { came, back, hungry, .. } = &mut self.end else { return 0 };
        let more = header.back.wrapping_sub(*back);
        *back = header.back;
        *hungry = header.more > 0;
        *came = came.wrapping_add(1 + u32::from(more));
        u32::from(more)
    }

    /// A control frame for an acknowledgement that nothing else has carried in time. Never with reserved
    /// credits: when there are no others, a credit return is due soon and carries it.
    pub(super) fn late_ack(&mut self) -> Option<Header> {
        if !self.up || !self.owes_ack() || self.credits() <= self.reserve() {
            return None;
        }
        Some(self.frame(0))
    }

    /// A frame arrived. Drops what the peer acknowledges.
    pub(super) fn on_frame(&mut self, header: Header) -> Received {
        if header.ack >= self.next {
            return Received::Violation;
        }
        self.forget(header.ack);
        // Of a generation that is gone, the grant means nothing; the next one begins with its own.
        self.limit = header.grant;
        if let End::Guest { keep, .. } = &mut self.end {
            *keep = u32::from(header.more);
        }
        match header.seq {
            0 => Received::Control,
            seq if seq <= self.received => Received::Duplicate,
            seq if seq == self.received + 1 => {
                self.received = seq;
                Received::Deliver
            }
            _ => Received::Violation,
        }
    }

    /// Drops messages up to the one acknowledged.
    fn forget(&mut self, ack: u64) {
        while self.first <= ack && self.kept.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// A receive buffer is posted again.
    pub(super) fn reposted(&mut self) {
        self.granted = self.granted.wrapping_add(1);
    }

    /// The connection broke. What was sent and not acknowledged waits for the next one.
    pub(super) fn disconnected(&mut self) {
        self.up = false;
    }

    /// A new generation stands: the peer's receive position and its number of posted buffers. Says whether
    /// the position is possible.
    pub(super) fn connected(&mut self, peer_received: u64, peer_buffers: u32) -> bool {
        if peer_received + 1 < self.first || peer_received >= self.first + self.kept.len() as u64 {
            return false;
        }
        self.forget(peer_received);
        self.up = true;
        self.next = self.first;
        self.sent = 0;
        self.limit = peer_buffers;
        self.granted = self.buffers;
        self.grant_told = self.buffers;
        self.end = self.end.anew();
        // The handshake told the peer our position.
        self.ack_told = self.received;
        true
    }

    /// Begins anew with a peer that has forgotten the session. Gives back what it had not acknowledged.
    pub(super) fn reset(&mut self) -> VecDeque<M> {
        let lost = std::mem::take(&mut self.kept);
        *self = Session::of(self.buffers, self.end.anew());
        lost
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
