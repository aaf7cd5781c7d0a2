//! A node's processors, for simulations of programs that compute: the runtime's steps take their time out of what the threads
//! compute, if no processor is idle.
//!
//! A kernel takes messages in in some context (kernel-dsm.txt, 3.1 and 5.2): in the interrupt, which is as soon as the node is woken; in a
//! task queue, which waits where all processors compute; by polling while a thread waits, which takes a processor; or by a signal to
//! a process, which waits where the process waits for its turn.
//!
//! On hardware a program computes, and takes as long as that takes. In simulation it says how long it would take on a processor of
//! its own ([`Rt::compute`](super::Rt::compute)).

use std::cell::Cell;
use weft_verbs::{Nanos, Work};

/// In which context a node takes in what has come, for simulations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receives {
    /// As soon as it is woken.
    #[default]
    AtOnce,
    /// In a task queue: where a processor is idle, after a system call ([`Work::Syscall`], [`Work::PageFault`]), and at the scheduler's
    /// ticks.
    TaskQueue {
        /// Between two ticks.
        tick: Nanos,
    },
    /// As soon as it is woken; and it polls while a thread [expects](super::Rt::expects) an answer, which takes a processor.
    Polling,
    /// By a signal to the first of the threads, when it is the thread's turn: threads that compute and the node's
    /// [load](super::Rt::set_load) take turns where they are more than processors.
    Signal {
        /// Of a turn.
        quantum: Nanos,
        /// How far the first turn is at the beginning.
        offset: Nanos,
    },
}

/// How far a thread would have come that has computed all the time, and what it shares its processor with.
#[derive(Debug)]
pub(super) struct Processors {
    number: Cell<u32>,
    computing: Cell<u32>,
    /// Processes of others, which compute all the time.
    load: Cell<u32>,
    /// In nanoseconds of a whole processor.
    progress: Cell<f64>,
    /// Up to this time.
    at: Cell<Nanos>,
    receives: Cell<Receives>,
    /// A thread has entered the kernel.
    entered: Cell<bool>,
    /// When the task queue runs at the latest, if it waits.
    due: Cell<Option<Nanos>>,
    /// Threads that expect an answer.
    expecting: Cell<u32>,
}

impl Default for Processors {
    fn default() -> Processors {
        Processors {
            number: Cell::new(1),
            computing: Cell::default(),
            load: Cell::default(),
            progress: Cell::default(),
            at: Cell::default(),
            receives: Cell::default(),
            entered: Cell::default(),
            due: Cell::default(),
            expecting: Cell::default(),
        }
    }
}

impl Processors {
    pub fn set(&self, number: u32) {
        self.number.set(number.max(1));
    }

    pub fn set_load(&self, processes: u32) {
        self.load.set(processes);
    }

    pub fn set_receives(&self, receives: Receives) {
        self.receives.set(receives);
    }

    /// A thread enters the kernel if it does such work.
    pub fn enters(&self, work: Work) {
        self.entered.set(self.entered.get() || matches!(work, Work::Syscall | Work::PageFault));
    }

    /// Until when completions stay where they are, unless a thread enters the kernel or stops computing before. What ends that holds until
    /// they are [taken in](Processors::takes_in).
    pub fn holds_back(&self, now: impl FnOnce() -> Nanos) -> Option<Nanos> {
        match self.receives.get() {
            Receives::AtOnce | Receives::Polling => None,
            Receives::TaskQueue { tick } => self.waits_in_queue(now(), tick),
            Receives::Signal { quantum, offset } => self.waits_for_its_turn(now(), quantum, offset),
        }
    }

    /// A task queue runs where a processor is idle, when a thread enters the kernel, and at a tick.
    fn waits_in_queue(&self, now: Nanos, tick: Nanos) -> Option<Nanos> {
        let next = || Nanos((now.0 / tick.0.max(1) + 1) * tick.0.max(1));
        let due = self.due.get().unwrap_or_else(next);
        self.due.set(Some(due));
        let runs = self.entered.get() || self.computing.get() < self.number.get() || now >= due;
        (!runs).then_some(due)
    }

    /// Completions are taken in: those that come from now on wait for the next tick, or for a thread that enters the kernel from now on.
    pub fn takes_in(&self) {
        self.entered.set(false);
        self.due.set(None);
    }

    /// A process runs where processors suffice for all, and otherwise when it is its turn: with every quantum, the next `number` of all
    /// have one.
    fn waits_for_its_turn(&self, now: Nanos, quantum: Nanos, offset: Nanos) -> Option<Nanos> {
        let (number, all) = (u64::from(self.number.get()), u64::from(self.contenders()));
        if all <= number {
            return None;
        }
        let (quantum, at) = (quantum.0.max(1), now.0 + offset.0);
        let runs = |turn: &u64| (all - turn * number % all) % all < number;
        let turn = at / quantum;
        let next = (turn..).find(runs)?;
        (next > turn).then(|| Nanos(next * quantum - offset.0))
    }

