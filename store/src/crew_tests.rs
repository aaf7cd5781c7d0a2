//! Every order of what two threads, and who has jobs for them, do to each other:
//! `RUSTFLAGS='--cfg loom' cargo test -p weft-store --lib crew`.

use super::Crew;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};

/// Every order in which threads lose the processor at most so often where they could have gone on.
fn explore(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(run);
}

/// Who has jobs sleeps until the bell is rung, as a node does whose only work under way is its disk's.
fn all_ends(threads: usize, jobs: usize) {
    let rung = Arc::new(Notify::new());
    let bell = Arc::clone(&rung);
    let crew = Crew::start(threads, |job: usize| job, move || bell.notify()).expect("threads");
    let mut ended = Vec::new();
    for job in 0..jobs {
        crew.give(job);
    }
    while ended.len() < jobs {
        match crew.take() {
            none if none.is_empty() => rung.wait(),
            some => ended.extend(some),
        }
    }
    assert!(crew.take().is_empty());
    ended.sort_unstable();
    assert_eq!(ended, (0..jobs).collect::<Vec<_>>());
}

#[test]
fn each_job_ends_once_and_the_bell_is_never_missed() {
    explore(6, || all_ends(1, 2));
    explore(3, || all_ends(2, 2));
    explore(2, || all_ends(2, 3));
}

#[test]
fn jobs_that_nobody_waits_for_are_done_before_the_crew_is_gone() {
    explore(2, || {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let job = move |()| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let crew = Crew::start(2, job, || ()).expect("threads");
        crew.give(());
        crew.give(());
        drop(crew);
        assert_eq!(done.load(Ordering::Relaxed), 2);
    });
}
