//! The segments of which a node is the home, and who waits for a turn at them: a state machine without I/O.

use super::key::Place;
use super::messages::Message;
use super::parties::Party;
use super::parts::{Part, Waits};
use super::{Header, Key, Name, Spec};
use crate::transport::Rank;
use names::Names;
use segments::Segments;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use turns::{Line, State};
use weft_verbs::RemoteSlice;

mod names;
mod segments;
mod turns;

/// The segments that a node keeps.
#[derive(Debug)]
pub(super) struct Home {
    /// The node.
    me: Party,
    segments: Segments,
    names: Names,
    allocated: u64,
    /// How many segments the node has kept.
    kept: u64,
    /// How often a node has ended a turn that it did not have.
    out_of_turn: u64,
}

#[derive(Debug)]
struct Kept {
    spec: Spec,
    at: Place,
    line: Line,
    leaving: Option<Leaving>,
    /// Where nodes agree on who is alive: what each that has ever had a part in the segment has to do with it.
    parts: BTreeMap<Rank, Part>,
}

impl Kept {
    fn key(&self, name: Name, home: Party) -> Key {
        let Party { rank: home, incarnation } = home;
        Key { home, incarnation, name, spec: self.spec, at: self.at }
    }

    /// Its release begins, which these nodes are to be asked for. Those who wait for a turn, or for a part, came too late.
    fn begins_to_leave(&mut self, asker: (Rank, u64), nodes: &[Rank]) -> VecDeque<(Rank, u64)> {
        let (missing, mut late) = (nodes.iter().copied().collect(), std::mem::take(&mut self.line.waiting));
        let mut opens = Vec::new();
        for (node, part) in &mut self.parts {
            for waits in part.end_waiting() {
                match waits {
                    Waits::Opens(id) => opens.push((*node, id, self.spec)),
                    Waits::Joins(id) => late.push_back((*node, id)),
                }
            }
        }
        self.leaving = Some(Leaving { asker, missing, opens });
        late
    }
}

/// A segment that is being released.
#[derive(Debug)]
struct Leaving {
    /// Who asked for that, by its request's number.
    asker: (Rank, u64),
    /// The nodes that have not said yet that nothing of theirs is under way.
    missing: BTreeSet<Rank>,
    /// Requests for a segment of that name, to be served afterwards.
    opens: Vec<(Rank, u64, Spec)>,
}

/// What to do about a segment that was asked to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// It is gone, or going: tell the asker.
    Late,
    /// Ask all nodes to [drain](Home::on_drained) it, and tell those who wait for a turn at it, or for a part in it, that they came too late.
    Drain(VecDeque<(Rank, u64)>),
}

/// A segment that no node uses any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Its key, which is dead once the home has revoked it.
    pub key: Key,
    /// Who asked for that, by its request's number.
    pub asker: (Rank, u64),
    /// Requests to be served once its keys are revoked.
    pub opens: Vec<(Rank, u64, Spec)>,
}

/// What to do about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Answer it.
    Answer(Message),
    /// It is there: answer it, once the asker may have a part in it.
    Found,
    /// Make the segment first, and [tell](Home::made) the home.
    Make,
    /// It is served later: its name is of a segment that is being released.
    Later,
}

/// What to do about the line of a segment: of a name, and a place by which it is told from an earlier one of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Nothing,
    /// Mark the header as one that only who has a turn may change, and [tell](Home::closed) the home what it was.
    Close,
    /// Take the mark away, and [tell](Home::opened) the home.
    Open,
    /// Tell a node that it is its turn.
    Grant {
        /// The node.
        to: Rank,
        /// Its request.
        id: u64,
    },
    /// Tell a node that its segment has been released.
    Late {
        /// The node.
        to: Rank,
        /// Its request.
        id: u64,
    },
}

impl Home {
    /// A node that keeps nothing.
    pub fn new(me: Party) -> Home {
        Home {
            me,
            segments: Segments::default(),
            names: Names::default(),
            allocated: 0,
            kept: 0,
            out_of_turn: 0,
        }
    }

    /// Somebody asks for a segment. Who opens a name that stands for a key is told that key: a segment of the name's own would hide it.
    pub fn on_open(&mut self, from: Rank, id: u64, name: Name, spec: Spec) -> Action {
        let waits =
            |kept: &mut Kept| kept.leaving.as_mut().map(|leaving| leaving.opens.push((from, id, spec)));
        if self.segments.change(name, waits).flatten().is_some() {
            return Action::Later;
        }
        match self.segments.get(name) {
            Some(Kept { spec: there, .. }) if *there == spec => Action::Found,
            Some(Kept { spec: there, .. }) => Action::Answer(Message::Otherwise { id, spec: *there }),
            None => match self.names.get(name) {
                Some(key) => Action::Answer(Message::Key { id, key: Some(key) }),
                None => Action::Make,
            },
        }
    }

