//! Ranges of seeds, and runs from many of them, several at a time.

use crate::panics::{self, Name};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// A range of seeds, `A..B`; `B` is not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Range<u64>);

/// Most seeds of one call: more than a year of runs, and few enough to count.
const MOST_SEEDS: u64 = 1_000_000_000;

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let shape = || format!("'{text}' is not a range of seeds such as 0..1000");
        let (first, end) = text.split_once("..").ok_or_else(shape)?;
        let first = first.parse().map_err(|_| shape())?;
        let end = end.parse().map_err(|_| shape())?;
        if first >= end {
            return Err(format!("'{text}' holds no seed: the first must be below the second"));
        }
        if end - first > MOST_SEEDS {
            return Err(format!("'{text}' holds more than {MOST_SEEDS} seeds"));
        }
        Ok(Seeds(first..end))
    }
}

/// The most that can be asked to run at a time: each is a thread with clusters of its own.
const MOST_JOBS: usize = 1_024;

/// How many are asked to run at a time.
///
/// # Errors
///
/// It is no such number.
pub fn some_jobs(text: &str) -> Result<NonZeroUsize, String> {
    let number: Option<usize> = text.parse().ok();
    let bounded = number.filter(|number| *number <= MOST_JOBS).and_then(NonZeroUsize::new);
    bounded.ok_or_else(|| format!("from 1 to {MOST_JOBS}, each of which takes a thread and memory"))
}

/// How many run at a time: as many as were asked for, or as there are processors.
pub fn jobs(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    asked.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Most results that wait to be told.
const WAITING: usize = 1_024;

/// Runs seeds on `jobs` threads, each with a `runner` of its own, until they are through or it is `over`. A run that panics is told by
/// its `name`. Tells `told` of
/// each, on this thread, in the order in which runs end; and of nothing now and then, so that progress shows. Runners
/// share nothing, so runs do not depend on how many there are at a time. An error ends it after the runs that have
/// begun.
pub fn each<R, T, E>(
    seeds: Range<u64>,
    name: Name,
    jobs: NonZeroUsize,
    over: impl Fn() -> bool + Sync,
    runner: impl Fn() -> Result<R, E> + Sync,
    mut told: impl FnMut(Option<Result<T, E>>),
) where
    R: FnMut(u64) -> Result<T, E>,
    T: Send,
    E: Send,
{
    let (next, stopped) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (send, receive) = mpsc::sync_channel(WAITING);
    thread::scope(|scope| {
        for job in 0..jobs.get() {
            let (send, next, stopped) = (send.clone(), &next, &stopped);
            let (seeds, over, runner) = (&seeds, &over, &runner);
            let run = move || {
                let mut runner = match runner() {
                    Ok(runner) => runner,
                    Err(error) => return drop(send.send(Err(error))),
                };
                while !stopped.load(Ordering::Relaxed) && !over() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let result = panics::named(name, seed, || runner(seed));
                    if result.is_err() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                    if send.send(result).is_err() {
                        return;
                    }
                }
            };
            match thread::Builder::new().spawn_scoped(scope, run) {
                Ok(_) => {}
                // As many as the system has threads for.
                Err(_) if job > 0 => break,
                Err(why) => panic!("no thread: {why}"),
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of the seeds, each of which is its own answer unless `wrong` is it.
    fn told(seeds: Range<u64>, jobs: usize, over: bool, wrong: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut right, mut errors) = (Vec::new(), Vec::new());
        let answer = |seed| if seed == wrong { Err(seed) } else { Ok(seed) };
        let jobs = NonZeroUsize::new(jobs).expect("some");
        each(
            seeds,
            panics::seed,
            jobs,
            || over,
            || Ok(answer),
            |result| match result {
                Some(Ok(seed)) => right.push(seed),
                Some(Err(seed)) => errors.push(seed),
                None => {}
            },
        );
        right.sort_unstable();
        (right, errors)
    }

    #[test]
    fn a_range_of_seeds_excludes_its_end() {
        assert_eq!("3..5".parse(), Ok(Seeds(3..5)));
    }

    #[test]
    fn what_is_not_a_range_of_seeds_is_refused() {
        let wrong =
            ["", "7", "..", "1..", "..9", "5..5", "9..2", "a..b", "-1..4", "0..1..2", "0..9999999999999"];
        for text in wrong {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_runs_at_a_time_is_bounded() {
        assert_eq!(some_jobs("1024").map(NonZeroUsize::get), Ok(1_024));
        for wrong in ["0", "1025", "60000", "-1", "many", ""] {
            assert!(some_jobs(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_seed_is_run_once_however_many_run_at_a_time() {
        for jobs in [1, 3, 16] {
            assert_eq!(told(5..3_000, jobs, false, 0), ((5..3_000).collect(), vec![]));
        }
    }

    #[test]
    fn a_run_is_named_while_it_runs() {
        let name: Name = |seed| format!("the run {seed}");
        let runs = |_| panics::running().ok_or(());
        let mut names = Vec::new();
        each(3..5, name, NonZeroUsize::MIN, || false, || Ok(runs), |result| names.extend(result));
        assert_eq!(names, [Ok("the run 3".to_string()), Ok("the run 4".to_string())]);
    }

    #[test]
    fn an_error_ends_it_and_what_is_over_does_not_begin() {
        assert_eq!(told(0..u64::MAX, 1, false, 7), ((0..7).collect(), vec![7]));
        assert_eq!(told(0..u64::MAX, 2, true, 7), (vec![], vec![]));
    }

    #[test]
    fn behind_an_error_no_seed_is_run_again() {
        let (right, errors) = told(0..u64::MAX, 3, false, 7);
        assert!(right.is_sorted_by(|one, next| one < next), "each of {right:?} once");
        assert_eq!(errors, [7]);
    }
}
