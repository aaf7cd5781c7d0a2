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
//! - **Half-close.** After its own `DisConn` an end still frees buffers and returns credits: the peer goes on writing. After the
//!   peer's `DisConn` it returns none, since nobody needs them; it acknowledges once.
//! - **Memory.** An end that fails with advertisements open has given away keys. It is over when the peer has said that it is,
//!   which it does once its own reads and writes have ended: until then nobody gets the memory back.
//! - **The end.** An end may be forgotten when its own `DisConn` is acknowledged and it has acknowledged the peer's. Whatever the
//!   peer sent before is then received, since messages arrive in order, and the peer has nothing more to send.

use super::SdpError;
use super::credits::{Credits, Purpose};
use super::message::{Greeting, Handle, Header, Message};
use std::collections::VecDeque;
use weft_verbs::RemoteSlice;

/// What a control message needs beyond the stream's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Ask for the connection.
    Hello(Greeting),
    /// Say that it is there.
    HelloAck { to: Handle, greeting: Greeting },
    /// Return credits, acknowledge.
    Credits(Header),
    /// Advertise bytes.
    SrcAvail { header: Header, source: RemoteSlice },
    /// Say that the oldest advertised bytes were read.
    RdmaRdCompl { header: Header, len: u32 },
    /// Say where bytes are wanted.
    SinkAvail { header: Header, start: u64, sink: RemoteSlice },
    /// Say that bytes were written where they were wanted.
    RdmaWrCompl { header: Header, len: u32 },
    /// Say that nothing more is written.
    DisConn(Header),
    /// Say that the stream is over.
    AbortConn { to: Handle },
}

/// What a message did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The stream stands.
    Connected,
    /// Bytes for the user.
    Data,
    /// The peer advertises bytes: they may be read.
    Source(RemoteSlice),
    /// The peer wants bytes somewhere: they may be written.
    Sink,
    /// So many bytes were written where this end wanted them.
    Written(u32),
    /// The peer writes no more.
    End,
    /// Credits came back, or an acknowledgement.
    Progress,
    /// The peer has aborted the stream.
    Aborted,
}

/// The peer contradicts the state of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation;

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

/// Why a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Failure {
    /// The connection was refused.
    Refused(super::Refusal),
    /// The peer aborted it, or restarted.
    Reset,
    /// This end aborted it.
    Aborted,
    /// The peer was away for too long.
    TimedOut,
    /// The node has left the cluster.
    Closed,
}

impl From<Failure> for SdpError {
    fn from(why: Failure) -> SdpError {
        match why {
            Failure::Refused(why) => SdpError::Refused(why),
            Failure::Reset => SdpError::Reset,
            Failure::Aborted => SdpError::Aborted,
            Failure::TimedOut => SdpError::TimedOut,
            Failure::Closed => SdpError::Closed,
        }
    }
}

