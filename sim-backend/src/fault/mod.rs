//! Faults: what can go wrong on the way, at an adapter and at a node.
//!
//! Two ways to disturb a world:
//!
//! - **[`Rules`]**: an ordered list, each rule a pattern of packets and a [`Verdict`]. For tests that want
//!   "the second acknowledgement from n1 to n0 is lost".
//! - **The plan**: named [`Fault`]s that strike at a time and end after a while. For scenarios.
//!
//! Both are judged by [`Faults::judge`], once a packet, before it enters the fabric. Rules come first, then
//! the active faults in the order in which they struck; the first verdict other than *pass* stands.
//!
//! # What is modelled
//!
//! - Silent loss on a cable or a path, whole or one way, permanent, for a while, in a rhythm, or at a rate.
//! - Duplication, delay with jitter (a delayed packet may be overtaken by those behind it, unless it is to stay in order), and damage
//!   that the receiver's check of the packet finds (ICRC: dropped and counted apart).
//! - A port that loses its link, which its adapter notices.
//! - An operation that was executed and whose answer, with all that follows on its way, never arrives.
//! - A node whose processor is slow, a node that crashes with all its memory, a node that starts again.
//! - A disk that is full, and one that fails; an operating system that has no more memory to give.
//!
//! # What is not
//!
//! - Damage that the ICRC misses; damage to memory, to a completion, to an adapter's tables.
//! - Congestion, credit starvation and head-of-line blocking in switches; a subnet manager that reroutes.
//! - An adapter that fails or stalls while its port stays up; firmware that hangs one queue pair.
//! - Clocks that drift apart or jump.
//! - A processor that executes its own instructions out of order. (That it sees late what its adapter wrote is no fault,
//!   but [`Config::visibility`](crate::Config::visibility).)

mod kind;
mod plan;
mod rules;

pub use kind::FaultKind;
pub use plan::{Effect, FaultId, FaultRecord, FaultState, Faults};
pub use rules::{Rule, RuleId, Rules};

use crate::NodeId;
use std::fmt;
use thiserror::Error;
use weft_verbs::Nanos;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes its way.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives that much later; packets behind it may overtake it.
    Delay(Nanos),
    /// It arrives that much later, and so does what is behind it on its connection: none overtakes it.
    Late(Nanos),
    /// It arrives twice.
    Duplicate,
    /// It arrives damaged: its receiver drops it, and counts it as damaged.
    Corrupt,
    /// It arrives without its payload's last byte, and its check is right: a faulty adapter made it so.
    Shorten,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PacketClass {
    /// A requester's packet.
    Request,
    /// A responder's acknowledgement.
    Ack,
    /// A negative acknowledgement, receiver-not-ready aside.
    Nak,
    /// Receiver not ready.
    Rnr,
    /// Data of a read.
    ReadResponse,
    /// The old value of an atomic.
    AtomicResponse,
    /// An unreliable datagram.
    Datagram,
    /// A message of the connection managers.
    Cm,
    /// A segment of a byte stream beside the fabric.
    Stream,
}

/// Which operation a packet belongs to: its own as a request, the answered one as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A send.
    Send,
    /// A write, with or without immediate data.
    Write,
    /// A read.
    Read,
    /// A compare-and-swap.
    CompareSwap,
    /// A fetch-and-add.
    FetchAdd,
    /// None, or not known.
    Other,
}

impl Op {
    /// Whether the responder's processor takes no part in it.
    pub const fn one_sided(self) -> bool {
        matches!(self, Op::Write | Op::Read | Op::CompareSwap | Op::FetchAdd)
    }
}

/// A packet, as far as faults look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// The sender.
    pub src: NodeId,
    /// The sender's port, counted over all of its node.
    pub src_port: u8,
    /// The receiver.
    pub dst: NodeId,
    /// The receiver's port, counted over all of its node.
    pub dst_port: u8,
    /// What it is.
    pub class: PacketClass,
    /// The operation.
    pub op: Op,
    /// The receiving queue pair's number; 0 where there is none.
    pub qp: u32,
    /// The packet sequence number; 0 where there is none.
    pub psn: u32,
}

