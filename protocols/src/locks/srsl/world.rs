//! All that a lock's nodes and homes can do while one node dies, or is left out alive: explored to the end. (That it comes back
//! is for seeds: more than three million states.)
//!
//! The shipped state machines ([`RequesterState`], [`Keeper`]) of three nodes, one lock, and views as an input: after a node died, or
//! was suspected in error, the view without it begins on each of the others at any moment.
//! Messages keep their order between two nodes and arrive at any moment. The lease of the one that left runs out at any
//! moment after the view without it was decided: that homes wait for it is what is tried here, and that a view's `grants_from` is late
//! enough is what the worlds of members explore. A timer of the view before, which a home may have set for a fence of that one, is over at any moment.

use super::keeper::Keeper;
use super::messages::Message;
use super::requester_state::{RequesterState, Stage};
use crate::locks::client::WaitPolicy;
use crate::locks::views::{self, GivenUp, Place, Stamp};
use crate::locks::{LockKey, Mode, Token};
use crate::members::{Ballot, Member, View, ViewId};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use weft_verbs::Nanos;

const NODES: u32 = 3;
/// From when on leases of those who left have run out.
const FENCE: Nanos = Nanos(1);

/// A mistake around the shipped state machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Planted {
    /// A home grants what the dead held before their leases have run out.
    GrantsTooEarly,
    /// Tokens do not grow from view to view.
    TokensNotRaised,
    /// What the dead wanted is reported for them.
    TheDeadReport,
    /// Messages of earlier views count.
    StaleMessagesCount,
    /// A home does not wait for all reports.
    ReportsNotAwaited,
}

/// What one node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wish {
    Shared,
    Exclusive,
    /// Exclusive, then shared.
    Downgrade,
    /// Exclusive, if it is free.
    Try,
}

#[derive(Clone, Debug, Hash)]
struct Node {
    state: RequesterState,
    keeper: Keeper,
    view: u64,
    early: Vec<(Rank, Stamp, Option<LockKey>, Message)>,
    wishes: Vec<Wish>,
    fence: Option<Nanos>,
}

/// A message on its way: the view that it is said in, whose lock it is about, and what it says.
type Letter = (Stamp, Option<LockKey>, Message);

#[derive(Clone, Debug, Hash)]
struct World {
    key: LockKey,
    planted: Option<Planted>,
    nodes: Vec<Option<Node>>,
    ways: BTreeMap<(u32, u32), VecDeque<Letter>>,
    /// Who left, and whether its lease runs still; what it held when it died.
    gone: Option<u32>,
    held_by_the_dead: Option<Mode>,
    lease_is_over: bool,
    /// Views decided so far.
    views: u64,
    highest: Token,
    highest_exclusive: Token,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Ask(u32),
    Release(u32),
    Deliver(u32, u32),
    /// The node dies, or is left out alive; the view without it is decided.
    Dies(u32),
    LeftOut(u32),
    Begins(u32),
    LeaseEnds,
    Lift(u32),
    /// The fence of an earlier view is over: a timer that was set for it.
    LiftsLate(u32),
}

fn rank(node: u32) -> Rank {
    Rank::from_index(node)
}

impl World {
    /// All nodes are in a first view in which all have reported. The lock is at home on `home`.
    fn new(home: u32, wishes: [&[Wish]; 3], planted: Option<Planted>) -> World {
        let key = (0..).map(LockKey).find(|key| key.home(NODES) == rank(home)).unwrap();
        let node = |index: u32| Node {
            state: RequesterState::new(None),
            keeper: Keeper::new(rank(index), NODES, true),
            view: 0,
            early: Vec::new(),
            wishes: wishes[index as usize].to_vec(),
            fence: None,
        };
        let mut world = World {
            key,
            planted,
            nodes: (0..NODES).map(|index| Some(node(index))).collect(),
            ways: BTreeMap::new(),
            gone: None,
            held_by_the_dead: None,
            lease_is_over: false,
            views: 1,
            highest: Token(0),
            highest_exclusive: Token(0),
        };
        (0..NODES).for_each(|node| world.begin(node, 1));
        while let Some((&(from, to), _)) = world.ways.iter().find(|(_, way)| !way.is_empty()) {
            world.deliver(from, to).unwrap();
        }
        world
    }

    fn now(&self) -> Nanos {
        if self.lease_is_over { Nanos(2) } else { Nanos(0) }
    }

