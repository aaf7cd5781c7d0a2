//! Threads that do jobs, so that nobody who asks for one waits.
//!
//! Jobs wait in the order in which they came; those that are under way at once end in any order. When one has ended its result lies
//! here until it is [taken](Crew::take), and a **bell** is rung if nothing lay there before. So who takes all that is there and then waits
//! for the bell misses nothing. loom tries every order of that (`crew_tests.rs`).

use crate::sync::{Arc, Condvar, JoinHandle, Mutex, lock, thread};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::PoisonError;

struct Jobs<J> {
    waiting: VecDeque<J>,
    /// No more jobs come.
    closed: bool,
}

struct Shared<J, E> {
    jobs: Mutex<Jobs<J>>,
    /// There is a job, or there will be none.
    more: Condvar,
    ended: Mutex<Vec<E>>,
    job: Box<dyn Fn(J) -> E + Send + Sync>,
    bell: Box<dyn Fn() + Send + Sync>,
}

impl<J, E> Shared<J, E> {
    /// What each thread does until no more jobs come.
    fn work(&self) {
        while let Some(job) = self.next() {
            let end = (self.job)(job);
            let mut ended = lock(&self.ended);
            ended.push(end);
            let first = ended.len() == 1;
            drop(ended);
            if first {
                (self.bell)();
            }
        }
    }

    fn next(&self) -> Option<J> {
        let mut jobs = lock(&self.jobs);
        loop {
            match jobs.waiting.pop_front() {
                Some(job) => return Some(job),
                None if jobs.closed => return None,
                None => jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Threads that do jobs of one kind. When it is dropped, all jobs that were given to it are done first.
pub(crate) struct Crew<J, E> {
    shared: Arc<Shared<J, E>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static, E: Send + 'static> Crew<J, E> {
    /// So many threads, at least one, that do jobs so. The bell is rung by any of them.
    ///
    /// # Errors
    ///
    /// The system has no more threads.
    pub(crate) fn start(
        threads: usize,
        job: impl Fn(J) -> E + Send + Sync + 'static,
        bell: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Crew<J, E>> {
        let jobs = Mutex::new(Jobs { waiting: VecDeque::new(), closed: false });
        let (more, ended) = (Condvar::new(), Mutex::new(Vec::new()));
        let shared = Arc::new(Shared { jobs, more, ended, job: Box::new(job), bell: Box::new(bell) });
        let mut crew = Crew { shared, threads: Vec::new() };
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&crew.shared);
            crew.threads.push(thread::Builder::new().name("store".into()).spawn(move || shared.work())?);
        }
        Ok(crew)
    }
}

impl<J, E> Crew<J, E> {
    /// Gives it a job.
    pub(crate) fn give(&self, job: J) {
        lock(&self.shared.jobs).waiting.push_back(job);
        self.shared.more.notify_one();
    }

    /// Takes what has ended.
    pub(crate) fn take(&self) -> Vec<E> {
        mem::take(&mut *lock(&self.shared.ended))
    }
}

impl<J, E> Drop for Crew<J, E> {
    fn drop(&mut self) {
        lock(&self.shared.jobs).closed = true;
        self.shared.more.notify_all();
        // A thread that panicked has said so, and holds nothing any more.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(all(test, loom))]
#[path = "crew_tests.rs"]
mod tests;
