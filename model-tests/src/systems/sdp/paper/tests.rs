//! The bounds within which the thesis's figures are met.

use super::flow::{Mode, measure};
use super::stalls::{Cut, bound, place, stall};
use super::*;

fn profile() -> Profile {
    Profile::builtin("sdp-2011").expect("a shipped profile")
}

#[test]
fn the_thesiss_lines_are_met_within_their_bound_but_for_those_that_contradict_each_other() {
    let rows = lines(&profile(), &mut |_| {}).expect("experiments that end");
    let missed: Vec<String> =
        goals::goals(&rows).into_iter().filter(|goal| !goal.met).map(|goal| goal.what).collect();
    assert_eq!(missed, ["lines that others contradict"], "{rows:#?}");
}

#[test]
fn several_buffers_under_way_keep_bcopys_bandwidth_at_zcopys_cost() {
    let profile = profile();
    let copied = measure(&profile, 1, Mode::BCopy, 1 << 20).expect("it ends");
    let piped = measure(&profile, 1, Mode::Kept, 1 << 20).expect("it ends");
    assert!(piped.rate >= copied.rate, "{piped:?} against {copied:?}");
    assert!(piped.cost[0] <= 0.32, "{piped:?}");
}

#[test]
fn a_second_rail_that_nobody_needs_costs_nothing() {
    for mode in Mode::ALL {
        let [one, two] = [1, 2].map(|rails| measure(&profile(), rails, mode, 1 << 17).expect("it ends"));
        assert!(two.rate >= 0.99 * one.rate, "{mode:?}: {two:?} against {one:?}");
    }
}

#[test]
fn a_reader_gets_all_bytes_after_a_cut_within_what_a_silent_death_takes_to_be_seen() {
    for mode in [Mode::BCopy, Mode::Kept] {
        for cut in Cut::ALL {
            for nth in [0, 7, 30] {
                let took = stall(&profile(), mode, cut, place(nth)).expect("it ends");
                assert!(took <= bound(&profile(), cut.max(Cut::Silent)), "{mode:?}, {cut:?}: {took}");
            }
        }
    }
}

#[test]
fn the_cost_model_of_ipoib_has_the_thesiss_points_and_nothing_beyond_them() {
    assert_eq!(thesis::ipoib(8_192), (1_206.0, 4.1));
    assert_eq!(thesis::ipoib(4_194_304), (2_223.0, 4.0));
    let (between, _) = thesis::ipoib(1 << 20);
    assert!((897.0..2_223.0).contains(&between));
    assert!(thesis::ipoib(u32::MAX).0 <= 2_622.0 && thesis::ipoib(1_024).0 < 1_206.0);
}
