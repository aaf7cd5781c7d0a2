//! A small program on the nodes of a world: its memory, its threads, and what each of them does, step by step.

use super::super::client::Client;
use super::super::history::{Event, Op, What, Why};
use super::super::workload::Request;
use super::claims::{self, Claimed};
use super::litmus::{Plan, WORDS_A_PAGE, nodes_of};
use super::outcomes::sees;
use super::program::{self, Claiming, Made, Soon, Step, Thread, WORDS, Words};
use crate::explore::{Size, SizeError, Value};
use crate::harness::{Member, Quits};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_protocols::dsm::{Dsm, DsmError, Grain, PageId, Placement, Shared};
use weft_protocols::locks::{Grant, LockClient, LockService, Mode};
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::Signal;
use weft_protocols::transport::Rank;
use weft_sim::Sim;

/// How a size says that all nodes manage minipages, in turn.
const IN_TURN: &str = "turn";

/// What is seen of an execution. Clones are the same.
#[derive(Clone)]
pub struct Seen {
    /// By thread: what its loads and additions saw.
    pub by_thread: Rc<RefCell<Vec<Vec<u64>>>>,
    /// How many calls were dropped.
    pub dropped: Rc<Cell<u32>>,
    /// When a thread has it told who is dead.
    pub told: Rc<Moment>,
}

/// A moment that a thread's step makes.
#[derive(Default)]
pub struct Moment {
    has_come: Cell<bool>,
    comes: Signal,
}

impl Moment {
    fn come(&self) {
        self.has_come.set(true);
        self.comes.notify();
    }

    /// Waits until it has come.
    pub async fn wait(&self) {
        self.comes.until(|| self.has_come.get()).await;
    }
}

/// A program, and where its threads run.
pub struct Program {
    pub words: Words,
    pub threads: Vec<Thread>,
    pub nodes: Vec<u32>,
    /// The node that manages all minipages at first; none: all nodes in turn.
    pub manager: Option<u32>,
    /// What else its world takes, which none of its sizes changes.
    also: Vec<(&'static str, u32)>,
}

impl Program {
    /// A plan's, as far as a size does not say otherwise.
    pub fn read(plan: &Plan, size: &Size) -> Result<Program, SizeError> {
        let threads = program::read(&size.text("threads").unwrap_or_else(|| plan.threads.into()))?;
        let words = size.text("words").map_or(Ok(plan.words), |name| Words::read(&name))?;
        let nodes = nodes_of(size, plan.nodes, threads.len())?;
        let manager = match size.text("manager").as_deref() {
            None => plan.manager,
            Some(IN_TURN) => None,
            Some(_) => size.number("manager")?,
        };
        Ok(Program { words, threads, nodes, manager, also: Vec::new() })
    }

    /// The same; its world takes this, too, if it does.
    pub fn with(mut self, key: &'static str, value: Option<u32>) -> Program {
        self.also.extend(value.map(|value| (key, value)));
        self
    }

    /// The last node that runs a thread, or manages.
    pub fn last_node(&self) -> u32 {
        self.nodes.iter().copied().chain(self.manager).max().unwrap_or_default()
    }

    /// Which of so many nodes manages a minipage at first.
    pub fn manager_of(&self, page: PageId, nodes: u32) -> u32 {
        self.manager.unwrap_or(page.index % nodes)
    }

    /// Whether any of its threads locks.
    pub fn locks(&self) -> bool {
        self.threads.iter().flatten().any(|made| made.step == Step::Lock)
    }

    /// Whether any of its threads gives a claim up that takes too long.
    pub fn gives_up(&self) -> bool {
        self.threads.iter().flatten().any(|made| matches!(made.step, Step::Claim(_, Claiming::Try)))
    }

    /// Whether any of its calls may be dropped.
    pub fn may_drop(&self) -> bool {
        self.threads.iter().flatten().any(|made| made.may_drop)
    }

    /// By step that tells of a death: the node that does.
    pub fn tellers(&self) -> impl Iterator<Item = u32> {
        let steps = self.threads.iter().zip(&self.nodes);
        let steps = steps.flat_map(|(thread, node)| thread.iter().map(move |made| (made.step, *node)));
        steps.filter(|(step, _)| *step == Step::Tell).map(|(_, node)| node)
    }

    /// Its size.
    pub fn size(&self) -> Size {
        self.sized(&self.threads, &self.nodes)
    }

    /// Its size without one thread, or without one step.
    pub fn smaller(&self) -> Vec<Size> {
        let without = program::without_one(&self.threads, &self.nodes);
        without.into_iter().map(|(threads, nodes)| self.sized(&threads, &nodes)).collect()
    }

    fn sized(&self, threads: &[Thread], nodes: &[u32]) -> Size {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let mut size = Size::new([
            ("threads", program::words(threads)),
            ("nodes", nodes.join(",")),
            ("words", self.words.name().into()),
        ]);
        size.set("manager", self.manager.map_or(IN_TURN.into(), Value::from));
        self.also.iter().for_each(|(key, value)| size.set(*key, *value));
        size
    }

