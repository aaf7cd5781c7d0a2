//! What the sanitizer reports.

use crate::NodeId;
use crate::access::RegionId;
use std::fmt;
use weft_verbs::{Nanos, QpNum, WcOp};

/// What may not be done to registered memory. The [module](super) says exactly what each takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The processor touched memory that a request of its own node may still write.
    PendingResult,
    /// The processor changed memory that a request of its own node may still read.
    PendingSource,
    /// A word under atomics was touched otherwise.
    MixedAtomics,
    /// Memory was touched between the first and the last packet of a message that is written there.
    Unfinished,
    /// Memory was deregistered under a peer's operation.
    Deregistered,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 5] =
        [Rule::PendingResult, Rule::PendingSource, Rule::MixedAtomics, Rule::Unfinished, Rule::Deregistered];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::PendingResult => "memory touched that a request in flight may write",
            Rule::PendingSource => "memory changed that a request in flight may read",
            Rule::MixedAtomics => "a word under atomics touched otherwise",
            Rule::Unfinished => "memory touched in the middle of a write to it",
            Rule::Deregistered => "memory deregistered under an operation in flight",
        })
    }
}

/// What one of the two sides of a violation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The processor read.
    Read,
    /// The processor wrote.
    Write,
    /// The program claimed the memory as its own.
    Claim,
    /// The program gave the region up.
    Deregister,
    /// An adapter did it for a work request, or may do it.
    Request {
        /// What kind of request.
        op: WcOp,
        /// The queue pair that it was posted to. `None` for a receive that waits in a shared queue.
        qp: Option<QpNum>,
        /// The poster's name for it. `None` where its queue pair was gone before it had its effect.
        wr_id: Option<u64>,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Read => f.write_str("reads"),
            Action::Write => f.write_str("writes"),
            Action::Claim => f.write_str("claims"),
            Action::Deregister => f.write_str("deregisters"),
            Action::Request { op, qp, wr_id } => {
                let name = match op {
                    WcOp::Send => "send",
                    WcOp::Write => "write",
                    WcOp::Read => "read",
                    WcOp::CompareSwap => "compare-swap",
                    WcOp::FetchAdd => "fetch-add",
                    WcOp::Recv | WcOp::RecvWriteImm => "recv",
                };
                write!(f, "{name}")?;
                if let Some(wr_id) = wr_id {
                    write!(f, " wr={wr_id}")?;
                }
                match qp {
                    Some(qp) => write!(f, " of {qp}:"),
                    None => f.write_str(" of a shared queue:"),
                }
            }
        }
    }
}

/// One of the two sides of a violation: who did what where, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// The node whose program did it. For a peer's operation, the peer.
    pub node: NodeId,
    /// The task that did it or posted it, as the runtime numbers its tasks. `None` outside of tasks.
    pub task: Option<u32>,
    /// What it did.
    pub action: Action,
    /// The first byte's virtual address, at the node whose memory it is.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// When: for a processor by its node's clock, for a request in flight when it was posted, for an operation
    /// that had its effect when it had that.
    pub at: Nanos,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Party { node, action, addr, len, at, .. } = self;
        write!(f, "{node} ")?;
        if let Some(task) = self.task {
            write!(f, "task {task} ")?;
        }
        write!(f, "{action} {len} bytes at {addr:#x} ({} ns)", at.0)
    }
}

/// Two accesses to the same memory that no program may make together. Its text is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// What was broken.
    pub rule: Rule,
    /// The node whose memory it is.
    pub memory: NodeId,
    /// The region, as the access log numbers it.
    pub region: RegionId,
    /// What was there first: the request in flight, the atomic, the write that has begun, the deregistration.
    pub first: Party,
    /// What should not have come then.
    pub second: Party,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}; {}", self.rule, self.memory, self.second, self.first)
    }
}
