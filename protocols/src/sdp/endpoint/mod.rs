//! One end of a stream: a state machine without I/O.
//!
//! It knows positions, credits and which halves are open; the bytes themselves pass it by. What comes in is a message or a wish of
//! the user; what goes out is [`Endpoint::next`], asked until it has nothing more to say.
//!
//! - **Positions.** A byte of a stream has a position, counted from 0; the end of a stream (`DisConn`) counts as one byte. A
//!   message says its sender's position, which must be the one that the receiver expects.
//! - **Acknowledgement.** Each message says how far its sender has received. That, and no completion of an adapter, is what
//!   [`Endpoint::is_acknowledged`] goes by: a completion says that the peer's adapter has the bytes, and the peer may never look.
//! - **ZCopy.** An advertised range of bytes (`SrcAvail`) has its place in the stream like data; it counts as received when it was
//!   read, and until then the acknowledged position stays before it. Several may be open; data waits until none is. A wanted range
//!   (`SinkAvail`) begins at the position that its sender expects. It is used only by an end that is at that position and has nothing
//!   open; whatever that end sends instead, voids it, and since messages arrive in order, both ends know. So advertisements that
//!   cross are no race: the range that was sent first in the stream counts.
//! - **Recall.** An end gets back what it advertises by a cancel, and only by its answer: until then the other end may read or write
//!   there. Of ranges that were not read the answer tells so by the acknowledged position, from which the end goes on; it
//!   sends nothing of its own meanwhile.
//! - **Mode.** How bytes may come to an end is its own affair: it says so, and what the other end advertises before it has heard that
//!   counts all the same. So a mode says what may begin, and nothing of what stands.
//! - **Buffers of another size.** The end that sends asks for them. If they are to be smaller, it sends no more than that from its
//!   question on, and if they are to be larger, from the answer on; so every message fits.
//! - **Half-close.** After its own `DisConn` an end still frees buffers and returns credits: the peer goes on writing. An end that has
//!   sent its `DisConn` and has the peer's tells only how far it has received, which takes no credit: so nobody needs one any more.
//! - **Memory.** An end that fails with advertisements open has given away keys. It is over when the peer has said that it is,
//!   which it does once its own reads and writes have ended: until then nobody gets the memory back. A peer that has ended in order
//!   says nothing any more; its last message, which may come late, tells that it has read everything.
//! - **The end.** An end may be forgotten when its own `DisConn` is acknowledged and it has acknowledged the peer's. Whatever the
//!   peer sent before is then received, since messages arrive in order, and the peer has nothing more to send.
//!
//! | module | idea |
//! |---|---|
//! | `words` | what an end says and hears |
//! | `outgoing`, `incoming` | messages out and in |
//! | `adverts` | ranges that are offered, wanted, read and written |
//! | `recall` | getting them back |
//! | `adjust` | modes, and private buffers of another size |
//! | `ending` | half-close, failure, and when a stream may be forgotten |

mod adjust;
mod adverts;
mod ending;
mod incoming;
mod outgoing;
mod recall;
#[cfg(test)]
mod tests;
mod words;

pub(super) use words::{Event, Failure, Outgoing, Violation};

use super::Mode;
use super::credits::{Credits, Purpose};
use super::message::Greeting;
use std::collections::VecDeque;
use weft_verbs::RemoteSlice;

/// Whether a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// `Hello` is to be sent, or was.
    Greeting { sent: bool },
    /// It stands; `HelloAck` is still to be sent by the end that accepted.
    Open { acked: bool },
    /// It failed. `AbortConn` is still to be sent, if the peer would not know otherwise.
    /// It waits for the peer's `AbortConn`, if the peer may still use memory of this end.
    Failed { why: Failure, aborts: bool, waits: bool },
}

/// The half in which this end writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Half {
    Open,
    /// The user writes no more; `DisConn` is to be sent.
    Closing,
    Closed,
}

/// How far an end has come in getting advertised memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Recall {
    None,
    /// The cancel is to be sent.
    Wanted,
    /// It was sent, and is not answered yet.
    Sent,
}

/// How far an end has come in having the peer's private buffers take another number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Resize {
    None,
    /// It is to be asked for.
    Wanted(u32),
    /// It was, and there is no answer yet.
    Sent,
}

