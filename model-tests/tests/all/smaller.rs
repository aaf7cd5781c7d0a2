//! A failure that was found in a large world is left in the smallest one that shows it.

use crate::common::entry;
use std::ops::ControlFlow;
use weft_check::explore::{Case, Counterexample, Hunt, Options, Size, Strategy, Walk, smallest};

fn options() -> Options {
    Options { livelock: 400, ..Options::default() }
}

/// The readings break several promises; one of them is followed.
fn looked_for(name: &str) -> Option<String> {
    name.starts_with("as-published-zero").then(|| "mutual exclusion".to_string())
}

/// Finds it by exploring, and makes it small.
fn explored(name: &str, size: &Size) -> Case {
    let entry = entry(name);
    let mut world = entry.build(size).expect("a good size");
    let options = Options { oracle: looked_for(name), ..options() };
    let report = world.explore(&options, &mut |_| ControlFlow::Continue(())).expect("explores");
    let run = report.counterexample.expect("it is found");
    let case = Case { size: world.size(), run, drawn: None };
    let hunt = Hunt::Explore(report.executions.min(1_000) + 200);
    smallest(&entry, case, hunt, &options, &mut |_| ControlFlow::Continue(())).expect("runs")
}

/// Runs a case as a file would be replayed: by the list's own world and nothing else.
fn again(name: &str, case: &Case) -> Option<String> {
    let mut world = entry(name).build(&case.size).expect("a good size");
    let run = world.replay(&case.run.choices, &options(), false).expect("runs");
    run.violation.map(|violation| violation.oracle)
}

#[test]
fn a_bug_found_at_four_nodes_is_left_with_the_fewest_that_show_it() {
    for name in ["planted-lost-update", "planted-mcs", "planted-tickets"] {
        let small = explored(name, &Size::new([("nodes", 4)]));
        assert_eq!(small.size.number("nodes"), Ok(Some(2)), "{name}");
        assert_eq!(again(name, &small).as_ref(), Some(&small.run.violation.oracle), "{name}");
    }
}

/// It takes an exclusive and a shared request on two nodes, and nothing else.
#[test]
fn a_reading_found_among_more_requests_is_left_with_those_that_show_it() {
    let name = "as-published-zero-tail-holds-unswapped";
    let small = explored(name, &Size::new([("modes", "xx,s")]));
    assert_eq!(small.run.violation.oracle, "mutual exclusion");
    let modes = small.size.text("modes").expect("modes");
    assert!(["x,s", "s,x", "sx,", ",sx"].contains(&modes.as_str()), "{modes}");
    assert_eq!(again(name, &small).as_ref(), Some(&small.run.violation.oracle));
}

/// Three nodes are the fewest for this one, so it keeps them.
#[test]
fn a_world_is_not_made_smaller_than_what_shows_the_bug() {
    let small = explored("as-published-successor-first", &Size::new([("modes", "s,x,x")]));
    let modes = small.size.text("modes").expect("modes");
    assert_eq!(modes.split(',').count(), 3, "{modes}");
    assert_eq!(modes.matches(['x', 's']).count(), 3, "{modes}");
}

#[test]
fn what_walks_have_found_is_looked_for_by_walks() {
    let entry = entry("planted-lost-update");
    let size = Size::new([("nodes", 4)]);
    let mut world = entry.build(&size).expect("a good size");
    let mut found = None;
    let mut keep = |_, Walk { choices, violation }: Walk| {
        found = violation.map(|violation| Counterexample { violation, choices });
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    world.walks(Strategy::Swarm, &mut (0..1_000), &options(), &mut keep).expect("walks");
    let case = Case { size: world.size(), run: found.expect("it is found"), drawn: None };
    let hunt = Hunt::walked(Strategy::Swarm);
    let small = smallest(&entry, case, hunt, &options(), &mut |_| ControlFlow::Continue(())).expect("runs");
    assert_eq!(small.size.number("nodes"), Ok(Some(2)));
}
