//! What the user's handle and the node's service share of one stream.

use super::endpoint::Endpoint;
use super::message::{HEADER_LEN, Handle};
use super::stream::Address;
use super::{SdpError, SdpOptions};
use crate::rt::sync::{OneshotSender, Signal};
use crate::transport::{Hold, Message, Rank};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use weft_verbs::{RemoteSlice, Verbs};

/// A stream of this node.
pub(super) struct Socket<V: Verbs> {
    pub handle: Handle,
    /// The stream's identity, drawn by the end that asked for it.
    pub id: u128,
    pub peer: Rank,
    pub local: Address,
    pub remote: Address,
    pub options: SdpOptions,
    /// How often its connection had gone over to another rail when the stream began.
    pub moves: Cell<u64>,
    pub end: RefCell<Endpoint>,
    /// What the user has not read, in the order of the stream.
    pub unread: RefCell<VecDeque<Unread<V>>>,
    /// Owned buffers that are to be sent, in the order of the stream.
    pub sending: RefCell<VecDeque<Segment<V>>>,
    /// Owned buffers that the peer was asked to fill, in the order of the stream.
    pub wanted: RefCell<VecDeque<Wanted<V>>>,
    /// Calls of `send` so far, by which a segment is known.
    pub sends: Cell<u64>,
    /// How often the user has asked for all buffers.
    pub recalls: Cell<u64>,
    /// The user writes no more: told to the end once nothing is to be sent any more.
    pub closing: Cell<bool>,
    /// There was no memory for something of it, which is tried again after a while.
    pub starves: Cell<bool>,
    /// Bytes came, or the end of them, or the stream failed.
    pub readable: Signal,
    /// There may be room for bytes, or everything is acknowledged, or the stream failed.
    pub writable: Signal,
}

/// A piece of the stream that the user has not read.
pub(super) struct Unread<V: Verbs> {
    /// Where it begins.
    at: u64,
    chunk: Chunk<V>,
}

/// What such a piece is.
pub(super) enum Chunk<V: Verbs> {
    /// A data message, a private buffer in use, and how many of its bytes were read.
    Data(Message, usize),
    /// Bytes that an adapter brought and no user's buffer waited for.
    Fetched(Vec<u8>, usize),
    /// What is left of a range that the peer advertises. Until it is read or recalled, or the stream is over, a connection is wanted, also by this
    /// end: what it last knew of one may be less than what the peer knows.
    Source { source: RemoteSlice, wanted: Option<Hold<V>> },
    /// Bytes in the buffer of a call that was told of them and has yet to look: it may be dropped before, so nothing behind them is read.
    Owed,
}

impl<V: Verbs> Chunk<V> {
    /// The bytes that are here and not read.
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Data(message, read) => &message.bytes()[HEADER_LEN as usize + read..],
            Chunk::Fetched(bytes, read) => &bytes[*read..],
            Chunk::Source { .. } | Chunk::Owed => &[],
        }
    }

    /// Whether its bytes may be copied now.
    fn is_here(&self) -> bool {
        matches!(self, Chunk::Data(..) | Chunk::Fetched(..))
    }
}

/// An owned buffer on its way to the peer.
pub(super) struct Segment<V: Verbs> {
    pub mr: V::Mr,
    pub len: u32,
    /// How much of it has its place in the stream: sent, advertised, or written.
    pub placed: u32,
    /// The position behind what is placed.
    pub end: u64,
    /// A part of it was advertised: it is the user's again when the peer has read that. Until then a connection is wanted, by the end that has
    /// nothing to say meanwhile.
    pub exposed: Option<Hold<V>>,
    /// Which call it is of.
    pub call: u64,
    /// Its user wants it back.
    pub recalled: bool,
    /// Told when the buffer is the user's again, and how many of its bytes have their place in the stream.
    pub done: OneshotSender<Result<u32, SdpError>>,
}

/// Bytes that an adapter brought into a user's buffer.
#[derive(Clone, Copy)]
pub(super) struct Came {
    /// Where they begin in the stream.
    pub at: u64,
    pub len: u32,
}

/// An owned buffer that the peer was asked to fill: with what, or that it will not.
pub(super) struct Wanted<V: Verbs> {
    pub mr: V::Mr,
    pub done: OneshotSender<Option<Came>>,
}

