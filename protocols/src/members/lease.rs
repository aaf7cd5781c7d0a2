//! A member's own lease: until when it may rely on what it was granted.

use super::view::Member;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// A renewal that is under way.
#[derive(Clone, Debug, Hash)]
struct Renewal {
    id: u64,
    sent: Nanos,
    answered: Vec<Member>,
}

/// A member's own lease.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease {
    /// Something is held or asked for, so the lease is kept.
    pub(super) wanted: bool,
    until: Nanos,
    /// Renewals whose answers may still make it longer, by number. The next one is sent whether or not they have come, so with
    /// the latest alone a lease would never begin where an answer takes longer than that.
    renewals: VecDeque<Renewal>,
    /// When to renew it next, while it is wanted.
    next: Nanos,
    last_id: u64,
}

impl Lease {
    /// Until when it runs.
    pub(super) fn until(&self) -> Nanos {
        self.until
    }

    /// It ends now.
    pub(super) fn end(&mut self) {
        (self.until, self.next) = (Nanos::ZERO, Nanos::ZERO);
        self.renewals.clear();
    }

    /// A view is over: what was asked in it is answered no more, so it is asked again at once. The lease itself runs on.
    pub(super) fn view_ended(&mut self) {
        self.renewals.clear();
        self.next = Nanos::ZERO;
    }

    /// When it is to be renewed, if ever.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.wanted.then_some(self.next)
    }

    /// A renewal is sent now: its number.
    pub(super) fn renew(&mut self, now: Nanos, lease: Nanos) -> u64 {
        self.last_id += 1;
        self.next = now + Nanos(lease.0 / 3).max(Nanos(1));
        self.renewals.retain(|renewal| renewal.sent + lease > now);
        self.renewals.push_back(Renewal { id: self.last_id, sent: now, answered: Vec::new() });
        self.last_id
    }

    /// A member has renewed it. With the answers of `quorum`, the lease runs from the moment when the renewal was *sent*: how
    /// long the answer took is not known to those who wait for its end. Who answers one renewal had not accepted the next view
    /// when it was asked the ones before, either: its answer counts for these, too, which it may have been spared.
    pub(super) fn renewed(&mut self, id: u64, by: Member, quorum: usize, lease: Nanos) -> bool {
        let mut longer = self.until;
        // One that is not under way any more was answered by enough, or is of no use.
        let is_known = self.renewals.iter().any(|renewal| renewal.id == id);
        for renewal in self.renewals.iter_mut().filter(|renewal| is_known && renewal.id <= id) {
            if !renewal.answered.contains(&by) {
                renewal.answered.push(by);
            }
            if renewal.answered.len() >= quorum {
                longer = longer.max(renewal.sent + lease);
            }
        }
        self.renewals.retain(|renewal| renewal.sent + lease > longer);
        std::mem::replace(&mut self.until, longer) < longer
    }
}

impl Hash for Lease {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.wanted, self.until, &self.renewals, self.next).hash(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Rank;

    fn member(rank: u32) -> Member {
        Member { rank: Rank::new(rank).unwrap(), incarnation: 1 }
    }

    #[test]
    fn a_lease_runs_from_when_its_renewal_was_sent_and_takes_a_quorum() {
        let mut lease = Lease { wanted: true, ..Lease::default() };
        let id = lease.renew(Nanos(100), Nanos(30));
        assert_eq!(lease.due(), Some(Nanos(110)));
        assert!(!lease.renewed(id, member(1), 2, Nanos(30)));
        assert!(!lease.renewed(id, member(1), 2, Nanos(30)), "one voice a member");
        assert!(!lease.renewed(id + 1, member(2), 2, Nanos(30)), "of another renewal");
        assert!(lease.renewed(id, member(2), 2, Nanos(30)));
        assert_eq!(lease.until(), Nanos(130));
        assert!(!lease.renewed(id, member(3), 2, Nanos(30)), "nothing new");
        lease.wanted = false;
        assert_eq!(lease.due(), None);
    }

    #[test]
    fn an_answer_that_takes_longer_than_the_time_between_two_renewals_counts() {
        let mut lease = Lease { wanted: true, ..Lease::default() };
        let [first, second, third] = [100, 110, 120].map(|now| lease.renew(Nanos(now), Nanos(30)));
        assert!(!lease.renewed(second, member(1), 2, Nanos(30)));
        assert!(lease.renewed(first, member(2), 2, Nanos(30)));
        assert_eq!(
            lease.until(),
            Nanos(130),
            "the first was answered by one, and by one who answered the second"
        );
        assert!(lease.renewed(third, member(2), 2, Nanos(30)));
        assert_eq!(lease.until(), Nanos(140), "and so was the second");
        assert!(!lease.renewed(first, member(3), 2, Nanos(30)), "nothing new");
        let last = lease.renew(Nanos(170), Nanos(30));
        assert!(!lease.renewed(third, member(3), 2, Nanos(30)), "what it would renew is over");
        assert!(!lease.renewed(last, member(1), 2, Nanos(30)));
    }

    #[test]
    fn a_view_that_ends_leaves_the_lease_and_asks_anew() {
        let mut lease = Lease { wanted: true, ..Lease::default() };
        let id = lease.renew(Nanos(100), Nanos(30));
        assert!(lease.renewed(id, member(1), 1, Nanos(30)));
        let id = lease.renew(Nanos(110), Nanos(30));
        lease.view_ended();
        assert!(!lease.renewed(id, member(1), 1, Nanos(30)));
        assert_eq!((lease.until(), lease.due()), (Nanos(130), Some(Nanos::ZERO)));
        lease.end();
        assert_eq!(lease.until(), Nanos::ZERO);
    }
}