    /// The words that its threads access.
    pub fn shared(&self, dsm: &Dsm<Sim>) -> Shared<[u64]> {
        let one = self.manager.map(Rank::from_index);
        let placement = one.map_or(Placement::RoundRobin, Placement::Node);
        // Words that are together need no memory but their own minipage's; the others' stay as they always were.
        let len = self.words.all(WORDS_A_PAGE).max(WORDS * WORDS_A_PAGE as usize);
        let shared = dsm.named(0, len, Grain::Bytes(8 * WORDS_A_PAGE), placement);
        shared.expect("messages are long enough")
    }

    /// Starts its threads, on nodes that have lock services or not.
    pub fn start(
        &self,
        members: &[Member],
        services: &[Dsm<Sim>],
        locks: &[LockService<Sim>],
        recorder: &impl Record<Event>,
    ) -> Seen {
        let copies = |made: &Made| matches!(made.step, Step::Read(..) | Step::Write(..));
        let placed = !self.threads.iter().flatten().any(copies);
        let recorder = Places { placed, recorder: recorder.clone() };
        let by_thread = Rc::new(RefCell::new(vec![Vec::new(); self.threads.len()]));
        let seen = Seen { by_thread, dropped: Rc::default(), told: Rc::default() };
        let quits = self.quits(members);
        for (index, (thread, node)) in (0..).zip(self.threads.iter().zip(&self.nodes)) {
            let (member, dsm) = (&members[*node as usize], &services[*node as usize]);
            let client = Client {
                thread: dsm.thread(),
                words: self.shared(dsm),
                parties: self.threads.len() as u32,
                meets: true,
                seen: BTreeMap::new(),
                accesses: false,
            };
            let running = Running {
                rt: member.rt.clone(),
                client,
                id: ClientId { node: *node, index },
                words: self.words,
                locks: locks.get(*node as usize).map(LockService::client),
                grant: None,
                quits: quits.get(node).cloned(),
                seen: seen.clone(),
                recorder: recorder.clone(),
            };
            member.rt.spawn(running.run(thread.clone()));
        }
        seen
    }

    /// By node: what makes its users drop calls. The last node says so, which has nothing else to do.
    fn quits(&self, members: &[Member]) -> BTreeMap<u32, Rc<Quits>> {
        let droppers = self.threads.iter().zip(&self.nodes);
        let droppers = droppers.filter(|(thread, _)| thread.iter().any(|made| made.may_drop));
        let nodes: BTreeSet<u32> = droppers.map(|(_, node)| *node).collect();
        let by = members.last().expect("there are nodes");
        let told = |node: u32| {
            let Member { rt, mesh } = &members[node as usize];
            (node, Quits::told(rt, mesh, &by.mesh))
        };
        nodes.into_iter().map(told).collect()
    }
}

/// A thread that runs, and what it needs.
struct Running<E> {
    rt: Rt<Sim>,
    client: Client<Sim>,
    id: ClientId,
    words: Words,
    locks: Option<LockClient<Sim>>,
    grant: Option<Grant<Sim>>,
    /// What makes its user drop calls.
    quits: Option<Rc<Quits>>,
    seen: Seen,
    recorder: E,
}

impl<E: Record<Event>> Running<E> {
    /// Runs its steps. What its loads and additions see goes to `seen`.
    async fn run(mut self, thread: Thread) {
        let mut rounds = 0;
        // Claims take a number for each word.
        for (number, made) in (0..).step_by(WORDS).zip(thread) {
            let first = RequestId { client: self.id, number };
            if !self.make(made, first, rounds).await {
                self.others().await;
                self.make(Made { may_drop: false, ..made }, first, rounds).await;
            }
            rounds += u32::from(made.step == Step::Barrier);
            // Whatever may happen between two accesses can happen here.
            self.others().await;
        }
    }

    /// A task that yields runs again before the messages that the next step takes in, so it yields once more.
    async fn others(&self) {
        self.rt.yield_now().await;
        self.rt.yield_now().await;
    }

    fn place(&self, word: usize) -> u32 {
        self.words.place(word, WORDS_A_PAGE)
    }

    fn sees(&self, saw: impl IntoIterator<Item = u64>) {
        self.seen.by_thread.borrow_mut()[self.id.index as usize].extend(saw);
    }

    /// A call was dropped by its user.
    fn drops(&self, request: RequestId) {
        self.seen.dropped.update(|dropped| dropped + 1);
        self.happens(request, What::Failed(Why::Dropped));
    }

    fn happens(&self, request: RequestId, what: What) {
        self.recorder.record(Event { at_ns: self.rt.now().0, request, what });
    }

    /// Has the node make its part of the memory, which the first call that needs it does: where the system has none to give, in a later
    /// step again.
    async fn have_memory(&mut self) {
        while let Err(DsmError::Memory(_)) = self.client.thread.prefetch(self.client.words, 0..0) {
            self.others().await;
        }
    }

