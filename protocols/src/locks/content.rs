//! What a node's lock service still knows: see the runtime's `content`.

use super::LockService;
use super::daemon::Daemon;
use super::homes::Homes;
use super::local::LocalQueue;
use super::words::Words;
use crate::rt::Frame;
use std::hash::{Hash, Hasher};
use weft_verbs::Verbs;

/// Where a request stands in the code, and what it still knows there, is for an explorer. A wire to which no explorer
/// listens does nothing about it.
pub(crate) trait Telling {
    /// See [`Rt::rest`](crate::rt::Rt::rest).
    fn rest(&self) -> Frame<'_> {
        Frame::UNHEARD
    }

    /// See [`Rt::frame`](crate::rt::Rt::frame).
    fn frame(&self) -> Frame<'_> {
        Frame::UNHEARD
    }
}

impl<V: Verbs> LockService<V> {
    /// Adds what the service still knows to a hash; what its tasks know is the [runtime's](crate::rt::Rt::content) to
    /// tell. False if that cannot be said: messages are kept back.
    pub fn content(&self, to: &mut impl Hasher) -> bool {
        let stats = self.stats();
        // The other counts are for reports.
        (stats.out_of_turn, stats.malformed).hash(to);
        self.next_ticket().hash(to);
        self.daemon().content(to)
    }
}

impl<V: Verbs> Daemon<V> {
    fn content(&self, to: &mut impl Hasher) -> bool {
        self.each_lock(|key, served, queue, seat| {
            (key, served).hash(to);
            queue.content(to);
            seat.content(to);
        });
        self.homes().content(to);
        self.keeps_nothing_back()
    }
}

impl LocalQueue {
    pub(super) fn content(&self, to: &mut impl Hasher) {
        self.each_waiting(|ticket, mode, patience, listens| (ticket, mode, patience, listens).hash(to));
        self.held().hash(to);
    }
}

impl<V: Verbs> Homes<V> {
    fn content(&self, to: &mut impl Hasher) {
        self.words().content(to);
        self.each_home(to);
    }
}

impl<V: Verbs> Words<V> {
    fn content(&self, to: &mut impl Hasher) {
        self.numbers().hash(to);
    }
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
