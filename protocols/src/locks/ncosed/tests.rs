//! The protocol under every order that a seed can choose.

use super::world::{Choice, Plan, Wish, World};
use crate::locks::Mode::{Exclusive, Shared};

const NO_LIMIT: u32 = 1 << 31;

fn wish(choice: &mut Choice, tries: bool) -> Wish {
    let mode = if choice.below(2) == 0 { Shared } else { Exclusive };
    if tries && choice.below(4) == 0 { Wish::Try(mode) } else { Wish::Lock(mode) }
}

/// A random world: 2 to 5 nodes with 1 to 4 requests each.
fn plan(seed: u64, faults: u32, shared_limit: u32, tries: bool) -> Plan {
    let mut choice = Choice::new(seed ^ 0x5eed);
    let nodes = 2 + choice.below(4);
    let wishes = (0..nodes)
        .map(|_| {
            let requests = 1 + choice.below(4);
            (0..requests).map(|_| wish(&mut choice, tries)).collect()
        })
        .collect();
    Plan { wishes, faults, shared_limit }
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
    let (rebuilds, _) = check(0..20_000, |seed| plan(seed, 0, NO_LIMIT, false));
    assert_eq!(rebuilds, 0);
}

#[test]
fn tries_take_what_is_free_and_leave_nothing_behind() {
    check(0..10_000, |seed| plan(seed, (seed % 3) as u32, NO_LIMIT, true));
}

#[test]
fn one_unknown_fate_is_survived() {
    let (rebuilds, unknown) = check(0..20_000, |seed| plan(seed, 1, NO_LIMIT, false));
    assert!(unknown > 10_000, "{unknown}");
    assert!(rebuilds > 10_000, "{rebuilds}");
}

#[test]
fn many_unknown_fates_are_survived_even_while_rebuilding() {
    let (rebuilds, unknown) = check(0..10_000, |seed| plan(seed, 8, NO_LIMIT, false));
    assert!(unknown > 2 * 10_000, "{unknown}");
    assert!(rebuilds > 10_000, "{rebuilds}");
}

#[test]
fn a_count_at_its_limit_begins_a_new_word() {
    let (rebuilds, _) = check(0..10_000, |seed| plan(seed, (seed % 2) as u32, 2, false));
    assert!(rebuilds > 1_000, "{rebuilds}");
}
