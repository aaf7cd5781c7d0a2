//! An application's thread: shared memory, a lock, a barrier, a processor; and what its time went into.

use crate::systems::dsm::history::{Spent, Why};
use crate::systems::dsm::with_memory;
use std::ops::Range;
use weft_protocols::dsm::{
    BarrierId, Dsm, DsmError, DsmStats, Grain, Placement, Plain, Shared, Thread, Word,
};
use weft_protocols::locks::{Grant, LockClient, LockError, LockKey, Mode};
use weft_protocols::rt::Rt;
use weft_protocols::transport::Mesh;
use weft_verbs::{Nanos, Verbs};

/// The barrier of all threads.
const BARRIER: BarrierId = BarrierId(0);

/// Why an application did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Shared memory has ended.
    #[error(transparent)]
    Memory(#[from] DsmError),
    /// The lock service has ended.
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl From<AppError> for Why {
    fn from(error: AppError) -> Why {
        match error {
            AppError::Memory(why) => Why::from(&why),
            AppError::Lock(LockError::Closed | LockError::LeftOut) => Why::Ended,
            AppError::Lock(_) => Why::Other,
        }
    }
}

/// An application's thread.
pub struct Worker<V: Verbs> {
    pub(crate) thread: Thread<V>,
    pub(crate) locks: LockClient<V>,
    pub(crate) rt: Rt<V>,
    /// Which one it is of all threads, from 0; those of a node have numbers in a row.
    pub me: u32,
    /// How many there are.
    pub all: u32,
    /// What a unit of work takes on a processor, in nanoseconds; 0: what it takes the machine that runs it.
    pub(crate) pace: f64,
    /// The grain of the application's memory, if it is not the application's own.
    pub(crate) grain: Option<u32>,
    pub(crate) spent: Spent,
    /// What it had spent when the result was there.
    pub(crate) ran: Spent,
    pub(crate) mesh: Mesh<V>,
    /// What its node had counted when the input was there, and when the result was; and messages.
    pub(crate) counted: [(DsmStats, u64); 2],
}

/// What has been waited for.
#[derive(Clone, Copy)]
enum Cause {
    Fault,
    Barrier,
    Lock,
}

impl<V: Verbs> Worker<V> {
    /// The memory of that name: all threads make it alike.
    pub fn shared<T: Plain>(&self, name: u32, len: usize, grain: u32) -> Result<Shared<[T]>, AppError> {
        let dsm: &Dsm<V> = self.thread.dsm();
        let grain = Grain::Bytes(self.grain.unwrap_or(grain));
        Ok(dsm.named(name, len, grain, Placement::RoundRobin)?)
    }

    /// Memory that this thread alone makes: others learn its name from shared memory.
    pub fn alloc<T: Plain>(&self, len: usize, grain: u32) -> Result<Shared<[T]>, AppError> {
        let grain = Grain::Bytes(self.grain.unwrap_or(grain));
        Ok(self.thread.dsm().alloc(len, grain, Placement::RoundRobin)?)
    }

    /// Gives memory back, on all nodes.
    pub async fn free<T: Plain>(&mut self, what: Shared<[T]>) -> Result<(), AppError> {
        Ok(self.thread.free(what).await?)
    }

    /// Which of so many items are this thread's: a share in a row.
    pub fn share(&self, items: usize) -> Range<usize> {
        share(self.me, self.all, items)
    }

    /// The input is there. What follows is counted.
    pub fn begins(&mut self) {
        self.spent = Spent { from: self.rt.now().0, ..Spent::default() };
        self.counted[0] = self.counts();
    }

    /// The result is there. What follows looks at it, and is not counted.
    pub fn ends(&mut self) {
        self.ran = Spent { to: self.rt.now().0, ..self.spent };
        self.counted[1] = self.counts();
    }

    fn counts(&self) -> (DsmStats, u64) {
        (self.thread.dsm().stats(), self.mesh.stats().messages_sent)
    }

    /// Works for so many units.
    pub async fn compute(&mut self, units: u64) {
        let work = Nanos((units as f64 * self.pace) as u64);
        self.spent.units += units;
        if work > Nanos::ZERO {
            let begin = self.rt.now();
            self.rt.compute(work).await;
            self.spent.compute += work.0;
            self.spent.handlers += (self.rt.now() - begin).0.saturating_sub(work.0);
        }
    }

    /// Waits for all threads.
    pub async fn barrier(&mut self) -> Result<(), AppError> {
        let (rt, begin) = (self.rt.clone(), self.rt.now());
        let _expects = rt.expects();
        self.thread.barrier(BARRIER, self.all).await?;
        self.spent.barriers_entered += 1;
        self.took(Cause::Barrier, begin);
        Ok(())
    }

    /// Takes a lock.
    pub async fn lock(&mut self, key: u64) -> Result<Grant<V>, AppError> {
        let (rt, begin) = (self.rt.clone(), self.rt.now());
        let _expects = rt.expects();
        let grant = self.locks.lock(LockKey(key), Mode::Exclusive).await?;
        self.spent.locks_taken += 1;
        self.took(Cause::Lock, begin);
        Ok(grant)
    }

    /// Gives it back.
    pub async fn unlock(&mut self, grant: Grant<V>) {
        grant.unlock().await;
    }

    /// Loads a word.
    pub async fn load<T: Word>(&mut self, from: Shared<[T]>, index: usize) -> Result<T, AppError> {
        let (rt, begin) = (self.rt.clone(), self.rt.now());
        let _expects = rt.expects();
        let found = with_memory(&rt, async || self.thread.load(from, index).await).await?;
        self.took(Cause::Fault, begin);
        Ok(found)
    }

    /// Stores a word.
    pub async fn store<T: Word>(&mut self, to: Shared<[T]>, index: usize, value: T) -> Result<(), AppError> {
        let (rt, begin) = (self.rt.clone(), self.rt.now());
        let _expects = rt.expects();
        with_memory(&rt, async || self.thread.store(to, index, value).await).await?;
        self.took(Cause::Fault, begin);
        Ok(())
    }

    /// Copies elements out.
    pub async fn read<T: Plain>(
        &mut self,
        from: Shared<[T]>,
        start: usize,
        into: &mut [T],
    ) -> Result<(), AppError> {
        let (rt, begin) = (self.rt.clone(), self.rt.now());
        let _expects = rt.expects();
        with_memory(&rt, async || self.thread.read(from, start, into).await).await?;
        self.took(Cause::Fault, begin);
        Ok(())
    }

    /// Copies elements in.
    pub async fn write<T: Plain>(
        &mut self,
        to: Shared<[T]>,
        start: usize,
        values: &[T],
    ) -> Result<(), AppError> {
        let (rt, begin) = (self.rt.clone(), self.rt.now());
        let _expects = rt.expects();
        with_memory(&rt, async || self.thread.write(to, start, values).await).await?;
        self.took(Cause::Fault, begin);
        Ok(())
    }

    fn took(&mut self, cause: Cause, begin: Nanos) {
        let span = (self.rt.now() - begin).0;
        match cause {
            Cause::Fault => self.spent.faults += span,
            Cause::Barrier => self.spent.barriers += span,
            Cause::Lock => self.spent.locks += span,
        }
    }
}

/// Which of so many items one of `all` threads has: shares in a row, the first ones longer where they are not equal.
pub fn share(me: u32, all: u32, items: usize) -> Range<usize> {
    let (me, all) = (me as usize, all as usize);
    let begin = |thread: usize| thread * (items / all) + thread.min(items % all);
    begin(me)..begin(me + 1)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_in_a_row_and_make_up_all() {
        for (all, items) in [(1, 5), (3, 10), (8, 64), (7, 3)] {
            let shares: Vec<usize> = (0..all).flat_map(|me| share(me, all, items)).collect();
            assert_eq!(shares, (0..items).collect::<Vec<_>>());
        }
    }
}