impl<V: Verbs> Socket<V> {
    pub fn new(
        handle: Handle,
        id: u128,
        [local, remote]: [Address; 2],
        options: SdpOptions,
        end: Endpoint,
    ) -> Socket<V> {
        Socket {
            handle,
            id,
            peer: remote.rank,
            local,
            remote,
            options,
            moves: Cell::new(0),
            end: RefCell::new(end),
            unread: RefCell::default(),
            sending: RefCell::default(),
            wanted: RefCell::default(),
            sends: Cell::new(0),
            recalls: Cell::new(0),
            closing: Cell::new(false),
            starves: Cell::new(false),
            readable: Signal::new(),
            writable: Signal::new(),
        }
    }

    /// Whether it has not failed.
    pub fn lives(&self) -> bool {
        self.end.borrow().failure().is_none()
    }

    /// Wakes all who wait for anything.
    pub fn wake(&self) {
        self.readable.notify();
        self.writable.notify();
    }

    /// Keeps something to be read in its place. It may come late: an adapter brought it for a call that was dropped since.
    pub fn keep(&self, at: u64, chunk: Chunk<V>) {
        let mut unread = self.unread.borrow_mut();
        let place = unread.partition_point(|before| before.at < at);
        unread.insert(place, Unread { at, chunk });
    }

    /// Whether something waits to be read, here or at the peer.
    pub fn has_unread(&self) -> bool {
        !self.unread.borrow().is_empty()
    }

    /// The call that was told of the bytes at a position has looked, or is dropped.
    pub fn has_looked(&self, at: u64) {
        self.unread.borrow_mut().retain(|piece| piece.at != at || !matches!(piece.chunk, Chunk::Owed));
    }

    /// Whether what comes next is another call's, unless that is dropped.
    pub fn owes_first(&self) -> bool {
        self.unread.borrow().front().is_some_and(|first| matches!(first.chunk, Chunk::Owed))
    }

    /// Whether bytes have come that are before a position and were not read.
    pub fn has_before(&self, at: u64) -> bool {
        let unread = self.unread.borrow();
        unread.front().is_some_and(|first| first.at < at && !matches!(first.chunk, Chunk::Source { .. }))
    }

    /// The range at the peer that is to be read next, and where it begins, if nothing that is here comes before it.
    pub fn next_source(&self) -> Option<(u64, RemoteSlice)> {
        match self.unread.borrow().front() {
            Some(Unread { at, chunk: Chunk::Source { source, .. } }) => Some((*at, *source)),
            _ => None,
        }
    }

    /// So many bytes of the first range at the peer were read; true if it was read to its end.
    pub fn fetched(&self, len: u32) -> bool {
        let mut unread = self.unread.borrow_mut();
        let place = unread.iter().position(|piece| matches!(piece.chunk, Chunk::Source { .. }));
        let Some((place, Unread { at, chunk: Chunk::Source { source, .. } })) =
            place.map(|place| (place, &mut unread[place]))
        else {
            return false;
        };
        match source.slice(len..source.len) {
            Some(rest) if rest.len > 0 => {
                (*at, *source) = (*at + u64::from(len), rest);
                false
            }
            _ => {
                unread.remove(place);
                true
            }
        }
    }

    /// How many bytes are here to be read.
    pub fn here(&self) -> usize {
        let unread = self.unread.borrow();
        let here = unread.iter().take_while(|piece| piece.chunk.is_here());
        here.map(|piece| piece.chunk.bytes().len()).sum()
    }