impl PacketInfo {
    /// Whether losing it can leave somebody in doubt: a packet of an operation, not of connection set-up.
    pub const fn of_operation(&self) -> bool {
        !matches!(self.class, PacketClass::Cm | PacketClass::Stream)
    }

    /// Whether it tells a requester that its one-sided operation was executed.
    const fn completes_one_sided(&self) -> bool {
        matches!(self.class, PacketClass::Ack | PacketClass::ReadResponse | PacketClass::AtomicResponse)
            && self.op.one_sided()
    }
}

/// What a fault of the fabric lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Every cable of a node.
    Node(NodeId),
    /// The cable at one port of a node. A node's ports count from 1 here: those of its first adapter, then those of the
    /// next.
    Port(NodeId, u8),
    /// The path between two nodes.
    Pair(NodeId, NodeId),
}

/// Which direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Both.
    Both,
    /// From the node, or from the first of the pair.
    From,
    /// To the node, or to the first of the pair.
    To,
}

impl Link {
    /// Whether a packet between these ports takes this link in this direction.
    pub fn carries(self, way: Way, src: (NodeId, u8), dst: (NodeId, u8)) -> bool {
        let (out, back) = match self {
            Link::Node(node) => (src.0 == node, dst.0 == node),
            Link::Port(node, port) => (src == (node, port), dst == (node, port)),
            Link::Pair(a, b) => ((src.0, dst.0) == (a, b), (src.0, dst.0) == (b, a)),
        };
        match way {
            Way::Both => out || back,
            Way::From => out,
            Way::To => back,
        }
    }
}