    /// Makes a step. False if it has to be made again.
    async fn make(&mut self, Made { step, may_drop }: Made, first: RequestId, round: u32) -> bool {
        let quits = self.quits.clone().filter(|_| may_drop);
        if !matches!(step, Step::Barrier | Step::Lock | Step::Unlock | Step::Tell | Step::Free) {
            self.have_memory().await;
        }
        match step {
            Step::Access(word, op) => self.access(first, word, op, quits).await,
            Step::Bump(word) => {
                let last =
                    self.seen.by_thread.borrow()[self.id.index as usize].last().map_or(1, |last| last + 1);
                self.access(first, word, Op::Store(last), quits).await;
            }
            Step::Barrier => {
                let Running { rt, client, recorder, .. } = self;
                let call = client.make(rt, first, Request::Barrier(round), recorder);
                if Quits::call(quits.as_deref(), call).await.is_none() {
                    self.drops(first);
                    return false;
                }
            }
            Step::Prefetch(word, soon) => {
                let Running { client, .. } = self;
                let word = self.words.place(word, WORDS_A_PAGE) as usize;
                // It may be freed meanwhile.
                drop(match soon {
                    Soon::Read => client.thread.prefetch(client.words, word..word + 1),
                    Soon::Change => client.thread.prefetch_mut(client.words, word..word + 1),
                });
            }
            Step::Read(from, to) => self.copy(first, (from, to), None, quits).await,
            Step::Write(from, to, value) => self.copy(first, (from, to), Some(value), quits).await,
            Step::Lock => {
                let locks = self.locks.as_ref().expect("the world has locks");
                self.grant = locks.lock("the lock", Mode::Exclusive).await.ok();
            }
            Step::Unlock => {
                if let Some(grant) = self.grant.take() {
                    grant.unlock().await;
                }
            }
            Step::Tell => self.seen.told.come(),
            Step::Free => {
                let freeing = self.client.thread.free(self.client.words);
                let freed = Quits::call(quits.as_deref(), freeing).await;
                // The memory may end where a node dies.
                assert!(!matches!(freed, Some(Err(DsmError::Freed(_)))), "nobody else frees it");
                self.seen.dropped.update(|dropped| dropped + u32::from(freed.is_none()));
            }
            Step::Claim(words, how) => {
                let step = Claimed { words, places: self.words, how, first, quits };
                let Running { rt, client, recorder, .. } = self;
                match claims::claim(rt, client, step, WORDS_A_PAGE, recorder).await {
                    Some(saw) => self.sees(saw),
                    None => self.seen.dropped.update(|dropped| dropped + 1),
                }
            }
        }
        true
    }

    async fn access(&mut self, id: RequestId, word: usize, op: Op, quits: Option<Rc<Quits>>) {
        let request = Request::Access { word: self.place(word), op, claims: 0 };
        let Running { rt, client, recorder, .. } = self;
        match Quits::call(quits.as_deref(), client.make(rt, id, request, recorder)).await {
            Some(Ok(found)) => self.sees(found.and_then(|found| sees(op, found))),
            // What fails is recorded.
            Some(Err(_)) => {}
            None => self.drops(id),
        }
    }

    /// Copies all words between two out, or in.
    async fn copy(
        &mut self,
        id: RequestId,
        (from, to): (usize, usize),
        value: Option<u64>,
        quits: Option<Rc<Quits>>,
    ) {
        let (begin, end) = (self.place(from), self.place(to));
        self.happens(id, What::Copies(begin, end));
        let (thread, words) = (&mut self.client.thread, self.client.words);
        let mut copied = vec![value.unwrap_or_default(); (end - begin) as usize + 1];
        // A part that is taken from another one's place is told from its own.
        if let Some(value) = value {
            let at = |word: usize| (self.words.place(word, WORDS_A_PAGE) - begin) as usize;
            (from..=to).for_each(|word| copied[at(word)] = program::written(value, from, word));
        }
        let copying = async {
            match value {
                Some(_) => thread.write(words, begin as usize, &copied).await,
                None => thread.read(words, begin as usize, &mut copied).await,
            }
        };
        let done = Quits::call(quits.as_deref(), copying).await;
        match &done {
            Some(Ok(())) => self.happens(id, What::Copied),
            Some(Err(why)) => self.happens(id, What::Failed(why.into())),
            None => self.drops(id),
        }
        if let (Some(Ok(())), None) = (done, value) {
            self.sees((from..=to).map(|word| copied[(self.place(word) - begin) as usize]));
        }
    }
}

/// Records accesses with their places, or without: of the accesses of one call that copies several minipages only the last one's is known.
/// A program with such a call is judged by its outcome.
#[derive(Clone)]
struct Places<E> {
    placed: bool,
    recorder: E,
}

impl<E: Record<Event>> Record<Event> for Places<E> {
    fn record(&self, event: Event) {
        let what = match event.what {
            What::Accesses { word, .. } if !self.placed => What::Copies(word, word),
            What::Accessed { .. } if !self.placed => What::Copied,
            other => other,
        };
        self.recorder.record(Event { what, ..event });
    }

    fn written(&self) -> impl Future<Output = ()> {
        self.recorder.written()
    }
}
