//! Counters of a run.

use serde::Serialize;

/// What happened in a world so far, and what is alive in it now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Events of the queue that were processed.
    pub events: u64,
    /// Steps of nodes.
    pub steps: u64,
    /// Packets that left an adapter, loopback included.
    pub packets: u64,
    /// Packets that a responder or requester took in.
    pub delivered: u64,
    /// Packets lost on their way, and those that arrived damaged.
    pub dropped: u64,
    /// Messages (requests of any kind) that were executed by a responder.
    pub messages: u64,
    /// Packets sent again after a time-out, a sequence error or receiver-not-ready.
    pub retransmitted: u64,
    /// Time-outs of acknowledgements.
    pub timeouts: u64,
    /// What is alive, by node.
    pub alive: Vec<Alive>,
    /// How long processors were busy, by node. A node that crashed keeps its time.
    pub busy: Vec<Busy>,
    /// What programs have asked of their adapters, by node. A node that crashed keeps its counts.
    pub asked: Vec<Asked>,
}

/// What a node's programs have asked of its adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Requests posted on send queues.
    pub sends: u64,
    /// Requests posted on receive queues, shared ones included.
    pub receives: u64,
    /// Completions taken.
    pub completions: u64,
    /// Memory regions registered, and their bytes.
    pub registrations: u64,
    /// See [`Asked::registrations`].
    pub registered: u64,
}

/// What a processor is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Application,
    Posting,
    Completion,
    Copy,
    Interrupt,
    System,
}

/// How long a processor was busy, in nanoseconds of virtual time, by cause. That it spins while it waits is not counted: a
/// processor that polls is never idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// What programs say that they do: computing, bookkeeping, messages to other processes of the machine.
    pub application: u64,
    /// Posting requests, doorbells included.
    pub posting: u64,
    /// Polling completion queues, arming them, taking their events.
    pub completion: u64,
    /// Copying memory.
    pub copy: u64,
    /// Being woken: from the completion to the program that slept.
    pub interrupt: u64,
    /// The operating system: system calls with what they copy, page faults, protection, registering memory, making and changing objects.
    pub system: u64,
}

impl Busy {
    /// All causes.
    pub fn total(&self) -> u64 {
        let Busy { application, posting, completion, copy, interrupt, system } = self;
        application + posting + completion + copy + interrupt + system
    }

    /// The causes by name.
    pub fn causes(&self) -> [(&'static str, u64); 6] {
        let Busy { application, posting, completion, copy, interrupt, system } = *self;
        [
            ("application", application),
            ("posting", posting),
            ("completion", completion),
            ("copy", copy),
            ("interrupt", interrupt),
            ("system", system),
        ]
    }

    #[inline]
    pub(crate) fn add(&mut self, cause: Cause, ns: u64) {
        *match cause {
            Cause::Application => &mut self.application,
            Cause::Posting => &mut self.posting,
            Cause::Completion => &mut self.completion,
            Cause::Copy => &mut self.copy,
            Cause::Interrupt => &mut self.interrupt,
            Cause::System => &mut self.system,
        } += ns;
    }
}

impl std::ops::AddAssign for Busy {
    fn add_assign(&mut self, other: Busy) {
        self.application += other.application;
        self.posting += other.posting;
        self.completion += other.completion;
        self.copy += other.copy;
        self.interrupt += other.interrupt;
        self.system += other.system;
    }
}

/// A node's living objects. All zero when a node has cleaned up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alive {
    /// Queue pairs.
    pub qps: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// Memory regions, those held only by a work request included.
    pub mrs: u32,
    /// Protection domains.
    pub pds: u32,
    /// Byte streams and their listeners.
    pub streams: u32,
    /// Work requests that were posted and have not completed, in both queues.
    pub outstanding: u32,
}
