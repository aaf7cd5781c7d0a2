//! What a node is to the thing that drives it, and what it may ask of its machine.

use crate::{Clock, Nanos};

/// A node: everything that one single-threaded process does with its adapters.
///
/// The simulator's processor event and the hardware's main loop both call [`Node::step`] and nothing else,
/// so a protocol cannot tell which of the two it runs on.
pub trait Node {
    /// Runs until there is nothing left to do at this instant, and says what to wait for.
    fn step(&mut self) -> Park;
}

/// What a node waits for between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// Nothing: step again, but let the world move first.
    ///
    /// A node that is about to arm a completion queue returns this between its last empty poll and the
    /// arming, so that a completion can fall into the gap as it can on a real machine. Code that arms and
    /// forgets to poll afterwards loses that completion, and the explorer finds it.
    Again,
    /// A completion, an event, a connection's progress, a stream's readiness, the end of a disk's call, or the deadline.
    Until {
        /// How the node learns of completions.
        style: Wait,
        /// When to step at the latest, by the node's own clock.
        deadline: Option<Nanos>,
    },
    /// The node has ended and is not to be stepped again.
    Done,
}

/// How a parked node learns of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// It spins on its completion queues: any completion on any of them ends the wait.
    Poll,
    /// It sleeps: only an event on one of its completion channels ends the wait (besides asynchronous
    /// events, connection events, streams and the deadline, which end either kind). A completion on a queue
    /// that is not armed wakes nobody.
    Notify,
}

/// What a node asks of its machine; [`Clock::now`] is part of it.
pub trait Host: Clock {
    /// A random word. In simulation it comes from the run's only source of nondeterminism.
    fn random(&self) -> u64;

    /// Charges the processor for work that the node did or stands for.
    ///
    /// In simulation it advances the node's clock by what the calibration profile says; on hardware, where
    /// the work costs what it costs, it is nothing.
    fn spend(&self, work: Work);

    /// Names the task that runs from now on, until the step ends or another is named; 0 is the node's
    /// runtime itself. For reports of what a program did; a machine that makes none ignores it.
    fn task(&self, id: u32) {
        let _ = id;
    }
}

/// Kinds of work that cost processor time and are not verbs calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Handing a message to another process of this machine.
    IpcSend,
    /// The rest of that message's way: the switch to the other process, which takes it.
    IpcReceive,
    /// A request's handling in a daemon: table look-ups, queueing.
    Bookkeeping,
    /// Copying memory.
    Copy {
        /// How much, in bytes.
        bytes: u64,
    },
    /// Entering and leaving the operating system.
    Syscall,
    /// A page fault, from the access to its handler.
    PageFault,
    /// Changing the protection of mapped pages.
    Protect {
        /// How many pages.
        pages: u64,
    },
    /// Anything else, by its duration.
    Compute(Nanos),
}
