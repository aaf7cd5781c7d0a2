//! Which incarnation of each node has a part in the segments, as far as one node knows: a state machine without I/O.
//!
//! It is told the views as they begin, and which peers have begun anew by their connections. The two come in any order: a view may have an
//! incarnation that has not connected yet, and one may have connected that no view has yet.

use crate::members::{Member, View};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// One incarnation of a node: whom something is said to, or expected of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Party {
    /// The node.
    pub rank: Rank,
    /// Its incarnation; 0 where nobody agrees on who is alive: any.
    pub incarnation: u64,
}

#[derive(Debug, Default)]
pub(super) struct Parties {
    /// The last view that has begun.
    view: Option<View>,
    /// Of each node, the incarnation that was in a view and has not died.
    alive: BTreeMap<Rank, u64>,
    /// Incarnations that have died.
    dead: BTreeMap<Rank, BTreeSet<u64>>,
    /// How often each node has begun anew, by what was heard in order with its messages.
    begun: BTreeMap<Rank, u32>,
}

impl Parties {
    /// Nodes of which none is known, and how often each has begun anew before.
    pub fn new(begun: BTreeMap<Rank, u32>) -> Parties {
        Parties { begun, ..Parties::default() }
    }

    /// A view begins. Who has died by that: those that it leaves out, those that views before had left out of which this node was not told, and
    /// earlier incarnations of its members.
    pub fn begins(&mut self, view: View, left: &[Member]) -> Vec<Party> {
        let mut died: Vec<Party> = view.gone(left).map(party).collect();
        for Party { rank, incarnation } in view.members.iter().map(|member| party(*member)) {
            let before = self.alive.get(&rank).filter(|before| **before != incarnation);
            died.extend(before.map(|before| Party { rank, incarnation: *before }));
        }
        died.retain(|party| self.dies(*party));
        let members = view.members.iter().map(|member| party(*member));
        let live: Vec<Party> = members.filter(|party| !self.has_died(*party)).collect();
        self.alive.extend(live.into_iter().map(|party| (party.rank, party.incarnation)));
        self.view = Some(view);
        died
    }

    /// A node has begun anew; it is `met` by now. Who has died by that.
    pub fn begins_anew(&mut self, rank: Rank, met: Option<u64>) -> Option<Party> {
        *self.begun.entry(rank).or_default() += 1;
        let incarnation = *self.alive.get(&rank).filter(|known| Some(**known) != met)?;
        let party = Party { rank, incarnation };
        self.dies(party).then_some(party)
    }

    /// Says whether that is news.
    fn dies(&mut self, Party { rank, incarnation }: Party) -> bool {
        if self.alive.get(&rank) == Some(&incarnation) {
            self.alive.remove(&rank);
        }
        self.dead.entry(rank).or_default().insert(incarnation)
    }

    /// Whether all that was heard of how often a node has begun anew is as often as that: then its messages are of the one that was met last.
    pub fn is_up_to(&self, rank: Rank, resets: u32) -> bool {
        self.begun.get(&rank).copied().unwrap_or_default() == resets
    }

    pub fn has_view(&self) -> bool {
        self.view.is_some()
    }

    /// The incarnation of a node that the view has, unless it has died.
    pub fn member(&self, rank: Rank) -> Option<Party> {
        let member = party(self.view.as_ref()?.of(rank)?);
        Some(member).filter(|member| !self.has_died(*member))
    }

    /// The incarnation of a node that may have a part in the segments of this one: it was in a view here, and has not died.
    pub fn alive(&self, rank: Rank) -> Option<Party> {
        self.alive.get(&rank).map(|incarnation| Party { rank, incarnation: *incarnation })
    }

    /// All of those.
    pub fn all_alive(&self) -> Vec<Rank> {
        self.alive.keys().copied().collect()
    }

    pub fn has_died(&self, Party { rank, incarnation }: Party) -> bool {
        self.dead.get(&rank).is_some_and(|dead| dead.contains(&incarnation))
    }

    /// Whether some incarnation of a node has died.
    pub fn has_ever_died(&self, rank: Rank) -> bool {
        self.dead.contains_key(&rank)
    }

    /// Whether a node has died and is not back.
    pub fn is_dead(&self, rank: Rank) -> bool {
        self.has_ever_died(rank) && !self.alive.contains_key(&rank)
    }
}

fn party(Member { rank, incarnation }: Member) -> Party {
    Party { rank, incarnation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::ViewId;

    fn member(rank: u32, incarnation: u64) -> Member {
        Member { rank: Rank::from_index(rank), incarnation }
    }

    fn view(number: u64, members: &[(u32, u64)]) -> View {
        let members = members.iter().map(|(rank, incarnation)| member(*rank, *incarnation)).collect();
        View { id: ViewId { number, ..ViewId::default() }, members, ..View::default() }
    }

    #[test]
    fn a_node_that_comes_back_is_another_party_whatever_is_heard_first() {
        let (rank, [old, new]) = (Rank::from_index(1), [11, 12]);
        let of = |incarnation| Party { rank, incarnation };
        let mut views_first = Parties::default();
        assert_eq!(views_first.begins(view(1, &[(0, 1), (1, old)]), &[]), []);
        assert_eq!(views_first.begins(view(2, &[(0, 1)]), &[member(1, old)]), [of(old)]);
        assert!(views_first.is_dead(rank) && views_first.member(rank).is_none());
        assert_eq!(views_first.begins(view(3, &[(0, 1), (1, new)]), &[]), []);
        assert_eq!((views_first.member(rank), views_first.is_dead(rank)), (Some(of(new)), false));
        assert!(!views_first.is_up_to(rank, 1), "what was said before is the old one's");
        assert_eq!(views_first.begins_anew(rank, Some(new)), None);
        assert!(views_first.is_up_to(rank, 1) && views_first.alive(rank) == Some(of(new)));

        let mut connected_first = Parties::default();
        connected_first.begins(view(1, &[(0, 1), (1, old)]), &[]);
        assert_eq!(connected_first.begins_anew(rank, Some(new)), Some(of(old)));
        assert_eq!(connected_first.member(rank), None, "the view has one that has died");
        // A view that this node was told late has it still.
        assert_eq!(connected_first.begins(view(2, &[(0, 1), (1, old)]), &[]), []);
        assert_eq!((connected_first.member(rank), connected_first.alive(rank)), (None, None));
        assert_eq!(connected_first.begins(view(4, &[(0, 1), (1, new)]), &[member(1, old)]), []);
        assert_eq!(connected_first.member(rank), Some(of(new)));
    }

    #[test]
    fn who_begins_with_a_view_knows_by_it_who_had_died_before() {
        let (mut parties, died) = (Parties::default(), member(2, 13));
        let view = View { left: vec![died], ..view(5, &[(0, 1), (1, 11)]) };
        assert_eq!(parties.begins(view.clone(), &[]), [party(died)]);
        assert!(parties.is_dead(died.rank) && !parties.has_died(Party { incarnation: 14, ..party(died) }));
        assert_eq!(parties.begins(view, &[]), [], "it is known");
    }

    #[test]
    fn who_missed_the_view_without_the_old_one_learns_by_the_new_one_that_it_died() {
        let mut parties = Parties::default();
        parties.begins(view(1, &[(0, 1), (1, 11)]), &[]);
        let old = Party { rank: Rank::from_index(1), incarnation: 11 };
        assert_eq!(parties.begins(view(3, &[(0, 1), (1, 12)]), &[]), [old]);
        assert!(parties.has_died(old) && !parties.is_dead(old.rank));
    }
}
