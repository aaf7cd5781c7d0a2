//! The segments of which a node is the home, and who waits for a turn at them: a state machine without I/O.

use super::messages::Message;
use super::{Header, Key, Name, Spec};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_verbs::RemoteSlice;

/// The segments that a node keeps.
#[derive(Debug, Default)]
pub(super) struct Home {
    segments: BTreeMap<Name, Kept>,
    /// Names that stand for keys of segments, kept here or elsewhere.
    names: BTreeMap<Name, Key>,
    allocated: u64,
}

#[derive(Debug)]
struct Kept {
    spec: Spec,
    at: RemoteSlice,
    line: Line,
    leaving: Option<Leaving>,
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
    /// Ask all nodes to [drain](Home::on_drained) it, and tell those who wait for a turn at it that they came too late.
    Drain(VecDeque<(Rank, u64)>),
}

/// A segment that no node uses any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
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
    /// Make the segment first, and [tell](Home::made) the home.
    Make,
    /// Its name is of a segment that is being released: it is served after that.
    Later,
}

/// What to do about a segment's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Nothing,
    /// Mark the header as one that only who has a turn may change, and [tell](Home::closed) the home what it was.
    Close(RemoteSlice),
    /// Take the mark away, and [tell](Home::opened) the home.
    Open(RemoteSlice),
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

/// Those who wait for a turn at a segment. As long as nobody does, headers are changed by whose swap comes first.
#[derive(Debug, Default)]
struct Line {
    state: State,
    waiting: VecDeque<(Rank, u64)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// The header has no mark.
    #[default]
    Open,
    /// It is being marked. Those who had the lock and have left meanwhile are kept in mind.
    Closing { left: Vec<Rank> },
    /// It is marked, and this node may change it.
    Serving(Rank),
    /// The mark is being taken away.
    Opening,
}

impl Home {
    /// Somebody asks for a segment.
    pub fn on_open(&mut self, from: Rank, id: u64, name: Name, spec: Spec) -> Action {
        match self.segments.get_mut(&name) {
            Some(Kept { leaving: Some(leaving), .. }) => {
                leaving.opens.push((from, id, spec));
                Action::Later
            }
            Some(Kept { spec: there, at, .. }) if *there == spec => {
                Action::Answer(Message::Here { id, at: *at })
            }
            Some(Kept { spec: there, .. }) => Action::Answer(Message::Otherwise { id, spec: *there }),
            None => Action::Make,
        }
    }

    /// The segment was made.
    pub fn made(&mut self, name: Name, spec: Spec, at: RemoteSlice) {
        self.segments.insert(name, Kept { spec, at, line: Line::default(), leaving: None });
    }

    /// The name of a segment that somebody allocates without one.
    pub fn new_name(&mut self, me: Rank) -> Name {
        self.allocated += 1;
        Name::anonymous(me, self.allocated)
    }

    /// Lets a name stand for a key, unless it stands for one. Returns the one for which it stands.
    pub fn bind(&mut self, name: Name, key: Key, me: Rank) -> Key {
        let there = self.find(name, me);
        there.unwrap_or_else(|| *self.names.entry(name).or_insert(key))
    }

    /// What a name stands for: nothing, if that is being released.
    pub fn find(&self, name: Name, me: Rank) -> Option<Key> {
        match self.segments.get(&name) {
            Some(Kept { leaving: Some(_), .. }) => None,
            Some(kept) => Some(Key { home: me, name, spec: kept.spec, at: kept.at }),
            None => self.names.get(&name).copied(),
        }
    }

    /// Names do not stand for this key any more.
    pub fn forget(&mut self, key: Key) {
        self.names.retain(|_, named| *named != key);
    }

    /// Somebody wants a segment to be released. These nodes are to be asked whether they use it.
    pub fn on_release(&mut self, key: Key, from: Rank, id: u64, nodes: &[Rank]) -> Release {
        match self.segments.get_mut(&key.name) {
            Some(kept) if kept.leaving.is_none() && (kept.at, kept.spec) == (key.at, key.spec) => {
                let missing = nodes.iter().copied().collect();
                kept.leaving = Some(Leaving { asker: (from, id), missing, opens: Vec::new() });
                Release::Drain(std::mem::take(&mut kept.line.waiting))
            }
            _ => Release::Late,
        }
    }

