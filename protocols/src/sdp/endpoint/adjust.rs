//! What changes while a stream stands: how bytes may come, and how many of them a private buffer takes.

use super::{Endpoint, Event, Half, Outgoing, Resize, Violation};
use crate::sdp::Mode;

impl Endpoint {
    /// The most bytes that a private buffer of this end could take, if the peer asks for that.
    #[must_use]
    pub fn taking(self, largest: u32) -> Endpoint {
        Endpoint { largest: largest.max(self.me.buffer_bytes), ..self }
    }

    /// Bytes are to come here in this way. What the peer advertises before it knows counts all the same, and so does what this
    /// end wants already.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// How many ranges the peer would have advertised at a time.
    pub(super) fn may_be_offered(&self) -> u32 {
        let most = self.me.adverts.min(self.peer.adverts);
        match self.their_mode {
            Mode::Buffered => 0,
            Mode::Combined => most.min(1),
            Mode::Pipelined => most,
        }
    }

    /// Whether this end may say where it wants bytes.
    pub(super) fn wants_in_this_mode(&self) -> bool {
        (self.mode, self.told_mode) == (Mode::Pipelined, Mode::Pipelined)
    }

    /// Asks for private buffers of so many bytes at the peer. Not now, if it was asked before and has not answered.
    pub fn resize(&mut self, bytes: u32) -> bool {
        let may = self.stands() && self.half == Half::Open && self.resize == Resize::None;
        if may {
            self.resize = Resize::Wanted(bytes);
        }
        may
    }

    /// What the peer's private buffers take, unless it was asked and has not answered.
    pub fn resized(&self) -> Option<u32> {
        (self.resize == Resize::None).then_some(self.peer.buffer_bytes)
    }

    /// Whether a question for buffers of another size is open at either end.
    pub(super) fn is_resizing(&self) -> bool {
        self.resize != Resize::None || self.resized.is_some()
    }

    /// A change to tell, or the answer to one. The caller has a credit for it.
    pub(super) fn next_change(&mut self) -> Option<Outgoing> {
        // To one who writes no more it is no matter how.
        if self.mode != self.told_mode && !self.ended {
            self.told_mode = self.mode;
            return Some(Outgoing::ModeChange { mode: self.mode, header: self.header() });
        }
        if let Some(bytes) = self.resized.take() {
            return Some(Outgoing::ChRcvBufAck { header: self.header(), bytes });
        }
        if let Resize::Wanted(bytes) = self.resize {
            self.resize = Resize::Sent;
            self.peer.buffer_bytes = self.peer.buffer_bytes.min(bytes);
            return Some(Outgoing::ChRcvBuf { header: self.header(), bytes });
        }
        None
    }

    /// Bytes are to go to the peer in this way.
    pub(super) fn on_mode(&mut self, mode: Mode) -> Result<Event, Violation> {
        self.credits.free_control();
        self.their_mode = mode;
        Ok(Event::Progress)
    }

    /// The peer would have private buffers of so many bytes here. If that is less, it sends no more already.
    pub(super) fn on_resize(&mut self, bytes: u32) -> Result<Event, Violation> {
        self.credits.free_control();
        if bytes == 0 || self.ended || self.resized.is_some() {
            return Err(Violation);
        }
        self.me.buffer_bytes = bytes.min(self.largest);
        self.resized = Some(self.me.buffer_bytes);
        Ok(Event::Progress)
    }

    /// The peer's private buffers take so many.
    pub(super) fn on_resized(&mut self, bytes: u32) -> Result<Event, Violation> {
        self.credits.free_control();
        // Whoever has written all does not wait for the answer.
        let asked = self.resize == Resize::Sent || self.half == Half::Closed;
        if bytes == 0 || !asked {
            return Err(Violation);
        }
        self.resize = Resize::None;
        self.peer.buffer_bytes = bytes;
        Ok(Event::Progress)
    }
}
