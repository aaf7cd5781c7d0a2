//! Which nodes share the memory, and who manages what: a state machine without I/O.
//!
//! Shared memory begins with a view of the membership that has all nodes, once all of them have said in it that they have none yet. A
//! view alone would not do: it may have a node that restarted beside those who go on with the memory that its earlier boot had a part
//! in. Who has a memory says nothing of the kind again, so no other one begins while one who has it lives: each node of a view that has
//! all is there, and an earlier boot of it is not. One that said so, and is in the next view before it has heard all others, learns
//! that the memory has begun from whoever speaks in it.
//!
//! The memory goes on without those who leave a later view. A node that restarts is another incarnation, with other memory, and does
//! not come back. So there is an **epoch** for each number of nodes that have died; what is said in one counts in no other.

use super::shared::ObjectId;
use crate::members::{Member, View, ViewId};
use crate::transport::Rank;
use std::collections::BTreeMap;

/// Nodes that share memory.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(super) struct Views {
    me: Rank,
    /// The latest view of the membership, and its name; of none before the first.
    view: View,
    round: u64,
    /// By rank: the view in which that node last said that it has no memory.
    said: BTreeMap<Rank, u64>,
    /// The views with all nodes in which this node has said so: a memory may have begun with any of them.
    offered: BTreeMap<u64, View>,
    /// The name of the view that the memory began with; nothing before that.
    start: Option<u64>,
    /// Those that share the memory and live.
    members: Vec<Member>,
    /// By rank: who manages what that node managed at first, and, if it is not that one, how many had died when it took over.
    managers: Vec<(Rank, Option<u16>)>,
    died: Vec<Rank>,
}

/// What a view changes, or what a node says.
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
    /// It is of another shared memory.
    Elsewhere,
}

/// In an epoch's stamp: the number of the dead.
const DEAD: u32 = 16;

