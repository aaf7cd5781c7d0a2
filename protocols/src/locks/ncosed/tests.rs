//! N-CoSED and DQNL under every order that a seed can choose.

use super::world::{Choice, Plan, Request, Step, World};
use crate::locks::Mode::{Exclusive, Shared};
use crate::locks::Scheme;
use crate::transport::Rank;

const NO_LIMIT: u32 = 1 << 31;
const SCHEMES: [Scheme; 2] = [Scheme::Ncosed, Scheme::Dqnl];

/// What else is wished for, beside locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Nothing,
    Tries,
    Downgrades,
}

fn request(choice: &mut Choice, extra: Extra) -> Request {
    let mode = if choice.below(2) == 0 { Shared } else { Exclusive };
    match extra {
        Extra::Tries if choice.below(4) == 0 => Request::Try(mode),
        Extra::Downgrades if choice.below(3) == 0 => Request::Downgrade,
        _ => Request::Lock(mode),
    }
}

/// A random world: 2 to 5 nodes with 1 to 4 requests each.
fn plan(scheme: Scheme, seed: u64, faults: u32, shared_limit: u32, extra: Extra) -> Plan {
    let mut choice = Choice::new(seed ^ 0x5eed);
    let nodes = 2 + choice.below(4);
    let requests = (0..nodes)
        .map(|_| {
            let requests = 1 + choice.below(4);
            (0..requests).map(|_| request(&mut choice, extra)).collect()
        })
        .collect();
    Plan { scheme, requests, faults, shared_limit }
}

fn check(seeds: std::ops::Range<u64>, plan: impl Fn(u64) -> Plan) -> (u32, u32) {
    let (mut rebuilds, mut unknown) = (0, 0);
    for seed in seeds {
        let plan = plan(seed);
        let mut world = World::new(&plan, seed);
        if let Err(story) = world.run() {
            panic!("seed {seed}, {plan:?}: {story}");
        }
        if plan.shared_limit == NO_LIMIT {
            assert!(world.rebuilds <= world.unknown, "seed {seed}: a word was given up without a reason");
        }
        rebuilds += world.rebuilds;
        unknown += world.unknown;
    }
    (rebuilds, unknown)
}

#[test]
fn without_faults_it_excludes_progresses_and_leaves_the_word_free() {
    for scheme in SCHEMES {
        let (rebuilds, _) = check(0..20_000, |seed| plan(scheme, seed, 0, NO_LIMIT, Extra::Nothing));
        assert_eq!(rebuilds, 0);
    }
}

#[test]
fn tries_take_what_is_free_and_leave_nothing_behind() {
    for scheme in SCHEMES {
        check(0..10_000, |seed| plan(scheme, seed, (seed % 3) as u32, NO_LIMIT, Extra::Tries));
    }
}

#[test]
fn exclusive_holds_become_shared_ones_with_and_without_unknown_outcomes() {
    for (limit, least) in [(NO_LIMIT, 10_000), (2, 15_000)] {
        let plan = |seed| plan(Scheme::Ncosed, seed, (seed % 4) as u32, limit, Extra::Downgrades);
        let (rebuilds, _) = check(0..20_000, plan);
        assert!(rebuilds > least, "{rebuilds}");
    }
}

#[test]
fn one_unknown_fate_is_survived() {
    for scheme in SCHEMES {
        let (rebuilds, unknown) = check(0..20_000, |seed| plan(scheme, seed, 1, NO_LIMIT, Extra::Nothing));
        assert!(unknown > 10_000, "{unknown}");
        assert!(rebuilds > 10_000, "{rebuilds}");
    }
}

#[test]
fn many_unknown_outcomes_are_survived_even_while_rebuilding() {
    for scheme in SCHEMES {
        let (rebuilds, unknown) = check(0..10_000, |seed| plan(scheme, seed, 8, NO_LIMIT, Extra::Nothing));
        assert!(unknown > 2 * 10_000, "{unknown}");
        assert!(rebuilds > 10_000, "{rebuilds}");
    }
}