    /// Nothing of a node's is under way to a segment that is being released. With the last node it is gone.
    pub fn on_drained(&mut self, name: Name, from: Rank) -> Option<Left> {
        let leaving = self.segments.get_mut(&name)?.leaving.as_mut()?;
        leaving.missing.remove(&from);
        if !leaving.missing.is_empty() {
            return None;
        }
        let Leaving { asker, opens, .. } = self.segments.remove(&name)?.leaving?;
        Some(Left { asker, opens })
    }

    /// Whether the segment at a place is kept here and is not being released. (After its release another one may have its name.)
    pub fn is_kept(&self, name: Name, at: RemoteSlice) -> bool {
        self.segments.get(&name).is_some_and(|kept| kept.leaving.is_none() && kept.at == at)
    }

    /// The keys of all that is kept here.
    pub fn keys(&self, me: Rank) -> impl Iterator<Item = Key> {
        let key =
            move |(name, kept): (&Name, &Kept)| Key { home: me, name: *name, spec: kept.spec, at: kept.at };
        self.segments.iter().map(key)
    }

    /// Somebody wants a turn.
    pub fn on_enter(&mut self, name: Name, from: Rank, id: u64) -> Step {
        let Some(Kept { line, at, leaving: None, .. }) = self.segments.get_mut(&name) else {
            return Step::Late { to: from, id };
        };
        line.waiting.push_back((from, id));
        match line.state {
            State::Open => {
                line.state = State::Closing { left: Vec::new() };
                Step::Close(*at)
            }
            _ => Step::Nothing,
        }
    }

    /// The header was marked; it was this. The node that has the lock has the first turn.
    pub fn closed(&mut self, name: Name, header: Header) -> Step {
        let Some(Kept { line, at, leaving: None, .. }) = self.segments.get_mut(&name) else {
            return Step::Nothing;
        };
        let State::Closing { left } = &line.state else { return Step::Nothing };
        match header.holder() {
            Some(holder) if !left.contains(&holder) => {
                line.state = State::Serving(holder);
                Step::Nothing
            }
            _ => line.next(*at),
        }
    }

    /// A node has no turn any more, or has given the lock back while the header was marked.
    pub fn on_leave(&mut self, name: Name, from: Rank) -> Step {
        let Some(Kept { line, at, leaving: None, .. }) = self.segments.get_mut(&name) else {
            return Step::Nothing;
        };
        match &mut line.state {
            State::Closing { left } => left.push(from),
            State::Serving(rank) if *rank == from => return line.next(*at),
            // It saw the mark, though the home did not see it with the lock.
            State::Serving(_) | State::Opening | State::Open => {}
        }
        Step::Nothing
    }

    /// A node has died, and has the lock no more: it has no turn either.
    pub fn on_gone(&mut self, name: Name, node: Rank) -> Step {
        if let Some(Kept { line, leaving: None, .. }) = self.segments.get_mut(&name) {
            line.waiting.retain(|(from, _)| *from != node);
        }
        self.on_leave(name, node)
    }

    /// Nobody waits for this node any more: the others go on without it.
    pub fn forget_all_who_wait(&mut self) {
        self.segments.values_mut().for_each(|kept| kept.line.waiting.clear());
    }

    /// Segments that are being released, for which a node has not drained yet.
    pub fn drained_by(&self, node: Rank) -> Vec<Name> {
        let awaits =
            |kept: &Kept| kept.leaving.as_ref().is_some_and(|leaving| leaving.missing.contains(&node));
        self.segments.iter().filter(|(_, kept)| awaits(kept)).map(|(name, _)| *name).collect()
    }

    /// The segments that are not being released, and where they are.
    pub fn places(&self) -> Vec<(Name, RemoteSlice)> {
        let kept = self.segments.iter().filter(|(_, kept)| kept.leaving.is_none());
        kept.map(|(name, kept)| (*name, kept.at)).collect()
    }

