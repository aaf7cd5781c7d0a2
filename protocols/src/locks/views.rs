//! Views of the membership, as a lock service acts in them.
//!
//! In each view a key has one home: the node that its hash names, or the next member. What is said in a view counts in it alone:
//! every message carries the view's stamp. When one begins, each member reports to the homes what it holds and wants (the
//! requesters' `report`), and no home grants before all have: the dead report nothing. What nobody reports may be held by one who left:
//! a home that kept the key in the view before knows whether it is, and any other home waits until the leases of those who
//! left have run out.

use super::LockKey;
use crate::members::{View, ViewId};
use crate::transport::Rank;
use weft_verbs::Nanos;

/// A view's name in messages: its number above, a hash of its lineage below. Zero for none.
pub(crate) type Stamp = u64;

/// Whether a message of one view counts in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is of this view.
    Now,
    /// It may be of one to come.
    Later,
    /// It is of one that is over.
    Over,
}

/// The stamp of a view: its number, and 32 bits of its lineage, to which round and incarnation both contribute all that they have.
pub(crate) fn stamp(id: ViewId) -> Stamp {
    let spread = |bits: u64| (bits ^ bits >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = spread(spread(id.lineage.by).wrapping_add(u64::from(id.lineage.round)));
    id.number << 32 | mixed >> 32
}

/// The number of the view of a stamp.
pub(crate) fn number(of: Stamp) -> u64 {
    of >> 32
}

/// The views that a node has given up: of each lineage the last one. A node begins a view once, and none of its lineage after a later one, so
/// nothing that was said in these will count.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenUp(Vec<Stamp>);

impl GivenUp {
    /// The node gives a view up.
    pub(crate) fn note(&mut self, view: Stamp) {
        self.0.retain(|last| !is_of_one_lineage(*last, view));
        self.0.push(view);
    }
}

fn is_of_one_lineage(one: Stamp, other: Stamp) -> bool {
    one as u32 == other as u32
}

/// Where a message of a view stands in the present one, on a node that has given these up.
pub(crate) fn place(of: Stamp, now: Stamp, given_up: &GivenUp) -> Place {
    let is_before = |view: Stamp| is_of_one_lineage(of, view) && of < view;
    match of {
        _ if of == now => Place::Now,
        _ if now != 0 && is_before(now) => Place::Over,
        _ if given_up.0.iter().any(|last| of == *last || is_before(*last)) => Place::Over,
        _ => Place::Later,
    }
}

/// One view, as the lock service of a member acts in it.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Term {
    view: View,
    /// By the rank that a key's hash names: who keeps it.
    homes: Vec<Rank>,
    /// Members that have not reported yet what they hold and want.
    awaited: Vec<Rank>,
    /// By the same: whether this node kept it in the view before, and knew all that was held.
    kept: Vec<bool>,
    /// Who left the view before.
    left: Vec<Rank>,
    /// From then on nobody who left holds anything.
    fence: Nanos,
}

impl Term {
    /// The term of a view that begins on a member, after that of an earlier view, if it had one. From `fence` on nobody who
    /// left before this view holds anything.
    pub(crate) fn begin(
        view: View,
        before: Option<&Term>,
        me: Rank,
        configured: u32,
        left: Vec<Rank>,
        fence: Nanos,
        now: Nanos,
    ) -> Term {
        let home = |index| {
            let rank = Rank::from_index(index);
            view.successor(rank).map_or(rank, |member| member.rank)
        };
        let homes: Vec<Rank> = (0..configured).map(home).collect();
        let before = before.filter(|before| before.precedes(&view) && before.is_complete());
        let knew = |base: usize| {
            before
                .is_some_and(|before| before.homes[base] == me && (before.kept[base] || before.fence <= now))
        };
        let kept = (0..homes.len()).map(|base| homes[base] == me && knew(base)).collect();
        let awaited = view.members.iter().map(|member| member.rank).collect();
        Term { view, homes, awaited, kept, left, fence }
    }

