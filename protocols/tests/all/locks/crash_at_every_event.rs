//! One run of four nodes that lock, and each of them crashing at each event of it: who lives is granted what it asked for, nobody holds
//! beside another one, and a register that checks tokens takes nothing of one whose hold is over.
//!
//! Under each lock a node adds one to that register, by a read and a write. What all of them saw is linearizable, in real-time
//! order, as the history of a counter: so says the tester of `stateright`, which knows nothing of locks.
//!
//! `WEFT_EVERY=1` crashes at every event; by default it is one of many, others for each node.

use crate::common::{Cluster, ms, rank, us};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{Grant, LockConfig, LockKey, LockService, Mode, Scheme, Token};
use weft_protocols::members::{Members, MembersConfig};
use weft_protocols::rt::Rt;
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const NODES: u32 = 4;
/// Requests of each node, for each of two locks.
const ROUNDS: u32 = 2;
/// When each node asks once more.
const AGAIN: Nanos = Nanos::from_millis(100);
/// When requests begin: the first view has begun, and what an earlier one might have granted is over.
const BEGIN: Nanos = Nanos::from_millis(40);

fn settings() -> MembersConfig {
    MembersConfig { lease: ms(10), drift: ms(1), patience: ms(6), ..MembersConfig::new(NODES) }
}

/// A counter, as one client alone would know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Counter(u32);

/// Adding one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Add;

/// What the counter was, or that the register refused the write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Added {
    To(u32),
    Nothing,
}

impl SequentialSpec for Counter {
    type Op = Add;
    type Ret = Added;

    fn invoke(&mut self, _: &Add) -> Added {
        self.0 += 1;
        Added::To(self.0 - 1)
    }

    /// What is refused changes nothing.
    fn is_valid_step(&mut self, op: &Add, ret: &Added) -> bool {
        *ret == Added::Nothing || self.invoke(op) == *ret
    }
}

/// What a lock protects, and who holds it.
struct Book {
    holder: RefCell<Option<(usize, Rc<Grant<Sim>>)>>,
    largest: Cell<Option<Token>>,
    granted: RefCell<Vec<(usize, Nanos)>>,
    /// The register: its content, and the largest token of a write to it.
    register: Cell<(u32, Option<Token>)>,
    history: RefCell<LinearizabilityTester<usize, Counter>>,
}

impl Default for Book {
    fn default() -> Book {
        Book {
            holder: RefCell::default(),
            largest: Cell::default(),
            granted: RefCell::default(),
            register: Cell::default(),
            history: RefCell::new(LinearizabilityTester::new(Counter::default())),
        }
    }
}

impl Book {
    fn asks(&self, node: usize) {
        self.history.borrow_mut().on_invoke(node, Add).expect("it has had its answer");
    }

    /// The register takes what comes with a token that is not smaller than any before.
    fn writes(&self, node: usize, token: Option<Token>, found: u32) {
        let (_, largest) = self.register.get();
        let added = if token >= largest {
            self.register.set((found + 1, token));
            Added::To(found)
        } else {
            Added::Nothing
        };
        self.history.borrow_mut().on_return(node, added).expect("it has asked");
    }

    /// Nobody else's hold counts, and nobody has come with a larger token.
    fn granted(&self, node: usize, grant: &Rc<Grant<Sim>>, dead: Option<usize>, now: Nanos) {
        if let Some((other, before)) = self.holder.replace(Some((node, Rc::clone(grant)))) {
            // A dead node's clock stands still.
            let counts = if dead == Some(other) { now < before.counts_until() } else { before.counts() };
            assert!(!counts, "n{node} holds beside n{other}");
        }
        assert!(grant.token() >= self.largest.get(), "{:?} after {:?}", grant.token(), self.largest.get());
        self.largest.set(grant.token());
        self.granted.borrow_mut().push((node, now));
    }
}

/// The node that has crashed.
type Dead = Rc<Cell<Option<usize>>>;
type Books = [Rc<Book>; 2];

struct Run {
    cluster: Cluster,
    books: Books,
    dead: Dead,
    ended: Vec<Rc<Cell<bool>>>,
    nodes: Vec<(Members<Sim>, LockService<Sim>)>,
}

fn start(scheme: Scheme) -> Run {
    let cluster = Cluster::new(NODES, 1, Wait::Notify);
    let books: Books = Default::default();
    let dead = Rc::new(Cell::new(None));
    let (mut ended, mut nodes) = (Vec::new(), Vec::new());
    for (node, member) in cluster.members.iter().enumerate() {
        let members = Members::start(&member.rt, &member.mesh, settings()).expect("it starts");
        let config = LockConfig::new(scheme, NODES);
        let locks = LockService::start_with(&member.rt, &member.mesh, config, &members).expect("it starts");
        let done = Rc::new(Cell::new(false));
        let of = (node, member.rt.clone(), Rc::clone(&dead), books.clone());
        drop(member.rt.spawn(client(of, locks.client(), Rc::clone(&done))));
        ended.push(done);
        nodes.push((members, locks));
    }
    cluster.run(BEGIN);
    Run { cluster, books, dead, ended, nodes }
}

