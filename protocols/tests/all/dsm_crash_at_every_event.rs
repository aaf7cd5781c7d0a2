//! One run of three nodes that add to counters in shared memory, and each of them crashing at each event of it: who lives goes on, and what
//! all of them saw of a counter is linearizable, in real-time order, until it is lost by name. So says the tester of `stateright`,
//! which knows nothing of shared memory.
//!
//! `WEFT_EVERY=1` crashes at every event; by default it is one of many, others for each node.

use crate::common::{Cluster, ms, rank, us};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::dsm::{
    Alive, BarrierId, Decision, Dsm, DsmConfig, DsmError, DsmStats, Grain, Otherwise, Placement, Reading,
    Repaired, Shared, Thread,
};
use weft_protocols::members::{Members, MembersConfig};
use weft_protocols::rt::Rt;
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const NODES: usize = 3;
/// Each in a minipage of its own; their managers are the nodes in turn.
const COUNTERS: usize = 3;
/// Words of a minipage.
const APART: usize = 8;
/// Rounds of each node before the barrier, and behind it.
const ROUNDS: usize = 3;
/// When accesses begin: the memory has begun.
const BEGIN: Nanos = Nanos::from_millis(40);
/// When each node looks at all counters.
const AGAIN: Nanos = Nanos::from_millis(100);

fn settings() -> MembersConfig {
    MembersConfig { lease: ms(4), drift: us(100), patience: ms(6), ..MembersConfig::new(NODES as u32) }
}

/// A counter, as one client alone would know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Counter {
    value: u64,
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Add,
    Load,
}

/// What an access found, or that there is nothing to find any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Found {
    Value(u64),
    Lost,
}

impl SequentialSpec for Counter {
    type Op = Op;
    type Ret = Found;

    fn invoke(&mut self, op: &Op) -> Found {
        if self.lost {
            return Found::Lost;
        }
        self.value += u64::from(*op == Op::Add);
        Found::Value(self.value - u64::from(*op == Op::Add))
    }

    /// It may be lost at any time; then it stays so.
    fn is_valid_step(&mut self, op: &Op, ret: &Found) -> bool {
        self.lost |= *ret == Found::Lost;
        self.invoke(op) == *ret
    }
}

type History = LinearizabilityTester<usize, Counter>;

/// What all nodes saw.
struct Book {
    counters: [RefCell<History>; COUNTERS],
    barriers: RefCell<Vec<(usize, Result<(), DsmError>)>>,
    errors: RefCell<Vec<DsmError>>,
    /// By node: when its accesses were done; and whether it has looked at all counters in the end.
    ended: [Cell<Option<Nanos>>; NODES],
    looked: [Cell<bool>; NODES],
}

struct Client {
    node: usize,
    rt: Rt<Sim>,
    thread: Thread<Sim>,
    counters: Shared<[u64]>,
    book: Rc<Book>,
}

impl Client {
    async fn access(&mut self, which: usize, op: Op) {
        let book = Rc::clone(&self.book);
        let history = &book.counters[which];
        history.borrow_mut().on_invoke(self.node, op).expect("it has had its answer");
        let at = which * APART;
        let found = match op {
            Op::Add => self.thread.fetch_add(self.counters, at, 1).await,
            Op::Load => self.thread.load(self.counters, at).await,
        };
        let found = match found {
            Ok(value) => Found::Value(value),
            Err(DsmError::Lost { .. }) => Found::Lost,
            Err(other) => return book.errors.borrow_mut().push(other),
        };
        history.borrow_mut().on_return(self.node, found).expect("it has asked");
    }

    /// Each adds to a counter, and then all look at one.
    async fn rounds(&mut self) {
        for round in 0..ROUNDS {
            self.access((round + self.node) % COUNTERS, Op::Add).await;
            self.access(round % COUNTERS, Op::Load).await;
        }
    }

    async fn run(mut self) {
        self.rt.sleep_until(BEGIN + us(self.node as u64)).await;
        self.rounds().await;
        let waited = self.thread.barrier(BarrierId(0), NODES as u32).await;
        self.book.barriers.borrow_mut().push((self.node, waited));
        self.rounds().await;
        self.book.ended[self.node].set(Some(self.rt.now()));
        self.rt.sleep_until(AGAIN).await;
        for which in 0..COUNTERS {
            self.access(which, Op::Load).await;
        }
        self.book.looked[self.node].set(true);
    }
}

struct Run {
    cluster: Cluster,
    book: Rc<Book>,
    services: Vec<Dsm<Sim>>,
    _members: Vec<Members<Sim>>,
}

fn start(pulls: bool, reading: Reading) -> Run {
    let cluster = Cluster::new(NODES as u32, 1, Wait::Notify);
    let book = Rc::new(Book {
        counters: std::array::from_fn(|_| RefCell::new(History::new(Counter::default()))),
        barriers: RefCell::default(),
        errors: RefCell::default(),
        ended: Default::default(),
        looked: Default::default(),
    });
    let (mut services, mut all) = (Vec::new(), Vec::new());
    for (node, member) in cluster.members.iter().enumerate() {
        let members = Members::start(&member.rt, &member.mesh, settings()).expect("it starts");
        let config = DsmConfig { pulls, ..DsmConfig::default() };
        let dsm = Dsm::start_under(&member.rt, &member.mesh, config, Alive::Members(&members), reading)
            .expect("the channel is free");
        let counters = dsm.named(1, COUNTERS * APART, Grain::Bytes(64), Placement::RoundRobin);
        let (rt, book, counters) = (member.rt.clone(), Rc::clone(&book), counters.expect("it fits"));
        let client = Client { node, rt, thread: dsm.thread(), counters, book };
        drop(member.rt.spawn(client.run()));
        services.push(dsm);
        all.push(members);
    }
    cluster.run(BEGIN);
    Run { cluster, book, services, _members: all }
}

