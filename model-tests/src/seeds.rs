//! Many runs of one scenario, one for each seed, summed up.

use crate::metrics::Metrics;
use crate::run::{FaultCount, Report, RunError, RunOptions};
use crate::scenario::{FaultKind, Scenario};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::{ControlFlow, Range};

/// What many runs came to. It does not depend on the order in which they are added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// How many seeds were run to their end.
    pub runs: u64,
    /// How many of them violated an oracle.
    pub violated: u64,
    /// The first seed, by number, that violated an oracle, with its report.
    pub first_failure: Option<Box<Report>>,
    /// The first seed, by number, whose run could not be made, and why.
    pub first_error: Option<(u64, String)>,
    /// How many runs had a fault that struck an operation in flight.
    pub runs_struck: u64,
    /// The figures of all runs that add up.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// The faults of all runs, by kind.
    #[serde(serialize_with = "listed")]
    pub faults: BTreeMap<FaultKind, FaultCount>,
    /// How many different orders of events there were: in how many ways packets and steps came to the nodes. Seeds of which
    /// many have the same order test little more than one.
    #[serde(serialize_with = "count")]
    pub distinct_orders: BTreeSet<String>,
    /// The longest run, in virtual time.
    pub longest_ns: u64,
    /// Whether the range was left before its end because the caller asked to.
    pub stopped: bool,
}

/// What is kept by kind, as the list that a run's report has of it: each says its kind itself.
pub fn listed<K, V: Serialize, S: serde::Serializer>(
    by_kind: &BTreeMap<K, V>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(by_kind.values())
}

fn count<S: serde::Serializer>(orders: &BTreeSet<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(orders.len() as u64)
}

impl Summary {
    /// Adds one run. One that was interrupted is none, and nothing is wrong with its seed.
    pub fn add(&mut self, seed: u64, result: Result<Report, RunError>) {
        match result {
            Ok(report) => self.add_report(report),
            Err(RunError::Interrupted { .. }) => self.stopped = true,
            Err(error) => {
                if self.first_error.as_ref().is_none_or(|(first, _)| seed < *first) {
                    self.first_error = Some((seed, error.to_string()));
                }
            }
        }
    }

    fn add_report(&mut self, report: Report) {
        self.runs += 1;
        self.runs_struck += u64::from(report.faults.iter().any(|fault| fault.struck > 0));
        self.metrics.add(&report.metrics);
        for fault in &report.faults {
            *self.faults.entry(fault.kind).or_insert(FaultCount::none(fault.kind)) += *fault;
        }
        self.longest_ns = self.longest_ns.max(report.virtual_ns);
        if !self.distinct_orders.contains(&report.order_digest) {
            self.distinct_orders.insert(report.order_digest.clone());
        }
        if !report.held() {
            self.violated += 1;
            if self.first_failure.as_ref().is_none_or(|first| report.seed < first.seed) {
                self.first_failure = Some(Box::new(report));
            }
        }
    }

    /// Whether all runs were made and kept every promise.
    pub fn held(&self) -> bool {
        self.violated == 0 && self.first_error.is_none() && !self.stopped
    }
}

/// Runs `scenario` once for each seed, for tests.
///
/// # Panics
///
/// A run cannot be made, or breaks a promise.
#[track_caller]
pub fn assert_held(scenario: &Scenario, seeds: Range<u64>) -> Summary {
    let summary = run(scenario, seeds, |_, _| ControlFlow::Continue(()));
    if let Some((seed, error)) = &summary.first_error {
        panic!("seed {seed}: {error}");
    }
    if let Some(report) = &summary.first_failure {
        let said: Vec<String> = report.violations.iter().take(5).map(ToString::to_string).collect();
        panic!("{} of {} runs; seed {}:\n{}", summary.violated, summary.runs, report.seed, said.join("\n"));
    }
    summary
}

/// Runs something of one's own once for each seed, for tests: a cluster that a test built itself, say. A seed that fails is named,
/// whether the run says so or panics.
///
/// # Panics
///
/// A run fails.
#[track_caller]
pub fn assert_each<E: Display>(seeds: Range<u64>, mut run: impl FnMut(u64) -> Result<(), E>) {
    for seed in seeds {
        let named = NamedSeed(seed);
        if let Err(error) = run(seed) {
            std::mem::forget(named);
            panic!("seed {seed}: {error}");
        }
    }
}

/// Says which seed was running when something panics.
struct NamedSeed(u64);

impl Drop for NamedSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("that was seed {}", self.0);
        }
    }
}

/// Runs `scenario` once for each seed, one after the other, and tells `each` about every run. It goes on until
/// the range ends or `each` breaks.
pub fn run(
    scenario: &Scenario,
    seeds: Range<u64>,
    mut each: impl FnMut(u64, &Summary) -> ControlFlow<()>,
) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds {
        summary.add(seed, crate::run(scenario, seed, RunOptions::default()));
        if each(seed, &summary).is_break() {
            summary.stopped = true;
            break;
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::Nanos;

    /// Clients that do the same at the same times, and draw nothing.
    const LOCKSTEP: &str = "[cluster]\nnodes = 3\njitter = JITTER\n[workload]\nkind = \"locks\"\n\
                            scheme = \"ncosed\"\nlocks = 1\nshared = 1.0\nrequests = 300\nthink = \"5us\"\n";

    fn summary(jitter: &str, seeds: Range<u64>) -> Summary {
        let scenario = crate::parse(&LOCKSTEP.replace("JITTER", jitter)).expect("a scenario");
        let summary = run(&scenario, seeds, |_, _| ControlFlow::Continue(()));
        assert!(summary.held(), "{:?}", summary.first_failure);
        summary
    }

    #[test]
    fn a_seed_that_was_interrupted_has_not_failed() {
        let mut summary = Summary::default();
        summary.add(9, Err(RunError::Interrupted { at: Nanos::ZERO, log_error: None }));
        assert_eq!((&summary.first_error, summary.stopped, summary.held()), (&None, true, false));
    }

    #[test]
    #[should_panic(expected = "seed 7: torn")]
    fn the_seed_that_fails_is_named() {
        assert_each(0..10, |seed| if seed == 7 { Err("torn") } else { Ok(()) });
    }

    #[test]
    fn seeds_of_a_lockstep_are_few_orders_and_jitter_makes_each_one_of_its_own() {
        let orders = |jitter: &str| summary(jitter, 0..12).distinct_orders.len();
        assert!(orders("\"none\"") < 12, "{}", orders("\"none\""));
        assert_eq!(orders("{}"), 12);
    }

    /// The median of what the clients of one seed waited, in nanoseconds.
    fn median(jitter: &str) -> u64 {
        let scenario = crate::parse(&LOCKSTEP.replace("JITTER", jitter)).expect("a scenario");
        let report = crate::run(&scenario, 0, RunOptions::default()).expect("it runs");
        let shared = |(name, _): &&(&str, _)| *name == "shared";
        let times = report.metrics.latencies.iter().flat_map(|table| &table.rows).find(shared);
        times.expect("shared requests").1.p50_ns
    }

    #[test]
    fn jitter_leaves_the_median_where_the_profile_has_it() {
        let (exact, varied) = (median("\"none\""), median("{}"));
        assert!(varied.abs_diff(exact) * 50 <= exact, "{varied} for {exact}");
    }
}
