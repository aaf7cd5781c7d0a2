//! The main loop of a node on a real machine, which backends on such machines share. It is no part of the contract.
//!
//! The loop decides when the node is stepped. A backend says how it waits: it is a [`Reactor`].

use crate::{Nanos, Node, Park, Wait};

/// What wakes a node on a real machine.
pub trait Reactor {
    /// The time, by the node's clock.
    fn now(&self) -> Nanos;

    /// Waits for what ends a wait of this style, at most so long, and wakes the tasks that wait for what is ready. Whether anything was.
    /// One that spins returns soon, for the clock to be read again.
    fn wait(&mut self, style: Wait, span: Nanos) -> bool;

    /// Wakes the tasks that wait for what is ready, before a step that follows another one at once. Where a look costs much, not before
    /// each of them.
    fn glance(&mut self) {
        self.wait(Wait::Notify, Nanos::ZERO);
    }
}

/// Why a driver returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The node has ended, and is not to be stepped again.
    Done,
    /// The time that was given is over, or the caller asked to stop.
    Stopped,
}

/// How long a driver runs before it asks whether it is to stop.
const SLICE: Nanos = Nanos::from_millis(50);

/// A wait that ends so long after its deadline has stood still.
const LATE: Nanos = Nanos::from_millis(1);

/// Steps a node, and waits for what it waits for.
#[derive(Debug)]
pub struct MainLoop<R> {
    reactor: R,
    parked: Park,
}

impl<R: Reactor> MainLoop<R> {
    /// The loop of a node that this wakes.
    pub fn new(reactor: R) -> MainLoop<R> {
        MainLoop { reactor, parked: Park::Again }
    }

    /// Steps the node, first at once, until it is done or `stop` says so, which is asked several times a second.
    pub fn run(&mut self, node: &mut dyn Node, mut stop: impl FnMut() -> bool) -> Ended {
        // Whoever runs it may have woken tasks of it, and nothing else tells that.
        if self.parked != Park::Done {
            self.parked = Park::Again;
        }
        while !stop() {
            if self.run_until(node, self.reactor.now() + SLICE) == Ended::Done {
                return Ended::Done;
            }
        }
        Ended::Stopped
    }

    /// Steps the node until it is done or the time has come. One that waits for something is not stepped before that comes.
    pub fn run_until(&mut self, node: &mut dyn Node, until: Nanos) -> Ended {
        let mut stepped = false;
        loop {
            match self.parked {
                Park::Done => return Ended::Done,
                Park::Again => self.reactor.glance(),
                Park::Until { style, deadline } => {
                    if !self.wait(style, deadline.unwrap_or(Nanos::MAX), until, stepped) {
                        return Ended::Stopped;
                    }
                }
            }
            self.parked = node.step();
            stepped = true;
            if self.parked == Park::Again && self.reactor.now() >= until {
                return Ended::Stopped;
            }
        }
    }

    /// Waits for what ends a wait of this style: `false` when the time is over first. A deadline that is over as well counts only where
    /// the node was not stepped in this time: it may have another such deadline after each step.
    fn wait(&mut self, style: Wait, deadline: Nanos, until: Nanos, stepped: bool) -> bool {
        let mut looked = false;
        loop {
            let now = self.reactor.now();
            if now >= until && (stepped || now < deadline) {
                return false;
            }
            if now >= deadline {
                // What came while the node stood still is told first, or who waits for it with a deadline would take it for missing. A
                // wait that ends in time has looked until then.
                if !looked || now - deadline >= LATE {
                    self.reactor.wait(Wait::Notify, Nanos::ZERO);
                }
                return true;
            }
            if self.reactor.wait(style, deadline.min(until) - now) {
                return true;
            }
            looked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which nothing happens: what is waited for is that time passes. A look takes a microsecond.
    #[derive(Default)]
    struct Idle {
        now: Nanos,
    }

    impl Reactor for Idle {
        fn now(&self) -> Nanos {
            self.now
        }

        fn wait(&mut self, _: Wait, span: Nanos) -> bool {
            self.now += span.max(Nanos(1_000));
            false
        }
    }

    /// A node that answers the same in each of its steps.
    struct Steady {
        parks: Park,
        steps: u32,
    }

    impl Node for Steady {
        fn step(&mut self) -> Park {
            self.steps += 1;
            assert!(self.steps <= 1_000_000, "nobody stops it");
            self.parks
        }
    }

    /// Stops a run after so many slices.
    fn after(slices: u32) -> impl FnMut() -> bool {
        let mut asked = 0;
        move || {
            asked += 1;
            asked > slices
        }
    }

    #[test]
    fn a_node_that_waits_is_stepped_when_it_is_run_again_and_not_in_each_slice() {
        for style in [Wait::Notify, Wait::Poll] {
            let mut node = Steady { parks: Park::Until { style, deadline: None }, steps: 0 };
            let mut driver = MainLoop::new(Idle::default());
            for runs in 1..4 {
                assert_eq!(driver.run(&mut node, after(3)), Ended::Stopped);
                assert_eq!(node.steps, runs, "what was done to it meanwhile is seen");
            }
            assert_eq!(driver.reactor.now, SLICE * 9, "it waited for all the time");
        }
    }

    #[test]
    fn a_node_whose_deadlines_are_always_over_is_stopped_like_any_other() {
        let mut node =
            Steady { parks: Park::Until { style: Wait::Notify, deadline: Some(Nanos::ZERO) }, steps: 0 };
        let mut driver = MainLoop::new(Idle::default());
        assert_eq!(driver.run(&mut node, after(3)), Ended::Stopped);
        let steps = node.steps;
        assert_eq!(driver.run_until(&mut node, driver.reactor.now), Ended::Stopped);
        assert_eq!(node.steps, steps + 1, "what is due is done, also where no time is given");
    }

    #[test]
    fn a_node_that_has_ended_is_not_stepped_again() {
        let (mut driver, mut node) = (MainLoop::new(Idle::default()), Steady { parks: Park::Done, steps: 0 });
        for _ in 0..2 {
            assert_eq!(driver.run(&mut node, || false), Ended::Done);
            assert_eq!(driver.run_until(&mut node, Nanos::MAX), Ended::Done);
        }
        assert_eq!(node.steps, 1);
    }
}
