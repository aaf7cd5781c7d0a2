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
                // What came while the node stood still is told first, or who waits for it with a deadline would take it for missing.
                self.look(Nanos::ZERO);
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
    use crate::{TcpDevice, TcpStream};
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context as TaskContext, Wake};
    use weft_verbs::{Context, Device, Stream, Wait};

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

    /// A task that was told.
    #[derive(Default)]
    struct Told(AtomicBool);

    impl Wake for Told {
        fn wake(self: Arc<Told>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// A node with a task that reads, and that waits no longer than until now.
    struct Late {
        stream: TcpStream,
        writes: UnixStream,
        told: Arc<Told>,
        steps: u32,
    }

    impl Node for Late {
        fn step(&mut self) -> Park {
            self.steps += 1;
            if self.steps > 1 {
                return Park::Done;
            }
            let waker = Arc::clone(&self.told).into();
            assert!(self.stream.poll_read(&mut TaskContext::from_waker(&waker), &mut [0]).is_pending());
            // It comes while the node stands still.
            self.writes.write_all(b"x").expect("there is room");
            Park::Until { style: Wait::Notify, deadline: Some(Nanos::ZERO) }
        }
    }

    #[test]
    fn what_came_before_a_deadline_that_is_over_is_told_with_it() {
        let machine = TcpDevice::new(None, None).open().expect("nobody has it");
        let (reads, writes) = UnixStream::pair().expect("sockets");
        let stream = machine.out_of_band().and_then(|oob| oob.adopt_local(reads)).expect("it is watched");
        let (told, mut driver) = (Arc::<Told>::default(), Driver::new(&machine));
        let mut node = Late { stream, writes, told: Arc::clone(&told), steps: 0 };
        assert_eq!(driver.run(&mut node, || false), Ended::Done);
        assert!(told.0.load(Ordering::SeqCst), "who reads is woken");
    }
}
