//! What exploring quickly rests on: a memoised program does what it would do if it ran, and a state that was saved is the
//! state.
//!
//! Random walks go through two executions of one model side by side, by the same choices and faults. In one every program
//! runs; in the other, programs run only where nobody has seen what they do. At every event both must offer the same, touch
//! the same, and lead to the same fabric, bit for bit; nodes that are asked what they know say the same; and at the end both
//! are judged alike. `MEMOISED_SEEDS` looks longer.

use crate::common;
use std::ops::ControlFlow;
use weft_check::explore::{Coverage, Described, ModelFactory, Options, Size, TransitionSystem, explore};
use weft_check::harness::{Execution, Harness};
use weft_check::systems::locks::worlds::{Locks, Requests};
use weft_check::systems::worlds;
use weft_protocols::locks::Scheme;
use weft_sim::choice::Rng;
use weft_sim::explore::{FaultSet, Footprint, Outcome};
use weft_verbs::Wait;

fn locks(scheme: Scheme, requests: &str, wait: Wait, one_by_one: bool) -> Locks {
    let requests = Requests::read(requests).expect("modes");
    let warm = scheme != Scheme::Srsl;
    Locks { scheme, requests, home: 0, wait, one_by_one, warm, shared_limit: None }
}

/// One model in two harnesses: its programs run, and its programs are memoised.
struct Pair {
    harnesses: [Harness<Locks>; 2],
    executions: [Execution<Locks>; 2],
}

impl Pair {
    fn new(model: impl Fn() -> Locks, faults: FaultSet, compares: bool) -> Pair {
        let mut harnesses = [Harness::new("ran", model()), Harness::new("memoised", model())];
        for (harness, learn) in harnesses.iter_mut().zip([false, true]) {
            harness.allow(faults);
            harness.compare(compares);
            harness.memoise(learn);
        }
        let executions = harnesses.each_mut().map(ModelFactory::root);
        Pair { harnesses, executions }
    }

    fn walk(&mut self, seed: u64) {
        let Pair { harnesses, executions } = self;
        harnesses
            .iter_mut()
            .zip(executions.iter_mut())
            .for_each(|(harness, execution)| harness.reset(execution));
        let mut rng = Rng::from_seed(seed);
        let mut faults = 1 + rng.below(2);
        for after in 0..600 {
            let [ran, known] = executions;
            let what = format!("seed {seed}, after {after} events");
            assert_eq!(ran.violation(), known.violation(), "{what}");
            let mut offers = [vec![], vec![]];
            ran.enabled(&mut offers[0]);
            known.enabled(&mut offers[1]);
            assert_eq!(offers[0], offers[1], "{what}");
            if offers[0].is_empty() || ran.violation().is_some() {
                break;
            }
            let event = offers[0][rng.below(offers[0].len() as u64) as usize];
            let strikes = faults > 0 && !event.faults.is_empty() && rng.below(30) == 0;
            let outcome = match strikes {
                true => event.faults.iter().nth(rng.below(event.faults.len().into()) as usize),
                false => None,
            };
            faults -= u64::from(outcome.is_some());
            let outcome = outcome.unwrap_or(Outcome::Done);
            let mut touched = [Footprint::new(), Footprint::new()];
            for (execution, touched) in executions.iter_mut().zip(&mut touched) {
                execution.take(event.event, outcome, Some(touched)).expect("it is enabled");
            }
            assert_eq!(touched[0].touches(), touched[1].touches(), "{what}");
            let [ran, known] = executions;
            assert_eq!(ran.fabric().fingerprint_parts(), known.fabric().fingerprint_parts(), "{what}");
            assert_eq!(ran.parts(), known.parts(), "{what}");
        }
        let [ran, known] = executions;
        assert_eq!(ran.finish(), known.finish(), "seed {seed}");
        let [mut of_ran, mut of_known] = [Coverage::default(), Coverage::default()];
        ran.coverage(&mut of_ran);
        known.coverage(&mut of_known);
        assert_eq!(of_ran, of_known, "seed {seed}");
    }
}

