//! One decision: Paxos (Lamport, "Paxos made simple", 2001) on volatile memory, for the view of one number.
//!
//! Its acceptors are incarnations. A node that restarts has forgotten what it accepted, and is another incarnation, which
//! has no voice here: so nothing needs a disk.

use super::view::{Ballot, Member, View};

/// What an incarnation has promised and accepted for the view after its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Acceptor {
    promised: Ballot,
    accepted: Option<(Ballot, View)>,
}

impl Acceptor {
    /// Phase 1b: whether this proposal may go on.
    pub(super) fn prepare(&mut self, ballot: Ballot) -> bool {
        let goes_on = ballot >= self.promised;
        self.promised = self.promised.max(ballot);
        goes_on
    }

    /// Phase 2b: whether this view is accepted.
    pub(super) fn accept(&mut self, ballot: Ballot, next: View) -> bool {
        let accepts = ballot >= self.promised;
        if accepts {
            self.promised = ballot;
            self.accepted = Some((ballot, next));
        }
        accepts
    }

    /// What was promised and not accepted is void.
    pub(super) fn withdraw(&mut self) {
        if self.promised > Ballot::default() {
            self.promised.round += 1;
        }
    }

    /// The latest proposal that it knows.
    pub(super) fn promised(&self) -> Ballot {
        self.promised
    }

    /// What it accepted last.
    pub(super) fn accepted(&self) -> Option<&(Ballot, View)> {
        self.accepted.as_ref()
    }
}

/// A proposal under way at its proposer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proposal {
    pub(super) ballot: Ballot,
    /// Who has promised.
    promised: Vec<Member>,
    /// Of what they had accepted, the latest.
    latest: Option<(Ballot, View)>,
    /// What is proposed, once enough have promised.
    next: Option<View>,
    accepted: Vec<Member>,
}

impl Proposal {
    pub(super) fn new(ballot: Ballot) -> Proposal {
        Proposal { ballot, promised: Vec::new(), latest: None, next: None, accepted: Vec::new() }
    }

    /// A promise came. `counts` says whether what was accepted matters (2a).
    pub(super) fn promise(
        &mut self,
        from: Member,
        accepted: Option<(Ballot, View)>,
        counts: impl Fn(&View) -> bool,
    ) {
        if self.next.is_some() {
            return;
        }
        // A rank has one voice, that of its latest incarnation.
        self.promised.retain(|member| member.rank != from.rank);
        self.promised.push(from);
        let accepted = accepted.filter(|(_, view)| counts(view));
        if accepted.as_ref().map(|(ballot, _)| *ballot) > self.latest.as_ref().map(|(ballot, _)| *ballot) {
            self.latest = accepted;
        }
    }

    /// Phase 2a, once `quorum` have promised: what is to be accepted, and by whom. It is what may have been decided already,
    /// or what the proposer wants, if it wants anything.
    pub(super) fn propose(
        &mut self,
        quorum: usize,
        wants: impl FnOnce() -> Option<View>,
    ) -> Option<(View, &[Member])> {
        if self.next.is_some() || self.promised.len() < quorum {
            return None;
        }
        let next = self.latest.take().map(|(_, view)| view).or_else(wants)?;
        self.next = Some(next.clone());
        Some((next, &self.promised))
    }

    /// An acceptance came. Says what is decided by it: only those who promised count. (In a cold start this matters: all
    /// who count had no view at one moment, that of phase 2a.)
    pub(super) fn accepted(&mut self, from: Member, quorum: usize) -> Option<View> {
        if self.promised.contains(&from) && !self.accepted.contains(&from) {
            self.accepted.push(from);
        }
        self.next.clone().filter(|_| self.accepted.len() >= quorum)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::ViewId;
    use super::*;
    use crate::transport::Rank;

    fn member(rank: u32, incarnation: u64) -> Member {
        Member { rank: Rank::new(rank).unwrap(), incarnation }
    }

    fn view(round: u32) -> View {
        View {
            id: ViewId { lineage: ballot(round), number: 2 },
            members: vec![member(1, 1)],
            ..View::default()
        }
    }

    const fn ballot(round: u32) -> Ballot {
        Ballot { round, by: 7 }
    }

    #[test]
    fn an_acceptor_keeps_its_promise() {
        let mut acceptor = Acceptor::default();
        assert!(acceptor.prepare(ballot(2)));
        assert!(!acceptor.prepare(ballot(1)) && !acceptor.accept(ballot(1), view(1)));
        assert!(acceptor.accept(ballot(2), view(2)));
        assert!(acceptor.prepare(ballot(3)) && !acceptor.accept(ballot(2), view(1)));
        assert_eq!(acceptor.accepted(), Some(&(ballot(2), view(2))));
    }

    #[test]
    fn a_proposer_takes_up_what_was_accepted_last_and_counts_a_rank_once() {
        let mut proposal = Proposal::new(ballot(9));
        proposal.promise(member(1, 1), Some((ballot(1), view(1))), |_| true);
        proposal.promise(member(1, 5), None, |_| true);
        assert!(proposal.propose(2, || Some(view(9))).is_none());
        proposal.promise(member(2, 2), Some((ballot(3), view(3))), |_| true);
        proposal.promise(member(3, 3), Some((ballot(4), view(4))), |view| view.id.lineage.round != 4);
        let (next, to) = proposal.propose(2, || Some(view(9))).unwrap();
        assert_eq!((next, to.len()), (view(3), 3));
        assert_eq!(proposal.accepted(member(1, 1), 2), None, "it did not promise in this incarnation");
        assert_eq!(proposal.accepted(member(2, 2), 2), None);
        assert_eq!(proposal.accepted(member(2, 2), 2), None);
        assert_eq!(proposal.accepted(member(3, 3), 2), Some(view(3)));
    }
}
