//! Many runs of one scenario, one for each seed, summed up.

use crate::lock_world::{self, Report, RunError, RunOptions, Verdict};
use crate::scenario::Scenario;
use serde::Serialize;
use std::ops::{ControlFlow, Range};

/// What many runs came to.
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
    /// Whether the range was left before its end because the caller asked to.
    pub stopped: bool,
}

impl Summary {
    /// Adds one run. Reports may come in any order.
    pub fn add(&mut self, seed: u64, result: Result<Report, RunError>) {
        match result {
            Ok(report) => {
                self.runs += 1;
                if report.verdict == Verdict::Violated {
                    self.violated += 1;
                    if self.first_failure.as_ref().is_none_or(|first| seed < first.seed) {
                        self.first_failure = Some(Box::new(report));
                    }
                }
            }
            Err(error) => {
                if self.first_error.as_ref().is_none_or(|(first, _)| seed < *first) {
                    self.first_error = Some((seed, error.to_string()));
                }
            }
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
        summary.add(seed, lock_world::run(scenario, seed, RunOptions::default()));
        if each(seed, &summary).is_break() {
            summary.stopped = true;
            break;
        }
    }
    summary
}