    /// A thread expects an answer, until the guard is dropped.
    pub fn expects(&self) -> Expecting<'_> {
        self.expecting.set(self.expecting.get() + 1);
        Expecting(self)
    }

    /// Threads that poll.
    pub fn polling(&self) -> u32 {
        if self.receives.get() == Receives::Polling { self.expecting.get() } else { 0 }
    }

    /// Who wants a processor: threads that compute or poll, and the load.
    fn contenders(&self) -> u32 {
        self.computing.get() + self.polling() + self.load.get()
    }

    /// Whether any thread computes.
    pub fn are_used(&self) -> bool {
        self.computing.get() > 0
    }

    /// The share of a processor that each thread has while `other` processors do something else.
    fn share(&self, other: u32) -> f64 {
        let free = self.number.get().saturating_sub(other);
        (f64::from(free) / f64::from(self.contenders().max(1))).min(1.0)
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

/// A thread that expects an answer.
#[derive(Debug)]
pub struct Expecting<'a>(&'a Processors);

impl Drop for Expecting<'_> {
    fn drop(&mut self) {
        self.0.expecting.set(self.0.expecting.get() - 1);
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
    fn a_task_queue_waits_while_all_processors_compute_for_a_system_call_or_a_tick() {
        let processors = Processors::default();
        processors.set(2);
        assert_eq!(processors.holds_back(|| Nanos(1)), None);
        processors.set_receives(Receives::TaskQueue { tick: Nanos(100) });
        let one = processors.begin(Nanos(1_000));
        assert_eq!(processors.holds_back(|| Nanos(1)), None, "one processor is idle");
        let other = processors.begin(Nanos(1_000));
        processors.takes_in();
        assert_eq!([1, 99].map(|now| processors.holds_back(|| Nanos(now))), [Some(Nanos(100)); 2]);
        assert_eq!([100, 101].map(|now| processors.holds_back(|| Nanos(now))), [None; 2], "a tick");
        processors.takes_in();
        assert_eq!(processors.holds_back(|| Nanos(101)), Some(Nanos(200)));
        processors.enters(Work::Bookkeeping);
        assert_eq!(processors.holds_back(|| Nanos(102)), Some(Nanos(200)));
        processors.enters(Work::PageFault);
        let asked_twice = [103, 104].map(|now| processors.holds_back(|| Nanos(now)));
        assert_eq!(asked_twice, [None; 2], "until they are taken in");
        processors.takes_in();
        assert_eq!(processors.holds_back(|| Nanos(104)), Some(Nanos(200)));
        drop(other);
        assert_eq!(processors.holds_back(|| Nanos(105)), None);
        drop(one);
    }

    #[test]
    fn a_signal_waits_where_threads_and_load_are_more_than_processors_and_it_is_not_the_threads_turn() {
        let processors = Processors::default();
        processors.set(2);
        processors.set_receives(Receives::Signal { quantum: Nanos(100), offset: Nanos(0) });
        processors.set_load(1);
        let one = processors.begin(Nanos(1_000));
        let other = || processors.begin(Nanos(1_000));
        assert_eq!(processors.holds_back(|| Nanos(150)), None, "a processor for each");
        let all = other();
        // Of three, the first and the second run; the third and the first; the second and the third.
        let held = [0, 150, 250, 299, 300].map(|now| processors.holds_back(|| Nanos(now)));
        assert_eq!(held, [None, None, Some(Nanos(300)), Some(Nanos(300)), None]);
        drop(all);
        assert_eq!(processors.holds_back(|| Nanos(250)), None);
        // It computes with a whole processor, and with two thirds of one.
        processors.pass(Nanos(500), 0);
        assert_eq!(one.left(), Some(Nanos(500)));
        let _all = other();
        assert_eq!(one.left(), Some(Nanos(750)));
    }

    #[test]
    fn who_polls_takes_time_from_threads_only_where_they_are_more_than_processors() {
        for (threads, left) in [(1, 700), (2, 800)] {
            let processors = Processors::default();
            processors.set(2);
            let all: Vec<Computing<'_>> = (0..threads).map(|_| processors.begin(Nanos(1_000))).collect();
            processors.set_receives(Receives::Polling);
            let expecting = processors.expects();
            processors.pass(Nanos(300), 0);
            drop(expecting);
            assert_eq!(all[0].left(), Some(Nanos(left)), "{threads} threads");
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
