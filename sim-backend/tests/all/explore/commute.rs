//! The promise that reduction rests on: what does not conflict commutes.
//!
//! A world is walked through at random, faults included. Then each two transitions next to each other, of different
//! actors, whose footprints do not conflict, are taken in the other order, and everything is compared: the state,
//! what can happen next, and what the programs saw.

use super::walks::busy;
use super::world::{Act, Plan, World};
use weft_sim::choice::{EventId, Rng};
use weft_sim::explore::{Enabled, FaultSet, Footprint, Outcome, Timers};
use weft_verbs::{Nanos, Wait};

struct Taken {
    enabled: Enabled,
    outcome: Outcome,
    print: Footprint,
}

/// A state as far as an explorer can see.
#[derive(Debug, PartialEq)]
struct State {
    parts: Vec<(String, u128)>,
    enabled: Vec<Enabled>,
}

fn state(world: &World) -> State {
    let mut enabled = vec![];
    world.fabric.enabled(&mut enabled);
    enabled.sort_unstable_by_key(|enabled| enabled.event);
    State { parts: world.fabric.fingerprint_parts(), enabled }
}

fn walk(world: &mut World, rng: &mut Rng, faults: u32) -> (Vec<Taken>, Vec<State>) {
    world.begin();
    let (mut left, mut path, mut states) = (faults, vec![], vec![]);
    loop {
        let now = state(world);
        let list = now.enabled.clone();
        states.push(now);
        if list.is_empty() || path.len() > 400 {
            return (path, states);
        }
        let enabled = list[rng.below(list.len() as u64) as usize];
        let faults: Vec<Outcome> = enabled.faults.iter().collect();
        let mut outcome = Outcome::Done;
        if left > 0 && !faults.is_empty() && rng.below(12) == 0 {
            outcome = faults[rng.below(faults.len() as u64) as usize];
            left -= 1;
        }
        let mut print = Footprint::new();
        world.fabric.take(enabled.event, outcome, Some(&mut print)).unwrap();
        path.push(Taken { enabled, outcome, print });
    }
}

fn replay(world: &mut World, path: &[Taken]) {
    world.begin();
    for taken in path {
        world.fabric.take(taken.enabled.event, taken.outcome, None).unwrap();
    }
}

/// How many pairs commuted.
fn check(world: &mut World, path: &[Taken], states: &[State]) -> usize {
    let mut pairs = 0;
    for i in 0..path.len().saturating_sub(1) {
        let (first, second) = (&path[i], &path[i + 1]);
        let quiescent = first.enabled.quiescent || second.enabled.quiescent;
        if first.enabled.actor == second.enabled.actor || quiescent || first.print.conflicts(&second.print) {
            continue;
        }
        replay(world, &path[..i]);
        let tell = || {
            let name =
                |taken: &Taken| format!("{:x} {}\n  {}", taken.enabled.event.0, taken.outcome, taken.print);
            format!("at {i} of {}:\n{}\n{}", path.len(), name(first), name(second))
        };
        let swapped = |event: EventId, outcome| world.fabric.take(event, outcome, None);
        assert!(
            swapped(second.enabled.event, second.outcome).is_ok(),
            "the second needs the first, {}",
            tell()
        );
        assert!(swapped(first.enabled.event, first.outcome).is_ok(), "the second ends the first, {}", tell());
        let (there, here) = (&states[i + 2], state(world));
        let differ = |(a, b): &(&(String, u128), &(String, u128))| a != b;
        let parts: Vec<_> = there.parts.iter().zip(&here.parts).filter(differ).map(|(a, _)| &a.0).collect();
        assert!(parts.is_empty(), "{parts:?} depend on the order, {}", tell());
        assert_eq!(there.enabled, here.enabled, "{}", tell());
        pairs += 1;
    }
    pairs
}

