//! Views of the membership around the shipped requester and home: one lock, of which one node dies, or is left out alive, at any
//! moment; the views after that begin on each node at any moment, and what it held counts until its lease ends.
//!
//! As in [`world`](super::world), a seed chooses what happens next. Besides, words are used anew as soon as their home may do so, so that
//! an atomic which still reaches one of an earlier view does harm.

mod wire;

use super::requester::{Requester, Sharing};
use super::world::{Application, Choice, Doing, Flag, Request, live};
use super::{Action, Event, Home, OutcomeUnknown, Word};
use crate::locks::stats::Counters;
use crate::locks::{LockKey, Mode};
use crate::transport::Rank;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use weft_verbs::RemoteSlice;
use wire::{Atomic, NodeWire, Operation, Said, Shared};

const KEY: LockKey = LockKey(77);

/// The last view.
const LAST: u64 = 3;

/// A mistake around the shipped machines, that the world must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// A home grants before the lease of the one who left has ended.
    GrantsTooEarly,
    /// A home grants before all have reported.
    ReportsNotAwaited,
    /// A member says that it has reported while an atomic of an earlier view is under way.
    AtomicsNotAwaited,
    /// What was said in an earlier view counts.
    StaleMessagesCount,
    /// The next home begins as if nobody had had the lock.
    ForgetsReports,
}

struct Node {
    requester: Rc<Requester<NodeWire>>,
    wire: Rc<NodeWire>,
    application: Rc<Application>,
    task: Option<Pin<Box<dyn Future<Output = ()>>>>,
    awake: Arc<Flag>,
    /// Its side as a home, in its view.
    home: Option<Home>,
    awaited: BTreeSet<usize>,
    /// Words of earlier views, and words that may be used anew.
    abandoned: Vec<u64>,
    unused: Vec<u64>,
    early: VecDeque<(usize, u64, Said)>,
    /// To whom it has still to say that it has reported.
    owed: BTreeSet<usize>,
}

struct World {
    nodes: Vec<Node>,
    shared: Rc<RefCell<Shared>>,
    words: BTreeMap<u64, Word>,
    choice: Choice,
    planted: Option<Planted>,
    /// Who left, whether it lives, and whether it held when it died.
    gone: Option<usize>,
    is_dead: bool,
    died_holding: Option<Mode>,
    lease_is_over: bool,
    /// The latest view that was decided.
    decided: u64,
    /// Atomics whose outcome may be lost though nobody dies.
    faults_left: u32,
    sluggish: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Deliver(usize, usize),
    Execute(usize),
    ComeHome(usize),
    Lose(usize),
    Run(usize),
    LetGo(usize),
    Begins(usize),
    LeaseEnds,
}

fn rank(node: usize) -> Rank {
    Rank::from_index(node as u32)
}

impl World {
    fn new(requests: &[Vec<Request>], limit: u32, faults: u32, planted: Option<Planted>, seed: u64) -> World {
        let shared = Rc::new(RefCell::new(Shared { views: vec![0; requests.len()], ..Shared::default() }));
        let node = |(me, requests): (usize, &Vec<Request>)| {
            let wire = Rc::new(NodeWire { me, shared: Rc::clone(&shared), counters: Counters::default() });
            let requester = Rc::new(Requester::new(Rc::clone(&wire), KEY, None, Sharing::UpTo(limit)));
            let application = Rc::new(Application::new());
            let task = live(Rc::clone(&requester), Rc::clone(&application), requests.clone());
            Node {
                requester,
                wire,
                application,
                task: Some(Box::pin(task)),
                awake: Arc::new(Flag(AtomicBool::new(true))),
                home: None,
                awaited: BTreeSet::new(),
                abandoned: Vec::new(),
                unused: Vec::new(),
                early: VecDeque::new(),
                owed: BTreeSet::new(),
            }
        };
        let mut choice = Choice::new(seed);
        let sluggish = (choice.below(2) == 0).then(|| choice.below(requests.len()));
        let mut world = World {
            nodes: requests.iter().enumerate().map(node).collect(),
            shared: Rc::clone(&shared),
            words: BTreeMap::new(),
            choice,
            planted,
            gone: None,
            is_dead: false,
            died_holding: None,
            lease_is_over: false,
            decided: 1,
            faults_left: faults,
            sluggish,
        };
        (0..requests.len()).for_each(|node| world.begin(node));
        world
    }

    fn is_alive(&self, node: usize) -> bool {
        self.gone != Some(node) || !self.is_dead
    }

