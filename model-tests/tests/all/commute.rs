//! The shipped lock code under the promise that reduction rests on: what does not conflict commutes.
//!
//! `sim-backend/tests/all/explore/commute.rs` holds small scripts to it; here it is the runtime, the transport with its
//! reconnections, and the locks. `COMMUTE_SEEDS` looks longer.

use weft_check::explore::{Described, ModelFactory, TransitionSystem};
use weft_check::harness::{Execution, Harness, Model};
use weft_check::systems::locks::worlds::{Locks, Requests};
use weft_check::systems::messages::worlds::{Manner, Messages};
use weft_protocols::locks::Scheme;
use weft_sim::choice::Rng;
use weft_sim::explore::{Enabled, Footprint, Outcome};
use weft_verbs::Wait;

struct Taken {
    enabled: Enabled,
    outcome: Outcome,
    print: Footprint,
}

#[derive(PartialEq)]
struct State {
    parts: Vec<(String, u128)>,
    enabled: Vec<Enabled>,
}

fn state<P: Model>(execution: &mut Execution<P>) -> State {
    let mut enabled = vec![];
    execution.enabled(&mut enabled);
    enabled.sort_unstable_by_key(|enabled| enabled.event);
    State { parts: execution.fabric().fingerprint_parts(), enabled }
}

fn walk<P: Model>(execution: &mut Execution<P>, rng: &mut Rng, mut faults: u32) -> (Vec<Taken>, Vec<State>) {
    let (mut path, mut states) = (vec![], vec![]);
    loop {
        let now = state(execution);
        let enabled = match now.enabled.len() {
            n @ 1.. if path.len() < 400 => now.enabled[rng.below(n as u64) as usize],
            _ => {
                states.push(now);
                return (path, states);
            }
        };
        states.push(now);
        let kinds: Vec<Outcome> = enabled.faults.iter().collect();
        let mut outcome = Outcome::Done;
        if faults > 0 && !kinds.is_empty() && rng.below(15) == 0 {
            outcome = kinds[rng.below(kinds.len() as u64) as usize];
            faults -= 1;
        }
        let mut print = Footprint::new();
        execution.take(enabled.event, outcome, Some(&mut print)).unwrap();
        path.push(Taken { enabled, outcome, print });
    }
}

fn check<P: Model>(
    harness: &mut Harness<P>,
    execution: &mut Execution<P>,
    path: &[Taken],
    states: &[State],
) -> usize {
    let mut pairs = 0;
    for i in 0..path.len().saturating_sub(1) {
        let (first, second) = (&path[i], &path[i + 1]);
        let quiescent = first.enabled.quiescent || second.enabled.quiescent;
        if quiescent || first.enabled.actor == second.enabled.actor || first.print.conflicts(&second.print) {
            continue;
        }
        harness.reset(execution);
        let swapped = path[..i].iter().chain([second, first]);
        let name =
            |taken: &Taken| format!("{:x} {}\n  {}", taken.enabled.event.0, taken.outcome, taken.print);
        for taken in swapped {
            let took = execution.take(taken.enabled.event, taken.outcome, None);
            assert!(
                took.is_ok(),
                "at {i}, {} is not enabled:\n{}\n{}",
                name(taken),
                name(first),
                name(second)
            );
        }
        let (there, here) = (&states[i + 2], state(execution));
        let differ = |(a, b): &(&(String, u128), &(String, u128))| a != b;
        let parts: Vec<_> = there.parts.iter().zip(&here.parts).filter(differ).map(|(a, _)| &a.0).collect();
        assert!(
            parts.is_empty(),
            "{parts:?} depend on the order, at {i}:\n{}\n{}",
            name(first),
            name(second)
        );
        assert!(
            there.enabled == here.enabled,
            "what follows depends, at {i}:\n{}\n{}",
            name(first),
            name(second)
        );
        pairs += 1;
    }
    pairs
}

fn seeds() -> u64 {
    std::env::var("COMMUTE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

/// Walks through a model with none, one and two faults, and says how many pairs were swapped.
fn swap<P: Model>(harness: &mut Harness<P>, what: &str) -> usize {
    harness.allow(harness.faults().without(Outcome::Crash));
    let mut execution = harness.root();
    let mut pairs = 0;
    for seed in 0..seeds() {
        for faults in [0, 1, 2] {
            harness.reset(&mut execution);
            let (path, states) = walk(&mut execution, &mut Rng::from_seed(seed), faults);
            println!("{what} seed {seed}, {faults} faults: {} transitions", path.len());
            pairs += check(harness, &mut execution, &path, &states);
        }
    }
    pairs
}

#[test]
fn transitions_of_the_shipped_locks_that_do_not_conflict_commute() {
    let mut pairs = 0;
    for scheme in [Scheme::Srsl, Scheme::Dqnl, Scheme::Ncosed] {
        for (wait, one_by_one) in [(Wait::Notify, false), (Wait::Poll, false), (Wait::Poll, true)] {
            let requests = Requests::read("x,s,x").unwrap();
            let locks =
                Locks { scheme, requests, home: 0, wait, one_by_one, warm: false, shared_limit: None };
            let mut harness = Harness::new("locks", locks);
            pairs += swap(&mut harness, &format!("{scheme:?} {wait:?}"));
        }
    }
    assert!(pairs > 100, "{pairs} pairs");
}

/// With nodes that restart.
#[test]
fn transitions_of_the_transport_that_do_not_conflict_commute() {
    let mut pairs = 0;
    for (nodes, messages, rails) in [(2, 2, 1), (3, 1, 1), (2, 2, 2), (3, 1, 2)] {
        let mut harness =
            Harness::new("messages", Messages { nodes, messages, rails, manner: Manner::Usual });
        pairs += swap(&mut harness, &format!("{nodes} nodes of {rails} rails"));
    }
    assert!(pairs > 100, "{pairs} pairs");
}
