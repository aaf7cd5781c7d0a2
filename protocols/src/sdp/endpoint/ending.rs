//! How a stream ends: in order when both halves are closed, or at once.

use super::{Endpoint, Event, Failure, Half, Phase, Recall, Resize, Violation};
use crate::sdp::Refusal;
use crate::sdp::credits::Purpose;

impl Endpoint {
    /// The user writes no more.
    pub fn shutdown(&mut self) {
        if self.half == Half::Open {
            self.half = Half::Closing;
        }
    }

    /// The word that the stream is over could not be sent.
    pub fn aborts_again(&mut self) {
        if let Phase::Failed { aborts, .. } = &mut self.phase {
            *aborts = true;
        }
    }

    /// Whether the user may still write.
    pub fn is_writable(&self) -> bool {
        self.half == Half::Open
    }

    /// Whether the peer has said that it writes no more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether both ends have said that they write no more, and this end knows.
    ///
    /// From then on an end tells only how far it has received, which takes no credit: nobody returns any more then, since the other end
    /// may have forgotten the stream. Whatever else was open needs no answer: `DisConn` says that its sender writes nothing any more where it was wanted, and asks for no other buffers.
    pub(super) fn have_both_closed(&self) -> bool {
        self.ended && self.half == Half::Closed
    }

    /// This end says that it writes no more: nothing is to be answered that only mattered to what it writes.
    pub(super) fn close_questions(&mut self) {
        self.resize = Resize::None;
    }

    /// The peer says so.
    pub(super) fn on_end(&mut self) -> Result<Event, Violation> {
        if self.ended {
            return Err(Violation);
        }
        self.credits.free_control();
        self.wanted.clear();
        self.wants_back = Recall::None;
        self.resized = None;
        self.ended = true;
        self.expected += 1;
        Ok(Event::End)
    }

    /// Whether this end waits for something of its peer, bytes to read aside: for an answer, for credits, until it uses what this end
    /// advertises or has received the end of the stream, or for its adapter. A peer that is gone would never let it go on.
    pub fn is_open(&self) -> bool {
        let half_waits = || match self.half {
            Half::Open => !self.credits.may_send(Purpose::Data),
            Half::Closing | Half::Closed => !self.is_acknowledged(),
        };
        match self.phase {
            Phase::Greeting { sent } => sent,
            Phase::Open { .. } => {
                let uses = self.is_busy() || self.wrote.is_some();
                self.is_exposed() || uses || self.is_recalling() || self.is_resizing() || half_waits()
            }
            Phase::Failed { .. } => false,
        }
    }

    /// Whether the peer has received everything, `DisConn` included.
    pub fn is_acknowledged(&self) -> bool {
        self.half == Half::Closed && self.acked == self.sent
    }

    /// Whether nothing more will be sent or received, and the stream may be forgotten.
    pub fn is_over(&self) -> bool {
        match self.phase {
            Phase::Failed { aborts, waits, .. } => !aborts && !waits && !self.is_busy(),
            Phase::Greeting { .. } => false,
            Phase::Open { .. } => {
                let mine = self.half == Half::Closed && self.acked == self.sent;
                let asks = self.is_recalling() || self.is_resizing();
                mine && self.ended && self.told == self.expected && !asks
            }
        }
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        match self.phase {
            Phase::Failed { why, .. } => Some(why),
            _ => None,
        }
    }

    /// The peer has aborted the stream because its address changed.
    pub fn blame_address(&mut self) {
        let (_, acknowledged) = self.positions();
        if let Phase::Failed { why: why @ Failure::Reset, .. } = &mut self.phase {
            *why = Failure::AddressChanged { acknowledged };
        }
    }

    /// The user reads no more: of what still comes the peer's user must learn that it is lost.
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

    /// The peer has begun anew, and knows nothing of what it was asked. Whether the connection is to be made still: it is asked for again.
    pub fn asks_anew(&mut self) -> bool {
        let connects = self.is_connecting();
        if connects {
            self.phase = Phase::Greeting { sent: false };
        }
        connects
    }

    /// The peer refuses the connection.
    pub fn refused(&mut self, why: Refusal) -> Result<Event, Violation> {
        match self.phase {
            Phase::Greeting { sent: true } => {
                self.phase = Phase::Failed { why: Failure::Refused(why), aborts: false, waits: false };
                Ok(Event::Aborted)
            }
            _ => Err(Violation),
        }
    }
}
