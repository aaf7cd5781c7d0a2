//! ZCopy: bytes go from one user's buffer into the other's by one-sided operations.
//!
//! A read or write whose completion was lost counts as unknown. A read changes nothing, so it is done again: on a later connection
//! no answer to the first one can arrive. A write may be executed late, so it is done again only once both ends have fenced the
//! connection that carried it; then it writes the same bytes to the same place, which is the peer's user's only after the
//! completion is told.
//!
//! Keys are those of the first rail's adapter. While the connection stands on another one, nothing is offered or written there:
//! bytes go through private buffers. What was offered before is cancelled by its sender as soon as the connection stands,
//! and what was not read of it goes the same way. Only behind the end of a stream nothing is cancelled: that is read by messages.

use super::endpoint::{Failure, Outgoing};
use super::service::{Sdp, Shared};
use super::socket::{Came, Chunk, Segment, Socket};
use super::turns::Turn;
use crate::rt::BufferGuard;
use crate::rt::sync::OneshotSender;
use crate::transport::{Lost, NotExecuted, OpError, Rank};
use std::rc::Rc;
use weft_verbs::{MemoryRegion, RemoteSlice, SendOp, Verbs, WcError};

/// The most bytes that are brought at a time for a user who has no buffer for them.
const FETCH: u32 = 256 * 1024;

/// The most bytes that are written or read by one operation, and by all that are under way with a peer. What both nodes say meanwhile waits
/// behind them: a whole buffer as one of them would keep each of them silent for so long that the other one takes the peer for dead.
const PART: u32 = 8 * 1024 * 1024;

/// The same where probes are to find dead links: each has to be answered within its interval.
const PROBED_PART: u32 = 1024 * 1024;

/// What a segment waits for.
enum Step<V: Verbs> {
    /// Something of the peer.
    Wait,
    /// The transport's room.
    Room,
    /// A control message.
    Send(Outgoing),
    /// A write into the peer's user's buffer, from a place of this region.
    Write(V::Mr, u32, RemoteSlice),
    /// A data message with so many bytes from a place of this region.
    Data(V::Mr, u32, u32),
}

impl<V: Verbs> Sdp<V> {
    /// Sends owned buffers, as far as that goes now.
    pub(super) fn pump(&self, socket: &Rc<Socket<V>>) {
        loop {
            match self.step(socket) {
                Step::Wait => return,
                Step::Room => return self.block(socket),
                Step::Send(outgoing) => self.send_control(socket, outgoing),
                Step::Write(mr, at, to) => {
                    self.begins(socket);
                    let (sdp, socket) = (self.clone(), Rc::clone(socket));
                    drop(self.shared.rt.spawn(sdp.write(socket, mr, at, to)));
                    return;
                }
                Step::Data(mr, at, len) => {
                    let mut bytes = vec![0; len as usize];
                    // The range is the segment's own.
                    if mr.read(at as usize, &mut bytes).is_err() {
                        return self.abort(socket);
                    }
                    // Whether it may be sent was asked before it got its place.
                    let sent = self.send_data(socket, &bytes.as_slice(), len as usize);
                    debug_assert_eq!(sent, len as usize);
                }
            }
        }
    }

    /// What to do next for the first buffer that has not its place in the stream in whole. It waits for room only if it waits for nothing
    /// else: in line it would have its turn before streams that can use it.
    fn step(&self, socket: &Rc<Socket<V>>) -> Step<V> {
        let mut sending = socket.sending.borrow_mut();
        let mut end = socket.end.borrow_mut();
        let Some(segment) = sending.iter_mut().find(|segment| segment.placed < segment.len) else {
            // What is being recalled has its place no longer than until the peer says what it has read.
            if socket.closing.get() && !end.is_recalling_offers() {
                end.shutdown();
            }
            return Step::Wait;
        };
        if self.is_suspended(socket.peer) {
            return Step::Wait;
        }
        let (at, left) = (segment.placed, segment.len - segment.placed);
        let threshold = socket.options.zcopy_threshold;
        let copies = threshold == 0 || segment.len <= threshold;
        if copies || !end.takes_adverts() || self.shared.mesh.carries(socket.peer) {
            if !end.may_write() {
                return Step::Wait;
            }
            if !self.has_room(socket) {
                return Step::Room;
            }
            let len = left.min(end.payload());
            (segment.placed, segment.end) = (at + len, end.sent() + u64::from(len));
            return Step::Data(segment.mr.clone(), at, len);
        }
        let sink = end.sink().and_then(|sink| sink.slice(0..left.min(sink.len)));
        if sink.is_none() && !end.may_offer() {
            return Step::Wait;
        }
        if !self.has_room(socket) {
            return Step::Room;
        }
        if let Some(sink) = sink {
            end.begin_write();
            return Step::Write(segment.mr.clone(), at, sink);
        }
        let Ok(source) = segment.mr.remote(at as usize..segment.len as usize) else { return Step::Wait };
        let outgoing = end.offer(source);
        (segment.placed, segment.end) = (segment.len, end.sent());
        segment.exposed = Some(self.shared.mesh.wants(socket.peer));
        self.shared.stats.borrow_mut().zcopy_sent += u64::from(left);
        Step::Send(outgoing)
    }

