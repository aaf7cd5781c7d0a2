//! A program of a few accesses on a small cluster: its outcomes are those of sequential consistency, and at the end the managers'
//! books are what nodes hold.

use super::super::client::Client;
use super::super::history::{Event, Op, What};
use super::super::oracles::DsmOracles;
use super::super::workload::Request;
use super::claims::{self, Claimed};
use super::program::{self, Outcome, Step, Thread, WORDS, Words};
use crate::explore::{AnyModel, Coverage, Size, SizeError, Violation};
use crate::harness::{Explored, Harness, Member, Model, Recorder, Shape};
use crate::history::{ClientId, RequestId};
use crate::oracle::{self, Conduct, Leaks, Leftover, Oracles};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::marker::PhantomData;
use std::rc::Rc;
use weft_protocols::dsm::{
    Access, Dsm, DsmAudit, DsmConfig, DsmStats, Grain, PageId, Placement, Reading, Shared,
};
use weft_protocols::locks::{LockClient, LockConfig, LockService, Mode, Scheme};
use weft_protocols::rt::Rt;
use weft_protocols::transport::Rank;
use weft_sim::Sim;
use weft_sim::explore::AccessKind;
use weft_verbs::{Nanos, Wait};

/// The words of a minipage of 64 bytes.
const WORDS_A_PAGE: u32 = 8;

/// A world as the list has it.
#[derive(Clone, Copy)]
pub struct Plan {
    pub name: &'static str,
    pub words: Words,
    pub threads: &'static str,
    pub nodes: &'static str,
    pub manager: u32,
    pub pulls: bool,
}

/// A program, and where its threads run.
struct Litmus<R> {
    name: &'static str,
    words: Words,
    threads: Vec<Thread>,
    nodes: Vec<u32>,
    /// The node that manages all minipages.
    manager: u32,
    pulls: bool,
    /// What sequential consistency allows, and each of them in words.
    allowed: Vec<(Outcome, &'static str)>,
    reading: PhantomData<fn() -> R>,
}

pub fn make<R: Reading>(plan: Plan, size: &Size) -> Result<Box<dyn AnyModel>, SizeError> {
    let threads = program::read(&size.text("threads").unwrap_or_else(|| plan.threads.into()))?;
    let words = size.text("words").map_or(Ok(plan.words), |name| Words::read(&name))?;
    let number = |text: &str| text.trim().parse().map_err(|_| SizeError(format!("'{text}' is no node")));
    let nodes = size.text("nodes").unwrap_or_else(|| plan.nodes.into());
    let nodes: Vec<u32> = nodes.split(',').map(number).collect::<Result<_, _>>()?;
    if nodes.len() != threads.len() {
        return Err(SizeError(format!("{} threads need as many nodes, not {}", threads.len(), nodes.len())));
    }
    let manager = size.number("manager")?.unwrap_or(plan.manager);
    size.within("nodes", nodes.iter().copied().fold(manager, u32::max) + 1, 2..=5)?;
    // A world is built a few times in a program's life, and its outcomes' names live as long.
    let named = |outcome: Outcome| (outcome.clone(), &*outcome.to_string().leak());
    let allowed = program::outcomes(&threads).into_iter().map(named).collect();
    let reading = PhantomData;
    Ok(Harness::boxed(Litmus::<R> {
        name: plan.name,
        words,
        threads,
        nodes,
        manager,
        pulls: plan.pulls,
        allowed,
        reading,
    }))
}

/// What an execution keeps.
pub struct State<R: Reading> {
    services: Vec<Dsm<Sim, R>>,
    /// If a thread locks.
    locks: Vec<LockService<Sim>>,
    shared: Shared<[u64]>,
    /// By thread: what its loads and additions saw.
    seen: Rc<RefCell<Vec<Vec<u64>>>>,
}

impl<R: Reading> Litmus<R> {
    fn sized(&self, threads: &[Thread], nodes: &[u32]) -> Size {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let mut size = Size::new([
            ("threads", program::words(threads)),
            ("nodes", nodes.join(",")),
            ("words", self.words.name().into()),
        ]);
        size.set("manager", self.manager);
        size
    }

    fn outcome(&self, state: &State<R>) -> Outcome {
        let word = |word: usize| {
            let at = self.words.place(word, WORDS_A_PAGE) as usize;
            // All that have it have the same, which is looked at before.
            state.services.iter().find_map(|dsm| dsm.copy(state.shared, at)).unwrap_or_default()
        };
        Outcome { seen: state.seen.borrow().clone(), words: [0, 1, 2].map(word) }
    }