    fn view(&self, number: u64) -> View {
        let is_in = |node: &u32| number != 2 || Some(*node) != self.gone;
        let member = |node| Member { rank: rank(node), incarnation: 1 };
        let id = ViewId { lineage: Ballot { round: 1, by: 1 }, number };
        View { id, members: (0..NODES).filter(is_in).map(member).collect(), ..View::default() }
    }

    fn stamp(&self, number: u64) -> Stamp {
        views::stamp(self.view(number).id)
    }

    fn post(&mut self, from: u32, to: Rank, key: Option<LockKey>, message: Message) {
        let number = self.nodes[from as usize].as_ref().map_or(0, |node| node.view);
        let entry = (self.stamp(number), key, message);
        self.ways.entry((from, to.index() as u32)).or_default().push_back(entry);
    }

    /// As the daemon does it.
    fn begin(&mut self, index: u32, number: u64) {
        let (view, now, key) = (self.view(number), self.now(), self.key);
        let Some(node) = &mut self.nodes[index as usize] else { return };
        let before = std::mem::replace(&mut node.view, number);
        let left: Vec<Rank> = match (before, number, self.gone) {
            (1, 2.., Some(gone)) => vec![rank(gone)],
            _ => Vec::new(),
        };
        let fence = match self.gone {
            None => Nanos(0),
            Some(_) if self.planted == Some(Planted::GrantsTooEarly) => Nanos(0),
            Some(_) => FENCE,
        };
        node.keeper.begin(view, left.clone(), fence, now);
        node.fence = None;
        let home = node.keeper.home_of(key).unwrap();
        let report = node.state.view_begins(home);
        let (members, early) = (node.keeper.members(), std::mem::take(&mut node.early));
        if let Some((to, message)) = report {
            self.post(index, to, Some(key), message);
        }
        for member in members {
            let remaining = fence.0.saturating_sub(now.0);
            self.post(index, member, None, Message::Reported { remaining });
        }
        for (from, stamp, key, message) in early {
            self.hear(index, from, stamp, key, message).unwrap();
        }
        // Expelled: what it said is heard no more.
        for gone in &left {
            self.ways.remove(&(gone.index() as u32, index));
        }
        if self.planted == Some(Planted::TheDeadReport) && !left.is_empty() && home == rank(index) {
            let message = Message::Request { mode: Mode::Exclusive, policy: WaitPolicy::Queue };
            self.hear(index, left[0], self.stamp(number), Some(key), message).unwrap();
        }
        if self.planted == Some(Planted::ReportsNotAwaited) {
            for member in self.view(number).members {
                self.on_reported(index, member.rank, 0);
            }
        }
    }

    fn deliver(&mut self, from: u32, to: u32) -> Result<(), String> {
        let way = self.ways.get_mut(&(from, to)).unwrap();
        let (stamp, key, message) = way.pop_front().unwrap();
        if way.is_empty() {
            self.ways.remove(&(from, to));
        }
        self.hear(to, rank(from), stamp, key, message)
    }

    fn hear(
        &mut self,
        index: u32,
        from: Rank,
        stamp: Stamp,
        key: Option<LockKey>,
        message: Message,
    ) -> Result<(), String> {
        let (now, number) = (self.now(), self.nodes[index as usize].as_ref().map_or(0, |node| node.view));
        let here = if number == 0 { 0 } else { self.stamp(number) };
        let Some(node) = &mut self.nodes[index as usize] else { return Ok(()) };
        match views::place(stamp, here, &GivenUp::default()) {
            Place::Later => {
                node.early.push((from, stamp, key, message));
                return Ok(());
            }
            Place::Over if self.planted != Some(Planted::StaleMessagesCount) => return Ok(()),
            _ => {}
        }
        match (key, message) {
            (None, Message::Reported { remaining }) => self.on_reported(index, from, remaining),
            (Some(key), message) if message.is_for_the_home() => {
                let mut out = Vec::new();
                let taken = node.keeper.on_message(now, from, key, message, &mut out);
                if taken.is_err() && self.planted.is_none() {
                    return Err(format!("n{index} takes {message:?} of {from} for out of turn"));
                }
                out.into_iter().for_each(|(to, message)| self.post(index, to, Some(key), message));
            }
            (_, message) => {
                let message = match message {
                    Message::Grant { token } if self.planted == Some(Planted::TokensNotRaised) => {
                        Message::Grant { token: Token(token.0 & ((1 << 40) - 1)) }
                    }
                    other => other,
                };
                if node.state.on_message(from, message).is_err() && self.planted.is_none() {
                    return Err(format!("n{index} takes {message:?} of {from} for out of turn"));
                }
                if node.state.stage == Stage::Refused {
                    node.state.unlock();
                    node.wishes.remove(0);
                }
                return self.granted(index);
            }
        }
        Ok(())
    }