    fn members(&self, view: u64) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| view < 2 || self.gone != Some(*node)).collect()
    }

    /// The first node, or the next member.
    fn home(&self, view: u64) -> usize {
        self.members(view)[0]
    }

    fn view(&self, node: usize) -> u64 {
        self.shared.borrow().views[node]
    }

    fn is_fenced(&self, view: u64) -> bool {
        view < 2 || self.lease_is_over || self.planted == Some(Planted::GrantsTooEarly)
    }

    /// Runs to the end; at a step that the seed chooses one node leaves.
    fn run(&mut self) -> Result<(), String> {
        let verdict = self.steps().and_then(|()| self.judge_the_end());
        verdict.map_err(|violation| format!("{violation}\n{}", self.shared.borrow().log))
    }

    fn steps(&mut self) -> Result<(), String> {
        let leaves_at = self.choice.below(80);
        for step in 0..20_000 {
            if step == leaves_at {
                self.leave();
                self.judge()?;
            }
            let possible = self.possible();
            if possible.is_empty() {
                match self.gone {
                    None => self.leave(),
                    Some(_) if self.decided < LAST => self.decided += 1,
                    Some(_) => return Ok(()),
                }
                continue;
            }
            if self.gone.is_some() && self.decided < LAST && self.choice.below(30) == 0 {
                self.decided += 1;
            }
            let mut taken = possible[self.choice.below(possible.len())];
            if self.concerns_sluggish(taken) && self.choice.below(8) > 0 {
                taken = possible[self.choice.below(possible.len())];
            }
            let _ = writeln!(self.shared.borrow_mut().log, "{taken:?}");
            self.take(taken);
            self.judge()?;
        }
        Err("no end in sight".to_owned())
    }

    fn concerns_sluggish(&self, step: Step) -> bool {
        match step {
            Step::Run(node) | Step::Begins(node) | Step::Deliver(_, node) => self.sluggish == Some(node),
            _ => false,
        }
    }

    /// A node dies, or hangs and is left out: the view without it is decided.
    fn leave(&mut self) {
        let node = self.choice.below(self.nodes.len());
        self.is_dead = self.choice.below(2) == 0;
        let _ = writeln!(self.shared.borrow_mut().log, "n{node} leaves, dead: {}", self.is_dead);
        (self.gone, self.decided) = (Some(node), 2);
        self.shared.borrow_mut().gone = Some(node);
        if self.is_dead {
            self.died_holding = match self.nodes[node].application.doing.get() {
                Doing::Holding(mode) => Some(mode),
                _ => None,
            };
            self.nodes[node].task = None;
            self.shared.borrow_mut().ways.retain(|(_, to), _| *to != node);
        }
    }

    fn possible(&self) -> Vec<Step> {
        let shared = self.shared.borrow();
        let mut steps: Vec<Step> = shared
            .ways
            .iter()
            .filter(|((_, to), way)| !way.is_empty() && self.is_alive(*to))
            .map(|(&(from, to), _)| Step::Deliver(from, to))
            .collect();
        for (i, atomic) in shared.atomics.iter().enumerate() {
            let home_answers = self.is_alive(atomic.home) && !atomic.fenced;
            if atomic.was.is_none() && home_answers {
                steps.push(Step::Execute(i));
            }
            if !self.is_alive(atomic.by) {
                continue;
            }
            if atomic.was.is_some() && home_answers {
                steps.push(Step::ComeHome(i));
            }
            if atomic.fenced || self.faults_left > 0 && home_answers {
                steps.push(Step::Lose(i));
            }
        }
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| self.is_alive(*i)) {
            if node.task.is_some() && node.awake.0.load(Ordering::Relaxed) {
                steps.push(Step::Run(i));
            }
            let holds = matches!(node.application.doing.get(), Doing::Holding(_));
            if holds && !node.application.let_go.get() {
                steps.push(Step::LetGo(i));
            }
            if shared.views[i] < self.decided && self.gone != Some(i) {
                steps.push(Step::Begins(i));
            }
        }
        if self.gone.is_some() && !self.lease_is_over {
            steps.push(Step::LeaseEnds);
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Deliver(from, to) => {
                let said = self.shared.borrow_mut().ways.get_mut(&(from, to)).and_then(VecDeque::pop_front);
                if let Some((view, said)) = said {
                    self.hear(from, to, view, said);
                }
            }
            Step::Execute(i) => self.execute(i),
            Step::ComeHome(i) => self.come_home(i, false),
            Step::Lose(i) => {
                self.faults_left -= u32::from(!self.shared.borrow().atomics[i].fenced);
                self.come_home(i, true);
            }
            Step::Run(i) => {
                let node = &mut self.nodes[i];
                node.awake.0.store(false, Ordering::Relaxed);
                let waker = Waker::from(Arc::clone(&node.awake));
                if let Some(task) = &mut node.task
                    && task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
                {
                    node.task = None;
                }
            }
            Step::LetGo(i) => self.nodes[i].application.lets_go(),
            Step::Begins(i) => self.begin(i),
            Step::LeaseEnds => {
                self.lease_is_over = true;
                (0..self.nodes.len()).for_each(|node| self.grant(node));
            }
        }
    }

    /// As the daemon does it.
    fn begin(&mut self, node: usize) {
        let view = self.decided;
        if let Some(gone) = self.gone.filter(|_| view >= 2) {
            let mut shared = self.shared.borrow_mut();
            shared.ways.remove(&(gone, node));
            let of_both = |a: &Atomic| (a.by, a.home) == (gone, node) || (a.by, a.home) == (node, gone);
            shared.atomics.iter_mut().filter(|a| of_both(a)).for_each(|atomic| atomic.fenced = true);
        }
        self.shared.borrow_mut().views[node] = view;
        let of = &mut self.nodes[node];
        let over = of.home.take();
        of.abandoned.extend(over.and_then(|home| home.last_word()).map(|word| word.addr));
        let (members, home) = (self.members(view), self.home(view));
        let of = &mut self.nodes[node];
        of.awaited = members.iter().copied().collect();
        of.owed = of.awaited.clone();
        of.requester.view_begins(rank(home));
        self.pay(node);
        if self.planted == Some(Planted::ReportsNotAwaited) {
            self.nodes[node].awaited.clear();
            self.complete(node);
        }
        for (from, view, said) in std::mem::take(&mut self.nodes[node].early) {
            self.hear(from, node, view, said);
        }
    }

    /// Says to those who are owed it that it has reported, once no atomic is under way to their words.
    fn pay(&mut self, node: usize) {
        let mut shared = self.shared.borrow_mut();
        let waits = |shared: &Shared, to: usize| shared.atomics.iter().any(|a| a.by == node && a.home == to);
        for to in self.nodes[node].owed.clone() {
            if !waits(&shared, to) || self.planted == Some(Planted::AtomicsNotAwaited) {
                self.nodes[node].owed.remove(&to);
                shared.say(node, to, Said::Reported);
            }
        }
    }

    fn hear(&mut self, from: usize, to: usize, view: u64, said: Said) {
        let now = self.view(to);
        if view > now {
            return self.nodes[to].early.push_back((from, view, said));
        }
        if view < now && self.planted != Some(Planted::StaleMessagesCount) {
            return;
        }
        match said {
            Said::Reported => {
                self.nodes[to].awaited.remove(&from);
                self.complete(to);
            }
            Said::About(message) if message.is_for_the_home() => {
                self.tell(to, Event::Message(rank(from), message));
            }
            Said::About(message) => self.nodes[to].requester.on_message(rank(from), message),
        }
    }

    /// All have reported: words of earlier views may be used anew.
    fn complete(&mut self, node: usize) {
        let of = &mut self.nodes[node];
        if of.awaited.is_empty() {
            let abandoned = std::mem::take(&mut of.abandoned);
            of.unused.extend(abandoned);
            self.grant(node);
        }
    }

    fn grant(&mut self, node: usize) {
        let is_home = self.nodes[node].home.is_some();
        if is_home && self.is_settled(node) {
            self.tell(node, Event::MayGrant);
        }
    }

    fn is_settled(&self, node: usize) -> bool {
        self.nodes[node].awaited.is_empty() && self.is_fenced(self.view(node))
    }

    fn tell(&mut self, node: usize, event: Event) {
        let is_new = self.is_settled(node) || self.planted == Some(Planted::ForgetsReports);
        let view = self.view(node);
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut out = Vec::new();
            let begin = || if is_new { Home::new() } else { Home::of_a_view() };
            self.nodes[node].home.get_or_insert_with(begin).on_event(event, &mut out);
            for action in out {
                match action {
                    Action::Send(to, message) => {
                        self.shared.borrow_mut().say(node, to.index(), Said::About(message));
                    }
                    Action::Swap { at, compare, swap } => {
                        let (operation, at) = (Operation::Swap { compare, swap }, at.addr);
                        let (by, home) = (node, node);
                        let atomic =
                            Atomic { by, arrival: None, view, home, at, operation, was: None, fenced: false };
                        self.shared.borrow_mut().atomics.push(atomic);
                    }
                    Action::FreshWord { retired } => {
                        self.nodes[node].unused.extend(retired.map(|word| word.addr));
                        let unused = self.nodes[node].unused.pop();
                        let addr = unused.unwrap_or(0x1000 + 8 * self.words.len() as u64);
                        self.words.insert(addr, Word::FREE);
                        events.push_back(Event::Word(Some(RemoteSlice { addr, len: 8, rkey: 1 })));
                    }
                    Action::Rebuilding | Action::Stale => {}
                    Action::OutOfTurn => {
                        let counter = &self.nodes[node].wire.counters.out_of_turn;
                        counter.set(counter.get() + 1);
                    }
                }
            }
        }
    }

    fn execute(&mut self, i: usize) {
        let mut shared = self.shared.borrow_mut();
        let atomic = &mut shared.atomics[i];
        let word = self.words.get_mut(&atomic.at).expect("a word that a home opened");
        let was = *word;
        match atomic.operation {
            Operation::Swap { compare, swap } if was == compare => *word = swap,
            Operation::Swap { .. } => {}
            Operation::Add(n) => *word = Word(was.0 + n),
        }
        atomic.was = Some(was);
        let (at, now) = (atomic.at, *word);
        let _ = writeln!(shared.log, "  {at:x}: {was:?} -> {now:?}");
    }

    fn come_home(&mut self, i: usize, lost: bool) {
        let atomic = self.shared.borrow_mut().atomics.remove(i);
        let outcome = match atomic.was {
            Some(was) if !lost => Ok(was),
            _ => Err(OutcomeUnknown),
        };
        match &atomic.arrival {
            None if atomic.view == self.view(atomic.by) => self.tell(atomic.by, Event::Swapped(outcome)),
            None => {}
            Some(arrival) => arrival.borrow_mut().tell(outcome),
        }
        self.pay(atomic.by);
    }

    /// Who holds, and may rely on it.
    fn judge(&self) -> Result<(), String> {
        let mut holding: Vec<(usize, Mode)> = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let of_the_dead = self.died_holding.filter(|_| self.gone == Some(i) && self.is_dead);
            let held = match node.application.doing.get() {
                Doing::Holding(mode) if self.is_alive(i) => Some(mode),
                _ => of_the_dead,
            };
            let counts = self.gone != Some(i) || !self.lease_is_over;
            holding.extend(held.filter(|_| counts).map(|mode| (i, mode)));
        }
        for (i, &(a, mode_a)) in holding.iter().enumerate() {
            if let Some((b, mode_b)) = holding[i + 1..].iter().find(|(_, mode)| !mode.goes_with(mode_a)) {
                return Err(format!("n{a} holds {mode_a} and n{b} holds {mode_b}"));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if self.is_alive(i) && node.wire.counters.out_of_turn.get() > 0 {
                return Err(format!("a message to n{i} was out of turn"));
            }
        }
        Ok(())
    }

    /// Where nothing can happen any more, every member has had what it wanted, and the word is free.
    fn judge_the_end(&self) -> Result<(), String> {
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| self.gone != Some(*i)) {
            if node.task.is_some() || node.requester.is_taken() {
                return Err(format!("n{i} waits for ever: {:?}", *node.requester.state()));
            }
        }
        let Some(home) = &self.nodes[self.home(self.decided)].home else { return Ok(()) };
        let word = home.word().map(|at| self.words[&at.addr]);
        if word.is_some_and(|word| word != Word::FREE) || home.is_rebuilding() || home.entries() > 0 {
            return Err(format!("at rest the word is {word:?} and the home is {home:?}"));
        }
        Ok(())
    }
}

