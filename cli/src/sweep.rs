//! `weft run --seeds`: the same scenario from many seeds, several at a time.

mod sum;

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::seeds::{each, jobs};
use crate::{interrupt, output, panics};
use std::ops::Range;
use sum::Sum;
use weft_check::run::{Report, RunError, RunOptions};
use weft_check::scenario::Scenario;

/// Runs every seed, sums up, prints.
pub fn run(args: &RunArgs, scenario: &Scenario, seeds: Range<u64>) -> Result<Exit, Failure> {
    let all = seeds.end - seeds.start;
    let mut sum = Sum::new(args, scenario, &seeds);
    let mut progress = Progress::begin(args.quiet);
    let mut failed = None;
    // A run that is interrupted fails, and so ends it.
    let runner = || Ok(|seed| one(scenario, seed).map_err(|error| (seed, error)));
    each(
        seeds,
        panics::seed,
        jobs(args.jobs),
        || false,
        runner,
        |result| {
            match result {
                Some(Ok(report)) => sum.add(report),
                Some(Err((seed, error))) => {
                    failed.get_or_insert_with(|| Failure::of_run(&error).at(format!("seed {seed}")));
                    sum.fail(seed, error);
                }
                None => {}
            }
            let words = || format!("{} of {all} seeds, {} violated", sum.runs(), sum.violated());
            progress.at(sum.runs() as f64 / all as f64, words);
        },
    );
    progress.end();
    sum.conclude();
    let verdict = Exit::from(sum.verdict());
    if sum.runs() > 0 {
        output::report(verdict, args.json, &sum, &sum.text())?;
    }
    // A violation that was found counts more than a run that could not finish.
    match failed {
        _ if verdict == Exit::Violated => Ok(verdict),
        Some(_) if interrupt::requested() => {
            Err(Failure::unfinished(format!("interrupted after {} of {all} seeds", sum.runs())))
        }
        Some(failure) => Err(failure),
        None => Ok(verdict),
    }
}

fn one(scenario: &Scenario, seed: u64) -> Result<Report, RunError> {
    let mut watch = |_: &weft_check::run::Progress| interrupt::go_on();
    weft_check::run(scenario, seed, RunOptions { progress: Some(&mut watch), ..RunOptions::default() })
}