    /// Copies bytes out without taking them.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        for Unread { chunk, .. } in &*self.unread.borrow() {
            if !chunk.is_here() {
                break;
            }
            let bytes = chunk.bytes();
            let n = bytes.len().min(into.len() - filled);
            into[filled..filled + n].copy_from_slice(&bytes[..n]);
            filled += n;
        }
        filled
    }

    /// Copies bytes out and takes them. Buffers that were read to their end are free.
    pub fn take(&self, into: &mut [u8]) -> usize {
        let filled = self.peek(into);
        self.consume(filled);
        filled
    }

    fn consume(&self, mut bytes: usize) {
        let mut unread = self.unread.borrow_mut();
        while let Some(first) = unread.front_mut() {
            let left = first.chunk.bytes().len();
            match &mut first.chunk {
                Chunk::Source { .. } | Chunk::Owed => return,
                Chunk::Data(_, read) | Chunk::Fetched(_, read) if bytes < left => {
                    *read += bytes;
                    return;
                }
                Chunk::Data(..) => self.end.borrow_mut().consumed(),
                Chunk::Fetched(..) => {}
            }
            bytes -= left;
            unread.pop_front();
        }
    }

    /// Drops what was not read. Says whether there was something.
    pub fn discard(&self) -> bool {
        let had = self.has_unread();
        for Unread { chunk, .. } in self.unread.borrow_mut().drain(..) {
            if matches!(chunk, Chunk::Data(..)) {
                self.end.borrow_mut().consumed();
            }
        }
        had
    }

    /// Gives back the buffers of which the peer has everything.
    pub fn complete(&self) {
        let (_, acked) = self.end.borrow().positions();
        let mut sending = self.sending.borrow_mut();
        while let Some(first) = sending.front() {
            // What went by data messages was copied; an advertised range is free when it was read.
            if first.placed < first.len || (first.exposed.is_some() && acked < first.end) {
                return;
            }
            if let Some(Segment { len, done, .. }) = sending.pop_front() {
                let _ = done.send(Ok(len));
            }
        }
    }

    /// Drops the ranges at the peer that were not read. How many bytes were left of the first.
    pub fn drop_sources(&self) -> u32 {
        let mut unread = self.unread.borrow_mut();
        let sources = unread.iter().filter_map(|piece| match &piece.chunk {
            Chunk::Source { source, .. } => Some(source.len),
            _ => None,
        });
        let left = sources.take(1).sum();
        unread.retain(|piece| !matches!(piece.chunk, Chunk::Source { .. }));
        left
    }

    /// What lies behind a position has no place in the stream any more. How many bytes that are.
    pub fn unplace(&self, from: u64) -> u64 {
        let mut all = 0;
        for segment in self.sending.borrow_mut().iter_mut().filter(|segment| segment.end > from) {
            let back = segment.placed.min((segment.end - from).min(u32::MAX.into()) as u32);
            segment.placed -= back;
            // What is left of it lies before; of those behind the first nothing is, or they would seem to be open still.
            segment.end = from;
            // The peer reads it no more. It may go as data next, which a peer that has it need not tell of.
            segment.exposed = None;
            all += u64::from(back);
        }
        all
    }

    /// Gives back the buffers that their users want back, as far as nothing of them is under way.
    pub fn finish_recalled(&self) {
        let end = self.end.borrow();
        let ((_, acked), writes) = (end.positions(), end.is_writing());
        drop(end);
        let mut sending = self.sending.borrow_mut();
        let mut at = 0;
        while let Some(segment) = sending.get(at) {
            let partial = segment.placed < segment.len;
            let first = !sending.iter().take(at).any(|before| before.placed < before.len);
            let open = segment.exposed.is_some() && acked < segment.end;
            if !segment.recalled || !partial || open || (first && writes) {
                at += 1;
            } else if let Some(Segment { placed, done, .. }) = sending.remove(at) {
                let _ = done.send(Ok(placed));
            }
        }
    }

    /// The ranges that the peer will not fill: their buffers are the users' again. Says how many there are.
    pub fn void_wanted(&self) -> u64 {
        let still = self.end.borrow().wanted();
        let mut wanted = self.wanted.borrow_mut();
        let still = still.min(wanted.len());
        let voided = wanted.drain(still..).map(|Wanted { done, .. }| done.send(None));
        voided.count() as u64
    }

    /// The stream failed and the peer uses no memory of this end any more: buffers are given back, with why.
    pub fn give_back(&self) {
        for Segment { done, .. } in self.sending.borrow_mut().drain(..) {
            let why = self.end.borrow().failure().map_or(SdpError::Aborted, SdpError::from);
            let _ = done.send(Err(why));
        }
        for Wanted { done, .. } in self.wanted.borrow_mut().drain(..) {
            let _ = done.send(None);
        }
        for piece in self.unread.borrow_mut().iter_mut() {
            if let Chunk::Source { wanted, .. } = &mut piece.chunk {
                drop(wanted.take());
            }
        }
    }
}
