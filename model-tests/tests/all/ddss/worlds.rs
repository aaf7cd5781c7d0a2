//! Small worlds of shared segments, to their ends.

use crate::common;
use weft_check::explore::{Options, Reduction, Report, Size};
use weft_sim::explore::{FaultSet, Outcome};

fn explore(name: &str, calls: &str, options: &Options) -> Report {
    common::explore(name, &Size::new([("calls", calls)]), options)
}

#[test]
fn a_release_beside_any_call_holds_in_every_order_and_with_an_answer_that_is_lost() {
    let lost = FaultSet::one(Outcome::LoseCompletion);
    for (name, calls) in
        [("ddss-release", "gs,r"), ("ddss-release-put", "p,r"), ("ddss-release-twice", "r,r")]
    {
        for faults in [0, 1] {
            let report = explore(name, calls, &Options { faults, kinds: Some(lost), ..Options::default() });
            assert!(report.held() && report.exhaustive, "{name} with {faults}");
        }
    }
}

/// Nobody gets what a holder of the lock puts and supersedes before it unlocks.
#[test]
fn under_read_and_strict_a_get_beside_two_puts_under_the_lock_sees_the_last_or_neither() {
    for name in ["ddss-lock-hides", "ddss-lock-hides-read"] {
        let report = explore(name, "w,g", &Options::default());
        assert!(report.held() && report.exhaustive, "{name}");
    }
}

/// Others put twice under the lock: after the header was marked, which is what the grant says that it is, or after a put that this one has seen. One
/// that says that it is published, and was not, is found within some hundred executions of these.
#[test]
fn a_put_whose_answer_is_lost_beside_puts_under_the_lock_is_published_or_says_that_nobody_knows() {
    let kinds = FaultSet::one(Outcome::LoseCompletion);
    let options =
        Options { faults: 1, kinds: Some(kinds), max_executions: Some(2_000), ..Options::default() };
    for calls in [",p,w", ",p,pw"] {
        let report = explore("ddss-write", calls, &options);
        assert!(report.held() && common::reached(&report, "an operation's outcome was unknown"), "{calls}");
    }
}

/// Ends of requests commute: what is left out is told by sleep sets alone, too, and no end is lost.
#[test]
fn where_responses_commute_every_reduction_reaches_the_same_ends() {
    for (name, calls) in [("ddss-write", "p,g"), ("ddss-version", "p,gg"), ("ddss-strict", "p,p")] {
        let [sleep, dpor] = [Reduction::Sleep, Reduction::Dpor].map(|reduction| {
            explore(name, calls, &Options { reduction, collect_ends: true, ..Options::default() })
        });
        assert!(sleep.held() && sleep.exhaustive && dpor.held() && dpor.exhaustive, "{name}");
        assert_eq!((sleep.executions, &sleep.ends), (dpor.executions, &dpor.ends), "{name}");
    }
}

/// The home or a client dies at any moment, beside one call of each client.
#[test]
fn a_node_that_dies_at_any_moment_costs_its_own_segments_and_nobody_waits_for_it() {
    let worlds = [("ddss-crash", ",p,g"), ("ddss-crash-null", ",p,g")];
    for (name, calls) in
        worlds.into_iter().chain([("ddss-crash-delta", ",p,e"), ("ddss-crash-temporal", ",p,g")])
    {
        let report = explore(name, calls, &Options::default());
        assert!(report.held() && report.exhaustive, "{name}");
    }
}

/// Any node restarts at any event beside a put and a get: what its last incarnation had is taken away before the next one has a part.
#[test]
fn a_node_that_restarts_at_any_event_has_a_part_in_segments_again_and_nothing_of_its_last_one_is_left() {
    let restart = FaultSet::one(Outcome::Restart);
    let report =
        explore("ddss-back", "p,g", &Options { faults: 1, kinds: Some(restart), ..Options::default() });
    assert!(report.held() && report.exhaustive);
}

/// Under null nothing in a header refuses what comes late: only the fence does, and it stands before the lock goes on. What one put who died may
/// be there in part.
#[test]
fn under_null_the_lock_of_one_who_died_goes_on_behind_the_fence() {
    let report = explore("ddss-crash-null-lock", ",x,", &Options::default());
    assert!(report.held() && report.exhaustive);
}
