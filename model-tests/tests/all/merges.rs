//! What state caching rests on: two states that have the same fingerprint go on in the same way.
//!
//! Random walks meet states again on other ways. From there both go on, by the same random choices, and must offer the
//! same, come to the same fingerprints, and end with the same verdict. With faults, what is compared are states at rest,
//! as explorations do. `MERGE_SEEDS` looks longer.

use std::collections::HashMap;
use weft_check::explore::{Coverage, Described, ModelFactory, TransitionSystem, Violation};
use weft_check::harness::{Execution, Harness, Member, Model, Recorder, Shape, Unseen};
use weft_check::systems::locks::worlds::{Locks, Requests, State, WorldOracles};
use weft_protocols::locks::Scheme;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_sim::choice::Rng;
use weft_sim::explore::{Enabled, FaultSet, Outcome};
use weft_verbs::Wait;

/// A way from the root: which of the enabled events was taken, and how it went.
type Way = Vec<(usize, Outcome)>;

/// What a state offers: events by their kind and, where that lasts, their actor; with the places at which they were.
fn offers(execution: &mut Execution<impl Model>) -> Vec<(u64, u64, FaultSet, bool, usize)> {
    let mut enabled = vec![];
    execution.enabled(&mut enabled);
    let tell = |(place, one): (usize, &Enabled)| {
        let name = if one.actor.is_lasting() { one.actor.0 } else { u64::MAX };
        (one.actor.0 >> 60, name, one.faults, one.quiescent, place)
    };
    let mut offers: Vec<_> = enabled.iter().enumerate().map(tell).collect();
    offers.sort_unstable_by_key(|&(kind, name, ..)| (kind, name));
    offers
}

fn take(execution: &mut Execution<impl Model>, (place, outcome): (usize, Outcome)) {
    let mut enabled = vec![];
    execution.enabled(&mut enabled);
    execution.take(enabled[place].event, outcome, None).expect("it is enabled");
}

/// Whether something can happen, and only because nothing else can.
fn is_quiescent(execution: &mut Execution<impl Model>) -> bool {
    let mut enabled = vec![];
    execution.enabled(&mut enabled);
    enabled.first().is_some_and(|event| event.quiescent)
}

/// How an event goes.
fn draw(kinds: FaultSet, faults: &mut u32, rng: &mut Rng) -> Outcome {
    let kinds: Vec<Outcome> = kinds.iter().collect();
    if *faults == 0 || kinds.is_empty() || rng.below(12) > 0 {
        return Outcome::Done;
    }
    *faults -= 1;
    kinds[rng.below(kinds.len() as u64) as usize]
}

/// Two executions of one harness, and the ways by which states were reached.
struct Pair<P: Model> {
    harness: Harness<P>,
    executions: [Execution<P>; 2],
    ways: HashMap<u128, Way>,
    merges: usize,
    /// States that were met, and those of them in which every node could say what it knows.
    states: usize,
    told: usize,
    /// How many merges there are for one that is looked at.
    one_in: u64,
    /// The most faults in a walk.
    faults: u32,
}

impl<P: Model> Pair<P> {
    fn new(model: P, faults: u32) -> Pair<P> {
        let mut harness = Harness::new("merges", model);
        if faults > 0 {
            harness.allow(harness.usual_faults());
        }
        let executions = [harness.root(), harness.root()];
        Pair { harness, executions, ways: HashMap::new(), merges: 0, states: 0, told: 0, one_in: 8, faults }
    }