    /// At rest the managers' books are what nodes hold, and copies are equal.
    fn books(&self, state: &State<R>) -> Result<(), String> {
        let audits: Vec<DsmAudit> = state.services.iter().map(Dsm::audit).collect();
        let mut held: BTreeMap<PageId, Vec<(Rank, Access, u64)>> = BTreeMap::new();
        for (node, audit) in (0..).zip(&audits) {
            for &(page, access, version) in &audit.held {
                held.entry(page).or_default().push((Rank::from_index(node), access, version));
            }
        }
        for (page, version, owner, copies) in audits.iter().flat_map(|audit| &audit.book) {
            let holders = held.remove(page).unwrap_or_default();
            let nodes: Vec<Rank> = holders.iter().map(|(node, ..)| *node).collect();
            if nodes != *copies || owner.is_some_and(|owner| !nodes.contains(&owner)) {
                return Err(format!("minipage {} is at {nodes:?}, and the book says {copies:?}", page.index));
            }
            if let Some((node, _, other)) = holders.iter().find(|(_, _, other)| other != version) {
                return Err(format!("{node} has version {other} of minipage {}, not {version}", page.index));
            }
            let alone = holders.iter().all(|(_, access, _)| *access == Access::Read) || nodes.len() == 1;
            if !alone {
                return Err(format!("minipage {} has a writer and other holders: {nodes:?}", page.index));
            }
            let begin = (page.index * WORDS_A_PAGE) as usize;
            let bytes = |node: &Rank| -> Vec<Option<u64>> {
                let words = begin..begin + WORDS_A_PAGE as usize;
                words.map(|at| state.services[node.index()].copy(state.shared, at)).collect()
            };
            if nodes.windows(2).any(|two| bytes(&two[0]) != bytes(&two[1])) {
                return Err(format!("copies of minipage {} are not equal", page.index));
            }
        }
        match held.keys().next() {
            Some(page) => Err(format!("minipage {} is held, and in no book", page.index)),
            None => Ok(()),
        }
    }
}

impl<R: Reading> Model for Litmus<R> {
    type State = State<R>;
    type Oracles = ByThread;

    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        self.sized(&self.threads, &self.nodes)
    }

    /// Without one thread, or without one step.
    fn smaller(&self) -> Vec<Size> {
        let mut all = Vec::new();
        for thread in 0..self.threads.len() {
            let (mut threads, mut nodes) = (self.threads.clone(), self.nodes.clone());
            if threads.len() > 1 {
                threads.remove(thread);
                nodes.remove(thread);
                all.push(self.sized(&threads, &nodes));
            }
            for step in 0..self.threads[thread].len() {
                let mut threads = self.threads.clone();
                // A barrier that one thread leaves out lets nobody go.
                if threads[thread].len() > 1 && threads[thread].remove(step) != Step::Barrier {
                    all.push(self.sized(&threads, &self.nodes));
                }
            }
        }
        all
    }

    fn shape(&self) -> Shape {
        let nodes = self.nodes.iter().copied().fold(self.manager, u32::max) + 1;
        // A thread that finds its minipage at hand goes on without waiting. Only a node that takes completions beside that can be
        // asked in between to give it up; where words are apart, each access waits for itself.
        let one_by_one = self.words == Words::Apart;
        Shape { nodes, wait: Wait::Poll, home: None, one_by_one }
    }

    fn oracles(&self) -> ByThread {
        ByThread(DsmOracles::new(WORDS_A_PAGE, self.threads.len() as u32).by_thread())
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<ByThread>) -> State<R> {
        let start = |member: &Member| {
            let config = DsmConfig { pulls: self.pulls, ..DsmConfig::default() };
            Dsm::start_as(&member.rt, &member.mesh, config).expect("nobody else has the channel")
        };
        let services: Vec<Dsm<Sim, R>> = members.iter().map(start).collect();
        let nodes = members.len() as u32;
        let lock = |member: &Member| {
            let config = LockConfig::new(Scheme::Srsl, nodes);
            LockService::start(&member.rt, &member.mesh, config).expect("nobody else has the channel")
        };
        let locked = self.threads.iter().flatten().any(|step| *step == Step::Lock);
        let locks: Vec<LockService<Sim>> =
            if locked { members.iter().map(lock).collect() } else { Vec::new() };
        let len = WORDS * WORDS_A_PAGE as usize;
        let placement = Placement::Node(Rank::from_index(self.manager));
        let shared = services[0].named(0, len, Grain::Bytes(8 * WORDS_A_PAGE), placement);
        let shared = shared.expect("messages are long enough");
        let seen = Rc::new(RefCell::new(vec![Vec::new(); self.threads.len()]));
        for (index, (thread, node)) in (0..).zip(self.threads.iter().zip(&self.nodes)) {
            let (member, dsm) = (&members[*node as usize], &services[*node as usize]);
            let parties = self.threads.len() as u32;
            let client = Client { thread: dsm.thread(), words: shared, parties, seen: BTreeMap::new() };
            let id = ClientId { node: *node, index };
            let steps = (thread.clone(), self.words, locks.get(*node as usize).map(LockService::client));
            member.rt.spawn(run(member.rt.clone(), client, id, steps, Rc::clone(&seen), recorder.clone()));
        }
        State { services, locks, shared, seen }
    }

    fn finish(&self, state: &State<R>, members: &[Member], _: &Recorder<ByThread>) -> Result<(), Violation> {
        let mut nodes = members.iter().enumerate();
        if let Some(violation) = nodes.find_map(|(node, member)| self.violation_at(state, node, member)) {
            return Err(violation);
        }
        self.books(state).map_err(|text| Violation::new("book", text))?;
        let outcome = self.outcome(state);
        match self.allowed.iter().any(|(allowed, _)| *allowed == outcome) {
            true => Ok(()),
            false => Err(Violation::new("sequential consistency", format!("no order has: {outcome}"))),
        }
    }

