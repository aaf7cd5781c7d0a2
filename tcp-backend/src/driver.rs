//! The main loop of a node: the same `Node::step` that the simulator calls.

use crate::TcpContext;
use crate::host;
use weft_verbs::{Nanos, Node, Park};

/// Steps a node, and waits for what it waits for.
#[derive(Debug)]
pub struct Driver {
    machine: TcpContext,
    parked: Park,
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

impl Driver {
    /// A driver for a node whose objects belong to this machine.
    pub fn new(machine: &TcpContext) -> Driver {
        Driver { machine: machine.clone(), parked: Park::Again }
    }

    /// Steps the node until it is done or `stop` says so, which is asked several times a second.
    pub fn run(&mut self, node: &mut dyn Node, mut stop: impl FnMut() -> bool) -> Ended {
        self.wakes();
        while !stop() {
            if self.goes_on(node, host::now() + SLICE) == Ended::Done {
                return Ended::Done;
            }
        }
        Ended::Stopped
    }

    /// Steps the node until it is done or the time has come.
    pub fn run_until(&mut self, node: &mut dyn Node, until: Nanos) -> Ended {
        self.wakes();
        self.goes_on(node, until)
    }

    /// Has the node stepped before it is waited for anything: whoever runs it may have woken tasks of it, and nothing else tells that.
    fn wakes(&mut self) {
        if self.parked != Park::Done {
            self.parked = Park::Again;
        }
    }

    fn goes_on(&mut self, node: &mut dyn Node, until: Nanos) -> Ended {
        loop {
            match self.parked {
                Park::Done => return Ended::Done,
                Park::Again => drop(self.look(Nanos::ZERO)),
                // A wait by polling is one by notice: there is no queue to poll.
                Park::Until { deadline, .. } => {
                    if !self.wait(deadline.unwrap_or(Nanos::MAX), until) {
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

    /// Waits for readiness or the deadline: `false` when the time is over first.
    fn wait(&self, deadline: Nanos, until: Nanos) -> bool {
        loop {
            let now = host::now();
            if now >= deadline {
                return true;
            }
            if now >= until {
                return false;
            }
            if self.look(deadline.min(until) - now) {
                return true;
            }
        }
    }

    fn look(&self, span: Nanos) -> bool {
        self.machine.look(if span == Nanos::MAX { None } else { Some(span) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcpDevice;
    use weft_verbs::{Device, Wait};

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
        let machine = TcpDevice::new(None, None).open().expect("nobody has it");
        let (mut driver, mut node) = (Driver::new(&machine), Waits { steps: 0 });
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