    /// What one operation moves of a peer's range, so many bytes of which were moved already: once it is its turn among those of all
    /// streams with the peer.
    async fn part(&self, peer: Rank, range: RemoteSlice, moved: u32) -> Option<(RemoteSlice, Turn)> {
        let most = if self.shared.options.probe.is_some() { PROBED_PART } else { PART };
        let len = (range.len - moved).min(most).min(self.shared.mesh.longest_operation());
        let (len, turns) = self.outbox(peer, |outbox| (outbox.piece.of(len), outbox.turns.clone()));
        let part = range.slice(moved..moved + len)?;
        Some((part, turns.turn(len, most).await))
    }

    /// Whether a part is not to be moved: the stream or the peer is no more.
    fn is_void(&self, socket: &Socket<V>) -> bool {
        socket.end.borrow().failure().is_some() || self.is_over(socket.peer)
    }

    /// A part has been moved.
    fn moved(&self, peer: Rank, part: RemoteSlice) {
        self.outbox(peer, |outbox| {
            outbox.moved += 1;
            outbox.piece.moved(part.len);
        });
    }

    /// Whether a part is to be moved again, whose operation failed since its connection did: on the next one, where it is shorter.
    fn is_repeated(&self, peer: Rank, part: RemoteSlice, error: OpError, tries: &mut u32) -> bool {
        let again = match error {
            // Its adapter was in trouble, or the key is none of its own.
            OpError::NotExecuted(NotExecuted::AtPeer(_)) => {
                *tries += 1;
                *tries < TRIES
            }
            OpError::NotExecuted(NotExecuted::Failed(status)) | OpError::Unknown(Lost::Failed(status)) => {
                matches!(status, WcError::Flush | WcError::RetryExc | WcError::RnrRetryExc)
            }
            // Carried by messages, it had no certain end at the peer either.
            OpError::Unknown(Lost::Destroyed | Lost::AtPeer(_)) => true,
            OpError::NotExecuted(_) | OpError::Unknown(Lost::Refused(_)) => false,
        };
        if again {
            self.shared.stats.borrow_mut().repeated += 1;
            self.outbox(peer, |outbox| outbox.piece.broke(part.len));
        }
        again
    }

    /// Writes into the peer's user's buffer, until that is certain. If the connection is to be moved meanwhile, it ends behind the part that is
    /// under way: a whole buffer may take longer than a move may.
    async fn write(self, socket: Rc<Socket<V>>, mr: V::Mr, at: u32, to: RemoteSlice) {
        let Shared { mesh, stats, .. } = &*self.shared;
        let (mut tries, mut written) = (0, 0);
        let done = loop {
            if written == to.len {
                break true;
            }
            let Some((part, turn)) = self.part(socket.peer, to, written).await else { break false };
            if written > 0 && self.is_suspended(socket.peer) {
                break true;
            }
            if self.is_void(&socket) {
                break false;
            }
            let guard = BufferGuard::Range { mr: mr.clone(), at: at + written, len: part.len };
            let list = [(SendOp::Write { to: part, imm: None }, guard)];
            match mesh.post_list_directly(socket.peer, list).await {
                Ok(_) => {
                    written += part.len;
                    self.moved(socket.peer, part);
                    continue;
                }
                // They go as data.
                Err(OpError::NotExecuted(NotExecuted::OtherRail(_))) => break false,
                Err(error) if self.is_repeated(socket.peer, part, error, &mut tries) => {}
                Err(error) => break self.refused(&socket, error),
            }
            drop(turn);
            // A copy of it that is late must not meet what the user does with the buffer after the next one.
            if mesh.resolve_outcomes(socket.peer).await.is_err() {
                break false;
            }
        };
        if done {
            let mut sending = socket.sending.borrow_mut();
            if let Some(segment) = sending.iter_mut().find(|segment| segment.placed < segment.len) {
                segment.placed += written;
            }
            stats.borrow_mut().zcopy_sent += u64::from(written);
        }
        socket.end.borrow_mut().end_write(if done { written } else { 0 });
        self.has_ended(socket.peer);
        socket.finish_recalled();
        self.flush(&socket);
        socket.writable.notify();
    }

