//! `weft run --seeds`: the same scenario from many seeds, several at a time.

mod sum;

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{interrupt, output, run};
use model_tests::lock_world::{self, Report, RunError, RunOptions};
use model_tests::scenario::Scenario;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use sum::Sum;

/// Runs every seed, sums up, prints.
pub fn run(args: &RunArgs, scenario: &Scenario, seeds: Range<u64>) -> Result<Exit, Failure> {
    let all = seeds.end - seeds.start;
    let mut sum = Sum::new(args, scenario, &seeds);
    let mut progress = Progress::begin(args.quiet || args.verbose > 0);
    let mut failed = None;
    each(scenario, seeds, jobs(args), |result| {
        match result {
            Some((_, Ok(report))) => sum.add(report),
            Some((seed, Err(error))) => {
                failed.get_or_insert_with(|| run::failure(&error).at(format!("seed {seed}")));
                sum.fail(seed, error);
            }
            None => {}
        }
        let words = || format!("{} of {all} seeds, {} violated", sum.runs(), sum.violated());
        progress.at(sum.runs() as f64 / all as f64, words);
    });
    progress.end();
    if sum.runs() > 0 {
        match args.json {
            true => output::json(&sum)?,
            false => output::text(&sum.text())?,
        }
    }
    // A violation that was found counts more than a run that could not finish.
    match failed {
        _ if sum.violated() > 0 => Ok(Exit::Violated),
        Some(_) if interrupt::requested() => {
            Err(Failure::unfinished(format!("interrupted after {} of {all} seeds", sum.runs())))
        }
        Some(failure) => Err(failure),
        None => Ok(Exit::Held),
    }
}

fn jobs(args: &RunArgs) -> NonZeroUsize {
    args.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Runs each seed on one of `jobs` threads and tells `told` of it, on this thread, in the order in which runs
/// end; and tells it of nothing now and then, so that progress shows. Worlds share nothing, so runs do not
/// depend on how many there are at a time. An error ends it after the runs that have begun.
fn each(
    scenario: &Scenario,
    seeds: Range<u64>,
    jobs: NonZeroUsize,
    mut told: impl FnMut(Option<(u64, Result<Report, RunError>)>),
) {
    let next = AtomicU64::new(seeds.start);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            let (send, next, seeds) = (send.clone(), &next, &seeds);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let result = one(scenario, seed);
                    let over = result.is_err();
                    if over {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                    if send.send((seed, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        loop {
            match receive.recv_timeout(Duration::from_millis(200)) {
                Ok(result) => told(Some(result)),
                Err(RecvTimeoutError::Timeout) => told(None),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
}

fn one(scenario: &Scenario, seed: u64) -> Result<Report, RunError> {
    let mut watch = |_: &lock_world::Progress| run::go_on();
    lock_world::run(scenario, seed, RunOptions { log: None, progress: Some(&mut watch) })
}