    /// The nodes that have a turn, or have not drained a segment yet.
    pub fn awaited(&self) -> Vec<Rank> {
        let of = |kept: &Kept| match (&kept.leaving, &kept.line.state) {
            (Some(leaving), _) => leaving.missing.iter().copied().collect(),
            (None, State::Serving(node)) => vec![*node],
            _ => Vec::new(),
        };
        self.segments.values().flat_map(of).collect()
    }

    /// The mark is gone.
    pub fn opened(&mut self, name: Name) -> Step {
        let Some(Kept { line, at, leaving: None, .. }) = self.segments.get_mut(&name) else {
            return Step::Nothing;
        };
        line.state = State::Open;
        if line.waiting.is_empty() {
            return Step::Nothing;
        }
        line.state = State::Closing { left: Vec::new() };
        Step::Close(*at)
    }

    /// How many wait for a turn.
    pub fn waiting(&self) -> usize {
        self.segments.values().map(|kept| kept.line.waiting.len()).sum()
    }
}

impl Line {
    fn next(&mut self, at: RemoteSlice) -> Step {
        match self.waiting.pop_front() {
            Some((to, id)) => {
                self.state = State::Serving(to);
                Step::Grant { to, id }
            }
            None => {
                self.state = State::Opening;
                Step::Open(at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddss::Model;

    const AT: RemoteSlice = RemoteSlice { addr: 0, len: 16, rkey: 1 };
    const NAME: Name = Name(1);

    fn home() -> Home {
        let mut home = Home::default();
        home.made(NAME, Spec { size: 8, model: Model::Null }, AT);
        home
    }

    fn rank(index: u32) -> Rank {
        Rank::from_index(index)
    }

    #[test]
    fn a_segment_is_made_once_and_who_says_otherwise_is_told() {
        let (mut home, name, from) = (Home::default(), Name(1), rank(1));
        let spec = Spec { size: 8, model: Model::Null };
        assert_eq!(home.on_open(from, 5, name, spec), Action::Make);
        home.made(name, spec, AT);
        assert_eq!(home.on_open(from, 6, name, spec), Action::Answer(Message::Here { id: 6, at: AT }));
        let larger = Spec { size: 16, ..spec };
        assert_eq!(home.on_open(from, 7, name, larger), Action::Answer(Message::Otherwise { id: 7, spec }));
    }

    #[test]
    fn a_name_stands_for_one_key_and_a_segment_for_its_own() {
        let (mut home, me) = (home(), rank(0));
        let own = home.find(NAME, me).expect("it is kept");
        let other = Key { home: rank(3), ..own };
        assert_eq!(home.bind(NAME, other, me), own, "the name is a segment's");
        assert_eq!((home.find(Name(8), me), home.bind(Name(8), other, me)), (None, other));
        assert_eq!((home.bind(Name(8), own, me), home.find(Name(8), me)), (other, Some(other)));
        assert_ne!(home.new_name(me), home.new_name(me));
        assert_eq!(home.keys(me).collect::<Vec<_>>(), [own]);
    }

    #[test]
    fn turns_are_granted_one_after_another_in_the_order_of_asking() {
        let mut home = home();
        assert_eq!(home.on_enter(NAME, rank(1), 10), Step::Close(AT));
        assert_eq!(home.on_enter(NAME, rank(2), 20), Step::Nothing);
        assert_eq!(home.closed(NAME, Header::default()), Step::Grant { to: rank(1), id: 10 });
        assert_eq!(home.on_leave(NAME, rank(2)), Step::Nothing, "it is not its turn");
        assert_eq!(home.on_leave(NAME, rank(1)), Step::Grant { to: rank(2), id: 20 });
        assert_eq!(home.on_leave(NAME, rank(2)), Step::Open(AT));
        assert_eq!(home.on_enter(NAME, rank(3), 30), Step::Nothing, "the mark is being taken away");
        assert_eq!(home.opened(NAME), Step::Close(AT));
        assert_eq!(home.closed(NAME, Header::default()), Step::Grant { to: rank(3), id: 30 });
        assert_eq!((home.on_leave(NAME, rank(3)), home.opened(NAME)), (Step::Open(AT), Step::Nothing));
        assert_eq!(home.waiting(), 0);
    }

    #[test]
    fn who_had_the_lock_when_the_header_was_marked_has_the_first_turn_unless_it_has_left() {
        let held = Header::default().held_by(rank(5));
        let mut home = home();
        home.on_enter(NAME, rank(1), 10);
        assert_eq!(home.closed(NAME, held), Step::Nothing);
        assert_eq!(home.on_leave(NAME, rank(5)), Step::Grant { to: rank(1), id: 10 });
        let mut home = self::home();
        home.on_enter(NAME, rank(1), 10);
        assert_eq!(home.on_leave(NAME, rank(5)), Step::Nothing);
        assert_eq!(home.closed(NAME, held), Step::Grant { to: rank(1), id: 10 });
    }

    #[test]
    fn a_segment_goes_once_every_node_has_drained_it_and_who_comes_late_is_told() {
        let (mut home, me) = (home(), rank(0));
        let key = home.find(NAME, me).expect("it is kept");
        home.on_enter(NAME, rank(1), 10);
        assert_eq!(
            home.on_release(
                Key { at: RemoteSlice { rkey: 2, ..AT }, ..key },
                rank(1),
                1,
                &[rank(0), rank(1)]
            ),
            Release::Late
        );
        assert_eq!(
            home.on_release(key, rank(1), 2, &[rank(0), rank(1)]),
            Release::Drain([(rank(1), 10)].into())
        );
        assert_eq!(home.on_release(key, rank(0), 3, &[rank(0), rank(1)]), Release::Late, "it is going");
        // Nobody is granted a turn any more, and no new segment of that name is made yet.
        assert_eq!(home.closed(NAME, Header::default()), Step::Nothing);
        assert_eq!(home.on_enter(NAME, rank(1), 11), Step::Late { to: rank(1), id: 11 });
        assert_eq!(home.on_open(rank(0), 12, NAME, key.spec), Action::Later);
        assert_eq!((home.find(NAME, me), home.is_kept(NAME, AT)), (None, false));
        assert_eq!(home.on_drained(NAME, rank(1)), None);
        assert_eq!(home.on_drained(NAME, rank(1)), None, "the same one again");
        let left = Left { asker: (rank(1), 2), opens: vec![(rank(0), 12, key.spec)] };
        assert_eq!(home.on_drained(NAME, rank(0)), Some(left));
        assert_eq!(home.on_drained(NAME, rank(0)), None);
        assert_eq!(home.on_open(rank(0), 12, NAME, key.spec), Action::Make);
    }

    #[test]
    fn a_node_that_died_has_no_turn_and_is_not_waited_for() {
        let mut home = home();
        home.on_enter(NAME, rank(1), 10);
        home.closed(NAME, Header::default());
        home.on_enter(NAME, rank(2), 20);
        home.on_enter(NAME, rank(3), 30);
        assert_eq!(home.awaited(), [rank(1)]);
        assert_eq!(home.on_gone(NAME, rank(2)), Step::Nothing, "it waited");
        assert_eq!(home.on_gone(NAME, rank(1)), Step::Grant { to: rank(3), id: 30 }, "it had the turn");
        // It had the lock when the header was marked, and is gone when the home learns that.
        let mut home = self::home();
        home.on_enter(NAME, rank(1), 10);
        assert_eq!(home.on_gone(NAME, rank(5)), Step::Nothing);
        let held = Header::default().held_by(rank(5));
        assert_eq!(home.closed(NAME, held), Step::Grant { to: rank(1), id: 10 });
        // A segment that is being released waits for those that live.
        let key = home.find(NAME, rank(0)).expect("it is kept");
        home.on_release(key, rank(0), 1, &[rank(0), rank(1)]);
        assert_eq!((home.drained_by(rank(1)), home.drained_by(rank(2))), (vec![NAME], vec![]));
        assert_eq!(home.awaited(), [rank(0), rank(1)]);
    }
}
