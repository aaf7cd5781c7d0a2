//! Time in explored worlds, on the least that needs it: a node that has a right for as long as a lease lasts.
//!
//! Node 1 asks node 0 for the right to write to a word of node 0, which grants it for a span by its own clock and then takes
//! the word itself. Node 1 counts the lease from the moment at which it asked, less what the clocks may differ by.

use std::cell::Cell;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_check::Verdict;
use weft_check::explore::{Coverage, Options, Reduction, Report, Violation, explore};
use weft_check::harness::{Harness, Member, Model, Recorder, Shape};
use weft_protocols::rt::Rt;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank};
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{NodeId, Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, Wait};

const LEASE: Nanos = Nanos::from_millis(1);
const DRIFT: Nanos = Nanos::from_micros(100);
const RIGHT: Channel = Channel(1);

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Node 1 counts the whole lease by its own clock.
    ForgetsDrift,
    /// Node 0 takes the word without a fence before it.
    ForgetsFence,
    /// The same, and node 1 rests before it writes, and does not look at its clock again.
    ForgetsFenceAndRests,
}

struct Lease {
    mistake: Mistake,
    /// Whether what is judged is the word alone: a node that is slow may think that it has a right that it has no more.
    word_alone: bool,
}

struct State {
    word: SimMr,
    /// Whether node 1 thinks that it has the right.
    has: Rc<Cell<bool>>,
    /// Whether node 0 has taken the word.
    taken: Rc<Cell<bool>>,
}

async fn message(inbox: &mut Inbox) {
    while !matches!(inbox.recv().await, Some(Incoming::Message(_)) | None) {}
}

/// Node 0.
async fn grant(
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    holder: (Rank, u64),
    mistake: Mistake,
    state: (SimMr, Rc<Cell<bool>>),
) {
    let mut inbox = mesh.open(RIGHT).expect("nobody else opened it");
    message(&mut inbox).await;
    let _ = mesh.send(holder.0, RIGHT, &[]);
    rt.sleep(LEASE).await;
    if !matches!(mistake, Mistake::ForgetsFence | Mistake::ForgetsFenceAndRests) {
        mesh.expel(holder.0, holder.1);
    }
    state.0.store(0, 2).expect("its own word");
    state.1.set(true);
}

/// Node 1: looks at the word, and then writes to it, while it thinks that it may.
async fn hold(
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    home: Rank,
    word: RemoteSlice,
    mistake: Mistake,
    has: Rc<Cell<bool>>,
) {
    let mut inbox = mesh.open(RIGHT).expect("nobody else opened it");
    let asked = rt.now();
    let _ = mesh.send(home, RIGHT, &[]);
    message(&mut inbox).await;
    let careful = if mistake == Mistake::ForgetsDrift { Nanos::ZERO } else { DRIFT + DRIFT };
    let end = asked + LEASE - careful;
    if rt.now() >= end {
        return;
    }
    has.set(true);
    if mistake == Mistake::ForgetsFenceAndRests {
        rt.sleep(LEASE / 2).await;
        let _ = mesh.write(home, word, &1u64.to_ne_bytes()).await;
    } else if mesh.read(home, word, &mut [0; 8]).await.is_ok() {
        let _ = mesh.write(home, word, &1u64.to_ne_bytes()).await;
    }
    rt.sleep_until(end).await;
    has.set(false);
}

impl Model for Lease {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn drift(&self) -> Option<Nanos> {
        Some(DRIFT)
    }

