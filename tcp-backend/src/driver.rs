//! The main loop of a node: the same `Node::step` that the simulator calls.

pub use weft_verbs::driver::Ended;

use crate::TcpContext;
use crate::host;
use weft_verbs::driver::{MainLoop, Reactor};
use weft_verbs::{Nanos, Node, Wait};

/// Steps a node, and waits for what it waits for.
#[derive(Debug)]
pub struct Driver(MainLoop<Machine>);

/// What wakes a node: the streams and the disk of its machine.
#[derive(Debug)]
struct Machine(TcpContext);

impl Driver {
    /// A driver for a node whose objects belong to this machine.
    pub fn new(machine: &TcpContext) -> Driver {
        Driver(MainLoop::new(Machine(machine.clone())))
    }

    /// Steps the node, first at once, until it is done or `stop` says so, which is asked several times a second.
    pub fn run(&mut self, node: &mut dyn Node, stop: impl FnMut() -> bool) -> Ended {
        self.0.run(node, stop)
    }

    /// Steps the node until it is done or the time has come. One that waits for something is not stepped before that comes.
    pub fn run_until(&mut self, node: &mut dyn Node, until: Nanos) -> Ended {
        self.0.run_until(node, until)
    }
}

impl Reactor for Machine {
    fn now(&self) -> Nanos {
        host::now()
    }

    /// A wait by polling is one by notice: there is no queue to poll.
    fn wait(&mut self, _: Wait, span: Nanos) -> bool {
        self.0.look(if span == Nanos::MAX { None } else { Some(span) })
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
    use weft_verbs::{Context, Device, Park, Stream};

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
