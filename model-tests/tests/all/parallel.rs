//! An exploration comes to the same by any number of workers.

use crate::common::entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Duration;
use weft_check::explore::{
    Counterexample, Fingerprint, Options, Reduction, Report, Size, Stopped, explore_in_parallel,
};
use weft_sim::explore::{FaultSet, Outcome};

fn explore(name: &str, modes: &str, options: &Options, jobs: usize) -> Report {
    let jobs = NonZeroUsize::new(jobs).expect("some");
    let size = Size::new([("modes", modes)]);
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    explore_in_parallel(&entry(name), &size, options, jobs, go_on).expect("it is deterministic")
}

type Told = (bool, Option<Stopped>, [u64; 7], BTreeMap<&'static str, u64>, BTreeSet<Fingerprint>);

/// All but the time that it took.
fn told(report: Report) -> (Told, Option<Counterexample>) {
    let Report { executions, passed_over, redundant, transitions, states, deepest, imprecise, .. } = report;
    let counts = [executions, passed_over, redundant, transitions, states, deepest, imprecise];
    let Report { exhaustive, stopped, coverage, ends, counterexample, .. } = report;
    ((exhaustive, stopped, counts, coverage, ends), counterexample)
}

fn is_the_same(name: &str, modes: &str, options: &Options) -> Report {
    let one = explore(name, modes, options, 1);
    for jobs in 2..=3 {
        let several = explore(name, modes, options, jobs);
        assert_eq!(told(several), told(one.clone()), "{name} {modes} by {jobs}: {options:?}");
    }
    one
}

#[test]
fn what_is_explored_by_several_workers_adds_up_to_what_one_explores() {
    for reduction in [Reduction::Sleep, Reduction::Dpor, Reduction::Cache] {
        let options = Options { reduction, collect_ends: true, ..Options::default() };
        for (name, modes) in [("srsl", "*,*,*"), ("dqnl", "*,*"), ("ncosed-polling", "*,s")] {
            let report = is_the_same(name, modes, &options);
            assert!(report.held() && report.exhaustive, "{name} {modes}");
        }
    }
    let kinds = FaultSet::one(Outcome::Drop).with(Outcome::LoseCompletion);
    for merge in [true, false] {
        is_the_same("dqnl", "*,x", &Options { faults: 1, kinds: Some(kinds), merge, ..Options::default() });
    }
}

/// The first in the order of the initial configurations is told, whichever worker comes to one first.
#[test]
fn the_same_violation_is_found_by_any_number_of_workers() {
    let options = Options { livelock: 400, ..Options::default() };
    for name in ["as-published-zero-tail-holds", "as-published-resets-both", "as-published-home-subtracts"] {
        for go_on in [false, true] {
            let report = is_the_same(name, "*,*", &Options { go_on, ..options.clone() });
            assert!(!report.held(), "{name}");
        }
        is_the_same(name, "*,*", &Options { oracle: Some("mutual exclusion".into()), ..options.clone() });
    }
}

#[test]
fn a_limit_of_executions_is_the_same_for_any_number_of_workers() {
    let all = is_the_same("srsl", "*,*,*", &Options::default()).executions;
    for most in [1, 5, all - 1, all, all + 1] {
        let limited = Options { max_executions: Some(most), ..Options::default() };
        let report = is_the_same("srsl", "*,*,*", &limited);
        assert_eq!((report.executions, report.exhaustive), (most.min(all), most > all));
    }
}

#[test]
fn a_limit_of_time_and_the_caller_end_every_worker() {
    let limited = Options { max_time: Some(Duration::from_millis(1)), ..Options::default() };
    let report = explore("ncosed-polling", "*,*,*", &limited, 2);
    assert_eq!((report.held(), report.exhaustive, report.stopped), (true, false, Some(Stopped::Time)));
    let jobs = NonZeroUsize::new(2).expect("two");
    let size = Size::default();
    let stop = &mut |_: &_| ControlFlow::Break(());
    let report = explore_in_parallel(&entry("ncosed-polling"), &size, &Options::default(), jobs, stop);
    let report = report.expect("it is deterministic");
    assert_eq!((report.exhaustive, report.stopped), (false, Some(Stopped::Asked)));
    assert!(report.executions > 0);
}
