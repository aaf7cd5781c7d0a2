//! Getting advertised memory back: cancels and their answers.

use super::{Endpoint, Event, Half, Outgoing, Recall, Violation};

impl Endpoint {
    /// Asks for what this end offers. Nothing is sent of the stream until the peer has answered. Not behind the stream's end, which
    /// has its place after the offers.
    pub fn recall_offers(&mut self) -> bool {
        let may = self.stands() && self.half != Half::Closed;
        if may && !self.offered.is_empty() && self.offers_back == Recall::None {
            self.offers_back = Recall::Wanted;
            // What comes back has yet to go before the end.
            self.half = Half::Open;
        }
        may
    }

    /// Whether the peer has yet to answer that.
    pub fn is_recalling_offers(&self) -> bool {
        self.offers_back != Recall::None
    }

    /// Asks for what this end wants. Nothing more is wanted until the peer has answered.
    pub fn recall_wants(&mut self) {
        if !self.wanted.is_empty() && self.wants_back == Recall::None {
            self.wants_back = Recall::Wanted;
        }
    }

    /// Whether what the peer offers is to be returned: nothing of it is read now.
    pub fn may_return_sources(&self) -> bool {
        self.returns_sources && !self.reading
    }

    /// Nothing more is read of the peer's ranges; of the first one, so many bytes were left.
    pub fn return_sources(&mut self, left: u32) {
        let Some((start, len)) = self.sources.front().copied() else { return };
        let read = len.saturating_sub(left);
        self.sources.clear();
        if read > 0 {
            self.read.push_back(read);
        }
        self.returned_from = Some(self.expected);
        self.expected = start + u64::from(read);
    }

    /// Whether a cancel of either end is not answered yet.
    pub(super) fn is_recalling(&self) -> bool {
        let asks = self.offers_back != Recall::None || self.wants_back != Recall::None;
        asks || self.returns_sources || self.returns_sinks
    }

    /// Gives up cancels that were not sent where nothing is left to get back.
    pub(super) fn drop_void_recalls(&mut self) {
        if self.offers_back == Recall::Wanted && self.offered.is_empty() {
            self.offers_back = Recall::None;
        }
        if self.wants_back == Recall::Wanted && self.wanted.is_empty() {
            self.wants_back = Recall::None;
        }
    }

    /// A cancel, or the answer to one, if it is its turn. The caller has a credit for it.
    pub(super) fn next_recall(&mut self) -> Option<Outgoing> {
        if self.offers_back == Recall::Wanted {
            self.offers_back = Recall::Sent;
            return Some(Outgoing::SrcAvailCancel(self.header()));
        }
        if self.wants_back == Recall::Wanted {
            self.wants_back = Recall::Sent;
            return Some(Outgoing::SinkAvailCancel(self.header()));
        }
        // What was read is told before.
        if self.returns_sources && !self.reading && self.sources.is_empty() && self.read.is_empty() {
            self.returns_sources = false;
            return Some(Outgoing::SendSm(self.header()));
        }
        if self.returns_sinks && !self.writing && self.wrote.is_none() {
            self.returns_sinks = false;
            self.sinks.clear();
            return Some(Outgoing::SinkCancelAck(self.header()));
        }
        None
    }

    /// The peer wants back what it offers.
    pub(super) fn on_source_cancel(&mut self) -> Result<Event, Violation> {
        self.credits.free_control();
        if self.ended || std::mem::replace(&mut self.returns_sources, true) {
            return Err(Violation);
        }
        Ok(Event::Recalled)
    }

    /// The peer reads nothing any more of what this end offered: it goes on from where the peer is.
    pub(super) fn on_send_sm(&mut self) -> Result<Event, Violation> {
        self.credits.free_control();
        if self.offers_back != Recall::Sent {
            return Err(Violation);
        }
        self.offers_back = Recall::None;
        self.offered.clear();
        self.sent = self.acked;
        self.void_until = self.sent;
        Ok(Event::Returned)
    }

    /// The peer wants back what it wants. A write that is under way ends first. Where this end has said that it writes no more, that
    /// is the answer.
    pub(super) fn on_sink_cancel(&mut self) -> Result<Event, Violation> {
        self.credits.free_control();
        if self.half == Half::Closed {
            return Ok(Event::Progress);
        }
        if std::mem::replace(&mut self.returns_sinks, true) {
            return Err(Violation);
        }
        let under_way = self.writing || self.wrote.is_some();
        self.sinks.truncate(usize::from(under_way));
        Ok(Event::Progress)
    }

    /// The peer writes nothing any more where this end wanted bytes.
    pub(super) fn on_sink_returned(&mut self) -> Result<Event, Violation> {
        self.credits.free_control();
        if self.wants_back != Recall::Sent {
            return Err(Violation);
        }
        self.wants_back = Recall::None;
        self.wanted.clear();
        Ok(Event::Progress)
    }
}
