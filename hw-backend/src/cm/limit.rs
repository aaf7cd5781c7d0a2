//! When attempts are given up that nobody answers.

use crate::ffi::Alarm;
use crate::host;
use crate::reactor::{Hint, Reactor};
use std::cell::Cell;
use weft_verbs::{Nanos, Result};

/// Wakes the node when the first of several moments comes.
pub(super) struct Limit {
    alarm: Alarm,
    /// When the alarm rings, or has rung; `MAX`: never. No moment of an attempt that is open is before it.
    rings: Cell<Nanos>,
}

impl Limit {
    /// One that the reactor watches, with a hint.
    pub(super) fn watched(reactor: &Reactor, hint: &Hint) -> Result<Limit> {
        let alarm = Alarm::new()?;
        reactor.watch_beside(alarm.fd(), hint)?;
        Ok(Limit { alarm, rings: Cell::new(Nanos::MAX) })
    }

    /// The reactor does not watch it any more.
    pub(super) fn forget(&self, reactor: &Reactor) {
        reactor.forget(self.alarm.fd());
    }

    /// The moment after a span. The node is woken then, or before.
    pub(super) fn after(&self, span: Nanos) -> Nanos {
        let at = host::now() + span;
        if at < self.rings.get() {
            self.set(at);
        }
        at
    }

    /// Of these moments, those that have come. The node is woken for the others only.
    pub(super) fn overdue(&self, all: impl Iterator<Item = (u64, Nanos)>) -> Vec<u64> {
        let now = host::now();
        if now < self.rings.get() {
            return Vec::new();
        }
        let (over, later): (Vec<_>, Vec<_>) = all.partition(|(_, at)| *at <= now);
        // Also if none of them has come, since what it was set for has ended: an alarm that has rung ends each wait at once until it
        // is set again.
        self.set(later.iter().map(|(_, at)| *at).min().unwrap_or(Nanos::MAX));
        over.into_iter().map(|(key, _)| key).collect()
    }

    fn set(&self, at: Nanos) {
        self.rings.set(at);
        self.alarm.set(if at == Nanos::MAX { 0 } else { (at - host::now()).0.max(1) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Nanos = Nanos::from_millis(1);
    const LATER: Nanos = Nanos::from_secs(60);

    /// A limit, and the reactor that watches it.
    fn watched() -> (Limit, Reactor) {
        let reactor = Reactor::new().expect("there are descriptors");
        let limit = Alarm::new().and_then(|alarm| {
            let hint = reactor.watch(alarm.fd())?;
            reactor.forget(alarm.fd());
            Limit::watched(&reactor, &hint)
        });
        (limit.expect("there are descriptors"), reactor)
    }

    fn wakes(reactor: &Reactor, within: Nanos) -> bool {
        reactor.wait(Some(within.0))
    }

    #[test]
    fn a_node_is_woken_once_for_an_attempt_that_was_answered_in_time() {
        let (limit, reactor) = watched();
        limit.after(SOON);
        assert!(wakes(&reactor, LATER));
        assert!(limit.overdue([].into_iter()).is_empty());
        assert!(!wakes(&reactor, SOON), "it is woken although nothing is overdue");
    }

    #[test]
    fn each_attempt_is_overdue_at_its_own_time() {
        let (limit, reactor) = watched();
        let all = [(1, limit.after(LATER)), (2, limit.after(SOON)), (3, limit.after(SOON + SOON))];
        let mut over = Vec::new();
        while over.len() < 2 {
            assert!(wakes(&reactor, LATER), "after {over:?}");
            over.extend(limit.overdue(all.into_iter().filter(|(key, _)| !over.contains(key))));
        }
        assert_eq!(over, [2, 3]);
        assert!(!wakes(&reactor, SOON), "the last one's time is not over");
    }
}