    fn waits(&self, state: &State, crashed: &[NodeId], _: &Recorder<()>) -> bool {
        !crashed.contains(&NodeId(0)) && !state.taken.get()
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::one(Outcome::SlowNode).with(Outcome::Crash)
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> State {
        let [home, holder] = members else { panic!("the shape says two") };
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let word = home.mesh.alloc(8, access).expect("eight bytes");
        let at = word.remote(0..8).expect("a word");
        let (has, taken) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let who = (holder.mesh.me(), holder.mesh.incarnation());
        let kept = (word.clone(), Rc::clone(&taken));
        home.rt.spawn(grant(home.rt.clone(), home.mesh.clone(), who, self.mistake, kept));
        let (rt, mesh) = (holder.rt.clone(), holder.mesh.clone());
        holder.rt.spawn(hold(rt, mesh, home.mesh.me(), at, self.mistake, Rc::clone(&has)));
        let mesh = holder.mesh.clone();
        holder.rt.spawn(async move {
            mesh.expelled().await;
            mesh.close();
        });
        State { word, has, taken }
    }

    fn judge(&self, state: &State, members: &[Member], view: &mut StateHasher) -> Result<(), Violation> {
        let _ = members;
        (state.has.get(), state.taken.get()).hash(view);
        match !self.word_alone && state.has.get() && state.taken.get() {
            true => Err(Violation::new("one right", "both nodes have it")),
            false => Ok(()),
        }
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        // A dead node's belief stays as it was.
        sink.sometimes("the word was taken after its holder had died", state.has.get() && state.taken.get());
    }

    fn finish(&self, state: &State, _: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        match (state.taken.get(), state.word.load(0)) {
            (true, Ok(2)) => Ok(()),
            (taken, word) => {
                Err(Violation::new("the last word", format!("taken: {taken}, and the word is {word:?}")))
            }
        }
    }
}

fn explored(lease: Lease, kinds: FaultSet, faults: u32) -> Report {
    let options = Options { reduction: Reduction::Dpor, faults, kinds: Some(kinds), ..Options::default() };
    explore(&mut Harness::new("lease", lease), &options, &mut |_| ControlFlow::Continue(()))
        .expect("it is deterministic")
}

const SLOW: FaultSet = FaultSet::one(Outcome::SlowNode);

#[test]
fn a_lease_less_the_drift_never_overlaps_its_successor_s_right() {
    let report = explored(Lease { mistake: Mistake::None, word_alone: false }, SLOW, 0);
    assert!(report.held() && report.exhaustive, "{:?}", report.counterexample);
}

#[test]
fn a_lease_that_forgets_the_drift_is_found() {
    let report = explored(Lease { mistake: Mistake::ForgetsDrift, word_alone: false }, SLOW, 0);
    assert_eq!(report.verdict(), Verdict::Violated);
}

#[test]
fn a_holder_that_wakes_up_after_its_lease_does_no_harm() {
    let report = explored(Lease { mistake: Mistake::None, word_alone: true }, SLOW, 2);
    assert!(report.held() && report.exhaustive, "{:?}", report.counterexample);
}

#[test]
fn a_right_that_goes_on_without_a_fence_is_found_by_a_slow_node() {
    let lease = || Lease { mistake: Mistake::ForgetsFence, word_alone: true };
    assert!(explored(lease(), SLOW, 0).held(), "it takes a slow node");
    let found = explored(lease(), SLOW, 1).counterexample.expect("a violation");
    assert!(found.violation.to_string().starts_with("the last word: taken: true"), "{}", found.violation);
}

/// All that node 1 does before, it does in time: it is the step to which its timer wakes it that comes too late.
#[test]
fn a_holder_that_is_slow_when_its_timer_wakes_it_is_found() {
    let lease = || Lease { mistake: Mistake::ForgetsFenceAndRests, word_alone: true };
    assert!(explored(lease(), SLOW, 0).held(), "it takes a slow node");
    let found = explored(lease(), SLOW, 1).counterexample.expect("a violation");
    assert!(found.violation.to_string().starts_with("the last word: taken: true"), "{}", found.violation);
}

#[test]
fn time_goes_on_after_a_crash_until_the_lease_has_ended() {
    let crash = FaultSet::one(Outcome::Crash);
    let report = explored(Lease { mistake: Mistake::None, word_alone: true }, crash, 1);
    assert!(report.held() && report.exhaustive);
    assert!(report.coverage["the word was taken after its holder had died"] > 0);
}