    fn on_reported(&mut self, index: u32, from: Rank, remaining: u64) {
        let now = self.now();
        let Some(node) = &mut self.nodes[index as usize] else { return };
        let over = if remaining == 0 { Nanos::ZERO } else { now + Nanos(remaining) };
        let mut out = Vec::new();
        let fence = node.keeper.reported(now, from, over, &mut out);
        node.fence = fence.or(node.fence);
        out.into_iter().for_each(|(to, key, message)| self.post(index, to, Some(key), message));
    }

    /// Those who hold and may rely on it.
    fn holders(&self) -> Vec<(u32, Mode)> {
        let live = (0..NODES).filter_map(|index| {
            let node = self.nodes[index as usize].as_ref()?;
            let counts = Some(index) != self.gone || !self.lease_is_over;
            match node.state.stage {
                Stage::Held(mode, _) if counts => Some((index, mode)),
                _ => None,
            }
        });
        let dead = self.held_by_the_dead.filter(|_| !self.lease_is_over).map(|mode| (NODES, mode));
        live.chain(dead).collect()
    }

    fn granted(&mut self, index: u32) -> Result<(), String> {
        let holders = self.holders();
        let Some(&(_, mode)) = holders.iter().find(|(holder, _)| *holder == index) else { return Ok(()) };
        if let Some(other) = holders.iter().find(|(other, of)| *other != index && !of.goes_with(mode)) {
            return Err(format!("n{index} holds {mode} beside n{} {}", other.0, other.1));
        }
        let Some(Node { state: RequesterState { stage: Stage::Held(_, token), .. }, .. }) =
            self.nodes[index as usize]
        else {
            return Ok(());
        };
        let below = if mode == Mode::Exclusive { self.highest } else { self.highest_exclusive };
        if token <= below {
            return Err(format!("n{index} holds {mode} with {token} after {below}"));
        }
        self.highest = self.highest.max(token);
        if mode == Mode::Exclusive {
            self.highest_exclusive = token;
        }
        Ok(())
    }

