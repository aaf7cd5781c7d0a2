//! The shipped lock code under the promise that reduction rests on: what does not conflict commutes.
//!
//! `sim-backend/tests/explore/commute.rs` holds small scripts to it; here it is the runtime, the transport with its
//! reconnections, and the locks. `COMMUTE_SEEDS` looks longer.

use weft_check::explore::{Blueprint, World};
use weft_check::worlds::locks::Locks;
use weft_check::worlds::messages::Messages;
use weft_check::worlds::modes::Requests;
use weft_check::worlds::stage::{Play, Scene, Stage};
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

fn state<P: Play>(scene: &mut Scene<P>) -> State {
    let mut enabled = vec![];
    scene.enabled(&mut enabled);
    enabled.sort_unstable_by_key(|enabled| enabled.event);
    State { parts: scene.fabric().fingerprint_parts(), enabled }
}

fn walk<P: Play>(scene: &mut Scene<P>, rng: &mut Rng, mut faults: u32) -> (Vec<Taken>, Vec<State>) {
    let (mut path, mut states) = (vec![], vec![]);
    loop {
        let now = state(scene);
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
        scene.take(enabled.event, outcome, Some(&mut print)).unwrap();
        path.push(Taken { enabled, outcome, print });
    }
}

fn check<P: Play>(stage: &mut Stage<P>, scene: &mut Scene<P>, path: &[Taken], states: &[State]) -> usize {
    let mut pairs = 0;
    for i in 0..path.len().saturating_sub(1) {
        let (first, second) = (&path[i], &path[i + 1]);
        let at_rest = first.enabled.at_rest || second.enabled.at_rest;
        if at_rest || first.enabled.actor == second.enabled.actor || first.print.conflicts(&second.print) {
            continue;
        }
        stage.reset(scene);
        let swapped = path[..i].iter().chain([second, first]);
        let name =
            |taken: &Taken| format!("{:x} {}\n  {}", taken.enabled.event.0, taken.outcome, taken.print);
        for taken in swapped {
            let took = scene.take(taken.enabled.event, taken.outcome, None);
            assert!(
                took.is_ok(),
                "at {i}, {} is not enabled:\n{}\n{}",
                name(taken),
                name(first),
                name(second)
            );
        }
        let (there, here) = (&states[i + 2], state(scene));
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

/// Walks through a play with none, one and two faults, and says how many pairs were swapped.
fn swap<P: Play>(stage: &mut Stage<P>, what: &str) -> usize {
    stage.allow(stage.faults().without(Outcome::Crash));
    let mut scene = stage.root();
    let mut pairs = 0;
    for seed in 0..seeds() {
        for faults in [0, 1, 2] {
            stage.reset(&mut scene);
            let (path, states) = walk(&mut scene, &mut Rng::from_seed(seed), faults);
            println!("{what} seed {seed}, {faults} faults: {} transitions", path.len());
            pairs += check(stage, &mut scene, &path, &states);
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
            let name = format!("{scheme:?}");
            let mut stage = Stage::new(Locks {
                name,
                scheme,
                requests,
                home: 0,
                wait,
                one_by_one,
                warm: false,
                shared_limit: None,
            });
            pairs += swap(&mut stage, &format!("{scheme:?} {wait:?}"));
        }
    }
    assert!(pairs > 100, "{pairs} pairs");
}

/// With nodes that restart.
#[test]
fn transitions_of_the_transport_that_do_not_conflict_commute() {
    let mut pairs = 0;
    for (nodes, messages) in [(2, 2), (3, 1)] {
        let mut stage = Stage::new(Messages { name: "messages", nodes, messages });
        pairs += swap(&mut stage, &format!("{nodes} nodes"));
    }
    assert!(pairs > 100, "{pairs} pairs");
}