    fn precedes(&self, next: &View) -> bool {
        self.view.id.lineage == next.id.lineage && self.view.id.number + 1 == next.id.number
    }

    /// The members.
    pub(crate) fn members(&self) -> impl Iterator<Item = Rank> + '_ {
        self.view.members.iter().map(|member| member.rank)
    }

    /// The view.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Who left the view before.
    pub(crate) fn left(&self) -> &[Rank] {
        &self.left
    }

    fn base(&self, key: LockKey) -> usize {
        key.home(self.homes.len() as u32).index()
    }

    /// Who keeps a lock.
    pub(crate) fn home_of(&self, key: LockKey) -> Rank {
        self.homes[self.base(key)]
    }

    /// Whether this node kept it in the view before, too, and knows who held it.
    pub(crate) fn is_kept(&self, key: LockKey) -> bool {
        self.kept[self.base(key)]
    }

    /// Whether a node keeps any locks.
    pub(crate) fn is_home(&self, node: Rank) -> bool {
        self.homes.contains(&node)
    }

    /// Members that have not reported yet.
    pub(crate) fn awaited(&self) -> &[Rank] {
        &self.awaited
    }

    /// Whether all members have reported.
    pub(crate) fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// A member has reported, by whose clock it takes until `over` until nobody who left holds anything. Says whether it was
    /// the last one.
    pub(crate) fn reported(&mut self, from: Rank, over: Nanos) -> bool {
        // Each member's bound is a bound; a newcomer's own one is the latest.
        self.fence = self.fence.min(over);
        let before = self.awaited.len();
        self.awaited.retain(|awaited| *awaited != from);
        before > 0 && self.awaited.is_empty()
    }

    /// From when on nobody who left holds anything.
    pub(crate) fn fence(&self) -> Nanos {
        self.fence
    }

    /// Whether nobody but the members can hold anything, and these have said what they do.
    pub(crate) fn is_settled(&self, now: Nanos) -> bool {
        self.is_complete() && self.fence <= now
    }

    /// Whether a lock of this home may be granted, as far as those are concerned who left without its being known what they had.
    pub(crate) fn may_grant(&self, key: LockKey, now: Nanos) -> bool {
        self.is_settled(now) || self.is_complete() && self.is_kept(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::{Ballot, Member};

    fn view(number: u64, ranks: &[u32]) -> View {
        let member = |rank: &u32| Member { rank: Rank::new(*rank).unwrap(), incarnation: 7 };
        let id = ViewId { lineage: Ballot { round: 1, by: 9 }, number };
        View { id, members: ranks.iter().map(member).collect(), ..View::default() }
    }

    fn rank(n: u32) -> Rank {
        Rank::new(n).unwrap()
    }

    fn all_report(term: &mut Term, over: Nanos) {
        for member in term.members().collect::<Vec<_>>() {
            term.reported(member, over);
        }
    }

    /// A key that is at home on the second of three nodes.
    fn key() -> LockKey {
        (0..).map(LockKey).find(|key| key.home(3) == rank(2)).unwrap()
    }

    #[test]
    fn messages_count_in_their_own_view_and_wait_for_it() {
        let [first, second] = [1, 2].map(|number| stamp(view(number, &[]).id));
        let other = stamp(ViewId { lineage: Ballot { round: 1, by: 10 }, number: 1 });
        let none = GivenUp::default();
        assert_eq!(place(second, second, &none), Place::Now);
        assert_eq!(place(first, second, &none), Place::Over);
        assert_eq!(place(second, first, &none), Place::Later);
        assert_eq!(place(other, second, &none), Place::Later, "another lineage's");
        assert_eq!(place(first, 0, &none), Place::Later, "without a view");
    }

    /// Those who have still to hear that it can decide nothing any more go on speaking in it. (It was kept for ever.)
    #[test]
    fn messages_of_a_lineage_count_no_more_up_to_the_view_in_which_it_was_given_up() {
        let of = |by: u64, number| stamp(ViewId { lineage: Ballot { round: 1, by }, number });
        let mut given_up = GivenUp::default();
        [of(1, 2), of(2, 4), of(1, 5)].into_iter().for_each(|view| given_up.note(view));
        assert_eq!(given_up.0.len(), 2, "of each lineage the last one");
        for now in [0, of(3, 1)] {
            for over in [of(1, 1), of(1, 5), of(2, 4)] {
                assert_eq!(place(over, now, &given_up), Place::Over, "{over:x} in {now:x}");
            }
            for later in [of(1, 6), of(2, 5), of(3, 2)] {
                assert_eq!(place(later, now, &given_up), Place::Later, "{later:x} in {now:x}");
            }
        }
        assert_eq!(place(of(1, 6), of(1, 6), &given_up), Place::Now, "a later one may begin");
    }

    /// A fuzzer found it: where round and incarnation were mixed by one XOR, these had one stamp, and a message of a lineage that was over
    /// counted in the next one.
    #[test]
    fn lineages_that_differ_in_round_and_incarnation_have_different_stamps() {
        let of = |(round, high): (u32, u64)| {
            let by = high << 32 | 1;
            stamp(ViewId { lineage: Ballot { round, by }, number: 2 })
        };
        let [first, second, third] = [(1, 34), (5, 38), (9, 42)].map(of);
        assert!(first != second && second != third && third != first, "{first:x} {second:x} {third:x}");
    }

    #[test]
    fn a_home_that_dies_is_followed_by_the_next_member_which_waits_for_the_leases() {
        let mut first = Term::begin(view(1, &[1, 2, 3]), None, rank(3), 3, vec![], Nanos(50), Nanos(0));
        assert_eq!(first.home_of(key()), rank(2));
        all_report(&mut first, Nanos(50));
        let now = Nanos(100);
        let mut second =
            Term::begin(view(2, &[1, 3]), Some(&first), rank(3), 3, vec![rank(2)], Nanos(200), now);
        assert_eq!((second.home_of(key()), second.is_kept(key())), (rank(3), false));
        all_report(&mut second, Nanos(210));
        assert!(!second.may_grant(key(), Nanos(199)) && second.may_grant(key(), Nanos(200)));
        let own = (0..).map(LockKey).find(|key| key.home(3) == rank(3)).unwrap();
        assert!(second.is_kept(own) && second.may_grant(own, now), "it kept that, and knows who held it");
        // The next home knows nothing, and learns from those who were there from when on it may grant.
        let late = Nanos(500);
        let mut third = Term::begin(view(3, &[1, 2, 3]), None, rank(2), 3, vec![], late, Nanos(150));
        third.reported(rank(1), Nanos(205));
        assert!(!third.may_grant(key(), late), "one has not reported");
        all_report(&mut third, late);
        assert!(third.may_grant(key(), Nanos(205)) && !third.may_grant(key(), Nanos(204)));
    }

    #[test]
    fn a_home_that_missed_a_view_or_was_not_through_with_the_last_knows_nothing() {
        let begin = |number, before: Option<&Term>| {
            Term::begin(view(number, &[1, 2, 3]), before, rank(2), 3, vec![], Nanos(200), Nanos(100))
        };
        let mut first = begin(1, None);
        first.fence = Nanos(100);
        assert!(!begin(2, Some(&first)).is_kept(key()), "not all had reported");
        all_report(&mut first, Nanos(100));
        assert!(begin(2, Some(&first)).is_kept(key()));
        assert!(!begin(3, Some(&first)).is_kept(key()), "a view was missed");
        first.fence = Nanos(101);
        assert!(!begin(2, Some(&first)).is_kept(key()), "somebody's lease was running");
    }
}
