//! A node's processors, for simulations of programs that compute: the runtime's steps take their time out of what the threads
//! compute, if no processor is idle.
//!
//! On hardware a program computes, and takes as long as that takes. In simulation it says how long it would take on a processor of
//! its own ([`Rt::compute`](super::Rt::compute)).

use std::cell::Cell;
use weft_verbs::Nanos;

/// How far a thread would have come that has computed all the time, and what it shares its processor with.
#[derive(Debug)]
pub(super) struct Processors {
    number: Cell<u32>,
    computing: Cell<u32>,
    /// In nanoseconds of a whole processor.
    progress: Cell<f64>,
    /// Up to this time.
    at: Cell<Nanos>,
}

impl Default for Processors {
    fn default() -> Processors {
        let (number, computing) = (Cell::new(1), Cell::new(0));
        Processors { number, computing, progress: Cell::new(0.0), at: Cell::new(Nanos::ZERO) }
    }
}

impl Processors {
    pub fn set(&self, number: u32) {
        self.number.set(number.max(1));
    }

    /// Whether anybody computes.
    pub fn are_used(&self) -> bool {
        self.computing.get() > 0
    }

    /// The share of a processor that each thread has while `other` processors do something else.
    fn share(&self, other: u32) -> f64 {
        let free = self.number.get().saturating_sub(other);
        (f64::from(free) / f64::from(self.computing.get().max(1))).min(1.0)
    }

    /// Time has gone by, in which `other` processors did something else.
    pub fn pass(&self, now: Nanos, other: u32) {
        if self.are_used() {
            let span = now.0.saturating_sub(self.at.get().0);
            self.progress.set(self.progress.get() + span as f64 * self.share(other));
        }
        self.at.set(now);
    }

    /// Begins a computation; how far the progress must come.
    pub fn begin(&self, work: Nanos) -> Computing<'_> {
        self.computing.set(self.computing.get() + 1);
        Computing { processors: self, until: self.progress.get() + work.0 as f64 }
    }
}

/// A thread that computes.
pub(super) struct Computing<'a> {
    processors: &'a Processors,
    until: f64,
}

impl Computing<'_> {
    /// How long it still takes if nothing comes in between; `None`: it is done.
    pub fn left(&self) -> Option<Nanos> {
        let left = self.until - self.processors.progress.get();
        // Less than a nanosecond is a rounding error.
        (left >= 1.0).then(|| Nanos((left / self.processors.share(0)).ceil() as u64))
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.processors.computing.set(self.processors.computing.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_time_from_threads_only_where_no_processor_is_idle() {
        for (number, threads, left) in [(2, 1, 600), (1, 1, 700), (2, 2, 650), (2, 4, 1_300)] {
            let processors = Processors::default();
            processors.set(number);
            let all: Vec<Computing<'_>> = (0..threads).map(|_| processors.begin(Nanos(1_000))).collect();
            // A pause, and a step of 100 ns.
            processors.pass(Nanos(if threads == 4 { 600 } else { 300 }), 0);
            processors.pass(Nanos(if threads == 4 { 700 } else { 400 }), 1);
            let expected = if threads == 4 { left + 50 } else { left };
            assert_eq!(all[0].left(), Some(Nanos(expected)), "{threads} threads on {number}");
        }
    }

    #[test]
    fn a_computation_ends_when_it_had_its_time() {
        let processors = Processors::default();
        let computing = processors.begin(Nanos(50));
        processors.pass(Nanos(50), 0);
        assert_eq!(computing.left(), None);
        drop(computing);
        assert!(!processors.are_used());
    }
}