    /// The segment was made in this memory, all of it.
    pub fn made(&mut self, name: Name, spec: Spec, memory: RemoteSlice) {
        self.kept += 1;
        let at = Place { memory, number: self.kept };
        let (line, parts) = (Line::default(), BTreeMap::new());
        self.segments.insert(name, Kept { spec, at, line, leaving: None, parts });
    }

    /// The name of a segment that somebody allocates without one.
    pub fn new_name(&mut self) -> Name {
        self.allocated += 1;
        Name::anonymous(self.me.rank, self.allocated)
    }

    /// Lets a name stand for a key, or for none, unless it stands for another than that `instead` of which it is to. The name of a segment
    /// that is kept here is that segment's until it is gone. No name comes to stand for a segment that was kept here and has been released,
    /// or is being: what did has been told to [forget](Home::forget) it, and nobody would be told again. Returns what it stands for; nothing
    /// where it was to stand for such a segment.
    pub fn bind(&mut self, name: Name, key: Option<Key>, instead: Option<Key>) -> Option<Key> {
        if key.is_some_and(|key| key.party() == self.me && !self.keeps(key)) {
            return None;
        }
        let there = self.find(name);
        if self.segments.get(name).is_some() {
            return there;
        }
        if there.is_some() && there != instead {
            return there;
        }
        self.names.set(name, key);
        self.find(name)
    }

    /// What a name stands for: nothing, if that is being released.
    pub fn find(&self, name: Name) -> Option<Key> {
        match self.segments.get(name) {
            Some(Kept { leaving: Some(_), .. }) => None,
            Some(kept) => Some(kept.key(name, self.me)),
            None => self.names.get(name),
        }
    }

    /// Names do not stand for this key any more.
    pub fn forget(&mut self, key: Key) {
        self.names.forget(key);
    }

    /// Somebody wants a segment to be released. These nodes are to be asked whether they use it.
    pub fn on_release(&mut self, key: Key, from: Rank, id: u64, nodes: &[Rank]) -> Release {
        let me = self.me;
        let released = self.segments.change(key.name, |kept| {
            let is_it = kept.leaving.is_none() && kept.key(key.name, me) == key;
            is_it.then(|| kept.begins_to_leave((from, id), nodes))
        });
        released.flatten().map_or(Release::Late, Release::Drain)
    }

    /// Nothing of a node's is under way to the segment at a place, which is being released. With the last node it is gone. (A node that no
    /// view had when an earlier segment of that name was released may say so of that one late.)
    pub fn on_drained(&mut self, name: Name, at: Place, from: Rank) -> Option<Left> {
        let is_gone = self.segments.change(name, |kept| {
            let leaving = kept.leaving.as_mut().filter(|_| kept.at == at)?;
            leaving.missing.remove(&from);
            Some(leaving.missing.is_empty())
        });
        let kept = if is_gone.flatten()? { self.segments.remove(name)? } else { return None };
        let key = kept.key(name, self.me);
        let Leaving { asker, opens, .. } = kept.leaving?;
        Some(Left { key, asker, opens })
    }

    /// Whether the segment at a place is kept here and is not being released. (After its release another one may have its name.)
    pub fn is_kept(&self, name: Name, at: Place) -> bool {
        self.segments.get(name).is_some_and(|kept| kept.leaving.is_none() && kept.at == at)
    }

    /// The same of the segment of a key, whatever names stand for that.
    pub fn keeps(&self, key: Key) -> bool {
        self.segments
            .get(key.name)
            .is_some_and(|kept| kept.leaving.is_none() && kept.key(key.name, self.me) == key)
    }

