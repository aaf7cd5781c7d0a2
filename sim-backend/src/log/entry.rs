//! What the lines say that there are many of: values, which are digested at once and made text only if somebody
//! reads it.

use crate::NodeId;
use crate::hca::{Atomic, Op, Packet};
use std::fmt;
use weft_verbs::{Arm, QpNum, WcError, WcOp};

/// A node took a step: that says it all.
#[derive(Hash)]
pub(crate) struct Stepped;

impl fmt::Display for Stepped {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A work request was posted.
#[derive(Hash)]
pub(crate) enum Posted {
    Send { wr: u64, op: Op },
    Recv { wr: u64 },
    Shared { srq: u32, wr: u64 },
}

impl fmt::Display for Posted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Posted::Send { wr, op } => write!(f, "send wr={wr} {op:?}"),
            Posted::Recv { wr } => write!(f, "recv wr={wr}"),
            Posted::Shared { srq, wr } => write!(f, "recv srq={srq} wr={wr}"),
        }
    }
}

/// A packet as the adapter sees it that takes it in.
#[derive(Hash)]
pub(crate) struct Arrived {
    qp: QpNum,
    name: &'static str,
    psn: u32,
    len: u32,
}

impl Arrived {
    pub(crate) fn new(packet: &Packet) -> Arrived {
        let (name, psn, len) = (packet.body.name(), packet.psn.get(), packet.data.len());
        Arrived { qp: packet.to.qp, name, psn, len }
    }
}

impl fmt::Display for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arrived { qp, name, psn, len } = self;
        write!(f, "{qp} {name} psn={psn} len={len}")
    }
}

/// A packet on its way.
#[derive(Hash)]
pub(crate) struct OnItsWay {
    from: QpNum,
    to: (NodeId, QpNum),
    name: &'static str,
    psn: u32,
    len: u32,
}

impl OnItsWay {
    pub(crate) fn new(packet: &Packet, peer: NodeId) -> OnItsWay {
        let (name, psn, len) = (packet.body.name(), packet.psn.get(), packet.data.len());
        OnItsWay { from: packet.from.qp, to: (peer, packet.to.qp), name, psn, len }
    }
}

impl fmt::Display for OnItsWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OnItsWay { from, to: (peer, qp), name, psn, len } = self;
        write!(f, "{from} -> {peer}/{qp} {name} psn={psn} len={len}")
    }
}

/// A responder executed a request on memory.
#[derive(Hash)]
pub(crate) struct Executed {
    pub(crate) qp: QpNum,
    pub(crate) psn: u32,
    /// Where, as the node's own address.
    pub(crate) at: u64,
    pub(crate) what: Execution,
}

/// What was executed, with the values of words.
#[derive(Hash)]
pub(crate) enum Execution {
    Read {
        len: u32,
    },
    /// A read whose answer was lost.
    ReadAgain {
        len: u32,
    },
    /// The last packet of a write; of one of eight bytes, their value.
    Write {
        len: u32,
        value: Option<u64>,
    },
    Atomic {
        op: Atomic,
        found: u64,
    },
}

impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Executed { qp, psn, at, what } = self;
        let name = match what {
            Execution::Read { .. } => "read",
            Execution::ReadAgain { .. } => "read-again",
            Execution::Write { .. } => "write",
            Execution::Atomic { op: Atomic::CompareSwap { .. }, .. } => "compare-swap",
            Execution::Atomic { op: Atomic::FetchAdd { .. }, .. } => "fetch-add",
        };
        write!(f, "{qp} {name} psn={psn} at={at:#x}")?;
        match what {
            Execution::Read { len } | Execution::ReadAgain { len } => write!(f, " len={len}"),
            Execution::Write { len, value: None } => write!(f, " len={len}"),
            Execution::Write { len, value: Some(value) } => write!(f, " len={len} value={value:#x}"),
            Execution::Atomic { op: Atomic::CompareSwap { compare, swap }, found } => {
                write!(f, " compare={compare:#x} swap={swap:#x} found={found:#x}")
            }
            Execution::Atomic { op: Atomic::FetchAdd { add }, found } => {
                write!(f, " add={add:#x} found={found:#x}")
            }
        }
    }
}

/// A completion was queued.
#[derive(Hash)]
pub(crate) struct Completed {
    pub(crate) cq: u32,
    pub(crate) qp: QpNum,
    pub(crate) wr: u64,
    /// What was done, and with how many bytes.
    pub(crate) result: Result<(WcOp, u32), WcError>,
}

impl fmt::Display for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Completed { cq, qp, wr, result } = self;
        match result {
            Ok((op, len)) => write!(f, "cq={cq} {qp} wr={wr} {op:?} len={len}"),
            Err(why) => write!(f, "cq={cq} {qp} wr={wr} {why:?}"),
        }
    }
}

/// A node took this many completions.
#[derive(Hash)]
pub(crate) struct Polled {
    pub(crate) cq: u32,
    pub(crate) n: usize,
}

impl fmt::Display for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cq={} n={}", self.cq, self.n)
    }
}

/// A completion queue was armed.
#[derive(Hash)]
pub(crate) struct Armed {
    pub(crate) cq: u32,
    pub(crate) next: Arm,
}

impl fmt::Display for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cq={} {:?}", self.cq, self.next)
    }
}

/// A completion queue's event was raised.
#[derive(Hash)]
pub(crate) struct Signaled {
    pub(crate) cq: u32,
}

impl fmt::Display for Signaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cq={}", self.cq)
    }
}