/// What is survived. Crashes are not: there programs run.
fn survived() -> FaultSet {
    FaultSet::TIMELESS.without(Outcome::Crash).without(Outcome::Restart)
}

fn seeds(few: u64) -> u64 {
    std::env::var("MEMOISED_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}

#[test]
fn a_memoised_program_does_what_it_would_do_if_it_ran() {
    for (scheme, requests, wait, one_by_one) in [
        (Scheme::Srsl, "x,s,x", Wait::Notify, false),
        (Scheme::Dqnl, "x,x,x", Wait::Poll, true),
        (Scheme::Ncosed, "xs,s,x", Wait::Poll, true),
        (Scheme::Ncosed, "x,s", Wait::Notify, false),
    ] {
        for compares in [false, true] {
            let mut pair = Pair::new(|| locks(scheme, requests, wait, one_by_one), survived(), compares);
            (0..seeds(60)).for_each(|seed| pair.walk(seed));
            let stats = pair.executions[1].memoised().expect("programs are memoised");
            assert!(0 < stats.learned && stats.learned < stats.steps, "{scheme:?}: {stats:?}");
            println!("{scheme:?} {requests}: {stats:?}");
        }
    }
}

/// A harness whose programs run, whatever is said.
struct Running(Harness<Locks>);

impl Described for Running {
    fn name(&self) -> &str {
        self.0.name()
    }
}

impl ModelFactory for Running {
    type System = Execution<Locks>;

    fn allow(&mut self, faults: FaultSet) {
        self.0.allow(faults);
    }

    fn compare(&mut self, states: bool) {
        self.0.compare(states);
    }

    fn root(&mut self) -> Execution<Locks> {
        self.0.root()
    }

    fn reset(&mut self, execution: &mut Execution<Locks>) {
        self.0.reset(execution);
    }
}

/// The search saves states and goes back to them, too: it must come to as much as one that begins each execution anew.
#[test]
fn exploring_memoised_programs_comes_to_what_exploring_comes_to() {
    for (scheme, requests, wait, one_by_one, faults) in [
        (Scheme::Srsl, "x,*,x", Wait::Notify, false, 0),
        (Scheme::Dqnl, "x,x", Wait::Poll, true, 1),
        (Scheme::Ncosed, "*,s", Wait::Poll, true, 1),
        (Scheme::Ncosed, "x,s,x", Wait::Poll, true, 0),
    ] {
        let harness = || Harness::new("locks", locks(scheme, requests, wait, one_by_one));
        let options = Options { faults, kinds: Some(survived()), ..Options::default() };
        let watch = &mut |_: &_| ControlFlow::Continue(());
        let ran = explore(&mut Running(harness()), &options, watch).expect("it is deterministic");
        let known = explore(&mut harness(), &options, watch).expect("it is deterministic");
        let tell = |report: &weft_check::explore::Report| {
            let counts =
                [report.executions, report.redundant, report.states, report.deepest, report.imprecise];
            (report.verdict(), report.exhaustive, counts, report.coverage.clone())
        };
        assert_eq!(tell(&ran), tell(&known), "{scheme:?} {requests}");
        assert!(ran.executions > 50, "{scheme:?} {requests}: {}", ran.executions);
        assert!(known.transitions < ran.transitions, "{scheme:?} {requests}: states are saved");
    }
}

/// Otherwise a check that memoises says that it reached all branches of a world, since it has named none.
#[test]
fn the_branches_of_a_world_are_named_whether_its_programs_are_memoised_or_not() {
    let mut say = 0;
    for entry in worlds() {
        let named = |memoise| {
            let options = Options { memoise, max_executions: Some(1), ..Options::default() };
            let report = common::explore(entry.name, &Size::default(), &options);
            report.coverage.into_keys().collect::<Vec<_>>()
        };
        let ran = named(false);
        assert_eq!(named(true), ran, "{}", entry.name);
        say += usize::from(!ran.is_empty());
    }
    assert!(say > 100, "{say} worlds name branches");
}
