//! Calls of shared memory that are dropped at any moment, and those that no litmus test makes.

use super::explore;
use crate::common::reached;
use weft_check::explore::Size;
use weft_sim::explore::FaultSet;

/// Every order of `name` holds; what is asked of an execution some execution has.
fn holds(name: &str, branches: &[&str]) {
    let report = explore(name, Size::default(), 0, FaultSet::NONE);
    assert!(report.held() && report.exhaustive, "{name}");
    for branch in branches {
        assert!(reached(&report, branch), "{name}: {branch}");
    }
}

/// Of the thread's own node, too, and whether the call waits for a grant, for another claim, or has a claim.
#[test]
fn a_dropped_access_or_claim_is_not_executed_and_holds_up_nobody() {
    for name in ["dsm-dropped-joined", "dsm-dropped-copy", "dsm-dropped-turn"] {
        holds(name, &["a call was dropped"]);
    }
}

/// It was counted twice, and the others left without who had not come: `protocols/tests/all/dsm_dropped.rs` fails with that.
#[test]
fn who_drops_its_wait_at_a_barrier_and_calls_again_is_counted_once() {
    holds("dsm-dropped-barrier", &["a call was dropped"]);
}

/// `weft check` found that memory was closed on all nodes, and given back on none.
#[test]
fn memory_is_given_back_on_all_nodes_though_the_call_that_frees_it_is_dropped() {
    holds("dsm-dropped-free", &["a call was dropped"]);
}

#[test]
fn exchanges_and_copies_come_to_all_that_sequential_consistency_allows() {
    for name in ["dsm-exchanges", "dsm-copies", "dsm-prefetch-changes"] {
        let report = explore(name, Size::default(), 0, FaultSet::NONE);
        assert!(report.held() && report.exhaustive, "{name}");
        let missing: Vec<&str> =
            report.unreached().filter(|branch| branch.starts_with("threads see")).collect();
        assert!(missing.is_empty(), "{name} never comes to: {missing:?}");
    }
}