    /// Walks once through the world. Says in what two states of one fingerprint differ, if it finds that.
    fn walk(&mut self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::from_seed(seed);
        let (mut way, mut faults) = (Way::new(), self.faults);
        self.harness.reset(&mut self.executions[0]);
        while way.len() < 400 && self.executions[0].violation().is_none() {
            let offers = offers(&mut self.executions[0]);
            if offers.is_empty() {
                break;
            }
            let (.., kinds, _, place) = offers[rng.below(offers.len() as u64) as usize];
            let outcome = draw(kinds, &mut faults, &mut rng);
            way.push((place, outcome));
            take(&mut self.executions[0], (place, outcome));
            self.told += usize::from(self.executions[0].has_fingerprints());
            self.states += 1;
            if self.faults > 0 && !is_quiescent(&mut self.executions[0]) {
                continue;
            }
            let print = self.executions[0].fingerprint().expect("it has one").0 ^ u128::from(faults);
            let known = self.ways.entry(print).or_insert_with(|| way.clone()).clone();
            if known != way && rng.below(self.one_in) == 0 {
                self.go_on(&known, faults, &mut rng).map_err(|why| format!("seed {seed}: {why}"))?;
                self.merges += 1;
                self.harness.reset(&mut self.executions[0]);
                way.iter().for_each(|&step| take(&mut self.executions[0], step));
            }
        }
        Ok(())
    }

    /// Goes on from where the first execution is and from where `other` leads, in the same way.
    fn go_on(&mut self, other: &Way, mut faults: u32, rng: &mut Rng) -> Result<(), String> {
        let Pair { harness, executions: [a, b], .. } = self;
        harness.reset(b);
        other.iter().for_each(|&step| take(b, step));
        for after in 0..400 {
            if a.violation() != b.violation() {
                return Err(format!("{:?} and {:?}", a.violation(), b.violation()));
            }
            if a.has_fingerprints() != b.has_fingerprints() {
                return Err(format!("after {after} events, only one can be told"));
            }
            if a.has_fingerprints() && a.fingerprint() != b.fingerprint() {
                let (of_a, of_b) = (a.parts(), b.parts());
                let parts: Vec<_> =
                    of_a.iter().zip(&of_b).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
                return Err(format!("after {after} events, {parts:?} are not the same any more"));
            }
            let (of_a, of_b) = (offers(a), offers(b));
            let names = |all: &[(u64, u64, FaultSet, bool, usize)]| -> Vec<_> {
                all.iter()
                    .map(|&(kind, name, faults, quiescent, _)| (kind, name, faults, quiescent))
                    .collect()
            };
            if names(&of_a) != names(&of_b) {
                return Err(format!("after {after} events, {:x?} and {:x?}", names(&of_a), names(&of_b)));
            }
            if of_a.is_empty() {
                let verdicts = (a.finish(), b.finish());
                return if verdicts.0 == verdicts.1 { Ok(()) } else { Err(format!("{verdicts:?}")) };
            }
            let at = rng.below(of_a.len() as u64) as usize;
            // Of several strays it cannot be told which is which.
            if of_a.iter().filter(|offer| (offer.0, offer.1) == (of_a[at].0, of_a[at].1)).count() > 1 {
                return Ok(());
            }
            let outcome = draw(of_a[at].2, &mut faults, rng);
            take(a, (of_a[at].4, outcome));
            take(b, (of_b[at].4, outcome));
        }
        Ok(())
    }
}

fn locks(scheme: Scheme, wait: Wait, modes: &str) -> Locks {
    Locks {
        scheme,
        requests: Requests::read(modes).unwrap(),
        home: 0,
        wait,
        warm: scheme != Scheme::Srsl,
        shared_limit: None,
        one_by_one: true,
    }
}

