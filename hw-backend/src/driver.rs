//! The main loop of a node on hardware: the same `Node::step` that the simulator calls.

use crate::device::{ContextInner, HwContext};
use crate::ffi::{Epoll, Readiness};
use crate::host;
use std::rc::Rc;
use weft_verbs::{Nanos, Node, Park, Result, Wait};

/// Steps a node, and waits for what it waits for.
pub struct Driver {
    contexts: Vec<Rc<ContextInner>>,
    /// All contexts' descriptors at once, where there are several.
    all: Option<Epoll>,
    /// Contexts with a descriptor that is ready; kept for its allocation.
    ready: Vec<Readiness>,
    parked: Park,
    /// Looks at completion queues since the descriptors were looked at.
    spins: u32,
}

/// Why a driver returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The node has ended, and is not to be stepped again.
    Done,
    /// The time that was given is over, or the caller asked to stop.
    Stopped,
}

/// A node that spins on its completion queues looks at descriptors once in so many looks: a look costs a system call,
/// a hundred times an empty poll.
const SPINS_A_LOOK: u32 = 128;

/// A node that looks for a time reads the clock once in so many looks: both take about as long.
const LOOKS_A_READING: u32 = 4;

/// How long a driver runs before it asks whether it is to stop.
const SLICE: Nanos = Nanos::from_millis(50);

impl Driver {
    /// A driver for a node whose objects belong to these contexts.
    pub fn new(contexts: &[HwContext]) -> Result<Driver> {
        let contexts: Vec<_> = contexts.iter().map(|context| Rc::clone(&context.0)).collect();
        let all = if contexts.len() == 1 { None } else { Some(Epoll::new()?) };
        if let Some(all) = &all {
            for (token, context) in contexts.iter().enumerate() {
                all.add(context.reactor.fd(), token as u64)?;
            }
        }
        Ok(Driver { contexts, all, ready: Vec::new(), parked: Park::Again, spins: 0 })
    }

    /// Steps the node, first at once, until it is done or `stop` says so, which is asked several times a second.
    pub fn run(&mut self, node: &mut dyn Node, mut stop: impl FnMut() -> bool) -> Ended {
        // Whoever runs it may have woken tasks of it, and nothing else tells that.
        if self.parked != Park::Done {
            self.parked = Park::Again;
        }
        while !stop() {
            if self.run_until(node, host::now() + SLICE) == Ended::Done {
                return Ended::Done;
            }
        }
        Ended::Stopped
    }

    /// Steps the node until it is done or the time has come. One that waits for something is not stepped before that comes.
    pub fn run_until(&mut self, node: &mut dyn Node, until: Nanos) -> Ended {
        loop {
            match self.parked {
                Park::Done => return Ended::Done,
                Park::Again => drop(self.look_now_and_then()),
                Park::Until { style, deadline } => {
                    let deadline = deadline.unwrap_or(Nanos::MAX);
                    if !self.wait(style, deadline, until) {
                        return Ended::Stopped;
                    }
                }
            }
            self.parked = node.step();
            if self.parked == Park::Again && host::now() >= until {
                return Ended::Stopped;
            }
        }
    }

    /// Waits for what ends a wait of this style: `false` when the time is over first.
    fn wait(&mut self, style: Wait, deadline: Nanos, until: Nanos) -> bool {
        loop {
            let now = host::now();
            if now >= deadline {
                // What came while the node stood still is told first, or who waits for it with a deadline would take it for missing.
                self.look(Nanos::ZERO);
                return true;
            }
            if now >= until {
                return false;
            }
            let woken = match style {
                Wait::Notify => self.look(deadline.min(until) - now),
                Wait::Poll => (0..LOOKS_A_READING).any(|_| self.spin()),
            };
            if woken {
                return true;
            }
        }
    }

    /// One look of a node that spins.
    fn spin(&mut self) -> bool {
        let seen = self.contexts.iter().any(|c| c.has_completions());
        // Descriptors also where a queue says that it has something at each look: one whose device refuses to be polled.
        let woken = self.look_now_and_then() || seen;
        if !woken {
            std::hint::spin_loop();
        }
        woken
    }

    fn look_now_and_then(&mut self) -> bool {
        self.spins += 1;
        if self.spins < SPINS_A_LOOK {
            return false;
        }
        self.spins = 0;
        self.look(Nanos::ZERO)
    }

    /// Waits for a descriptor, at most so long, and wakes the tasks of byte streams. Whether anything is ready.
    fn look(&mut self, span: Nanos) -> bool {
        let span = if span == Nanos::MAX { None } else { Some(span.0) };
        let Some(all) = &self.all else { return self.contexts.iter().any(|one| one.reactor.wait(span)) };
        all.wait(span, &mut self.ready);
        self.contexts.iter().for_each(|context| context.reactor.nothing_else());
        let mut any = false;
        for ready in self.ready.drain(..) {
            any |= self.contexts.get(ready.token as usize).is_some_and(|one| one.reactor.wait(Some(0)));
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that waits for ever in each of its steps.
    struct Waits {
        steps: u32,
    }

    impl Node for Waits {
        fn step(&mut self) -> Park {
            self.steps += 1;
            Park::Until { style: Wait::Notify, deadline: None }
        }
    }

    #[test]
    fn a_node_that_waits_when_it_is_stopped_is_stepped_when_it_is_run_again() {
        let (mut driver, mut node) = (Driver::new(&[]).expect("there are descriptors"), Waits { steps: 0 });
        for runs in 1..4 {
            let mut asked = 0;
            let stop = || {
                asked += 1;
                asked > 1
            };
            assert_eq!(driver.run(&mut node, stop), Ended::Stopped);
            assert_eq!(node.steps, runs, "what was done to it meanwhile is seen");
        }
    }
}