/// A named fault. `lasts` of `None` is until the end of the run, or until [`Faults::stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every packet is lost, and nobody is told.
    Cut {
        /// Where.
        link: Link,
        /// In which direction.
        way: Way,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// A cut in both directions that comes and goes.
    Flap {
        /// Where.
        link: Link,
        /// How long it is cut each time.
        down: Nanos,
        /// How long it works in between.
        up: Nanos,
        /// How often it is cut; from 1.
        times: u32,
    },
    /// Some packets are lost.
    Loss {
        /// Where.
        link: Link,
        /// In which direction.
        way: Way,
        /// How many in a million.
        ppm: u32,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// Some packets arrive twice.
    Duplicate {
        /// Where.
        link: Link,
        /// In which direction.
        way: Way,
        /// How many in a million.
        ppm: u32,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// Some packets arrive damaged.
    Corrupt {
        /// Where.
        link: Link,
        /// In which direction.
        way: Way,
        /// How many in a million.
        ppm: u32,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// Every packet arrives later.
    Delay {
        /// Where.
        link: Link,
        /// In which direction.
        way: Way,
        /// By how much at least.
        extra: Nanos,
        /// By how much more at most.
        jitter: Nanos,
        /// Whether packets of one connection stay in their order all the same, as InfiniBand's switches keep it.
        in_order: bool,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// A port loses its link, and its adapter knows.
    PortDown {
        /// The node.
        node: NodeId,
        /// The port, counted over all of the node's adapters from 1.
        port: u8,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// The next answer to a one-sided operation of the node, and everything behind it from the same peer, is
    /// lost: the operation was executed, and the node is never told.
    LoseCompletion {
        /// The node whose operation it is.
        node: NodeId,
        /// For how long, from the lost answer on.
        lasts: Option<Nanos>,
    },
    /// A node's processor is slow.
    SlowNode {
        /// The node.
        node: NodeId,
        /// How long its work takes, in percent of what it takes usually.
        percent: u32,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// A node's disk has no more room than what is taken when this strikes: removing makes some.
    DiskFull {
        /// The node.
        node: NodeId,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// A node's disk fails: every transfer and every sync ends in an error.
    DiskError {
        /// The node.
        node: NodeId,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// A node's operating system has no more memory for what runs on it, which is at its limit of locked memory, say: no region is
    /// registered, no queue pair is made, and no connection is asked for.
    NoMemory {
        /// The node.
        node: NodeId,
        /// For how long.
        lasts: Option<Nanos>,
    },
    /// A node stops dead and loses its memory. No timer ends that; a [`Fault::Restart`] does.
    Crash {
        /// The node.
        node: NodeId,
    },
    /// A crashed node starts again, empty.
    Restart {
        /// The node.
        node: NodeId,
    },
}

/// Why a fault cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FaultError {
    /// It names a node that the fabric has not.
    #[error("there is no node {node}: the fabric has {nodes}")]
    NoSuchNode {
        /// The node named.
        node: NodeId,
        /// How many there are.
        nodes: u32,
    },
    /// It names a port that a node has not.
    #[error("node {node} has no port {port}: they count from 1 to {ports}")]
    NoSuchPort {
        /// The node.
        node: NodeId,
        /// The port named.
        port: u8,
        /// How many a node has.
        ports: u8,
    },
    /// A pair of one node with itself.
    #[error("a pair needs two nodes, and {0} is one")]
    SameNode(NodeId),
    /// A number out of bounds.
    #[error("{what} is {value}, and must be from {least} to {most}")]
    OutOfBounds {
        /// What the number is.
        what: &'static str,
        /// The number.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
}

impl Fault {
    /// Checks it against a fabric of so many nodes of so many ports.
    pub fn check(&self, nodes: u32, ports: u8) -> Result<(), FaultError> {
        let node_exists = |node: NodeId| {
            if node.0 < nodes { Ok(()) } else { Err(FaultError::NoSuchNode { node, nodes }) }
        };
        let port_exists = |node: NodeId, port: u8| {
            node_exists(node)?;
            if (1..=ports).contains(&port) {
                Ok(())
            } else {
                Err(FaultError::NoSuchPort { node, port, ports })
            }
        };
        let within = |what, value, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(FaultError::OutOfBounds { what, value, least, most })
            }
        };
        match self.link() {
            Some(Link::Node(node)) => node_exists(node)?,
            Some(Link::Port(node, port)) => port_exists(node, port)?,
            Some(Link::Pair(a, b)) => {
                node_exists(a)?;
                node_exists(b)?;
                if a == b {
                    return Err(FaultError::SameNode(a));
                }
            }
            None => {}
        }
        match *self {
            Fault::Loss { ppm, .. } | Fault::Duplicate { ppm, .. } | Fault::Corrupt { ppm, .. } => {
                within("a rate in packets a million", u64::from(ppm), 0, 1_000_000)
            }
            Fault::Flap { down, up, times, .. } => {
                within("the number of cuts of a flap", u64::from(times), 1, u64::from(u32::MAX))?;
                within("the length of a cut in ns", down.0, 1, u64::MAX)?;
                within("the time between cuts in ns", up.0, 1, u64::MAX)
            }
            Fault::SlowNode { percent, .. } => {
                within("a slow node's percentage", u64::from(percent), 1, 1_000_000)
            }
            _ => Ok(()),
        }
    }

    /// Whether it does something to packets and to nothing else.
    pub const fn acts_on_packets(&self) -> bool {
        match self {
            Fault::Cut { .. }
            | Fault::Flap { .. }
            | Fault::Loss { .. }
            | Fault::Duplicate { .. }
            | Fault::Corrupt { .. }
            | Fault::Delay { .. }
            | Fault::LoseCompletion { .. } => true,
            Fault::PortDown { .. }
            | Fault::SlowNode { .. }
            | Fault::DiskFull { .. }
            | Fault::DiskError { .. }
            | Fault::NoMemory { .. }
            | Fault::Crash { .. }
            | Fault::Restart { .. } => false,
        }
    }

    /// The links that it lies on; a fault of a node or port is one of its cables.
    pub fn link(&self) -> Option<Link> {
        Some(match *self {
            Fault::Cut { link, .. }
            | Fault::Flap { link, .. }
            | Fault::Loss { link, .. }
            | Fault::Duplicate { link, .. }
            | Fault::Corrupt { link, .. }
            | Fault::Delay { link, .. } => link,
            Fault::PortDown { node, port, .. } => Link::Port(node, port),
            Fault::LoseCompletion { node, .. }
            | Fault::SlowNode { node, .. }
            | Fault::DiskFull { node, .. }
            | Fault::DiskError { node, .. }
            | Fault::NoMemory { node, .. }
            | Fault::Crash { node }
            | Fault::Restart { node } => Link::Node(node),
        })
    }

    /// The direction that it works in.
    pub fn way(&self) -> Way {
        match *self {
            Fault::Cut { way, .. }
            | Fault::Loss { way, .. }
            | Fault::Duplicate { way, .. }
            | Fault::Corrupt { way, .. }
            | Fault::Delay { way, .. } => way,
            Fault::LoseCompletion { .. } => Way::To,
            _ => Way::Both,
        }
    }

    /// Whether an operation between these ports, whose packets go both ways, is affected.
    pub fn affects(&self, a: (NodeId, u8), b: (NodeId, u8)) -> bool {
        self.link().is_some_and(|link| link.carries(self.way(), a, b) || link.carries(self.way(), b, a))
    }

    /// How long it lasts, from when it strikes; `None` where nothing ends it.
    pub fn lasts(&self) -> Option<Nanos> {
        match *self {
            Fault::Cut { lasts, .. }
            | Fault::Loss { lasts, .. }
            | Fault::Duplicate { lasts, .. }
            | Fault::Corrupt { lasts, .. }
            | Fault::Delay { lasts, .. }
            | Fault::PortDown { lasts, .. }
            | Fault::LoseCompletion { lasts, .. }
            | Fault::SlowNode { lasts, .. }
            | Fault::DiskFull { lasts, .. }
            | Fault::DiskError { lasts, .. }
            | Fault::NoMemory { lasts, .. } => lasts,
            Fault::Flap { down, up, times, .. } => Some((down + up) * u64::from(times) - up),
            Fault::Crash { .. } | Fault::Restart { .. } => None,
        }
    }

    /// Its kind.
    pub const fn kind(&self) -> FaultKind {
        match self {
            Fault::Cut { .. } => FaultKind::Cut,
            Fault::Flap { .. } => FaultKind::Flap,
            Fault::Loss { .. } => FaultKind::Loss,
            Fault::Duplicate { .. } => FaultKind::Duplicate,
            Fault::Corrupt { .. } => FaultKind::Corrupt,
            Fault::Delay { .. } => FaultKind::Delay,
            Fault::PortDown { .. } => FaultKind::PortDown,
            Fault::LoseCompletion { .. } => FaultKind::LoseCompletion,
            Fault::SlowNode { .. } => FaultKind::SlowNode,
            Fault::DiskFull { .. } => FaultKind::DiskFull,
            Fault::DiskError { .. } => FaultKind::DiskError,
            Fault::NoMemory { .. } => FaultKind::NoMemory,
            Fault::Crash { .. } => FaultKind::Crash,
            Fault::Restart { .. } => FaultKind::Restart,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Node(node) => write!(f, "{node}"),
            Link::Port(node, port) => write!(f, "{node}.{port}"),
            Link::Pair(a, b) => write!(f, "{a}-{b}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        if let Some(link) = self.link() {
            write!(f, " {link}")?;
        }
        match self.way() {
            Way::Both => {}
            Way::From => f.write_str(" outward")?,
            Way::To => f.write_str(" inward")?,
        }
        match *self {
            Fault::Loss { ppm, .. } | Fault::Duplicate { ppm, .. } | Fault::Corrupt { ppm, .. } => {
                write!(f, " {ppm} ppm")?;
            }
            Fault::Delay { extra, jitter, .. } => write!(f, " {} to {}", extra, extra + jitter)?,
            Fault::SlowNode { percent, .. } => write!(f, " {percent} %")?,
            Fault::Flap { down, up, times, .. } => {
                return write!(f, " {times} times {down} in {}", down + up);
            }
            _ => {}
        }
        match self.lasts() {
            Some(lasts) => write!(f, " for {lasts}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
