//! One end of a stream: a state machine without I/O.
//!
//! It knows positions, credits and which halves are open; the bytes themselves pass it by. What comes in is a message or a wish of
//! the user; what goes out is [`Endpoint::next`], asked until it has nothing more to say.
//!
//! - **Positions.** A byte of a stream has a position, counted from 0; the end of a stream (`DisConn`) counts as one byte. A
//!   message says its sender's position, which must be the one that the receiver expects.
//! - **Acknowledgement.** Each message says how far its sender has received. That, and no completion of an adapter, is what
//!   [`Endpoint::is_acknowledged`] goes by: a completion says that the peer's adapter has the bytes, and the peer may never look.
//! - **Half-close.** After its own `DisConn` an end still frees buffers and returns credits: the peer goes on writing. After the
//!   peer's `DisConn` it returns none, since nobody needs them; it acknowledges once.
//! - **The end.** An end may be forgotten when its own `DisConn` is acknowledged and it has acknowledged the peer's. Whatever the
//!   peer sent before is then received, since messages arrive in order, and the peer has nothing more to send.

use super::SdpError;
use super::credits::{Credits, Purpose};
use super::message::{Greeting, Handle, Header, Message};

/// What a control message needs beyond the stream's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Ask for the connection.
    Hello(Greeting),
    /// Say that it is there.
    HelloAck { to: Handle, greeting: Greeting },
    /// Return credits, acknowledge.
    Credits(Header),
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
    Failed { why: Failure, aborts: bool },
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    phase: Phase,
    me: Greeting,
    peer: Greeting,
    credits: Credits,
    writing: Half,
    /// How far this end has sent, and how far of that the peer has received.
    sent: u64,
    acked: u64,
    /// How far this end has received, and how far of that the peer was told.
    received: u64,
    told: u64,
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
            writing: Half::Open,
            sent: 0,
            acked: 0,
            received: 0,
            told: 0,
            ended: false,
            deaf: false,
        }
    }

    /// The end that asks for the connection.
    pub fn asking(me: Greeting) -> Endpoint {
        Endpoint::new(Phase::Greeting { sent: false }, me, Greeting { buffers: 0, buffer_bytes: 0, ..me })
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

    /// Whether a data message may be sent now.
    pub fn may_write(&self) -> bool {
        matches!(self.phase, Phase::Open { acked: true })
            && self.writing == Half::Open
            && self.credits.may_send(Purpose::Data)
    }

    /// Whether the user may still write.
    pub fn is_writable(&self) -> bool {
        self.writing == Half::Open
    }

    /// Whether the peer has said that it writes no more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the peer has received everything, `DisConn` included, if that was sent.
    pub fn is_acknowledged(&self) -> bool {
        self.acked == self.sent && self.writing != Half::Closing
    }

    /// How many bytes were sent, and how many of them the peer is known to have received.
    pub fn positions(&self) -> (u64, u64) {
        let end = u64::from(self.writing == Half::Closed);
        (self.sent - end, self.acked.min(self.sent - end))
    }

    /// Whether nothing more will be sent or received, and the stream may be forgotten.
    pub fn is_over(&self) -> bool {
        match self.phase {
            Phase::Failed { aborts, .. } => !aborts,
            Phase::Greeting { .. } => false,
            Phase::Open { .. } => {
                let mine = self.writing == Half::Closed && self.acked == self.sent;
                mine && self.ended && self.told == self.received
            }
        }
    }

    /// The header of a data message with so many bytes, which is sent now; [`Endpoint::may_write`] says that it may be.
    pub fn data(&mut self, len: u64) -> Header {
        let header = self.header();
        self.sent += len;
        header
    }

    /// The user has read a data message to its end: its private buffer is free.
    pub fn consumed(&mut self) {
        self.credits.free();
    }

    /// The user writes no more.
    pub fn shutdown(&mut self) {
        if self.writing == Half::Open {
            self.writing = Half::Closing;
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
            Phase::Failed { .. } => return,
        };
        self.phase = Phase::Failed { why, aborts: tell && known };
    }

    /// The peer refuses the connection.
    pub fn refused(&mut self, why: super::Refusal) -> Result<Event, Violation> {
        match self.phase {
            Phase::Greeting { sent: true } => {
                self.phase = Phase::Failed { why: Failure::Refused(why), aborts: false };
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
            // It takes no credit: a peer that does not read must learn it, too.
            Phase::Failed { why, aborts: true } => {
                self.phase = Phase::Failed { why, aborts: false };
                return Some(Outgoing::AbortConn { to: self.peer.from });
            }
            Phase::Greeting { sent: true } | Phase::Failed { .. } => return None,
            Phase::Open { acked: true } => {}
        }
        if self.writing == Half::Closing && self.credits.may_send(Purpose::Control) {
            let header = self.header();
            self.writing = Half::Closed;
            self.sent += 1;
            return Some(Outgoing::DisConn(header));
        }
        // The peer needs no credits after its end, but it waits to hear that it was received.
        let due = if self.ended { self.told != self.received } else { self.credits.is_return_due() };
        if due && self.credits.may_send(Purpose::Return) {
            return Some(Outgoing::Credits(self.header()));
        }
        None
    }

    /// The header of a message that is sent now: it takes a credit, and tells the peer all that it is owed.
    fn header(&mut self) -> Header {
        self.credits.spend();
        self.told = self.received;
        Header { to: self.peer.from, grant: self.credits.grant(), acked: self.received, at: self.sent }
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
                self.phase = Phase::Failed { why: Failure::Reset, aborts: false };
                Ok(Event::Aborted)
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
                self.credits.free();
                self.ended = true;
                self.received += 1;
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
        if self.ended || self.deaf || len as u64 > u64::from(self.me.buffer_bytes) {
            return Err(Violation);
        }
        self.received += len as u64;
        Ok(Event::Data)
    }

    /// What every message on a stream tells: credits, the peer's position, and how far it has received.
    fn tells(&mut self, header: &Header) -> Result<(), Violation> {
        let expected = header.at == self.received;
        let sent = (self.acked..=self.sent).contains(&header.acked);
        if !expected || !sent || !self.credits.arrived() || !self.credits.granted(header.grant) {
            return Err(Violation);
        }
        self.acked = header.acked;
        Ok(())
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
