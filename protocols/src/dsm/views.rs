//! Which nodes share the memory, and who manages what: a state machine without I/O.
//!
//! Shared memory begins with the first view of the membership that has all nodes. It goes on without those who leave a later one.
//! A node that restarts is another incarnation, with other memory, and does not come back. So there is an **epoch** for
//! each number of nodes that have died; what is said in one counts in no other.

use super::shared::ObjectId;
use crate::members::{Member, View};
use crate::transport::Rank;

/// Nodes that share memory.
#[derive(Debug)]
pub(super) struct Views {
    me: Rank,
    /// Of the view that it began with; nothing before that.
    start: Option<u64>,
    /// Those that live.
    members: Vec<Member>,
    /// By rank: who manages what that node managed at first, and, if it is not that one, how many had died when it took over.
    managers: Vec<(Rank, Option<u8>)>,
    died: Vec<Rank>,
}

/// What a view changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// Nothing.
    Nothing,
    /// The shared memory begins.
    First,
    /// An epoch begins: members have died.
    Epoch,
}

/// Whether a message of one epoch counts in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is of this one.
    Now,
    /// It is of one to come.
    Later,
    /// It is of one that is over.
    Over,
    /// It is of another shared memory: its sender has restarted.
    Elsewhere,
}

/// In an epoch's stamp: the number of the dead.
const DEAD: u32 = 8;

/// The name of the memory that begins with these members: their incarnations, mixed. Two views of the same ones begin the same memory,
/// since members need not have begun the same views. Never zero, and zero in the bits of [`DEAD`].
fn name_of(members: &[Member]) -> u64 {
    let mix = |name: u64, member: &Member| {
        let word = (name ^ member.incarnation).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word ^ word >> 29
    };
    (members.iter().fold(0, mix) | 1 << 63) >> DEAD << DEAD
}

impl Views {
    /// No view has all `nodes` yet.
    pub fn new(me: Rank, nodes: u32) -> Views {
        let managers = (0..nodes).map(|index| (Rank::from_index(index), None)).collect();
        Views { me, start: None, members: Vec::new(), managers, died: Vec::new() }
    }

    /// A view of the membership begins.
    pub fn begin(&mut self, view: &View) -> Begins {
        if self.start.is_none() {
            if view.members.len() < self.managers.len() {
                return Begins::Nothing;
            }
            self.start = Some(name_of(&view.members));
            self.members.clone_from(&view.members);
            return Begins::First;
        }
        let died = self.members.extract_if(.., |member| !view.contains(*member)).map(|member| member.rank);
        let before = self.died.len();
        self.died.extend(died);
        if self.died.len() == before {
            return Begins::Nothing;
        }
        for base in 0..self.managers.len() {
            let next = self.successor(Rank::from_index(base as u32));
            if self.managers[base].0 != next {
                self.managers[base] = (next, Some(self.died.len() as u8));
            }
        }
        Begins::Epoch
    }

    /// The first one that lives from this rank on, around the end.
    fn successor(&self, rank: Rank) -> Rank {
        let from = self.members.iter().find(|member| member.rank >= rank);
        from.or(self.members.first()).map_or(self.me, |member| member.rank)
    }

    /// Whether the shared memory has begun.
    pub fn has_begun(&self) -> bool {
        self.start.is_some()
    }

    /// The stamp of the present epoch; zero before the first.
    pub fn stamp(&self) -> u64 {
        self.start.map_or(0, |start| start | self.died.len() as u64)
    }

    /// Where a message with a stamp belongs.
    pub fn place(&self, stamp: u64) -> Place {
        let now = self.stamp();
        match stamp {
            _ if stamp == now => Place::Now,
            _ if now == 0 => Place::Later,
            _ if stamp >> DEAD != now >> DEAD => Place::Elsewhere,
            _ if stamp > now => Place::Later,
            _ => Place::Over,
        }
    }

    /// Whether a node has a part in this memory. Another boot of one that died has none.
    pub fn has(&self, node: Rank) -> bool {
        self.members.iter().any(|member| member.rank == node)
    }

