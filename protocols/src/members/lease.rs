//! A member's own lease: until when it may rely on what it was granted.

use super::view::Member;
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
    renewal: Option<Renewal>,
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
        (self.until, self.renewal, self.next) = (Nanos::ZERO, None, Nanos::ZERO);
    }

    /// A view is over: what was asked in it is answered no more, so it is asked again at once. The lease itself runs on.
    pub(super) fn view_ended(&mut self) {
        (self.renewal, self.next) = (None, Nanos::ZERO);
    }

    /// When it is to be renewed, if ever.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.wanted.then_some(self.next)
    }

    /// A renewal is sent now: its number.
    pub(super) fn renew(&mut self, now: Nanos, lease: Nanos) -> u64 {
        self.last_id += 1;
        self.next = now + Nanos(lease.0 / 3).max(Nanos(1));
        self.renewal = Some(Renewal { id: self.last_id, sent: now, answered: Vec::new() });
        self.last_id
    }

    /// A member has renewed it. With the answers of `quorum`, the lease runs from the moment when the renewal was *sent*: how
    /// long the answer took is not known to those who wait for its end.
    pub(super) fn renewed(&mut self, id: u64, by: Member, quorum: usize, lease: Nanos) -> bool {
        let Some(renewal) = self.renewal.as_mut().filter(|renewal| renewal.id == id) else { return false };
        if !renewal.answered.contains(&by) {
            renewal.answered.push(by);
        }
        if renewal.answered.len() < quorum {
            return false;
        }
        let longer = self.until.max(renewal.sent + lease);
        std::mem::replace(&mut self.until, longer) < longer
    }
}

impl Hash for Lease {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.wanted, self.until, &self.renewal, self.next).hash(to);
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
