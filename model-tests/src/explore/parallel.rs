//! An exploration by several workers.
//!
//! The initial configurations of a model are independent: no state that follows on one follows on another, and nothing
//! races across the choice of one. So each is explored by itself, by the next worker that is free, and the reports are
//! added up in the order of the configurations. What comes out does not depend on how many workers there are.

use super::any_model::{AnyModel, Entry, Watch};
use super::options::Options;
use super::report::{Report, Stopped};
use super::search::{ExploreError, Progress, faults};
use super::size::Size;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How often a caller is told how far it has come.
const TOLD_EVERY: Duration = Duration::from_millis(50);

/// Explores a world of a list by up to `jobs` workers, each with a model of its own. Verdict, counts and counterexample are
/// the same for any number of them, unless a limit of time or memory or the caller ends the exploration before its end. A limit of
/// executions counts in the order of one search: then one worker explores alone.
///
/// # Errors
///
/// The world is not deterministic, cannot do what the options ask for, or cannot be built in this size.
pub fn explore_in_parallel(
    entry: &Entry,
    size: &Size,
    options: &Options,
    jobs: NonZeroUsize,
    watch: Watch<'_>,
) -> Result<Report, ExploreError> {
    let mut model = entry.build(size)?;
    let parts = model.configurations();
    let jobs = jobs.get().min(parts);
    if jobs == 1 || options.max_executions.is_some() {
        return model.explore(options, watch);
    }
    let began = Instant::now();
    let kinds = Some(faults(model.as_ref(), options)?);
    // All workers together have the memory.
    let options = Options { kinds, max_cache: options.max_cache / jobs as u64, ..options.clone() };
    let work = Work::new(*entry, size, &options, parts, began);
    let parts = work.run(jobs, watch);
    let mut report = add_up(model.name(), &options, parts)?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// What one part came to; nothing if it was not begun.
type Part = Option<Result<Report, ExploreError>>;

/// What workers share.
struct Work<'a> {
    entry: Entry,
    size: &'a Size,
    options: &'a Options,
    began: Instant,
    /// The next part to explore.
    next: AtomicUsize,
    /// What comes behind a part that ends the exploration need not be explored: here it begins.
    end: AtomicUsize,
    /// A limit was reached, or the caller has asked for the end.
    stops: AtomicBool,
    /// How far each part has come.
    progress: Mutex<Vec<Progress>>,
}

impl<'a> Work<'a> {
    fn new(entry: Entry, size: &'a Size, options: &'a Options, parts: usize, began: Instant) -> Work<'a> {
        Work {
            entry,
            size,
            options,
            began,
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(parts),
            stops: AtomicBool::new(false),
            progress: Mutex::new(vec![Progress::default(); parts]),
        }
    }

    /// Has all parts explored, and tells the caller now and then how far that is.
    fn run(&self, jobs: usize, watch: Watch<'_>) -> Vec<Part> {
        let mut parts: Vec<Part> = self.all().iter().map(|_| None).collect();
        let (send, receive) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..jobs {
                let send = send.clone();
                scope.spawn(move || self.explore_parts(&send));
            }
            drop(send);
            loop {
                match receive.recv_timeout(TOLD_EVERY) {
                    Ok((part, result)) => parts[part] = Some(result),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if watch(&self.progress()).is_break() {
                    self.stops.store(true, Ordering::Relaxed);
                }
            }
        });
        parts
    }

    /// A worker: explores one part after the other.
    fn explore_parts(&self, done: &Sender<(usize, Result<Report, ExploreError>)>) {
        let mut model = match self.entry.build(self.size) {
            Ok(model) => model,
            // It was built once before, so this cannot be.
            Err(error) => return drop(done.send((0, Err(error.into())))),
        };
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if self.is_needless(part) {
                return;
            }
            let result = self.explore_part(model.as_mut(), part);
            self.note_end(part, &result);
            if done.send((part, result)).is_err() {
                return;
            }
        }
    }

    fn explore_part(&self, model: &mut dyn AnyModel, part: usize) -> Result<Report, ExploreError> {
        let max_time = self.options.max_time.map(|most| most.saturating_sub(self.began.elapsed()));
        let options = Options { max_time, ..self.options.clone() };
        let parts = self.all().len();
        let mut watch = |at: &Progress| {
            self.all()[part] = Progress { share: share_of_part(at.share, parts), ..*at };
            if self.is_needless(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let report = model.explore_part(part, &options, &mut watch)?;
        let Report { executions, transitions, .. } = report;
        self.all()[part] = Progress { executions, transitions, share: 1.0, ..Progress::default() };
        Ok(report)
    }

    fn is_needless(&self, part: usize) -> bool {
        part >= self.end.load(Ordering::Relaxed) || self.stops.load(Ordering::Relaxed)
    }

    /// Notes whether a part's result ends the exploration.
    fn note_end(&self, part: usize, result: &Result<Report, ExploreError>) {
        match result.as_ref().map(|report| report.stopped) {
            Ok(None | Some(Stopped::Depth)) => {}
            Err(_) | Ok(Some(Stopped::Violation)) => {
                self.end.fetch_min(part + 1, Ordering::Relaxed);
            }
            // A part that is not needed any more was asked to stop, too.
            Ok(Some(Stopped::Asked)) if self.is_needless(part) => {}
            Ok(Some(Stopped::Time | Stopped::Memory | Stopped::Asked | Stopped::Executions)) => {
                self.stops.store(true, Ordering::Relaxed)
            }
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Progress>> {
        self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How far all parts together have come.
    fn progress(&self) -> Progress {
        let all = self.all();
        let mut sum = Progress { elapsed: self.began.elapsed(), ..Progress::default() };
        for part in all.iter() {
            sum.executions += part.executions;
            sum.transitions += part.transitions;
            sum.share += part.share / all.len() as f64;
        }
        sum
    }
}

/// A part's own share: its search takes the other parts to be done.
fn share_of_part(share: f64, parts: usize) -> f64 {
    (share * parts as f64 - (parts - 1) as f64).clamp(0.0, 1.0)
}

/// Adds the parts up as one search would have come to them: up to the first that ends the exploration.
fn add_up(name: &str, options: &Options, parts: Vec<Part>) -> Result<Report, ExploreError> {
    let mut sum = Report::new(name, options);
    let limit = limit(&parts);
    sum.exhaustive = limit.is_none();
    for part in parts.into_iter().flatten() {
        let part = part?;
        let stopped = part.stopped;
        sum.reduction = part.reduction;
        sum.add(part);
        if stopped == Some(Stopped::Violation) {
            sum.stopped = stopped;
            return Ok(sum);
        }
    }
    sum.stopped = limit;
    Ok(sum)
}

/// What ended the exploration before all parts were explored, if no part ended it.
fn limit(parts: &[Part]) -> Option<Stopped> {
    let of = |part: &Part| match part {
        None => Some(Stopped::Asked),
        Some(Ok(report)) => report.stopped,
        Some(Err(_)) => None,
    };
    // One part reaches a limit; the others were asked to stop.
    let stopped = || parts.iter().filter_map(of);
    stopped().find(|why| *why != Stopped::Asked).or_else(|| stopped().next())
}