#[test]
fn a_count_at_its_limit_begins_a_new_word() {
    let (rebuilds, _) = check(0..10_000, |seed| plan(Scheme::Ncosed, seed, 0, 2, Extra::Nothing));
    assert!(rebuilds > 1_000, "{rebuilds}");
}

// Stories: what a uniform choice hardly ever tells.

fn rank(index: usize) -> Rank {
    Rank::from_index(index as u32)
}

/// Whether a step is a node's own: its task, or a message between it and the home.
fn concerns(node: usize, step: Step) -> bool {
    let home = rank(0);
    step == Step::Run(node)
        || step == Step::Deliver(rank(node), home)
        || step == Step::Deliver(home, rank(node))
}

fn is_atomic(step: Step) -> bool {
    matches!(step, Step::Execute(_) | Step::ComeHome(_))
}

/// Whoever downgrades lets in those who came next and want to share, while it goes on holding: with a writer
/// behind them, or without; and also when the home decides, in the middle of a rebuild.
#[test]
fn a_downgrade_lets_others_in_while_it_holds() {
    let others =
        [Request::Lock(Shared), Request::Lock(Shared), Request::Lock(Exclusive), Request::Lock(Exclusive)];
    for (queued, victim) in [(2, None), (3, None), (2, Some(4)), (3, Some(5))] {
        let holder = [vec![], vec![Request::Downgrade]];
        let requests = holder.into_iter().chain(others.map(|request| vec![request])).collect();
        let plan = Plan { scheme: Scheme::Ncosed, requests, faults: 1, shared_limit: NO_LIMIT };
        let mut world = World::new(&plan, 1);
        for node in 1..2 + queued {
            world.advance(|step| {
                concerns(node, step) || is_atomic(step) || step == Step::Deliver(rank(node), rank(1))
            });
        }
        if let Some(victim) = victim {
            world.advance(|step| concerns(victim, step));
            world.advance(|step| matches!(step, Step::Lose(_)));
            world.advance(|step| concerns(1, step) || !matches!(step, Step::LetGo(_) | Step::Run(_)));
        }
        assert_eq!(world.holding(), [(rank(1), Exclusive)]);
        world.advance(|step| step == Step::LetGo(1));
        world.advance(|step| !matches!(step, Step::LetGo(_) | Step::Lose(_)));
        assert_eq!(world.holding(), [1, 2, 3].map(|node| (rank(node), Shared)));
        assert_eq!(world.rebuilds, u32::from(victim.is_some()));
        world.run().unwrap();
    }
}

/// A holder waits for one who was sent to it, the word is given up and opened again, and only then does the
/// holder's task run: it must not wait on, in the new epoch, for what belonged to the old one.
#[test]
fn a_holder_that_slept_through_a_rebuild_notices_it() {
    let (holder, reader, victim) = (1, 2, 3);
    let lock = |mode| vec![Request::Lock(mode)];
    let requests = vec![vec![], lock(Exclusive), lock(Shared), lock(Exclusive)];
    let plan = Plan { scheme: Scheme::Ncosed, requests, faults: 1, shared_limit: NO_LIMIT };
    let mut world = World::new(&plan, 1);
    world.advance(|step| concerns(holder, step) || is_atomic(step));
    world.advance(|step| concerns(reader, step) || is_atomic(step));
    // The reader's message to the holder stays on its way.
    world.advance(|step| step == Step::LetGo(holder) || concerns(holder, step) || is_atomic(step));
    world.advance(|step| concerns(victim, step));
    world.advance(|step| matches!(step, Step::Lose(_)));
    world.advance(|step| step != Step::Run(holder) && step != Step::Deliver(rank(reader), rank(holder)));
    assert_eq!(world.rebuilds, 1);
    world.run().unwrap();
}