fn seeds(default: u64) -> u64 {
    std::env::var("MERGE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Walks through a model, and says how many merges there were.
fn merges(model: Locks, faults: u32, one_in: u64, seeds: u64, what: &str) -> usize {
    let mut pair = Pair { one_in, ..Pair::new(model, faults) };
    for seed in 0..seeds {
        assert_eq!(pair.walk(seed), Ok(()), "{what}, faults: {faults}");
    }
    println!("{what}, faults: {faults}: {} merges; {} of {} told", pair.merges, pair.told, pair.states);
    pair.merges
}

#[test]
fn states_of_the_shipped_locks_with_one_fingerprint_go_on_in_the_same_way() {
    for scheme in [Scheme::Srsl, Scheme::Dqnl, Scheme::Ncosed] {
        for wait in [Wait::Notify, Wait::Poll] {
            for modes in ["xs,s,x", "x,s", "s,xs,x"] {
                let what = format!("{scheme:?} {wait:?} {modes}");
                let merges = merges(locks(scheme, wait, modes), 0, 8, seeds(40), &what);
                assert!(merges > 10, "{what}: {merges} merges");
            }
        }
    }
}

#[test]
fn states_at_rest_with_one_fingerprint_go_on_in_the_same_way_whatever_has_broken() {
    for scheme in [Scheme::Srsl, Scheme::Dqnl, Scheme::Ncosed] {
        let mut all = 0;
        for wait in [Wait::Notify, Wait::Poll] {
            for modes in ["x,x,x", "x,s,s", "xs,x", "s,xs,x"] {
                for faults in 1..=2 {
                    let what = format!("{scheme:?} {wait:?} {modes}");
                    all += merges(locks(scheme, wait, modes), faults, 1, seeds(150), &what);
                }
            }
        }
        assert!(all > 100, "{scheme:?}: {all} merges");
    }
}

/// The locks with a content that forgets a part of what a node knows.
struct Forgetting(Locks, fn(&Member, &State, usize, &Unseen<'_>, &mut StateHasher) -> bool);

impl Model for Forgetting {
    type State = State;
    type Oracles = WorldOracles;

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn oracles(&self) -> WorldOracles {
        self.0.oracles()
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder<WorldOracles>) -> State {
        self.0.start(configuration, members, recorder)
    }

    fn warms_up(&self) -> bool {
        self.0.warms_up()
    }

    fn begin(
        &self,
        configuration: usize,
        state: &mut State,
        members: &[Member],
        recorder: &Recorder<WorldOracles>,
    ) {
        self.0.begin(configuration, state, members, recorder);
    }

    fn finish(
        &self,
        state: &State,
        members: &[Member],
        recorder: &Recorder<WorldOracles>,
    ) -> Result<(), Violation> {
        self.0.finish(state, members, recorder)
    }

    fn coverage(&self, _: &State, _: &[Member], _: &mut Coverage) {}

    fn fingerprint(
        &self,
        state: &State,
        node: usize,
        of: &Member,
        unseen: &Unseen<'_>,
        to: &mut StateHasher,
    ) -> bool {
        self.1(of, state, node, unseen, to)
    }
}

/// With four nodes, two may wait for a third: who comes first is known to the lock's home alone.
fn is_found(forgets: fn(&Member, &State, usize, &Unseen<'_>, &mut StateHasher) -> bool) -> bool {
    let mut pair = Pair::new(Forgetting(locks(Scheme::Srsl, Wait::Poll, "x,x,x,x"), forgets), 0);
    pair.one_in = 2;
    (0..60).any(|seed| pair.walk(seed).is_err())
}

/// A wait that says nothing would be explored soundly, by history, and would find fewer states equal: nobody would notice.
#[test]
fn every_task_of_the_lock_worlds_says_something_wherever_it_waits() {
    for scheme in [Scheme::Srsl, Scheme::Dqnl, Scheme::Ncosed] {
        for (faults, seeds) in [(0, 10), (2, 40)] {
            let all_say = |of: &Member, state: &State, node, unseen: &Unseen<'_>, to: &mut StateHasher| {
                assert_eq!(of.rt.silent_tasks(), 0, "a task waits without `.at(..)`");
                of.mesh.fingerprint(unseen, to) && state.service(node).fingerprint(to)
            };
            let mut pair = Pair::new(Forgetting(locks(scheme, Wait::Notify, "xs,s,x"), all_say), faults);
            (0..seeds).for_each(|seed| assert_eq!(pair.walk(seed), Ok(())));
            assert!(pair.told > 0, "{scheme:?}: nobody was asked");
        }
    }
}

#[test]
fn a_content_that_forgets_something_is_found() {
    assert!(is_found(|of, _, _, unseen, to| of.mesh.fingerprint(unseen, to)), "what the service knows");
}