    /// Whether the first of the peer's advertised ranges may be read now.
    pub(super) fn may_fetch(&self, socket: &Socket<V>) -> bool {
        let end = socket.end.borrow();
        let direct = !self.shared.mesh.carries(socket.peer) || end.has_ended();
        direct && !end.is_reading() && !self.is_suspended(socket.peer)
    }

    /// Brings the first bytes of the peer's advertised range here, if nobody does. Into `mr` if its user waits, who is told how
    /// many; otherwise, or if the user is gone, they wait to be read.
    pub(super) fn fetch(&self, socket: &Rc<Socket<V>>, into: Option<(V::Mr, OneshotSender<Option<Came>>)>) {
        let Some((at, source)) = socket.next_source().filter(|_| self.may_fetch(socket)) else { return };
        let (place, told) = match into {
            Some((mr, told)) => {
                let len = source.len.min(mr.len() as u32);
                (BufferGuard::Range { mr, at: 0, len }, Some(told))
            }
            None => match self.place(source.len) {
                Some(place) => (place, None),
                // They stay where they are until there is memory: who reads looks again then.
                None => return self.tries_later(socket),
            },
        };
        let Some(source) = source.slice(0..place.len()) else { return };
        socket.end.borrow_mut().set_reading(true);
        self.begins(socket);
        drop(self.shared.rt.spawn(self.clone().read(Rc::clone(socket), (at, source), place, told)));
    }

    /// Memory for so many bytes or fewer, to bring them here. Where none can be registered they come in small parts, by a block of what
    /// messages are sent from: one at a time, since those need it, too.
    fn place(&self, most: u32) -> Option<BufferGuard<V>> {
        let Shared { mesh, lent, .. } = &*self.shared;
        let len = most.min(FETCH);
        if let Ok(buffer) = self.buffer(len) {
            return Some(BufferGuard::Range { mr: buffer.mr, at: 0, len });
        }
        let block = if lent.get() { None } else { mesh.lend(len).ok() }?;
        lent.set(true);
        let len = len.min(block.len());
        Some(BufferGuard::Block { block, len })
    }

    /// Reads a range of the peer into a place here, or the first parts of it, as [`Sdp::write`] does.
    async fn read(
        self,
        socket: Rc<Socket<V>>,
        (at, from): (u64, RemoteSlice),
        place: BufferGuard<V>,
        told: Option<OneshotSender<Option<Came>>>,
    ) {
        let Shared { mesh, stats, lent, .. } = &*self.shared;
        let (mut tries, mut brought) = (0, 0);
        let done = loop {
            if brought == from.len {
                break true;
            }
            let Some((part, _turn)) = self.part(socket.peer, from, brought).await else { break false };
            if brought > 0 && self.is_suspended(socket.peer) {
                break true;
            }
            if self.is_void(&socket) {
                break false;
            }
            let into = match place.share() {
                BufferGuard::Range { mr, at, .. } => {
                    BufferGuard::Range { mr, at: at + brought, len: part.len }
                }
                // Of a block there is one part: what follows is brought by the next one.
                BufferGuard::Block { .. } if brought > 0 => break true,
                BufferGuard::Block { block, .. } => BufferGuard::Block { block, len: part.len },
                BufferGuard::Nothing => BufferGuard::Nothing,
            };
            let list = [(SendOp::Read { from: part }, into)];
            let is_cancelled = !socket.end.borrow().has_ended();
            let posted = match is_cancelled {
                true => mesh.post_list_directly(socket.peer, list).await,
                false => mesh.post_list(socket.peer, list).await,
            };
            match posted {
                Ok(_) => {
                    brought += part.len;
                    self.moved(socket.peer, part);
                }
                // Its sender cancels it. The user's buffer is free again.
                Err(OpError::NotExecuted(NotExecuted::OtherRail(_))) => break false,
                Err(error) if self.is_repeated(socket.peer, part, error, &mut tries) => {}
                Err(error) => break self.refused(&socket, error),
            }
        };
        socket.end.borrow_mut().set_reading(false);
        self.has_ended(socket.peer);
        if done {
            stats.borrow_mut().arrived += u64::from(brought);
            if socket.fetched(brought) {
                socket.end.borrow_mut().source_read();
            }
            let came = Came { at, len: brought };
            if told.is_some_and(|told| told.send(Some(came)).is_ok()) {
                socket.keep(came.at, Chunk::Owed);
            } else if let Ok(mut bytes) = place.bytes() {
                bytes.truncate(brought as usize);
                socket.keep(came.at, Chunk::Fetched(bytes, 0));
            }
        } else if let Some(told) = told.filter(|_| socket.end.borrow().failure().is_none()) {
            let _ = told.send(None);
        }
        if matches!(place, BufferGuard::Block { .. }) {
            lent.set(false);
        }
        self.flush(&socket);
        socket.readable.notify();
    }