    /// The boot of a node that has a part in this memory, if it lives.
    pub fn incarnation(&self, node: Rank) -> Option<u64> {
        self.members.iter().find(|member| member.rank == node).map(|member| member.incarnation)
    }

    /// Those of a view that have no part in the memory, which has begun without them, if this node is the one to tell them.
    pub fn newcomers(&self, view: &View) -> Vec<Rank> {
        let tells = self.has_begun() && self.members.first().is_some_and(|member| member.rank == self.me);
        let new = view.members.iter().filter(|member| tells && !self.members.contains(member));
        new.map(|member| member.rank).collect()
    }

    /// Those that live.
    pub fn members(&self) -> impl Iterator<Item = Rank> + '_ {
        self.members.iter().map(|member| member.rank)
    }

    /// Who manages what a node managed at first.
    pub fn manager(&self, base: Rank) -> Rank {
        self.managers.get(base.index()).map_or(base, |(manager, _)| *manager)
    }

    /// Whether the manager of what `base` managed at first knows all that was ever written of an object there: either it always
    /// managed that, or the object is younger than the death of the one that did.
    pub fn knows(&self, base: Rank, object: ObjectId) -> bool {
        let since = self.managers.get(base.index()).and_then(|(_, since)| *since);
        since.is_none_or(|since| object.born() >= since)
    }

    /// Those that have died, in this order on all nodes.
    pub fn died(&self) -> &[Rank] {
        &self.died
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::ViewId;

    fn rank(number: u32) -> Rank {
        Rank::from_index(number)
    }

    fn view(number: u64, nodes: &[(u32, u64)]) -> View {
        let member =
            |(node, incarnation): &(u32, u64)| Member { rank: rank(*node), incarnation: *incarnation };
        let id = ViewId { number, ..ViewId::default() };
        View { id, members: nodes.iter().map(member).collect() }
    }

    #[test]
    fn memory_begins_when_all_are_there_and_goes_on_without_those_who_die() {
        let mut views = Views::new(rank(0), 3);
        assert_eq!(views.begin(&view(1, &[(0, 1), (1, 1)])), Begins::Nothing);
        assert_eq!(views.begin(&view(2, &[(0, 1), (1, 1), (2, 1)])), Begins::First);
        let first = views.stamp();
        assert_eq!(views.begin(&view(3, &[(0, 1), (2, 1)])), Begins::Epoch);
        assert_eq!((views.place(first), views.place(views.stamp())), (Place::Over, Place::Now));
        assert_eq!([0, 1, 2].map(|base| views.manager(rank(base))), [0, 2, 2].map(rank));
        // It is back, and is another one.
        let back = view(4, &[(0, 1), (1, 2), (2, 1)]);
        assert_eq!((views.begin(&back), views.newcomers(&back)), (Begins::Nothing, vec![rank(1)]));
        assert_eq!(views.members().collect::<Vec<_>>(), [0, 2].map(rank));
        let mut other = Views::new(rank(1), 3);
        assert_eq!(other.begin(&view(4, &[(0, 1), (1, 2), (2, 1)])), Begins::First);
        assert_eq!((other.place(first), views.place(other.stamp())), (Place::Elsewhere, Place::Elsewhere));
        // The memory of those who were there before is the one that goes on.
        assert_eq!((views.has(rank(1)), other.has(rank(0)), other.newcomers(&back)), (false, true, vec![]));
    }

    #[test]
    fn a_manager_that_took_over_knows_only_what_is_younger() {
        let mut views = Views::new(rank(2), 3);
        let all = [(0, 1), (1, 1), (2, 1)];
        views.begin(&view(1, &all));
        let mut other = Views::new(rank(1), 3);
        other.begin(&view(2, &all));
        assert_eq!(views.stamp(), other.stamp(), "it has missed the first of two equal views");
        let old = ObjectId::of(rank(0), 7, views.died().len());
        views.begin(&view(2, &[(0, 1), (2, 1)]));
        let young = ObjectId::of(rank(0), 8, views.died().len());
        assert!(views.knows(rank(2), old) && !views.knows(rank(1), old) && views.knows(rank(1), young));
        assert!(!views.knows(rank(1), ObjectId(3)), "one that has a name is as old as the memory");
    }
}
