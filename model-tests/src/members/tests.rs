use super::*;
use crate::explore::{Options, Report, Strategy};
use std::ops::ControlFlow;

fn explore(name: &str, size: &[(&str, u32)], oracle: Option<&str>) -> Report {
    let entry = worlds().into_iter().find(|entry| entry.name == name).expect("it is in the list");
    let mut world =
        entry.build(&Size::new(size.iter().copied())).unwrap_or_else(|why| panic!("{name}: {why}"));
    let options = Options { oracle: oracle.map(String::from), ..Options::default() };
    world.explore(&options, &mut |_| ControlFlow::Continue(())).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Smaller than by default, which takes a minute.
#[test]
fn views_and_leases_hold_in_every_order_of_turns() {
    for (name, size) in [
        ("members", &[("ticks", 5), ("wants", 2)][..]),
        ("members", &[("ticks", 4), ("wants", 1), ("early", 1)]),
        ("members-cut", &[("ticks", 7), ("wants", 1)]),
        ("members-restart", &[("ticks", 4)]),
        // A view of which only the dead have heard; one that is behind, and a newcomer that is told by nobody.
        ("members-restart", &[("ticks", 2), ("crashes", 2)]),
        // A member leaves, and may come to know of it last.
        ("members", &[("ticks", 4), ("crashes", 0), ("leaves", 1)]),
        // One dies beside it: too few would stay.
        ("members", &[("ticks", 2), ("wants", 1), ("leaves", 1)]),
        ("members-cold", &[]),
        ("members-cold", &[("ticks", 3), ("crashes", 1)]),
    ] {
        let report = explore(name, size, None);
        let found = report.counterexample.as_ref().map(|found| &found.violation);
        assert!(report.held() && report.exhaustive, "{name} {size:?}: {found:?}");
        assert!(report.states > 500, "{name} {size:?}: {}", report.states);
    }
}

/// More of them than fit into a world that is explored: two that were found so are in docs/members.md. `weft fuzz members-storm` has as many seeds as one likes.
#[test]
fn views_and_leases_hold_while_five_nodes_crash_come_back_and_are_cut_off() {
    let entry = worlds().into_iter().find(|entry| entry.name == "members-storm").expect("it is in the list");
    for nodes in [3, 4, 5, 6] {
        let mut world = entry.build(&Size::new([("nodes", nodes), ("wants", nodes)])).expect("a size");
        let (mut long, mut seeds) = (0, 0..1_000);
        world
            .walks(Strategy::Swarm, &mut seeds, &Options::default(), &mut |seed, walk| {
                assert_eq!(walk.violation, None, "{nodes} nodes, seed {seed}");
                long += u32::from(walk.choices.0.len() > 100);
                ControlFlow::Continue(())
            })
            .expect("what is enabled can happen");
        assert!(long > 500, "{nodes} nodes: {long} walks of more than 100 events");
    }
}

/// A bound of what those who live need to go on grows with how long they wait for the dead.
#[test]
fn members_that_wait_for_long_hold_as_those_do_that_wait_for_short() {
    let size = [("patience", 20), ("ticks", 1), ("wants", 1)];
    let report = explore("members", &size, None);
    let found = report.counterexample.as_ref().map(|found| &found.violation);
    assert!(report.held() && report.exhaustive, "{found:?}");
}

#[test]
fn the_mistakes_break_what_they_are_said_to_break() {
    for (name, oracle) in [
        ("planted-members-amnesia", "one list a view"),
        ("planted-members-cold-start-does-not-wait", "one at a time"),
        ("planted-members-grants-at-once", "one at a time"),
        ("planted-members-no-drift", "one at a time"),
        ("planted-members-lease-from-receipt", "one at a time"),
        ("planted-members-by-rank", "progress"),
        ("planted-members-renews-still", "one at a time"),
    ] {
        let report = explore(name, &[], Some(oracle));
        assert!(report.counterexample.is_some(), "{name} holds");
    }
}

#[test]
fn a_world_in_which_somebody_has_the_right_has_somebody_who_wants_it() {
    let held = |entry: &Entry| entry.build(&Size::new([("wants", 0)])).err().map(|why| why.to_string());
    for name in ["planted-members-amnesia", "planted-members-cold-start-does-not-wait"] {
        let entry = worlds().into_iter().find(|entry| entry.name == name).expect("it is in the list");
        assert_eq!(held(&entry).as_deref(), Some("wants is 0, and must be 1 to 9"), "{name}");
    }
}