    /// The connection with a peer has come to stand, perhaps on another rail: what this end offers on the first one is cancelled there, and
    /// what the peer offers may be read now.
    pub(super) fn on_rails(&self, peer: Rank) {
        let with_peer: Vec<_> = self.shared.table.borrow().with(peer).cloned().collect();
        for socket in with_peer {
            // Behind the end of a stream nothing is sent again, also where the peer is still to be told of it.
            let goes_on = socket.end.borrow().is_writable();
            if goes_on && self.shared.mesh.carries(socket.peer) {
                socket.end.borrow_mut().recall_offers();
            }
            self.flush(&socket);
            socket.readable.notify();
        }
    }

    /// The stream is over: the peer has restarted, or its keys are not what it said, or the node is leaving.
    fn refused(&self, socket: &Rc<Socket<V>>, why: OpError) -> bool {
        if matches!(why, OpError::NotExecuted(NotExecuted::PeerReset(_))) {
            // The new incarnation is told nothing of a stream that it does not know.
            socket.end.borrow_mut().fail(Failure::Reset, false);
            socket.wake();
        } else if socket.end.borrow().failure().is_none() {
            self.abort(socket);
        }
        false
    }

    /// The peer has answered a cancel: what it did not read is given back, or sent again.
    pub(super) fn returned(&self, socket: &Rc<Socket<V>>) {
        let from = socket.end.borrow().sent();
        let bytes = socket.unplace(from);
        let mut stats = self.shared.stats.borrow_mut();
        stats.zcopy_sent = stats.zcopy_sent.saturating_sub(bytes);
        stats.recalled += 1;
        drop(stats);
        socket.finish_recalled();
    }

    /// Asks for the buffers of calls of `send`: of one, or of all. Says whether they can be had: not behind the stream's end.
    pub(super) fn recall(&self, socket: &Rc<Socket<V>>, call: Option<u64>) -> bool {
        let mut sending = socket.sending.borrow_mut();
        let of = sending.iter_mut().filter(|segment| call.is_none_or(|call| segment.call == call));
        let mut exposed = false;
        for segment in of {
            segment.recalled = true;
            exposed |= segment.exposed.is_some();
        }
        drop(sending);
        let may = !exposed || socket.end.borrow_mut().recall_offers();
        socket.finish_recalled();
        self.flush(socket);
        socket.writable.notify();
        may
    }

    /// Sends one buffer after the others.
    pub(super) fn push(&self, socket: &Rc<Socket<V>>, segment: Segment<V>) {
        socket.sending.borrow_mut().push_back(segment);
        self.flush(socket);
    }
}

/// Bytes that an adapter brought wait to be read.
pub(super) fn keep_bytes<V: Verbs>(socket: &Socket<V>, mr: &V::Mr, came: Came) {
    let mut bytes = vec![0; came.len as usize];
    if mr.read(0, &mut bytes).is_ok() {
        socket.keep(came.at, Chunk::Fetched(bytes, 0));
    }
}

/// How often an operation is given to the peer that was carried to it by messages and that it did not execute.
const TRIES: u32 = 16;