/// The half in which this end writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Half {
    Open,
    /// The user writes no more; `DisConn` is to be sent.
    Closing,
    Closed,
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
    /// A write into the first of the peer's wanted ranges is under way, of so many bytes; or it is done and to be told.
    writing: Option<u32>,
    wrote: Option<u32>,
    /// This end reads an advertised range now.
    reading: bool,
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
            writing: None,
            wrote: None,
            reading: false,
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

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        match self.phase {
            Phase::Failed { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Whether the connection was asked for and not answered.
    pub fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Greeting { .. })
    }

    /// The most bytes that one data message may carry.
    pub fn payload(&self) -> u32 {
        self.peer.buffer_bytes
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
        self.stands() && self.writing.is_none() && self.wrote.is_none()
    }

    /// Whether bytes may be sent in some way, as far as what is under way goes.
    fn may_move(&self) -> bool {
        self.is_settled() && self.half == Half::Open
    }

    /// Whether a data message may be sent now.
    pub fn may_write(&self) -> bool {
        self.may_move() && self.offered.is_empty() && self.credits.may_send(Purpose::Data)
    }

    /// How far this end has sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether both ends keep advertisements.
    pub fn takes_adverts(&self) -> bool {
        self.me.adverts.min(self.peer.adverts) > 0
    }

    /// Whether a range may be advertised now.
    pub fn may_offer(&self) -> bool {
        let most = self.me.adverts.min(self.peer.adverts) as usize;
        self.may_move() && self.offered.len() < most && self.credits.may_send(Purpose::Control)
    }

    /// Where bytes may be written now, if the peer wants them at this position.
    pub fn sink(&self) -> Option<RemoteSlice> {
        if !self.may_move() || !self.offered.is_empty() {
            return None;
        }
        self.sinks.front().filter(|(start, _)| *start == self.sent).map(|(_, sink)| *sink)
    }

    /// Whether a range may be wanted now: nothing is there to be read before it.
    pub fn may_want(&self) -> bool {
        let most = self.me.adverts.min(self.peer.adverts) as usize;
        let room = self.wanted.len() < most && self.credits.may_send(Purpose::Control);
        self.stands() && self.sources.is_empty() && !self.ended && room
    }

    /// Whether the user may still write.
    pub fn is_writable(&self) -> bool {
        self.half == Half::Open
    }

    /// Whether the peer has said that it writes no more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the peer has received everything, `DisConn` included.
    pub fn is_acknowledged(&self) -> bool {
        self.half == Half::Closed && self.acked == self.sent
    }

    /// How many bytes were sent, and how many of them the peer is known to have received.
    pub fn positions(&self) -> (u64, u64) {
        let end = u64::from(self.half == Half::Closed);
        (self.sent - end, self.acked.min(self.sent - end))
    }

    /// Whether nothing more will be sent or received, and the stream may be forgotten.
    pub fn is_over(&self) -> bool {
        match self.phase {
            Phase::Failed { aborts, waits, .. } => !aborts && !waits && !self.is_busy(),
            Phase::Greeting { .. } => false,
            Phase::Open { .. } => {
                let mine = self.half == Half::Closed && self.acked == self.sent;
                mine && self.ended && self.told == self.received()
            }
        }
    }

    /// The header of a data message with so many bytes, which is sent now; [`Endpoint::may_write`] says that it may be.
    pub fn data(&mut self, len: u64) -> Header {
        let header = self.header();
        self.sent += len;
        self.void_sinks();
        header
    }

    /// Advertises a range, which is sent now; [`Endpoint::may_offer`] says that it may be.
    pub fn offer(&mut self, source: RemoteSlice) -> Outgoing {
        let header = self.header();
        self.sent += u64::from(source.len);
        self.void_sinks();
        self.offered.push_back(self.sent);
        Outgoing::SrcAvail { header, source }
    }

    /// What is sent up to here voids the ranges that the peer wants, for both ends.
    fn void_sinks(&mut self) {
        self.sinks.clear();
        self.void_until = self.sent;
    }

    /// Wants a range; [`Endpoint::may_want`] says that it may.
    pub fn want(&mut self, sink: RemoteSlice) -> Outgoing {
        let start = self.wanted.back().map_or(self.expected, |(start, len)| start + u64::from(*len));
        self.wanted.push_back((start, sink.len));
        Outgoing::SinkAvail { header: self.header(), start, sink }
    }

    /// A write of so many bytes into the [sink](Endpoint::sink) begins.
    pub fn begin_write(&mut self, len: u32) {
        self.writing = Some(len);
    }

    /// The write has ended; if it was carried out, the peer is told.
    pub fn end_write(&mut self, done: bool) {
        let len = self.writing.take();
        if done && self.stands() {
            self.wrote = len;
        }
    }

    /// A read of the oldest advertised range begins, or has ended.
    pub fn set_reading(&mut self, reading: bool) {
        self.reading = reading;
    }

    /// Whether this end reads an advertised range now.
    pub fn is_reading(&self) -> bool {
        self.reading
    }

    /// The oldest advertised range was read to its end.
    pub fn source_read(&mut self) {
        if let Some((_, len)) = self.sources.pop_front() {
            self.read.push_back(len);
        }
    }

    /// Whether an adapter may use memory of the peer for this end.
    fn is_busy(&self) -> bool {
        self.reading || self.writing.is_some()
    }

    /// Whether the peer may use memory of this end.
    fn is_exposed(&self) -> bool {
        !self.offered.is_empty() || !self.wanted.is_empty()
    }

    /// How many ranges this end wants.
    pub fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// The user has read a data message to its end: its private buffer is free.
    pub fn consumed(&mut self) {
        self.credits.free();
    }

    /// The user writes no more.
    pub fn shutdown(&mut self) {
        if self.half == Half::Open {
            self.half = Half::Closing;
        }
    }

    /// The user reads no more: what still comes is an error of the peer's user, who must learn that it is lost.
    pub fn deafen(&mut self) {
        self.deaf = true;
    }

    /// Ends the stream. The peer is told, unless it knows or is not there.
    pub fn fail(&mut self, why: Failure, tell: bool) {
        let known = match self.phase {
            Phase::Greeting { .. } => false,
            Phase::Open { .. } => true,
            Phase::Failed { .. } if tell => return,
            // A peer that has restarted uses nothing any more, and waits for nothing.
            Phase::Failed { why, .. } => {
                self.phase = Phase::Failed { why, aborts: false, waits: false };
                return;
            }
        };
        let tell = tell && known;
        self.phase = Phase::Failed { why, aborts: tell, waits: tell && self.is_exposed() };
    }

    /// The peer refuses the connection.
    pub fn refused(&mut self, why: super::Refusal) -> Result<Event, Violation> {
        match self.phase {
            Phase::Greeting { sent: true } => {
                self.phase = Phase::Failed { why: Failure::Refused(why), aborts: false, waits: false };
                Ok(Event::Aborted)
            }
            _ => Err(Violation),
        }
    }

    /// A control message to send now, if there is one.
    pub fn next(&mut self) -> Option<Outgoing> {
        match self.phase {
            Phase::Greeting { sent: false } => {
                self.phase = Phase::Greeting { sent: true };
                return Some(Outgoing::Hello(self.me));
            }
            Phase::Open { acked: false } => {
                self.phase = Phase::Open { acked: true };
                return Some(Outgoing::HelloAck { to: self.peer.from, greeting: self.me });
            }
            // It takes no credit: a peer that does not read must learn it, too. It says that this end uses no memory of the
            // peer any more.
            Phase::Failed { why, aborts: true, waits } if !self.is_busy() => {
                self.phase = Phase::Failed { why, aborts: false, waits };
                return Some(Outgoing::AbortConn { to: self.peer.from });
            }
            Phase::Greeting { sent: true } | Phase::Failed { .. } => return None,
            Phase::Open { acked: true } => {}
        }
        let control = self.credits.may_send(Purpose::Control);
        if control && let Some(len) = self.wrote.take() {
            // A range that was not filled goes back with what it has, and those behind it are of other positions then.
            let filled = self.sinks.pop_front().is_some_and(|(_, sink)| sink.len == len);
            let header = self.header();
            self.sent += u64::from(len);
            if !filled {
                self.void_sinks();
            }
            return Some(Outgoing::RdmaWrCompl { header, len });
        }
        if control && let Some(len) = self.read.pop_front() {
            return Some(Outgoing::RdmaRdCompl { header: self.header(), len });
        }
        if self.half == Half::Closing && self.is_settled() && control {
            let header = self.header();
            self.half = Half::Closed;
            self.sent += 1;
            self.void_sinks();
            return Some(Outgoing::DisConn(header));
        }
        // The peer needs no credits after its end, but it waits to hear that it was received.
        let due = if self.ended { self.told != self.received() } else { self.credits.is_return_due() };
        if due && self.credits.may_send(Purpose::Return) {
            return Some(Outgoing::Credits(self.header()));
        }
        None
    }

    /// The header of a message that is sent now: it takes a credit, and tells the peer all that it is owed.
    fn header(&mut self) -> Header {
        self.credits.spend();
        self.told = self.received();
        Header { to: self.peer.from, grant: self.credits.grant(), acked: self.told, at: self.sent }
    }

    /// A message arrives.
    ///
    /// # Errors
    ///
    /// It contradicts the stream's state: the stream is over.
    pub fn on_message(&mut self, message: &Message<'_>) -> Result<Event, Violation> {
        match (self.phase, message) {
            (Phase::Greeting { sent: true }, Message::HelloAck { greeting, .. }) => {
                if greeting.buffers == 0 || greeting.buffer_bytes == 0 {
                    return Err(Violation);
                }
                self.peer = *greeting;
                self.credits.begin(greeting.buffers);
                self.phase = Phase::Open { acked: true };
                Ok(Event::Connected)
            }
            (Phase::Greeting { .. }, Message::Reject { why, .. }) => self.refused(*why),
            (Phase::Open { .. }, Message::AbortConn { .. }) => {
                // The peer uses no memory of this end any more, and wants to hear the same.
                self.phase = Phase::Failed { why: Failure::Reset, aborts: true, waits: false };
                Ok(Event::Aborted)
            }
            (Phase::Failed { why, aborts, .. }, Message::AbortConn { .. }) => {
                self.phase = Phase::Failed { why, aborts, waits: false };
                Ok(Event::Progress)
            }
            // Sent before the peer knew.
            (Phase::Failed { .. }, _) => Ok(Event::Progress),
            (Phase::Open { .. }, Message::SrcAvail { header, source }) => {
                self.tells(header)?;
                self.on_source(*source)
            }
            (Phase::Open { .. }, Message::SinkAvail { header, start, sink }) => {
                self.tells(header)?;
                self.on_sink(header.acked, *start, *sink)
            }
            (Phase::Open { .. }, Message::RdmaRdCompl { header, .. }) => {
                // The acknowledged position says which ranges were read; another message may have told it before.
                self.tells(header)?;
                self.credits.free_control();
                Ok(Event::Progress)
            }
            (Phase::Open { .. }, Message::RdmaWrCompl { header, len }) => {
                self.tells(header)?;
                self.on_written(*len)
            }
            (Phase::Open { .. }, Message::Data { header, bytes }) => {
                self.tells(header)?;
                self.on_data(bytes.len())
            }
            (Phase::Open { .. }, Message::DisConn { header }) => {
                self.tells(header)?;
                if self.ended {
                    return Err(Violation);
                }
                self.credits.free_control();
                self.wanted.clear();
                self.ended = true;
                self.expected += 1;
                Ok(Event::End)
            }
            _ => Err(Violation),
        }
    }

    fn on_data(&mut self, len: usize) -> Result<Event, Violation> {
        if len == 0 {
            self.credits.free();
            return Ok(Event::Progress);
        }
        let waits = self.sources.is_empty();
        if self.ended || self.deaf || !waits || len as u64 > u64::from(self.me.buffer_bytes) {
            return Err(Violation);
        }
        self.wanted.clear();
        self.expected += len as u64;
        Ok(Event::Data)
    }

    fn on_source(&mut self, source: RemoteSlice) -> Result<Event, Violation> {
        let most = self.me.adverts as usize;
        if self.ended || self.deaf || source.len == 0 || self.sources.len() >= most {
            return Err(Violation);
        }
        self.credits.free_control();
        self.wanted.clear();
        self.sources.push_back((self.expected, source.len));
        self.expected += u64::from(source.len);
        Ok(Event::Source(source))
    }

    /// A range that the peer wanted before it had seen what this end has sent is void: the peer voids it when it sees that. (Its
    /// position alone does not tell: what was sent instead may be just as long as the ranges before it.)
    fn on_sink(&mut self, seen: u64, start: u64, sink: RemoteSlice) -> Result<Event, Violation> {
        self.credits.free_control();
        if seen < self.void_until {
            return Ok(Event::Progress);
        }
        let next = self.sinks.back().map_or(self.sent, |(start, sink)| start + u64::from(sink.len));
        if sink.len == 0 || start != next || self.sinks.len() >= self.me.adverts as usize {
            return Err(Violation);
        }
        self.sinks.push_back((start, sink));
        Ok(Event::Sink)
    }

    fn on_written(&mut self, len: u32) -> Result<Event, Violation> {
        let Some((start, room)) = self.wanted.pop_front() else { return Err(Violation) };
        if self.ended || start != self.expected || len == 0 || len > room {
            return Err(Violation);
        }
        if len < room {
            self.wanted.clear();
        }
        self.credits.free_control();
        self.expected += u64::from(len);
        Ok(Event::Written(len))
    }

    /// What every message on a stream tells: credits, the peer's position, and how far it has received.
    fn tells(&mut self, header: &Header) -> Result<(), Violation> {
        let expected = header.at == self.expected;
        let sent = (self.acked..=self.sent).contains(&header.acked);
        if !expected || !sent || !self.credits.arrived() || !self.credits.granted(header.grant) {
            return Err(Violation);
        }
        self.acked = header.acked;
        while self.offered.front().is_some_and(|end| *end <= header.acked) {
            self.offered.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
