//! A small deterministic world for the protocol alone: no fabric, no time.
//!
//! Every step of the world is one of: the oldest message of a pair of nodes is handled; an atomic executes; an
//! atomic comes home, with its result or with an unknown outcome; a node's task runs; a holder lets go. Which one
//! is a seed's choice. Messages keep their order within a pair of nodes and nowhere else; an atomic whose outcome
//! is unknown may have executed at any moment before that is known.

mod judge;
mod node;

use super::messages::{Epoch, Message};
use super::{Action, Event, Home, OutcomeUnknown, Word};
use crate::locks::{LockKey, Mode, Scheme};
use crate::rt::WaitPoint;
use crate::transport::Rank;
use node::WorldNode;
pub(super) use node::{Application, Doing, Flag, live};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use weft_verbs::RemoteSlice;

pub(super) const KEY: LockKey = LockKey(77);

/// What a node of the world wants to do, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Lock(Mode),
    Try(Mode),
    /// Exclusive first, then shared.
    Downgrade,
}

/// A world's size and rules.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// N-CoSED, or DQNL.
    pub(super) scheme: Scheme,
    /// Each node's requests, by rank; the home is rank 1.
    pub(super) requests: Vec<Vec<Request>>,
    /// How many atomics may have an unknown outcome.
    pub(super) faults: u32,
    pub(super) shared_limit: u32,
}

/// A source of choices: xorshift64*, seeded.
pub(super) struct Choice(u64);

impl Choice {
    pub(super) fn new(seed: u64) -> Choice {
        Choice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n as u64) as usize
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Swap { compare: Word, swap: Word },
    Add(u64),
}

/// Who hears of an atomic.
#[derive(Clone)]
enum Asker {
    Requester(Rank, Rc<RefCell<Arrival>>),
    Home,
}

/// What became of an atomic, for the task that waits for it.
#[derive(Default)]
pub(super) struct Arrival {
    outcome: Option<Result<Word, OutcomeUnknown>>,
    waker: Option<Waker>,
}