    /// The keys of all that is kept here.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.segments.iter().map(|(name, kept)| kept.key(name, self.me))
    }

    /// Where the segment of a name is.
    pub fn place_of(&self, name: Name) -> Option<Place> {
        self.segments.get(name).map(|kept| kept.at)
    }

    /// A node is to have a part in a segment that is kept and not being released. Says whether an earlier incarnation of it had one; none if
    /// that one's has yet to end: then the request is answered [afterwards](Home::has_parted).
    pub fn takes_part(&mut self, name: Name, node: Rank, waits: Waits) -> Option<bool> {
        self.segments.change(name, |kept| kept.parts.entry(node).or_default().begin(waits)).flatten()
    }

    /// A node has no part any more in any segment. The segments in which it had one: what is left of it there is to be taken away, and
    /// then it [has parted](Home::has_parted).
    pub fn parts_from_all(&mut self, node: Rank) -> Vec<(Name, Place)> {
        let parts = self.segments.change_all(|name, kept| {
            if let Some(leaving) = &mut kept.leaving {
                leaving.opens.retain(|(from, ..)| *from != node);
                return None;
            }
            let had = kept.parts.get_mut(&node).is_some_and(Part::end);
            had.then_some((name, kept.at))
        });
        parts.into_iter().flatten().collect()
    }

    /// The same in the segment at a place. Says whether the node had a part in it. (What it says late of an earlier segment of that name is
    /// not of this one.)
    pub fn parts_from(&mut self, node: Rank, name: Name, at: Place) -> bool {
        let parts = self.segments.change(name, |kept| {
            let is_it = kept.leaving.is_none() && kept.at == at;
            is_it && kept.parts.get_mut(&node).is_some_and(Part::end)
        });
        parts.unwrap_or(false)
    }

    /// Nothing of what a node had is left at a segment. Its next incarnation's requests that waited for that, and what to tell it.
    pub fn has_parted(&mut self, name: Name, at: Place, node: Rank) -> Vec<Message> {
        let incarnation = self.me.incarnation;
        let waiting = self.segments.change(name, |kept| {
            let part = kept.parts.get_mut(&node).filter(|_| kept.at == at);
            part.map(Part::ended).unwrap_or_default()
        });
        let answer = |waits| match waits {
            Waits::Opens(id) => Message::Here { id, at, incarnation, again: true },
            Waits::Joins(id) => Message::Joined { id, again: true },
        };
        waiting.unwrap_or_default().into_iter().map(answer).collect()
    }

    /// Does something with the line of a segment that is neither released nor being released.
    fn in_line<T>(&mut self, name: Name, at: Place, does: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let done = self.segments.change(name, |kept| {
            let is_it = kept.leaving.is_none() && kept.at == at;
            is_it.then(|| does(&mut kept.line))
        });
        done.flatten()
    }

    /// Somebody wants a turn.
    pub fn on_enter(&mut self, name: Name, at: Place, from: Rank, id: u64) -> Step {
        let step = self.in_line(name, at, |line| {
            line.waiting.push_back((from, id));
            if line.state == State::Open { line.closes() } else { Step::Nothing }
        });
        step.unwrap_or(Step::Late { to: from, id })
    }

    /// The header was marked; it was this. The node that has the lock has the first turn.
    pub fn closed(&mut self, name: Name, at: Place, header: Header) -> Step {
        self.in_line(name, at, |line| line.closed(header)).unwrap_or(Step::Nothing)
    }

    /// A node says that it has no turn any more, or has given the lock back while the header was marked.
    pub fn on_leave(&mut self, name: Name, at: Place, from: Rank) -> Step {
        let Some(step) = self.in_line(name, at, |line| line.ends_turn(from)) else { return Step::Nothing };
        self.out_of_turn += u64::from(step.is_none());
        step.unwrap_or(Step::Nothing)
    }

    /// A node has died, and has the lock no more: it has no turn either. The header was seen to be `marked` after that, or not: then
    /// whoever has the lock when it is marked is another one, be it the next incarnation of that node.
    pub fn on_gone(&mut self, name: Name, at: Place, node: Rank, marked: bool) -> Step {
        let step = self.in_line(name, at, |line| {
            line.waiting.retain(|(from, _)| *from != node);
            if matches!(line.state, State::Closing { .. }) && !marked {
                return None;
            }
            line.ends_turn(node)
        });
        step.flatten().unwrap_or(Step::Nothing)
    }

    /// How often a node has ended a turn that it did not have.
    pub fn out_of_turn(&self) -> u64 {
        self.out_of_turn
    }

    /// Nobody waits for this node any more: the others go on without it.
    pub fn forget_all_who_wait(&mut self) {
        self.segments.change_all(|_, kept| kept.line.waiting.clear());
    }

    /// Segments that are being released, for which a node has not drained yet.
    pub fn drained_by(&self, node: Rank) -> Vec<(Name, Place)> {
        let awaits =
            |kept: &Kept| kept.leaving.as_ref().is_some_and(|leaving| leaving.missing.contains(&node));
        self.segments
            .awaiting()
            .filter(|(_, kept)| awaits(kept))
            .map(|(name, kept)| (name, kept.at))
            .collect()
    }

    /// The nodes that have a turn, or have not drained a segment yet.
    pub fn awaited(&self) -> Vec<Rank> {
        self.segments.awaiting().flat_map(|(_, kept)| kept.awaited()).collect()
    }

    /// The mark is gone.
    pub fn opened(&mut self, name: Name, at: Place) -> Step {
        let step = self.in_line(name, at, |line| {
            line.state = State::Open;
            if line.waiting.is_empty() { Step::Nothing } else { line.closes() }
        });
        step.unwrap_or(Step::Nothing)
    }

    /// How many wait for a turn.
    pub fn waiting(&self) -> usize {
        self.segments.iter().map(|(_, kept)| kept.line.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests;