/// How many events the run has in which nobody crashes, from when accesses begin.
fn events(pulls: bool) -> u64 {
    let run = start(pulls, Repaired);
    let before = run.cluster.fabric.stats().events;
    while run.book.ended.iter().any(|ended| ended.get().is_none()) {
        run.cluster.fabric.run_events(1, Nanos::MAX);
    }
    run.cluster.fabric.stats().events - before
}

/// What a run came to in which a node crashed.
#[derive(Debug, Default)]
struct Came {
    /// How long after the crash the last of those who live had done its accesses.
    longest: Nanos,
    lost: u64,
    fenced: u64,
    died: u64,
    pulled: u64,
    /// The crash was amid an access.
    amid: u64,
}

fn crash_at(pulls: bool, reading: Reading, event: u64, node: usize) -> Result<Came, String> {
    let Run { cluster, book, services, _members } = &start(pulls, reading);
    cluster.fabric.run_events(event, Nanos::MAX);
    let died = cluster.fabric.now();
    cluster.plan(died, Fault::Crash { node: NodeId(node as u32) });
    cluster.run(AGAIN + ms(40) - died);
    let mut came = Came { amid: book.ended[node].get().is_none().into(), ..Came::default() };
    if let Some(why) = book.errors.borrow().first() {
        return Err(format!("{why}"));
    }
    for living in (0..NODES).filter(|living| *living != node) {
        let ended = book.ended[living].get().ok_or_else(|| format!("n{living} waits"))?;
        if !book.looked[living].get() {
            return Err(format!("n{living} waits in the end"));
        }
        came.longest = came.longest.max(Nanos(ended.0.saturating_sub(died.0)));
        let DsmStats { out_of_turn, malformed, fenced, lost, pulls, .. } = services[living].stats();
        let open: Vec<_> = services[living].unfinished().into_iter().filter(|(_, open)| *open > 0).collect();
        if (out_of_turn, malformed) != (0, 0) || !open.is_empty() {
            return Err(format!(
                "n{living}: {out_of_turn} out of turn, {malformed} malformed, open: {open:?}"
            ));
        }
        (came.fenced, came.lost) = (came.fenced + fenced, came.lost + lost);
        came.pulled += pulls;
    }
    for (who, waited) in book.barriers.borrow().iter() {
        match waited {
            Ok(()) => {}
            Err(DsmError::Died(dead)) if *dead == rank(node) => came.died += 1,
            Err(why) => return Err(format!("n{who} at the barrier: {why}")),
        }
    }
    for history in &book.counters {
        if !history.borrow().is_consistent() {
            return Err(format!("{:?}", history.borrow()));
        }
    }
    Ok(came)
}

/// A lost addition is found out, an older value in the place of a lost one, and one that is lost and comes back.
#[test]
fn the_tester_knows_what_may_not_be() {
    let after = |then: &[(Op, Found)]| {
        let mut history = History::new(Counter::default());
        for (number, (op, found)) in then.iter().enumerate() {
            history.on_invoke(number % 2, *op).expect("nothing is open");
            history.on_return(number % 2, found.clone()).expect("it has asked");
        }
        history.is_consistent()
    };
    let added = (Op::Add, Found::Value(0));
    let loaded = |value| (Op::Load, Found::Value(value));
    let lost = (Op::Load, Found::Lost);
    assert!(after(&[added.clone(), loaded(1), lost.clone()]));
    assert!(after(&[added.clone(), lost.clone(), lost.clone()]));
    assert!(!after(&[added.clone(), added.clone()]));
    assert!(!after(&[added.clone(), loaded(0)]));
    assert!(!after(&[added, lost, loaded(1)]));
}

#[test]
fn a_node_may_crash_at_any_event_of_a_run() {
    let every = std::env::var("WEFT_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for pulls in [false, true] {
        let (events, mut all, mut runs) = (events(pulls), Came::default(), 0);
        for node in 0..NODES {
            for event in (0..events).skip(node % every).step_by(every) {
                let came = crash_at(pulls, Repaired, event, node);
                let came = came.unwrap_or_else(|why| {
                    panic!("pulls {pulls}, event {event}, n{node} crashed: {why}");
                });
                all.longest = all.longest.max(came.longest);
                (all.lost, all.fenced) = (all.lost + came.lost, all.fenced + came.fenced);
                (all.died, all.amid, runs) = (all.died + came.died, all.amid + came.amid, runs + 1);
                all.pulled += came.pulled;
            }
        }
        println!("pulls {pulls}: {events} events, {runs} runs, {all:?}");
        assert!(all.lost > 0 && all.died > 0 && all.amid > 0, "{all:?} of {runs} runs");
        let MembersConfig { lease, drift, patience, .. } = settings();
        assert!(all.longest < Nanos(lease.0 / 3) + patience * 2 + lease + drift + ms(3), "{all:?}");
    }
}

#[test]
fn an_older_version_in_the_place_of_a_lost_one_is_found_at_some_event() {
    let reading = Otherwise(Decision::LostWithReceiver);
    let mut crashes = (0..events(false)).flat_map(|event| (0..NODES).map(move |node| (event, node)));
    let found =
        crashes.find_map(|(event, node)| Some((event, node, crash_at(false, reading, event, node).err()?)));
    println!("{found:?}");
    assert!(found.is_some(), "no crash finds it");
}