/// One end of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    phase: Phase,
    me: Greeting,
    peer: Greeting,
    credits: Credits,
    half: Half,
    /// How far this end has sent, and how far of that the peer has received.
    sent: u64,
    acked: u64,
    /// The position of what comes next, and the position that the peer was told of as received.
    expected: u64,
    told: u64,
    /// The peer's advertised ranges that were not read: where each begins, and its length. They lie before `expected`, and
    /// nothing but such ranges lies behind the first of them.
    sources: VecDeque<(u64, u32)>,
    /// Lengths of ranges that were read, of which the peer is to be told.
    read: VecDeque<u32>,
    /// Where this end's own advertised ranges end.
    offered: VecDeque<u64>,
    /// Ranges that the peer wants, each with its first position: those that may still be used.
    sinks: VecDeque<(u64, RemoteSlice)>,
    /// What the peer wanted before it had received up to here is void.
    void_until: u64,
    /// Ranges that this end wants: first position and length.
    wanted: VecDeque<(u64, u32)>,
    /// A write into the first of the peer's wanted ranges is under way; or so many bytes of it were written, which is to be told.
    writing: bool,
    wrote: Option<u32>,
    /// This end reads an advertised range now.
    reading: bool,
    /// How far this end has come in getting back what it offers, and what it wants.
    offers_back: Recall,
    wants_back: Recall,
    /// The peer wants back what it offers, and what it wants; it is to be answered.
    returns_sources: bool,
    returns_sinks: bool,
    /// Where the peer's position was when its ranges were returned: until it knows, its messages say that.
    returned_from: Option<u64>,
    /// How bytes may come here, and what the peer was told of that; and how they may go there.
    mode: Mode,
    told_mode: Mode,
    their_mode: Mode,
    /// The most bytes that a private buffer of this end could take.
    largest: u32,
    resize: Resize,
    /// The peer has asked for private buffers of another size, and is to be told which they have.
    resized: Option<u32>,
    /// The peer writes no more.
    ended: bool,
    /// The user reads no more.
    deaf: bool,
}

impl Endpoint {
    fn new(phase: Phase, me: Greeting, peer: Greeting) -> Endpoint {
        Endpoint {
            phase,
            me,
            peer,
            credits: Credits::new(me.buffers),
            half: Half::Open,
            sent: 0,
            acked: 0,
            expected: 0,
            told: 0,
            sources: VecDeque::new(),
            read: VecDeque::new(),
            offered: VecDeque::new(),
            sinks: VecDeque::new(),
            void_until: 0,
            wanted: VecDeque::new(),
            writing: false,
            wrote: None,
            reading: false,
            offers_back: Recall::None,
            wants_back: Recall::None,
            returns_sources: false,
            returns_sinks: false,
            returned_from: None,
            mode: Mode::default(),
            told_mode: Mode::default(),
            their_mode: Mode::default(),
            largest: me.buffer_bytes,
            resize: Resize::None,
            resized: None,
            ended: false,
            deaf: false,
        }
    }

    /// The end that asks for the connection.
    pub fn asking(me: Greeting) -> Endpoint {
        Endpoint::new(
            Phase::Greeting { sent: false },
            me,
            Greeting { buffers: 0, buffer_bytes: 0, adverts: 0, ..me },
        )
    }

    /// The end that was asked, and accepts.
    pub fn accepting(me: Greeting, peer: Greeting) -> Endpoint {
        let mut end = Endpoint::new(Phase::Open { acked: false }, me, peer);
        end.credits.begin(peer.buffers);
        end
    }

    /// Whether the connection was asked for and not answered.
    pub fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Greeting { .. })
    }

    /// The most bytes that one data message may carry: what the peer's private buffers take, and no more than what messages carry here.
    pub fn payload(&self) -> u32 {
        self.peer.buffer_bytes.min(self.largest)
    }

    /// How far this end has received without a gap.
    fn received(&self) -> u64 {
        self.sources.front().map_or(self.expected, |(start, _)| *start)
    }

    fn stands(&self) -> bool {
        matches!(self.phase, Phase::Open { acked: true })
    }

    /// Whether nothing is under way whose place in the stream comes first.
    fn is_settled(&self) -> bool {
        let recalls = self.offers_back != Recall::None;
        self.stands() && !self.writing && self.wrote.is_none() && !recalls
    }

    /// Whether bytes may be sent in some way, as far as what is under way goes.
    fn may_move(&self) -> bool {
        self.is_settled() && self.half == Half::Open
    }

    /// Whether a data message may be sent now.
    pub fn may_write(&self) -> bool {
        self.may_move() && self.offered.is_empty() && self.credits.may_send(Purpose::Data)
    }

    /// The position of what comes next.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// How far this end has sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many bytes were sent, and how many of them the peer is known to have received.
    pub fn positions(&self) -> (u64, u64) {
        let end = u64::from(self.half == Half::Closed);
        (self.sent - end, self.acked.min(self.sent - end))
    }

    /// Whether the peer is to be told of its credits though nothing else is to be said.
    pub fn owes_credits(&self) -> bool {
        self.credits.is_return_due()
    }

    /// The user has read a data message to its end: its private buffer is free.
    pub fn consumed(&mut self) {
        self.credits.free();
    }
}
