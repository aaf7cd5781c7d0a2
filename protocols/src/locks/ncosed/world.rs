//! A small deterministic world for the protocol alone: no fabric, no time.
//!
//! Every step of the world is one of: the oldest message of a pair of nodes is handled; an atomic executes; an
//! atomic comes home, with its result or with an unknown fate; a node's task runs; a holder lets go. Which one
//! is a seed's choice. Messages keep their order within a pair of nodes and nowhere else; an atomic whose fate
//! is unknown may have executed at any moment before that is known.

use super::messages::Message;
use super::{Action, Event, FateUnknown, Home, Refused, Seat, Wire, Word};
use crate::locks::stats::Counters;
use crate::locks::{LockKey, Mode};
use crate::transport::Rank;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use verbs_trait::RemoteSlice;

pub(super) const KEY: LockKey = LockKey(77);

/// What a node of the world wants to do, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Lock(Mode),
    Try(Mode),
}

/// A world's size and rules.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Each node's requests, by rank; the home is rank 1.
    pub(super) wishes: Vec<Vec<Wish>>,
    /// How many atomics may have an unknown fate.
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
    Seat(Rank, Rc<RefCell<Arrival>>),
    Home,
}

#[derive(Default)]
struct Arrival {
    fate: Option<Result<Word, FateUnknown>>,
    waker: Option<Waker>,
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
    log: String,
}

impl Shared {
    fn send(&mut self, from: Rank, to: Rank, message: Message) {
        let _ = writeln!(self.log, "  {from} -> {to}: {message:?}");
        self.channels.entry((from, to)).or_default().push_back(message);
    }
}

struct NodeWire {
    me: Rank,
    shared: Rc<RefCell<Shared>>,
    counters: Counters,
}