impl Arrival {
    /// Tells the outcome.
    pub(super) fn tell(&mut self, outcome: Result<Word, OutcomeUnknown>) {
        self.outcome = Some(outcome);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits for it.
    pub(super) async fn wait(arrival: &RefCell<Arrival>) -> Result<Word, OutcomeUnknown> {
        poll_fn(|cx| {
            let mut arrival = arrival.borrow_mut();
            match arrival.outcome {
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    arrival.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .at(())
        .await
    }
}

struct Atomic {
    asker: Asker,
    at: RemoteSlice,
    operation: Operation,
    was: Option<Word>,
}

/// What the nodes share with the world while they run.
#[derive(Default)]
struct Shared {
    channels: BTreeMap<(Rank, Rank), VecDeque<Message>>,
    atomics: Vec<Atomic>,
    /// Who has reported in which epoch.
    reported: BTreeSet<(Rank, Epoch)>,
    /// A node used an epoch that was over for it.
    late: Option<String>,
    log: String,
}

impl Shared {
    /// A member's message. After its report it has one left in that epoch: the release of what it held.
    fn send_as_member(&mut self, from: Rank, to: Rank, message: Message) {
        let over = |epoch| self.reported.contains(&(from, epoch));
        let late = match message {
            Message::Report { epoch, .. } => !self.reported.insert((from, epoch)),
            Message::Queue { epoch, .. }
            | Message::Read { epoch }
            | Message::Grant { epoch }
            | Message::Wait { epoch, .. }
            | Message::RetryReset { epoch } => over(epoch),
            _ => false,
        };
        if late {
            self.late = Some(format!("{from} sent {message:?} after its report"));
        }
        self.send(from, to, message);
    }

    fn send(&mut self, from: Rank, to: Rank, message: Message) {
        let _ = writeln!(self.log, "  {from} -> {to}: {message:?}");
        self.channels.entry((from, to)).or_default().push_back(message);
    }
}

/// One run.
pub(super) struct World {
    scheme: Scheme,
    nodes: Vec<WorldNode>,
    home: Home,
    shared: Rc<RefCell<Shared>>,
    words: BTreeMap<u64, Word>,
    choice: Choice,
    sluggish: Sluggish,
    faults_left: u32,
    /// Exclusive requests whose compare-and-swap took effect, in that order, and that do not hold yet.
    order: VecDeque<Rank>,
    pub(super) rebuilds: u32,
    pub(super) unknown: u32,
}

/// What can happen next. Nodes are counted from zero here, as ranks from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The oldest message from one node to another is handled.
    Deliver(Rank, Rank),
    /// An atomic executes.
    Execute(usize),
    /// An atomic's result arrives.
    ComeHome(usize),
    /// An atomic's outcome, whatever it is, becomes unknown.
    Lose(usize),
    /// A node's task runs.
    Run(usize),
    /// A holder unlocks.
    LetGo(usize),
}

/// What takes long in a run. Uniform choices alone hardly ever hold one thing back while much else happens.
#[derive(Clone, Copy, Debug)]
enum Sluggish {
    Nothing,
    Processor(usize),
    Messages { to: Rank },
    Path(Rank, Rank),
    Atomics,
    Holders,
}

impl Sluggish {
    fn of(choice: &mut Choice, nodes: usize) -> Sluggish {
        let kind = choice.below(6);
        let mut rank = || Rank::from_index(choice.below(nodes) as u32);
        match kind {
            0 => Sluggish::Processor(rank().index()),
            1 => Sluggish::Messages { to: rank() },
            2 => Sluggish::Path(rank(), rank()),
            3 => Sluggish::Atomics,
            4 => Sluggish::Holders,
            _ => Sluggish::Nothing,
        }
    }

    fn covers(self, step: Step) -> bool {
        match (self, step) {
            (Sluggish::Processor(slow), Step::Run(i)) => slow == i,
            (Sluggish::Messages { to: slow }, Step::Deliver(_, to)) => slow == to,
            (Sluggish::Path(a, b), Step::Deliver(from, to)) => (a, b) == (from, to),
            (Sluggish::Atomics, Step::ComeHome(_)) | (Sluggish::Holders, Step::LetGo(_)) => true,
            _ => false,
        }
    }
}

/// What was violated, and the run that led there.
pub(super) type Verdict = Result<(), String>;

impl World {
    pub(super) fn new(plan: &Plan, seed: u64) -> World {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let nodes = plan
            .requests
            .iter()
            .enumerate()
            .map(|(i, requests)| WorldNode::new(Rank::from_index(i as u32), requests.clone(), plan, &shared))
            .collect();
        let mut choice = Choice::new(seed);
        World {
            scheme: plan.scheme,
            nodes,
            home: Home::new(),
            shared,
            words: BTreeMap::new(),
            sluggish: Sluggish::of(&mut choice, plan.requests.len()),
            choice,
            faults_left: plan.faults,
            order: VecDeque::new(),
            rebuilds: 0,
            unknown: 0,
        }
    }

    /// Runs to the end and judges: `Err` with the whole story if anything was violated.
    pub(super) fn run(&mut self) -> Verdict {
        let verdict = self.steps().and_then(|()| self.judge_the_end());
        verdict.map_err(|violation| format!("{violation}\n{}", self.shared.borrow().log))
    }

    /// Takes steps of the allowed kinds for as long as there are any, the first one each time: for stories that
    /// are told in order.
    pub(super) fn advance(&mut self, allowed: impl Fn(Step) -> bool) {
        while let Some(step) = self.possible().into_iter().find(|&step| allowed(step)) {
            self.take(step);
            self.judge().expect("what always holds");
        }
    }

    fn steps(&mut self) -> Verdict {
        for _ in 0..50_000 {
            let possible = self.possible();
            if possible.is_empty() {
                return Ok(());
            }
            let step = self.choose(&possible);
            let _ = writeln!(self.shared.borrow_mut().log, "{step:?}");
            self.take(step);
            self.judge()?;
        }
        Err("no end in sight".to_owned())
    }

    /// Any of them, but what is sluggish in this run only one time in eight.
    fn choose(&mut self, possible: &[Step]) -> Step {
        let step = possible[self.choice.below(possible.len())];
        if self.sluggish.covers(step) && self.choice.below(8) > 0 {
            return self.choose(possible);
        }
        step
    }

    fn possible(&self) -> Vec<Step> {
        let shared = self.shared.borrow();
        let mut steps: Vec<Step> = shared
            .channels
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(&(from, to), _)| Step::Deliver(from, to))
            .collect();
        for (i, atomic) in shared.atomics.iter().enumerate() {
            steps.push(if atomic.was.is_none() { Step::Execute(i) } else { Step::ComeHome(i) });
            if self.faults_left > 0 {
                steps.push(Step::Lose(i));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if node.is_awake() {
                steps.push(Step::Run(i));
            }
            if matches!(node.application.doing.get(), Doing::Holding(_)) && !node.application.let_go.get() {
                steps.push(Step::LetGo(i));
            }
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Deliver(from, to) => self.deliver(from, to),
            Step::Execute(i) => self.execute(i),
            Step::ComeHome(i) => self.come_home(i, false),
            Step::Lose(i) => {
                self.faults_left -= 1;
                self.unknown += 1;
                self.come_home(i, true);
            }
            Step::Run(i) => self.nodes[i].run(),
            Step::LetGo(i) => self.nodes[i].let_go(),
        }
    }

    fn deliver(&mut self, from: Rank, to: Rank) {
        let message = self.shared.borrow_mut().channels.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let Some(message) = message else { return };
        let _ = writeln!(self.shared.borrow_mut().log, "  {message:?}");
        if message.is_for_the_home() {
            self.tell_home(Event::Message(from, message));
        } else {
            self.nodes[to.index()].requester.on_message(from, message);
        }
    }

    fn execute(&mut self, i: usize) {
        let mut shared = self.shared.borrow_mut();
        let atomic = &mut shared.atomics[i];
        let word = self.words.get_mut(&atomic.at.addr).expect("a word that the home opened");
        let was = *word;
        match atomic.operation {
            Operation::Swap { compare, swap } if was == compare => {
                *word = swap;
                if let Asker::Requester(who, _) = atomic.asker
                    && swap == Word::behind(who, 0)
                    && self.nodes[who.index()].application.queues()
                {
                    self.order.push_back(who);
                }
            }
            Operation::Swap { .. } => {}
            Operation::Add(n) => *word = Word(was.0 + n),
        }
        atomic.was = Some(was);
        let now = *word;
        let _ = writeln!(shared.log, "  {was:?} -> {now:?}");
    }

    fn come_home(&mut self, i: usize, lost: bool) {
        let atomic = self.shared.borrow_mut().atomics.remove(i);
        let outcome = match atomic.was {
            Some(was) if !lost => Ok(was),
            _ => Err(OutcomeUnknown),
        };
        match atomic.asker {
            Asker::Home => self.tell_home(Event::Swapped(outcome)),
            Asker::Requester(_, arrival) => arrival.borrow_mut().tell(outcome),
        }
    }

    fn tell_home(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut out = Vec::new();
            self.home.on_event(event, &mut out);
            for action in out {
                match action {
                    Action::Send(to, message) => {
                        self.shared.borrow_mut().send(self.nodes[0].rank, to, message);
                    }
                    Action::Swap { at, compare, swap } => {
                        let operation = Operation::Swap { compare, swap };
                        let atomic = Atomic { asker: Asker::Home, at, operation, was: None };
                        self.shared.borrow_mut().atomics.push(atomic);
                    }
                    Action::FreshWord { .. } => {
                        let addr = 0x1000 + 8 * self.words.len() as u64;
                        self.words.insert(addr, Word::FREE);
                        events.push_back(Event::Word(Some(RemoteSlice { addr, len: 8, rkey: 1 })));
                    }
                    Action::Rebuilding => self.rebuilds += 1,
                    Action::Stale => {}
                    Action::OutOfTurn => {
                        let counter = &self.nodes[0].wire.counters.out_of_turn;
                        counter.set(counter.get() + 1);
                    }
                }
            }
        }
    }
}
