//! What a message does to an end, and which messages contradict its state.

use super::{Endpoint, Event, Failure, Phase, Violation};
use crate::sdp::message::{Header, Message};
use weft_verbs::RemoteSlice;

impl Endpoint {
    /// A message arrives.
    ///
    /// # Errors
    ///
    /// It contradicts the stream's state: the stream is over.
    pub fn on_message(&mut self, message: &Message<'_>) -> Result<Event, Violation> {
        let event = self.takes_in(message);
        // Here, and not where it has its turn to speak: until it has one, this end would wait for what it has already.
        self.drop_void_recalls();
        event
    }

    fn takes_in(&mut self, message: &Message<'_>) -> Result<Event, Violation> {
        match self.phase {
            Phase::Greeting { sent } => self.on_greeting(sent, message),
            Phase::Open { .. } => self.on_open(message),
            Phase::Failed { why, aborts, .. } => {
                match message {
                    Message::AbortConn { .. } => self.phase = Phase::Failed { why, aborts, waits: false },
                    // Sent before the peer knew.
                    _ => message.header().into_iter().for_each(|header| self.hears_late(header)),
                }
                Ok(Event::Progress)
            }
        }
    }

    /// The stream is to be made.
    fn on_greeting(&mut self, sent: bool, message: &Message<'_>) -> Result<Event, Violation> {
        match message {
            Message::HelloAck { greeting, .. } if sent => {
                // It stands at the other end, which is to be told also if nothing comes of it.
                self.peer = *greeting;
                self.phase = Phase::Open { acked: true };
                if !greeting.is_fit() {
                    return Err(Violation);
                }
                self.credits.begin(greeting.buffers);
                Ok(Event::Connected)
            }
            Message::Reject { why, .. } => self.refused(*why),
            // It stood at the other end, which gave it up before it had room to say so. Nothing was advertised over it.
            Message::AbortConn { moved, .. } if sent => {
                self.phase = Phase::Failed { why: self.aborted(*moved), aborts: false, waits: false };
                Ok(Event::Aborted)
            }
            _ => Err(Violation),
        }
    }

    /// The stream stands: what tells something of it takes a credit, unless it is data without a byte.
    fn on_open(&mut self, message: &Message<'_>) -> Result<Event, Violation> {
        let header = match message {
            Message::AbortConn { moved, .. } => {
                // The peer uses no memory of this end any more, and wants to hear the same.
                self.phase = Phase::Failed { why: self.aborted(*moved), aborts: true, waits: false };
                return Ok(Event::Aborted);
            }
            Message::Data { header, bytes: [] } => {
                self.hears(header)?;
                return Ok(Event::Progress);
            }
            _ => message.header().ok_or(Violation)?,
        };
        self.tells(header)?;
        match message {
            Message::Data { bytes, .. } => {
                self.goes_on(header)?;
                self.on_data(bytes.len())
            }
            Message::SrcAvail { source, .. } => {
                self.goes_on(header)?;
                self.on_source(*source)
            }
            Message::RdmaRdCompl { .. } => {
                // The acknowledged position says which ranges were read; another message may have told it before.
                self.credits.free_control();
                Ok(Event::Progress)
            }
            Message::SinkAvail { start, sink, .. } => self.on_sink(header.acked, *start, *sink),
            Message::RdmaWrCompl { len, .. } => {
                self.goes_on(header)?;
                self.on_written(*len)
            }
            Message::DisConn { .. } => {
                self.goes_on(header)?;
                self.on_end()
            }
            Message::SrcAvailCancel { .. } => self.on_source_cancel(),
            Message::SendSm { .. } => self.on_send_sm(),
            Message::SinkAvailCancel { .. } => self.on_sink_cancel(),
            Message::SinkCancelAck { .. } => self.on_sink_returned(),
            Message::ModeChange { mode, .. } => self.on_mode(*mode),
            Message::ChRcvBuf { bytes, .. } => self.on_resize(*bytes),
            Message::ChRcvBufAck { bytes, .. } => self.on_resized(*bytes),
            // They tell nothing of a stream.
            Message::Hello { .. } | Message::HelloAck { .. } | Message::Reject { .. } => Err(Violation),
            Message::SuspComm { .. } | Message::SuspCommAck { .. } | Message::AckRecv { .. } => {
                Err(Violation)
            }
            Message::Probe | Message::AbortConn { .. } => Err(Violation),
        }
    }

    /// Why a peer's abort ends this end. The peer may have begun on another rail, and see a change of address where this end sees none.
    fn aborted(&self, moved: bool) -> Failure {
        let (_, acknowledged) = self.positions();
        if moved { Failure::AddressChanged { acknowledged } } else { Failure::Reset }
    }

    fn on_data(&mut self, len: usize) -> Result<Event, Violation> {
        let waits = self.sources.is_empty();
        if self.ended || !waits || len as u64 > u64::from(self.me.buffer_bytes) {
            return Err(Violation);
        }
        if self.deaf {
            return Ok(Event::Unread);
        }
        self.wanted.clear();
        self.expected += len as u64;
        Ok(Event::Data)
    }

    fn on_source(&mut self, source: RemoteSlice) -> Result<Event, Violation> {
        let most = self.me.adverts as usize;
        if self.ended || source.len == 0 || self.sources.len() >= most {
            return Err(Violation);
        }
        if self.deaf {
            return Ok(Event::Unread);
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
        let Some((start, room)) = self.wanted.front().copied() else { return Err(Violation) };
        if self.ended || start != self.expected || len == 0 || len > room {
            return Err(Violation);
        }
        if self.deaf {
            return Ok(Event::Unread);
        }
        self.wanted.pop_front();
        if len < room {
            self.wanted.clear();
        }
        self.credits.free_control();
        self.expected += u64::from(len);
        Ok(Event::Written(len))
    }

    /// Something of the stream comes from where this end expects it: its sender knows what was returned to it.
    fn goes_on(&self, header: &Header) -> Result<(), Violation> {
        if header.at == self.expected && !self.returns_sources { Ok(()) } else { Err(Violation) }
    }

    /// A message that takes a credit.
    fn tells(&mut self, header: &Header) -> Result<(), Violation> {
        if self.credits.arrived() { self.hears(header) } else { Err(Violation) }
    }

    /// What every message on a stream tells: credits, the peer's position, and how far it has received.
    fn hears(&mut self, header: &Header) -> Result<(), Violation> {
        let expected = header.at == self.expected || self.returned_from == Some(header.at);
        if header.at == self.expected {
            self.returned_from = None;
        }
        let sent = (self.acked..=self.sent).contains(&header.acked);
        if !expected || !sent || !self.credits.granted(header.grant) {
            return Err(Violation);
        }
        self.acked = header.acked;
        self.was_read(header.acked);
        Ok(())
    }

    /// What the peer said before it knew that this end has failed. Where that was all that it had to say, it has ended in order and forgotten
    /// the stream, and answers no abort: what it has received tells that it uses no memory of this end any more.
    fn hears_late(&mut self, header: &Header) {
        if (self.acked..=self.sent).contains(&header.acked) {
            self.was_read(header.acked);
        }
        let exposed = self.is_exposed();
        if let Phase::Failed { waits, .. } = &mut self.phase {
            *waits &= exposed;
        }
    }

    /// The peer reads nothing any more of the ranges that end before a position.
    fn was_read(&mut self, until: u64) {
        while self.offered.front().is_some_and(|end| *end <= until) {
            self.offered.pop_front();
        }
    }
}
