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
            let first = first_bytes(&profile(), mode).expect("it ends");
            for nth in [0, 7, 30] {
                let took = stall(&profile(), mode, cut, first + place(nth)).expect("it ends");
                assert!(took <= bound(&profile(), cut.max(Cut::Silent)), "{mode:?}, {cut:?}: {took}");
            }
        }
    }
}

/// A reader without a copy waits for half a millisecond for the transfer's first buffers to be registered.
#[test]
fn what_a_reader_waits_for_before_its_first_bytes_is_no_stall() {
    let (profile, mode) = (profile(), Mode::Pipelined);
    let stall = |after| stall(&profile, mode, Cut::Port, after).expect("it ends").as_micros_f64();
    let (first, bound) = (first_bytes(&profile, mode).expect("it ends"), bound(&profile, Cut::Port));
    let [begin, early] = [Nanos::ZERO, first + place(0)].map(stall);
    // What is above the bound is said in docs/sdp.md.
    assert!(early < 1.02 * bound.as_micros_f64() && begin > 1.3 * early, "{begin}, {early} and {bound}");
}

#[test]
fn what_a_reader_gets_falls_in_no_span_before_the_read_that_a_cut_strikes() {
    let spans = course(&profile(), Mode::Pipelined, Cut::Port, SHOWN_CUT, SPAN).expect("it ends");
    // The read that is under way at the cut comes to nothing.
    let whole = 500..(SHOWN_CUT - SPAN).as_micros_f64() as u64;
    let rates = spans.iter().filter(|(at, _)| whole.contains(at)).map(|(_, rate)| *rate);
    let (least, most) = rates.fold((f64::MAX, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)));
    assert!(least > 0.9 * most, "{spans:?}");
    // No part of a span stands for one.
    assert!(spans.last().is_some_and(|(_, rate)| *rate > 0.5 * most), "{spans:?}");
}

#[test]
fn the_cost_model_of_ipoib_has_the_thesiss_points_and_nothing_beyond_them() {
    assert_eq!(thesis::ipoib(8_192), (1_206.0, 4.1));
    assert_eq!(thesis::ipoib(4_194_304), (2_223.0, 4.0));
    let (between, _) = thesis::ipoib(1 << 20);
    assert!((897.0..2_223.0).contains(&between));
    assert!(thesis::ipoib(u32::MAX).0 <= 2_622.0 && thesis::ipoib(1_024).0 < 1_206.0);
}