async fn client(
    (node, rt, dead, books): (usize, Rt<Sim>, Dead, Books),
    client: weft_protocols::locks::LockClient<Sim>,
    done: Rc<Cell<bool>>,
) {
    rt.sleep_until(BEGIN + us(3 * node as u64)).await;
    for round in 0..=ROUNDS {
        if round == ROUNDS {
            // Once more when all is over: what a crash left behind is followed by a request.
            done.set(true);
            rt.sleep_until(AGAIN).await;
            done.set(false);
        }
        for (home, book) in books.iter().enumerate() {
            book.asks(node);
            let grant = client.lock(at_home(home), Mode::Exclusive).await.expect("it is granted");
            let grant = Rc::new(grant);
            book.granted(node, &grant, dead.get(), rt.now());
            let (found, _) = book.register.get();
            rt.sleep(us(20)).await;
            book.writes(node, grant.token(), found);
            drop(book.holder.borrow_mut().take_if(|(holder, _)| *holder == node));
            if let Ok(grant) = Rc::try_unwrap(grant) {
                grant.unlock().await;
            }
        }
    }
    done.set(true);
}

/// A lock that is at home on this node, while all are there.
fn at_home(node: usize) -> LockKey {
    (0..).map(LockKey).find(|key| key.home(NODES) == rank(node)).expect("every node is a home")
}

/// How many events the run has in which nobody crashes, from when requests begin.
fn events(scheme: Scheme) -> u64 {
    let run = start(scheme);
    let before = run.cluster.fabric.stats().events;
    while run.ended.iter().any(|ended| !ended.get()) {
        run.cluster.fabric.run_events(1, Nanos::MAX);
    }
    run.cluster.fabric.stats().events - before
}

/// How long the dead one stopped those who live, at most.
fn crash_at(scheme: Scheme, event: u64, node: usize) -> Nanos {
    let run = start(scheme);
    let Run { cluster, books, dead, ended, nodes } = &run;
    cluster.fabric.run_events(event, Nanos::MAX);
    dead.set(Some(node));
    let died = cluster.fabric.now();
    cluster.plan(died, Fault::Crash { node: NodeId(node as u32) });
    let MembersConfig { lease, drift, patience, .. } = settings();
    // It is noticed, a view comes, leases end; and then all that is asked for takes its turns.
    let longest = Nanos(lease.0 / 3) + patience * 2 + lease + drift + ms(3);
    cluster.run(longest);
    let living = || (0..NODES as usize).filter(|living| *living != node);
    for n in living() {
        assert!(ended[n].get(), "{scheme}, event {event}, n{node} crashed: n{n} waits");
    }
    let last = books.iter().filter_map(|book| book.granted.borrow().last().map(|(_, at)| *at)).max();
    cluster.run(AGAIN + longest - cluster.fabric.now());
    for n in living() {
        assert!(ended[n].get(), "{scheme}, event {event}, n{node} crashed: n{n} waits in the end");
        let audit = nodes[n].1.audit();
        assert!(audit.is_clean(), "{scheme}, event {event}, n{node} crashed: n{n} keeps {audit:?}");
    }
    for book in books {
        let history = book.history.borrow();
        assert!(history.is_consistent(), "{scheme}, event {event}, n{node} crashed: {history:?}");
    }
    Nanos(last.unwrap_or(died).0.saturating_sub(died.0))
}

/// Two that read before either writes are found out, and so is one that does not see who came before it.
#[test]
fn the_tester_knows_a_lost_addition() {
    for (overlap, second) in [(true, 0), (false, 0), (false, 1)] {
        let mut history = LinearizabilityTester::new(Counter::default());
        history.on_invoke(0, Add).expect("the first");
        if overlap {
            history.on_invoke(1, Add).expect("the second");
        }
        history.on_return(0, Added::To(0)).expect("it has asked");
        if !overlap {
            history.on_invoke(1, Add).expect("the second");
        }
        history.on_return(1, Added::To(second)).expect("it has asked");
        // One who crashed asked and never had an answer.
        history.on_invoke(2, Add).expect("the third");
        assert_eq!(history.is_consistent(), second == 1);
    }
}

#[test]
fn a_node_may_crash_at_any_event_of_a_run() {
    let every = std::env::var("WEFT_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(13);
    for scheme in Scheme::ALL {
        let (events, mut longest, mut runs) = (events(scheme), Nanos::ZERO, 0);
        for node in 0..NODES as usize {
            for event in (0..events).skip(node * 7 % every).step_by(every) {
                longest = longest.max(crash_at(scheme, event, node));
                runs += 1;
            }
        }
        println!("{scheme}: {events} events, {runs} runs, the last grant at most {longest} after the crash");
        assert!(runs > 0 && longest > settings().lease, "a holder's lease is waited for");
    }
}