/// Three or four nodes with one to three requests each.
fn world(seed: u64, planted: Option<Planted>) -> World {
    let mut choice = Choice::new(seed ^ 0x71e3);
    let nodes = 3 + choice.below(2);
    let request = |choice: &mut Choice| {
        let mode = if choice.below(2) == 0 { Mode::Shared } else { Mode::Exclusive };
        match choice.below(8) {
            0 => Request::Try(mode),
            1 => Request::Downgrade,
            _ => Request::Lock(mode),
        }
    };
    let mut requests = Vec::new();
    for _ in 0..nodes {
        let count = 1 + choice.below(3);
        requests.push((0..count).map(|_| request(&mut choice)).collect());
    }
    let limit = if choice.below(4) == 0 { 2 } else { 1 << 31 };
    World::new(&requests, limit, choice.below(2) as u32, planted, seed)
}

#[test]
fn one_node_dies_or_is_left_out_and_all_holds() {
    for seed in 0..20_000 {
        if let Err(story) = world(seed, None).run() {
            panic!("seed {seed}: {story}");
        }
    }
}

#[test]
fn mistakes_are_found() {
    for planted in [
        Planted::GrantsTooEarly,
        Planted::ReportsNotAwaited,
        Planted::AtomicsNotAwaited,
        Planted::StaleMessagesCount,
        Planted::ForgetsReports,
    ] {
        let found = (0..20_000).find(|seed| world(*seed, Some(planted)).run().is_err());
        assert!(found.is_some(), "{planted:?} is not found");
    }
}
