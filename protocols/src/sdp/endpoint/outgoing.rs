//! What an end says next, unasked: control messages in the order of the stream.

use super::{Endpoint, Failure, Half, Outgoing, Phase};
use crate::sdp::credits::Purpose;
use crate::sdp::message::Header;

impl Endpoint {
    /// The header of a data message with so many bytes, which is sent now; [`Endpoint::may_write`] says that it may be.
    pub fn data(&mut self, len: u64) -> Header {
        let header = self.header();
        self.sent += len;
        self.void_sinks();
        header
    }

    /// A control message to send now, if there is one. Where there is none, nothing changes: who has no room asks a copy.
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
                let moved = matches!(why, Failure::AddressChanged { .. });
                return Some(Outgoing::AbortConn { to: self.peer.from, moved });
            }
            Phase::Greeting { sent: true } | Phase::Failed { .. } => return None,
            Phase::Open { acked: true } => {}
        }
        if self.have_both_closed() {
            return (self.told != self.received()).then(|| Outgoing::Credits(self.tells_all()));
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
        if control && !self.read.is_empty() {
            // The acknowledged position tells it; two ranges may be more than the field takes.
            let len = self.read.iter().fold(0_u32, |all, len| all.saturating_add(*len));
            return Some(Outgoing::RdmaRdCompl { header: self.header(), len });
        }
        if control && let Some(outgoing) = self.next_recall() {
            return Some(outgoing);
        }
        if control && let Some(outgoing) = self.next_change() {
            return Some(outgoing);
        }
        if self.half == Half::Closing && self.is_settled() && control {
            let header = self.header();
            self.half = Half::Closed;
            self.sent += 1;
            self.void_sinks();
            self.close_questions();
            return Some(Outgoing::DisConn(header));
        }
        // After its end the peer needs credits for what it tells of reads, until this end has written all. It waits to hear that its
        // end was received.
        let tells_end = self.ended && self.told != self.received();
        if tells_end || self.credits.is_return_due() {
            return Some(Outgoing::Credits(self.tells_all()));
        }
        None
    }

    /// Whether there is one. It is asked where the transport has no room, and [`Endpoint::next`] itself knows.
    pub fn has_to_say(&self) -> bool {
        self.clone().next().is_some()
    }

    /// The header of a message that is sent now: it takes a credit, and tells the peer all that it is owed. What it tells of ranges
    /// that were read is not told again: the peer may have forgotten the stream by then.
    pub(super) fn header(&mut self) -> Header {
        self.credits.spend();
        self.tells_all()
    }

    /// What every message on a stream tells.
    fn tells_all(&mut self) -> Header {
        self.read.clear();
        self.told = self.received();
        Header { to: self.peer.from, grant: self.credits.grant(), acked: self.told, at: self.sent }
    }
}
