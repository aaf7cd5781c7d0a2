//! Advertisements of both ends: ranges that are offered, wanted, read and written (ZCopy).

use super::{Endpoint, Outgoing, Recall};
use crate::sdp::credits::Purpose;
use weft_verbs::RemoteSlice;

impl Endpoint {
    /// Whether both ends keep advertisements, and the peer would have any now.
    pub fn takes_adverts(&self) -> bool {
        self.may_be_offered() > 0
    }

    /// Whether a range may be advertised now.
    pub fn may_offer(&self) -> bool {
        let most = self.may_be_offered() as usize;
        self.may_move() && self.offered.len() < most && self.credits.may_send(Purpose::Control)
    }

    /// Advertises a range, which is sent now; [`Endpoint::may_offer`] says that it may be.
    pub fn offer(&mut self, source: RemoteSlice) -> Outgoing {
        let header = self.header();
        self.sent += u64::from(source.len);
        self.void_sinks();
        self.offered.push_back(self.sent);
        Outgoing::SrcAvail { header, source }
    }

    /// Whether a range may be wanted now: nothing is there to be read before it.
    pub fn may_want(&self) -> bool {
        let most = self.me.adverts.min(self.peer.adverts) as usize;
        let room = self.wanted.len() < most && self.credits.may_send(Purpose::Control);
        let recalls = self.wants_back != Recall::None || self.returns_sources;
        self.stands()
            && self.sources.is_empty()
            && !self.ended
            && !recalls
            && room
            && self.wants_in_this_mode()
    }

    /// Wants a range; [`Endpoint::may_want`] says that it may.
    pub fn want(&mut self, sink: RemoteSlice) -> Outgoing {
        let start = self.wanted.back().map_or(self.expected, |(start, len)| start + u64::from(*len));
        self.wanted.push_back((start, sink.len));
        Outgoing::SinkAvail { header: self.header(), start, sink }
    }

    /// How many ranges this end wants.
    pub fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// Where bytes may be written now, if the peer wants them at this position.
    pub fn sink(&self) -> Option<RemoteSlice> {
        if !self.may_move() || !self.offered.is_empty() {
            return None;
        }
        self.sinks.front().filter(|(start, _)| *start == self.sent).map(|(_, sink)| *sink)
    }

    /// What is sent up to here voids the ranges that the peer wants, for both ends.
    pub(super) fn void_sinks(&mut self) {
        self.sinks.clear();
        self.void_until = self.sent;
    }

    /// A write into the [sink](Endpoint::sink) begins.
    pub fn begin_write(&mut self) {
        self.writing = true;
    }

    /// The write has ended, and the peer is told of so many bytes, if there are any.
    pub fn end_write(&mut self, written: u32) {
        self.writing = false;
        if written > 0 && self.stands() {
            self.wrote = Some(written);
        }
    }

    /// Whether a write into a range of the peer is under way.
    pub fn is_writing(&self) -> bool {
        self.writing
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
    pub(super) fn is_busy(&self) -> bool {
        self.reading || self.writing
    }

    /// Whether the peer may use memory of this end.
    pub(super) fn is_exposed(&self) -> bool {
        !self.offered.is_empty() || !self.wanted.is_empty()
    }
}