fn random_plan(rng: &mut Rng) -> Plan {
    let nodes = 2 + rng.below(2) as usize;
    let act = |rng: &mut Rng, me: usize| {
        let peer = (me + 1 + rng.below(nodes as u64 - 1) as usize) % nodes;
        let (word, signaled) = (rng.below(3) as usize, rng.below(2) == 0);
        match rng.below(16) {
            0..=2 => Act::Add { peer, word },
            3 => Act::Swap { peer, word },
            4 => Act::Write { peer, word, signaled },
            5 => Act::Read { peer, word },
            6..=7 => Act::Send { peer, signaled },
            8 if rng.below(4) == 0 => Act::Restrict { peer },
            8 => Act::Look { word },
            9 if rng.below(4) == 0 => Act::Fail { peer },
            9 => Act::Set { word },
            10 if rng.below(3) == 0 => Act::Sleep(50_000),
            11 => Act::Dial { peer },
            12 if rng.below(2) == 0 => Act::HangUp,
            12 => Act::Ask { peer },
            13 => Act::Tell { peer },
            14 if rng.below(2) == 0 => Act::Long { peer },
            14 if rng.below(2) == 0 => Act::Fetch { peer },
            14 => Act::Register,
            _ => Act::Await,
        }
    };
    let acts = (0..nodes).map(|me| (0..3 + rng.below(6)).map(|_| act(rng, me)).collect()).collect();
    let style = if rng.below(2) == 0 { Wait::Poll } else { Wait::Notify };
    let timers = if rng.below(3) == 0 { Timers::Any } else { Timers::WhenQuiescent };
    let faults = FaultSet::ALL;
    let in_order = rng.below(2) == 0;
    let drift = (rng.below(2) == 0).then(|| Nanos(rng.below(5_000)));
    Plan { acts, style, timers, faults, sanitize: false, in_order, drift, forgets: false }
}

fn seeds() -> u64 {
    std::env::var("COMMUTE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

#[test]
fn transitions_that_do_not_conflict_commute() {
    let mut pairs = 0;
    for seed in 0..seeds() {
        let mut rng = Rng::from_seed(seed);
        let plan = match seed {
            0 => busy(Wait::Poll),
            1 => busy(Wait::Notify),
            _ => random_plan(&mut rng),
        };
        let mut world = World::new(plan);
        for faults in [0, 0, 1, 2, 3] {
            let (path, states) = walk(&mut world, &mut rng, faults);
            println!("seed {seed}, {faults} faults, {} transitions: {:?}", path.len(), world.plan);
            pairs += check(&mut world, &path, &states);
        }
    }
    println!("{pairs} pairs");
    assert!(pairs as u64 > 20 * seeds(), "{pairs} pairs");
}

/// Walks of one plan, without faults.
fn check_walks(mut world: World, walks: u64) {
    let mut pairs = 0;
    for seed in 0..walks {
        let (path, states) = walk(&mut world, &mut Rng::from_seed(seed), 0);
        pairs += check(&mut world, &path, &states);
    }
    assert!(pairs > 0, "nothing commutes");
}

fn of(acts: Vec<Vec<Act>>) -> Plan {
    Plan { acts, ..busy(Wait::Poll) }
}

/// The queue pair's state stays as it is, and what it lets through does not.
#[test]
fn who_restricts_a_peer_is_in_order_with_its_requests() {
    let writes = vec![Act::Write { peer: 1, word: 0, signaled: true }, Act::Await];
    let reads = vec![Act::Read { peer: 1, word: 2 }, Act::Await];
    check_walks(World::new(of(vec![writes, vec![Act::Restrict { peer: 0 }], reads])), 40);
}

/// A node that somebody's message wakes while a request of its own has memory of which nobody else knows.
fn gives_up(how: &[Act]) -> Plan {
    let gives_up = [&[Act::Register, Act::Lend { peer: 1 }, Act::Pause], how].concat();
    let wakes = vec![Act::Send { peer: 0, signaled: false }];
    of(vec![gives_up, vec![], wakes])
}

/// It is told whether a request needs the memory.
#[test]
fn who_ends_a_registration_is_in_order_with_the_end_of_what_needs_the_memory() {
    check_walks(World::new(gives_up(&[Act::Deregister])), 40);
}

/// The memory's key is free once both have happened, and the next registration has it.
#[test]
fn who_gives_memory_up_is_in_order_with_the_end_of_what_needs_it() {
    check_walks(World::with_a_stack_of_keys(gives_up(&[Act::GiveUp, Act::Register])), 40);
}

/// Two peers and answers bring more than the queue holds: whichever finds it full ends all queue pairs that use it.
#[test]
fn what_overruns_a_completion_queue_is_in_order_with_all_that_comes_to_it() {
    let sends = vec![Act::Send { peer: 1, signaled: false }; 2];
    let adds = [0, 2].map(|peer| Act::Add { peer, word: 0 });
    check_walks(World::with_queues(of(vec![sends.clone(), adds.to_vec(), sends]), 4), 100);
}
