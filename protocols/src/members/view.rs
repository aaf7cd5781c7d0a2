//! Views: lists of incarnations, and how many of them decide.

use crate::transport::Rank;
use std::fmt;

/// One boot of one node. A node that restarts is another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The node.
    pub rank: Rank,
    /// Its boot: never zero.
    pub incarnation: u64,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:x}", self.rank, self.incarnation & 0xffff)
    }
}

/// The order of proposals: of two with one round, the one of the higher incarnation is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Counts up.
    pub round: u32,
    /// The proposer's incarnation: a node that restarts cannot use its ballots again, and no other node has it.
    pub by: u64,
}

/// Names a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId {
    /// Which cold start it descends from: the proposal that was decided there. Zero before any.
    pub lineage: Ballot,
    /// Its number, from 1. Zero before any.
    pub number: u64,
}

/// The incarnations that act together, under a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// Its name.
    pub id: ViewId,
    /// By rank; one incarnation a rank.
    pub members: Vec<Member>,
    /// By rank: of nodes that have no member, the incarnation that a view of this lineage left out last. None of them comes back: who is told of a
    /// view alone, and of none before it, knows them by this.
    pub left: Vec<Member>,
}

/// How many make a majority.
pub(super) const fn majority(of: usize) -> usize {
    of / 2 + 1
}

/// The fewest members that a view has, among so many configured nodes: it never shrinks below their majority.
pub(super) const fn fewest(nodes: usize) -> usize {
    majority(nodes)
}

/// How many nodes without a view it takes to begin anew: so many that those who are left cannot be a majority of any
/// view. Never fewer than a majority of the nodes, so that two beginnings share one.
pub(super) fn cold_quorum(nodes: usize) -> usize {
    (nodes + 1 - majority(fewest(nodes))).max(majority(nodes))
}

impl View {
    /// Whether it has this incarnation.
    pub fn contains(&self, member: Member) -> bool {
        self.of(member.rank) == Some(member)
    }

    /// The incarnation of a node.
    pub fn of(&self, rank: Rank) -> Option<Member> {
        self.members.iter().copied().find(|member| member.rank == rank)
    }

    /// How many of its members decide.
    pub fn quorum(&self) -> usize {
        majority(self.members.len())
    }

    /// The first member from this rank on, around the end of the list: who takes the place of a node that is not there.
    pub fn successor(&self, rank: Rank) -> Option<Member> {
        let from = self.members.iter().copied().find(|member| member.rank >= rank);
        from.or(self.members.first().copied())
    }

    /// The view of a lineage that follows on this one, with these members.
    pub(super) fn next(&self, lineage: Ballot, members: Vec<Member>) -> View {
        let has_none = |member: &&Member| members.iter().all(|other| other.rank != member.rank);
        let mut left: Vec<Member> = self.members.iter().chain(&self.left).filter(has_none).copied().collect();
        left.sort_unstable();
        View { id: ViewId { lineage, number: self.id.number + 1 }, members, left }
    }

    /// With whom a member that begins it has nothing to do any more: with these, who left the view that it was in before, and with those whom
    /// views that it never began had left out.
    pub(crate) fn gone<'a>(&'a self, left: &'a [Member]) -> impl Iterator<Item = Member> + 'a {
        left.iter().chain(self.left.iter().filter(|member| !left.contains(member))).copied()
    }

    /// Whether it is a later view of the same lineage.
    pub(super) fn follows(&self, older: &View) -> bool {
        self.id.lineage == older.id.lineage && self.id.number > older.id.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_start_takes_so_many_that_no_view_can_go_on_without_them() {
        for nodes in 1..=64 {
            let cold = cold_quorum(nodes);
            assert!((fewest(nodes)..=nodes).contains(&cold), "{nodes}");
            for members in fewest(nodes)..=nodes {
                assert!(nodes - cold < majority(members), "{nodes} {members}");
            }
        }
        assert_eq!([1, 2, 3, 4, 5, 16].map(cold_quorum), [1, 2, 2, 3, 4, 12]);
    }

    #[test]
    fn the_place_of_a_node_that_is_not_there_goes_to_the_next_one() {
        let member = |rank| Member { rank: Rank::new(rank).unwrap(), incarnation: 1 };
        let view = View { id: ViewId::default(), members: vec![member(1), member(3)], left: Vec::new() };
        let next = |rank| view.successor(Rank::new(rank).unwrap()).map(|member| member.rank.get());
        assert_eq!([1, 2, 3, 4].map(next), [Some(1), Some(3), Some(3), Some(1)]);
        assert_eq!(View::default().successor(Rank::new(1).unwrap()), None);
    }

    #[test]
    fn a_view_names_whom_views_before_it_left_out_until_their_nodes_have_a_member_again() {
        let member = |rank, incarnation| Member { rank: Rank::new(rank).unwrap(), incarnation };
        let (one, two, three) = (member(1, 1), member(2, 1), member(3, 1));
        let first = View::default().next(Ballot::default(), vec![one, two, three]);
        assert_eq!((first.id.number, &first.left[..]), (1, &[][..]));
        let second = first.next(Ballot::default(), vec![two]);
        assert_eq!((second.id.number, &second.left[..]), (2, &[one, three][..]));
        let third = second.next(Ballot::default(), vec![two, member(3, 2)]);
        assert_eq!(third.left, [one]);
        let fourth = third.next(Ballot::default(), vec![two]);
        assert_eq!(fourth.left, [one, member(3, 2)]);
    }
}