    fn enabled(&self) -> Vec<Happening> {
        let mut all: Vec<Happening> =
            self.ways.keys().map(|&(from, to)| Happening::Deliver(from, to)).collect();
        for index in 0..NODES {
            let Some(node) = &self.nodes[index as usize] else { continue };
            let is_out = Some(index) == self.gone;
            match node.state.stage {
                Stage::Idle if !node.wishes.is_empty() && !is_out => all.push(Happening::Ask(index)),
                Stage::Held(..) => all.push(Happening::Release(index)),
                _ => {}
            }
            // One that is left out alive begins no view any more.
            if node.view < self.views && !is_out {
                all.push(Happening::Begins(index));
            }
            if node.fence.is_some_and(|fence| fence <= self.now()) {
                all.push(Happening::Lift(index));
            }
            // Later it does what this view's own does.
            if node.view == 2 && !self.lease_is_over {
                all.push(Happening::LiftsLate(index));
            }
            if self.gone.is_none() {
                all.extend([Happening::Dies(index), Happening::LeftOut(index)]);
            }
        }
        if self.gone.is_some() && !self.lease_is_over {
            all.push(Happening::LeaseEnds);
        }
        all
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Ask(index) => {
                let Some(node) = &mut self.nodes[index as usize] else { return Ok(()) };
                let mode = if node.wishes[0] == Wish::Shared { Mode::Shared } else { Mode::Exclusive };
                let policy = if node.wishes[0] == Wish::Try { WaitPolicy::Try } else { WaitPolicy::Queue };
                let say = node.state.ask(mode, policy);
                self.say(index, say);
            }
            Happening::Release(index) => {
                let Some(node) = &mut self.nodes[index as usize] else { return Ok(()) };
                let say = match (node.wishes[0], node.state.stage) {
                    (Wish::Downgrade, Stage::Held(Mode::Exclusive, _)) => node.state.downgrade(),
                    _ => {
                        node.wishes.remove(0);
                        node.state.unlock()
                    }
                };
                self.say(index, say);
            }
            Happening::Deliver(from, to) => return self.deliver(from, to),
            Happening::Dies(index) => {
                let node = self.nodes[index as usize].take();
                self.held_by_the_dead = match node.map(|node| node.state.stage) {
                    Some(Stage::Held(mode, _)) => Some(mode),
                    _ => None,
                };
                self.ways.retain(|(_, to), _| *to != index);
                (self.gone, self.views) = (Some(index), 2);
            }
            Happening::LeftOut(index) => (self.gone, self.views) = (Some(index), 2),
            Happening::Begins(index) => self.begin(index, self.views),
            Happening::LeaseEnds => self.lease_is_over = true,
            Happening::Lift(index) => {
                self.lift(index);
                if let Some(node) = &mut self.nodes[index as usize] {
                    node.fence = None;
                }
            }
            Happening::LiftsLate(index) => self.lift(index),
        }
        Ok(())
    }

    fn lift(&mut self, index: u32) {
        let now = self.now();
        let Some(node) = &mut self.nodes[index as usize] else { return };
        let mut out = Vec::new();
        node.keeper.lift(now, &mut out);
        out.into_iter().for_each(|(to, key, message)| self.post(index, to, Some(key), message));
    }

    fn say(&mut self, index: u32, say: Option<(Rank, Message)>) {
        if let Some((to, message)) = say {
            self.post(index, to, Some(self.key), message);
        }
    }

    /// Where nothing happens any more, all who are members have had what they asked for.
    fn is_through(&self) -> Result<(), String> {
        for index in 0..NODES {
            let Some(node) = &self.nodes[index as usize] else { continue };
            let is_out = Some(index) == self.gone;
            if !is_out && (node.state.stage != Stage::Idle || !node.wishes.is_empty()) {
                return Err(format!("n{index} waits for ever: {:?}", node.state));
            }
        }
        Ok(())
    }
}

/// All that can happen, from a beginning. How many states there are; or the first violation.
fn explore(world: World, most: usize) -> Result<usize, String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        let mut hash = DefaultHasher::new();
        world.hash(&mut hash);
        if !seen.insert(hash.finish()) {
            continue;
        }
        assert!(seen.len() <= most, "more than {most} states");
        let enabled = world.enabled();
        let nothing_waits_for = |happening: &Happening| {
            matches!(happening, Happening::Dies(_) | Happening::LeftOut(_) | Happening::LiftsLate(_))
        };
        if enabled.iter().all(nothing_waits_for) {
            world.is_through()?;
        }
        for happening in enabled {
            let mut next = world.clone();
            next.happen(happening)?;
            open.push(next);
        }
    }
    Ok(seen.len())
}

use Wish::{Downgrade as D, Exclusive as X, Shared as S, Try as T};

#[test]
fn one_node_dies_or_is_left_out_at_any_moment_and_all_holds() {
    let mut states = 0;
    for wishes in [[&[X][..], &[X], &[]], [&[S], &[X], &[]], [&[D], &[S], &[]], [&[], &[X], &[S]]] {
        for home in 0..NODES {
            let found = explore(World::new(home, wishes, None), 3_000_000);
            states += found.unwrap_or_else(|why| panic!("{wishes:?} at home on n{home}: {why}"));
        }
    }
    println!("{states} states");
}

#[test]
fn a_try_is_answered_though_one_node_dies_or_is_left_out_at_any_moment() {
    for home in 0..NODES {
        let found = explore(World::new(home, [&[T], &[S], &[]], None), 3_000_000);
        found.unwrap_or_else(|why| panic!("at home on n{home}: {why}"));
    }
}

#[test]
fn mistakes_are_found() {
    for (planted, promise) in [
        (Planted::GrantsTooEarly, "beside"),
        (Planted::TokensNotRaised, "with"),
        (Planted::TheDeadReport, "waits for ever"),
        (Planted::StaleMessagesCount, ""),
        (Planted::ReportsNotAwaited, ""),
    ] {
        let found = |home| explore(World::new(home, [&[X], &[X], &[]], Some(planted)), 3_000_000);
        let found = (0..NODES).find_map(|home| found(home).err());
        let why = found.unwrap_or_else(|| panic!("{planted:?} is not found"));
        assert!(why.contains(promise), "{planted:?}: {why}");
    }
}