    fn violation_at(&self, state: &State<R>, node: usize, member: &Member) -> Option<Violation> {
        let dsm = &state.services[node];
        let DsmStats { out_of_turn, malformed, .. } = dsm.stats();
        let mut broken = Conduct { out_of_turn, malformed }.finish(Nanos::ZERO, node as u32);
        let locks = state.locks.get(node).map(|locks| locks.audit().leftovers());
        let left = dsm.unfinished().into_iter().chain(locks.into_iter().flatten()).chain(member.leftovers());
        broken.extend(Leaks::finish(Nanos::ZERO, &Leftover::named(node as u32, left)));
        broken.into_iter().next().map(Violation::from)
    }

    fn coverage(&self, state: &State<R>, _: &[Member], sink: &mut Coverage) {
        let any = |of: fn(&DsmStats) -> u64| state.services.iter().any(|dsm| of(&dsm.stats()) > 0);
        sink.sometimes("a minipage was sent", any(|stats| stats.transfers));
        if self.pulls {
            sink.sometimes("a minipage was pulled", any(|stats| stats.pulls));
        }
        sink.sometimes("a copy was made writable", any(|stats| stats.upgrades));
        sink.sometimes("an access joined a request", any(|stats| stats.joined));
        sink.sometimes("an order waited for an access", any(|stats| stats.orders_waited));
        let outcome = self.outcome(state);
        for (allowed, name) in &self.allowed {
            sink.sometimes(name, *allowed == outcome);
        }
    }
}

async fn run<R: Reading>(
    rt: Rt<Sim>,
    mut client: Client<Sim, R>,
    id: ClientId,
    (thread, words, locks): (Thread, Words, Option<LockClient<Sim>>),
    seen: Rc<RefCell<Vec<Vec<u64>>>>,
    recorder: Recorder<ByThread>,
) {
    let mut rounds = 0;
    let mut grant = None;
    // Claims take a number for each word.
    for (number, step) in (0..).step_by(WORDS).zip(thread) {
        let first = RequestId { client: id, number };
        let request = match step {
            Step::Access(word, op) => {
                Some(Request::Access { word: words.place(word, WORDS_A_PAGE), op, claims: 0 })
            }
            Step::Barrier => {
                rounds += 1;
                Some(Request::Barrier(rounds - 1))
            }
            Step::Prefetch(word) => {
                let word = words.place(word, WORDS_A_PAGE) as usize;
                // It may be freed meanwhile.
                drop(client.thread.prefetch(client.words, word..word + 1));
                None
            }
            Step::Bump(word) => {
                let last = seen.borrow()[id.index as usize].last().map_or(1, |last| last + 1);
                let word = words.place(word, WORDS_A_PAGE);
                Some(Request::Access { word, op: Op::Store(last), claims: 0 })
            }
            Step::Lock => {
                let locks = locks.as_ref().expect("the world has locks");
                grant = locks.lock("the lock", Mode::Exclusive).await.ok();
                None
            }
            Step::Unlock => {
                if let Some(grant) = grant.take() {
                    grant.unlock().await;
                }
                None
            }
            Step::Free => {
                client.thread.free(client.words).await.expect("nobody else frees it");
                None
            }
            Step::Claim(claimed, how) => {
                let step = Claimed { words: claimed, places: words, how, first };
                let saw = claims::claim(&rt, &mut client, step, WORDS_A_PAGE, &recorder).await;
                seen.borrow_mut()[id.index as usize].extend(saw);
                None
            }
        };
        if let Some(request) = request {
            client.perform(&rt, first, request, &recorder).await;
        }
        if let Some(Request::Access { word, op, .. }) = request
            && !matches!(op, Op::Store(_))
        {
            let saw = client.seen.get(&word).copied();
            seen.borrow_mut()[id.index as usize].extend(saw);
        }
        // Whatever may happen between two accesses can happen here: a task that yields runs again before the messages that the
        // next step takes in, so it yields once more.
        rt.yield_now().await;
        rt.yield_now().await;
    }
}

/// The oracles where nobody looks at a clock, and where events of different nodes are in no order but that which messages give
/// them.
#[derive(Clone)]
pub struct ByThread(DsmOracles);

impl Oracles for ByThread {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        self.0.promises()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(oracle::Violation)) {
        self.0.observe(&Event { at_ns: 0, ..*event }, broken);
    }

    fn ended(&self) -> u64 {
        self.0.ended()
    }

    fn unended(&self) -> u64 {
        self.0.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<oracle::Violation> {
        self.0.finish(now, healthy)
    }

    fn state(&self, to: &mut dyn Hasher) {
        self.0.state(to);
    }
}

impl Explored for ByThread {
    /// An access is judged by its place, whenever it is recorded; who leaves a barrier, by who has entered.
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Enters(_) => Some(AccessKind::Read),
            What::Leaves(_) => Some(AccessKind::Write),
            _ => None,
        }
    }
}
