//! Making a queue of what the nodes reported at the end of an epoch.

use super::messages::{Claim, Report};
use super::word::Word;
use crate::locks::Mode;
use crate::locks::queue::GrantQueue;
use crate::transport::Rank;

/// Who holds, and in which order the others come.
///
/// Those who want to share come first, as one group: the queue is finite and closed, so they keep nobody
/// waiting for long, and no order among them is known. Exclusive requests come in the order of their
/// compare-and-swaps, and those whose compare-and-swap never took effect come last, in the order in which the
/// nodes once opened the lock.
pub(crate) fn queue(last: Word, reported: &[(Rank, Report)]) -> GrantQueue {
    let mut queue = GrantQueue::default();
    let mut unserved = Vec::new();
    for &(who, report) in reported {
        // Nothing here can be out of turn: nodes report once, and holders of one consistent cut go together.
        let _ = match report.claim {
            Claim::Nothing => Ok(()),
            Claim::Holds(mode) => queue.hold(who, mode),
            Claim::WantsShared => queue.request(who, Mode::Shared),
            Claim::WantsExclusive { .. } => {
                unserved.push(who);
                Ok(())
            }
        };
    }
    for who in in_order(last, reported).into_iter().chain(unserved) {
        // Those in order appear among the unserved again, and are then refused as known.
        let _ = queue.request(who, Mode::Exclusive);
    }
    queue
}

/// The exclusive queue, from its head to its tail.
///
/// It is walked from the tail, which the word's last value names: a node that wants to be alone and is named
/// there did compare-and-swap, so it did replace what it had guessed, and that names the node before it. A
/// guess that never took effect is never reached. The walk ends where somebody does not wait (it holds, or it
/// has passed the lock on and has nothing), and where the link is an old one: when a node passed the lock to
/// that very request of its successor, the successor is the head, and the node itself has queued anew.
fn in_order(last: Word, reported: &[(Rank, Report)]) -> Vec<Rank> {
    let report_of = |who| reported.iter().find(|&&(r, _)| r == who).map(|(_, report)| report);
    let mut order = Vec::new();
    let mut tail = last.tail();
    while let Some(who) = tail
        && !order.contains(&who)
        && let Some(report) = report_of(who)
        && let Claim::WantsExclusive { over } = report.claim
    {
        order.push(who);
        let served = |before| {
            report_of(before)
                .and_then(|b| b.passed)
                .is_some_and(|passed| passed.who == who && passed.turn == report.turn)
        };
        tail = over.tail().filter(|&before| !served(before));
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::super::messages::Passed;
    use super::*;

    fn rank(n: u32) -> Rank {
        Rank::new(n).unwrap()
    }

    fn wants(over: Word, turn: u32, passed: Option<(u32, u32)>) -> Report {
        let passed = passed.map(|(who, turn)| Passed { who: rank(who), turn });
        Report { claim: Claim::WantsExclusive { over }, turn, passed }
    }

    fn has(claim: Claim) -> Report {
        Report { claim, turn: 0, passed: None }
    }

    fn grants(last: Word, reported: &[(u32, Report)]) -> Vec<u32> {
        let reported: Vec<_> = reported.iter().map(|&(who, report)| (rank(who), report)).collect();
        let mut queue = queue(last, &reported);
        let mut order = Vec::new();
        for &(who, report) in &reported {
            if matches!(report.claim, Claim::Holds(_)) {
                queue.release(who).unwrap();
            }
        }
        while let Some((who, _)) = queue.next_grant() {
            order.push(who.get());
            queue.release(who).unwrap();
        }
        order
    }

    #[test]
    fn the_exclusive_order_is_that_of_the_swaps() {
        let reported = [
            (1, has(Claim::Holds(Mode::Exclusive))),
            (2, wants(Word::behind(rank(4), 2), 1, None)),
            (3, wants(Word::behind(rank(2), 0), 1, None)),
            (4, wants(Word::behind(rank(1), 0), 1, None)),
            (5, has(Claim::WantsShared)),
        ];
        assert_eq!(grants(Word::behind(rank(3), 0), &reported), [5, 4, 2, 3]);
    }

    #[test]
    fn a_swap_that_never_took_effect_comes_last() {
        let reported = [
            (1, wants(Word::behind(rank(3), 0), 1, None)),
            (2, wants(Word::behind(rank(3), 0), 1, None)),
            (3, has(Claim::Holds(Mode::Exclusive))),
        ];
        assert_eq!(grants(Word::behind(rank(2), 1), &reported), [2, 1]);
    }

    #[test]
    fn one_that_passed_the_lock_on_and_queued_again_comes_after_its_successor() {
        let reported = [
            (1, wants(Word::behind(rank(2), 0), 2, Some((2, 1)))),
            (2, wants(Word::behind(rank(1), 0), 1, None)),
        ];
        assert_eq!(grants(Word::behind(rank(1), 0), &reported), [2, 1]);
    }

    #[test]
    fn a_lock_passed_to_an_earlier_request_says_nothing_about_this_one() {
        let reported =
            [(1, wants(Word::FREE, 3, Some((2, 1)))), (2, wants(Word::behind(rank(1), 0), 2, None))];
        assert_eq!(grants(Word::behind(rank(2), 0), &reported), [1, 2]);
    }
}