/// The name of a view, and of the memory that begins with it. Never zero, and zero in the bits of [`DEAD`].
fn name_of(ViewId { lineage, number }: ViewId) -> u64 {
    let mix = |name: u64, word: u64| {
        let word = (name ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word ^ word >> 29
    };
    let name = [lineage.round.into(), lineage.by, number].into_iter().fold(0, mix);
    (name | 1 << 63) >> DEAD << DEAD
}

impl Views {
    /// No view has begun.
    pub fn new(me: Rank, nodes: u32) -> Views {
        Views {
            me,
            view: View::default(),
            round: 0,
            said: BTreeMap::new(),
            offered: BTreeMap::new(),
            start: None,
            members: Vec::new(),
            managers: (0..nodes).map(|index| (Rank::from_index(index), None)).collect(),
            died: Vec::new(),
        }
    }

    /// The memory has begun with this view.
    pub fn begun_with(&mut self, view: &View) {
        self.start = Some(name_of(view.id));
        self.members.clone_from(&view.members);
        self.view.clone_from(view);
        self.round = name_of(view.id);
    }

    /// A view of the membership begins.
    pub fn begin(&mut self, view: &View) -> Begins {
        self.view.clone_from(view);
        self.round = name_of(view.id);
        if self.has_begun() {
            return self.leave_out();
        }
        self.said.insert(self.me, self.round);
        if view.members.len() == self.managers.len() {
            self.offered.insert(self.round, view.clone());
        }
        self.complete()
    }

    /// A node says in a view that it has no memory.
    pub fn on_here(&mut self, from: Rank, round: u64) -> Begins {
        self.said.insert(from, round);
        self.complete()
    }

    /// The view can decide nothing any more: this node is in none.
    pub fn give_up(&mut self) {
        (self.view, self.round) = (View::default(), 0);
    }

    /// All nodes have said in this view that they have no memory: it begins.
    fn complete(&mut self) -> Begins {
        let said = |member: &Member| self.said.get(&member.rank) == Some(&self.round);
        let all = self.offered.contains_key(&self.round) && self.view.members.iter().all(said);
        if all && !self.has_begun() { self.start_with(self.round) } else { Begins::Nothing }
    }

    /// A message is of an epoch of a memory. If this node has said in the view that it began with that it has none, it has begun.
    pub fn on_stamp(&mut self, stamp: u64) -> Begins {
        let name = stamp >> DEAD << DEAD;
        let offered = self.offered.get(&name).is_some_and(|view| view.id.lineage == self.view.id.lineage);
        if offered && !self.has_begun() { self.start_with(name) } else { Begins::Nothing }
    }

    fn start_with(&mut self, name: u64) -> Begins {
        self.start = Some(name);
        self.members.clone_from(&self.offered[&name].members);
        self.offered.clear();
        match self.leave_out() {
            Begins::Nothing => Begins::First,
            begins => begins,
        }
    }

    /// The memory goes on without those who are not in the view.
    fn leave_out(&mut self) -> Begins {
        let died = self.members.extract_if(.., |member| !self.view.contains(*member));
        let before = self.died.len();
        self.died.extend(died.map(|member| member.rank));
        if self.died.len() == before {
            return Begins::Nothing;
        }
        for base in 0..self.managers.len() {
            let next = self.successor(Rank::from_index(base as u32));
            if self.managers[base].0 != next {
                self.managers[base] = (next, Some(self.died.len() as u16));
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

    /// The name of the memory that has begun; zero before that.
    pub fn name(&self) -> u64 {
        self.start.unwrap_or_default()
    }

    /// The stamp of the present epoch; before the first that of the view, and zero before any.
    pub fn stamp(&self) -> u64 {
        self.start.map_or(self.round, |start| start | self.died.len() as u64)
    }

    /// Where a message with a stamp belongs.
    pub fn place(&self, stamp: u64) -> Place {
        let now = self.stamp();
        match stamp {
            _ if !self.has_begun() => Place::Later,
            _ if stamp == now => Place::Now,
            _ if stamp >> DEAD != now >> DEAD => Place::Elsewhere,
            _ if stamp > now => Place::Later,
            _ => Place::Over,
        }
    }

    /// The boot of a node that a message is for: of one that has a part in the memory, if it lives; before that, of one in the view.
    pub fn incarnation(&self, node: Rank) -> Option<u64> {
        let members = if self.has_begun() { &self.members } else { &self.view.members };
        members.iter().find(|member| member.rank == node).map(|member| member.incarnation)
    }

    /// The others of the view.
    pub fn others(&self) -> Vec<Rank> {
        self.view.members.iter().map(|member| member.rank).filter(|rank| *rank != self.me).collect()
    }

    /// Whether a node has said in this view that it has no memory, and has no part in the one that has begun.
    pub fn is_newcomer(&self, node: Rank) -> bool {
        let asks = self.said.get(&node) == Some(&self.round);
        asks && self.has_begun() && self.view.of(node).is_some_and(|member| !self.members.contains(&member))
    }

    /// Whether a node has last said in another view than that of the beginning that it has no memory, and has a part in this one: it does
    /// not know that it has begun, or did not when it said so.
    pub fn is_unaware(&self, node: Rank) -> bool {
        let waits = self.said.get(&node).is_some_and(|said| Some(*said) != self.start);
        waits && self.has_begun() && self.view.of(node).is_some_and(|member| self.members.contains(&member))
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
    /// managed that, or the object is younger than the death of the one that did. A node that missed views takes each death for as late as
    /// it may have been: what it says to be known is known, and another node may know more.
    pub fn knows(&self, base: Rank, object: ObjectId) -> bool {
        let since = self.managers.get(base.index()).and_then(|(_, since)| *since);
        since.is_none_or(|since| object.born() >= since)
    }

    /// Whether an object was made in an epoch that this node has not begun. It may take one for alive who had died by then.
    pub fn is_ahead(&self, object: ObjectId) -> bool {
        usize::from(object.born()) > self.died.len()
    }

    /// Those that have died, in this order on all nodes that have seen all views. Of those who died between two views of this node it does
    /// not know who died first: they are in the order of their ranks.
    pub fn died(&self) -> &[Rank] {
        &self.died
    }
}

#[cfg(test)]
#[path = "views_tests.rs"]
mod tests;