impl NodeWire {
    async fn atomic(&self, at: RemoteSlice, operation: Operation) -> Result<Word, FateUnknown> {
        let arrival = Rc::new(RefCell::new(Arrival::default()));
        let asker = Asker::Seat(self.me, Rc::clone(&arrival));
        self.shared.borrow_mut().atomics.push(Atomic { asker, at, operation, was: None });
        std::future::poll_fn(|cx| {
            let mut arrival = arrival.borrow_mut();
            match arrival.fate {
                Some(fate) => Poll::Ready(fate),
                None => {
                    arrival.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Wire for NodeWire {
    fn me(&self) -> Rank {
        self.me
    }

    fn send(&self, to: Rank, key: LockKey, message: Message) {
        // Through its bytes, as on a real wire.
        let (read_key, read) = Message::decode(message.encode(key).bytes()).expect("what was encoded");
        assert_eq!((read_key, read), (KEY, message));
        self.shared.borrow_mut().send(self.me, to, message);
    }

    async fn compare_swap(
        &self,
        _home: Rank,
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> Result<Word, FateUnknown> {
        self.atomic(at, Operation::Swap { compare, swap }).await
    }

    async fn fetch_add(&self, _home: Rank, at: RemoteSlice, add: u64) -> Result<Word, FateUnknown> {
        self.atomic(at, Operation::Add(add)).await
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where a node's application stands; the oracles look at this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Thinking,
    Asking(Wish),
    Holding(Mode),
}

struct Application {
    doing: Cell<Doing>,
    let_go: Cell<bool>,
    /// This hold's place in the order has been looked at.
    judged: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

struct WorldNode {
    rank: Rank,
    seat: Rc<Seat<NodeWire>>,
    wire: Rc<NodeWire>,
    application: Rc<Application>,
    task: Option<Pin<Box<dyn Future<Output = ()>>>>,
    awake: Arc<Flag>,
}

/// One run.
pub(super) struct World {
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

#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver(Rank, Rank),
    Execute(usize),
    ComeHome(usize),
    Lose(usize),
    Run(usize),
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
            .wishes
            .iter()
            .enumerate()
            .map(|(i, wishes)| WorldNode::new(Rank::from_index(i as u32), wishes.clone(), plan, &shared))
            .collect();
        let mut choice = Choice::new(seed);
        World {
            nodes,
            home: Home::new(),
            shared,
            words: BTreeMap::new(),
            sluggish: Sluggish::of(&mut choice, plan.wishes.len()),
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
            if node.task.is_some() && node.awake.0.load(Ordering::Relaxed) {
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
            self.nodes[to.index()].seat.on_message(from, message);
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
                if let Asker::Seat(who, _) = atomic.asker
                    && swap == Word::behind(who, 0)
                    && self.nodes[who.index()].application.doing.get()
                        == Doing::Asking(Wish::Lock(Mode::Exclusive))
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
        let fate = match atomic.was {
            Some(was) if !lost => Ok(was),
            _ => Err(FateUnknown),
        };
        match atomic.asker {
            Asker::Home => self.tell_home(Event::Swapped(fate)),
            Asker::Seat(_, arrival) => {
                let mut arrival = arrival.borrow_mut();
                arrival.fate = Some(fate);
                if let Some(waker) = arrival.waker.take() {
                    waker.wake();
                }
            }
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

    /// What must hold after every step.
    fn judge(&mut self) -> Verdict {
        let holding: Vec<(Rank, Mode)> = self
            .nodes
            .iter()
            .filter_map(|n| match n.application.doing.get() {
                Doing::Holding(mode) => Some((n.rank, mode)),
                _ => None,
            })
            .collect();
        for (i, &(a, mode_a)) in holding.iter().enumerate() {
            for &(b, mode_b) in &holding[i + 1..] {
                if !mode_a.goes_with(mode_b) {
                    return Err(format!("{a} holds {mode_a} and {b} holds {mode_b}"));
                }
            }
        }
        for node in &self.nodes {
            if node.wire.counters.out_of_turn.get() > 0 {
                return Err(format!("a message to {} was out of turn", node.rank));
            }
        }
        self.judge_order()
    }

    /// Exclusive requests hold in the order of their atomics; those that a freeze overtook before their atomic
    /// took effect come after all whose did.
    fn judge_order(&mut self) -> Verdict {
        for node in &self.nodes {
            if node.application.doing.get() != Doing::Holding(Mode::Exclusive)
                || node.application.judged.replace(true)
            {
                continue;
            }
            match self.order.iter().position(|&r| r == node.rank) {
                Some(0) => drop(self.order.pop_front()),
                Some(n) => return Err(format!("{} passed {n} others", node.rank)),
                None if self.order.is_empty() => {}
                None => return Err(format!("{} came before its turn", node.rank)),
            }
        }
        Ok(())
    }

    /// What must hold when nothing can happen any more.
    fn judge_the_end(&self) -> Verdict {
        if let Some(node) = self.nodes.iter().find(|n| n.task.is_some()) {
            return Err(format!("{} waits for ever, {:?}", node.rank, node.application.doing.get()));
        }
        if let Some(node) = self.nodes.iter().find(|n| n.seat.is_taken()) {
            return Err(format!("{} still has something to do with the lock", node.rank));
        }
        let word = self.home.word().map(|at| self.words[&at.addr]);
        if word.is_some_and(|word| word != Word::FREE) {
            return Err(format!("the word is {word:?} at rest"));
        }
        if (self.home.unspent(), self.home.entries(), self.home.is_rebuilding()) != (0, 0, false) {
            return Err(format!("the home is not at rest: {:?}", self.home));
        }
        Ok(())
    }
}

impl WorldNode {
    fn new(rank: Rank, wishes: Vec<Wish>, plan: &Plan, shared: &Rc<RefCell<Shared>>) -> WorldNode {
        let wire = Rc::new(NodeWire { me: rank, shared: Rc::clone(shared), counters: Counters::default() });
        let seat = Rc::new(Seat::new(Rc::clone(&wire), KEY, Rank::from_index(0), plan.shared_limit));
        let application = Rc::new(Application {
            doing: Cell::new(Doing::Thinking),
            let_go: Cell::new(false),
            judged: Cell::new(false),
            waker: RefCell::new(None),
        });
        let task = Box::pin(live(Rc::clone(&seat), Rc::clone(&application), wishes));
        let awake = Arc::new(Flag(AtomicBool::new(true)));
        WorldNode { rank, seat, wire, application, task: Some(task), awake }
    }

    fn run(&mut self) {
        self.awake.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.awake));
        if let Some(task) = &mut self.task
            && task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            self.task = None;
        }
    }

    fn let_go(&self) {
        self.application.let_go.set(true);
        if let Some(waker) = self.application.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// A node's life: each wish in turn, held until the world lets go.
async fn live(seat: Rc<Seat<NodeWire>>, application: Rc<Application>, wishes: Vec<Wish>) {
    for wish in wishes {
        application.doing.set(Doing::Asking(wish));
        let mode = match wish {
            Wish::Lock(mode) => seat.lock(mode).await.map(|()| Some(mode)),
            Wish::Try(mode) => seat.try_lock(mode).await.map(|taken| taken.then_some(mode)),
        };
        let mode = match mode {
            Ok(mode) => mode,
            Err(Refused) => unreachable!("this home always has words"),
        };
        if let Some(mode) = mode {
            application.let_go.set(false);
            // A try queues behind nobody, so it has no place in the order.
            application.judged.set(matches!(wish, Wish::Try(_)));
            application.doing.set(Doing::Holding(mode));
            std::future::poll_fn(|cx| {
                if application.let_go.get() {
                    return Poll::Ready(());
                }
                *application.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
        }
        application.doing.set(Doing::Thinking);
        if mode.is_some() {
            seat.unlock().await;
        }
    }
}
