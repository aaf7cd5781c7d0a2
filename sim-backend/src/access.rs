//! One log of every access to registered memory, by processors and adapters.
//!
//! The [sanitizer](crate::sanitizer) watches it for accesses that real adapters punish silently; an explorer
//! reads it for what an event touched, and so for which events commute. Off, it costs one branch an access.

use crate::NodeId;
use crate::hca::Endpoint;
use crate::in_place::clone_in_place;
use crate::sanitizer::Sanitizer;
use std::ops::Range;
use verbs_trait::{Nanos, QpNum, WcOp};

/// Who touched the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The processor of a node.
    Cpu(NodeId),
    /// An adapter, for a work request of its own node that names the memory.
    Adapter {
        /// The adapter's node.
        node: NodeId,
        /// The adapter's queue pair.
        qp: QpNum,
        /// The work request.
        wr_id: u64,
    },
    /// An adapter, for a peer's work request.
    Peer {
        /// The adapter's node: the memory's own.
        node: NodeId,
        /// The adapter's queue pair.
        qp: QpNum,
        /// The peer's queue pair.
        from: Endpoint,
        /// What the peer asked for.
        op: WcOp,
    },
}

impl Who {
    /// The node that the access happened on.
    pub const fn node(self) -> NodeId {
        match self {
            Who::Cpu(node) | Who::Adapter { node, .. } | Who::Peer { node, .. } => node,
        }
    }
}

/// What was done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// It was read.
    Read,
    /// It was written.
    Write,
    /// It was read and conditionally written in one.
    Atomic,
    /// It was claimed by the program as its own: any access by it may follow unseen.
    Claim,
}

impl What {
    /// Whether the memory may be different afterwards.
    pub const fn changes(self) -> bool {
        !matches!(self, What::Read)
    }
}

/// A memory region of the whole world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u32);

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When, by the clock of whoever did it: a processor's runs ahead of the fabric's within a step.
    pub at: Nanos,
    /// By whom.
    pub who: Who,
    /// To which region.
    pub region: RegionId,
    /// First byte, as an offset into the region.
    pub start: u64,
    /// How many bytes.
    pub len: u64,
    /// What was done.
    pub what: What,
}

impl Access {
    /// The bytes, as offsets into the region.
    pub const fn range(&self) -> Range<u64> {
        self.start..self.start + self.len
    }

    /// Whether two accesses touch a byte in common, one of them changing it: the order of such two matters.
    pub fn conflicts(&self, other: &Access) -> bool {
        self.region == other.region
            && self.start < other.start + other.len
            && other.start < self.start + self.len
            && (self.what.changes() || other.what.changes())
    }
}

/// An access as the explorer looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub region: RegionId,
    pub start: u64,
    pub len: u64,
    pub what: What,
}

/// Records accesses, or does not, and shows them to the sanitizer, if there is one.
#[derive(Debug, Default)]
pub struct AccessLog {
    on: bool,
    /// Whether anybody wants to know.
    watched: bool,
    list: Vec<Access>,
    /// Whether the explorer wants to know.
    marking: bool,
    marks: Vec<Mark>,
    sanitizer: Option<Box<Sanitizer>>,
}

clone_in_place! { AccessLog { on, watched, list, marking, marks, sanitizer } }

impl AccessLog {
    /// A recorder that is on or off.
    pub fn new(on: bool) -> AccessLog {
        AccessLog { on, watched: on, ..AccessLog::default() }
    }

    /// The same with a sanitizer. It must not have missed anything: only a world without objects gets one.
    pub fn watched_by(self, sanitizer: Sanitizer) -> AccessLog {
        AccessLog { watched: true, sanitizer: Some(Box::new(sanitizer)), ..self }
    }

    /// Whether accesses are to be noted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.watched
    }

    /// The sanitizer, to be told of what is no access.
    #[inline]
    pub fn sanitizer(&mut self) -> Option<&mut Sanitizer> {
        self.sanitizer.as_deref_mut()
    }

    /// Turns recording on or off. What was recorded stays.
    pub fn set(&mut self, on: bool) {
        self.on = on;
        self.watched = on || self.marking || self.sanitizer.is_some();
    }

    /// Turns the explorer's marks on or off.
    pub(crate) fn mark(&mut self, on: bool) {
        self.marking = on;
        self.set(self.on);
    }

    /// What was touched since marks were turned on. The vector is to be given back.
    pub(crate) fn take_marks(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.marks)
    }

    pub(crate) fn give_marks(&mut self, mut marks: Vec<Mark>) {
        marks.clear();
        self.marks = marks;
    }

    /// Notes an access. One of no bytes touches nothing and is not noted.
    #[inline]
    pub fn note(&mut self, at: Nanos, who: Who, region: RegionId, start: u64, len: u64, what: What) {
        if self.watched && len > 0 {
            self.take_note(&Access { at, who, region, start, len, what });
        }
    }

    fn take_note(&mut self, access: &Access) {
        if self.on {
            self.list.push(*access);
        }
        if self.marking {
            let &Access { region, start, len, what, .. } = access;
            self.marks.push(Mark { region, start, len, what });
        }
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.access(access);
        }
    }

    /// Everything recorded and not yet taken, in the order in which it happened.
    pub fn as_slice(&self) -> &[Access] {
        &self.list
    }

    /// Takes everything recorded.
    pub fn take(&mut self) -> Vec<Access> {
        std::mem::take(&mut self.list)
    }

    /// Moves everything recorded to the end of `out`, and keeps the memory for what comes.
    pub fn drain_into(&mut self, out: &mut Vec<Access>) {
        out.append(&mut self.list);
    }

    /// Forgets everything recorded, and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(region: u32, start: u64, len: u64, what: What) -> Access {
        Access { at: Nanos(1), who: Who::Cpu(NodeId(0)), region: RegionId(region), start, len, what }
    }

    #[test]
    fn accesses_conflict_when_a_shared_byte_changes() {
        let write = access(1, 8, 8, What::Write);
        assert!(write.conflicts(&access(1, 15, 1, What::Read)));
        assert!(access(1, 0, 64, What::Read).conflicts(&write));
        assert!(access(1, 8, 8, What::Atomic).conflicts(&access(1, 8, 8, What::Atomic)));
        assert!(access(1, 8, 8, What::Claim).conflicts(&access(1, 8, 8, What::Read)));
        for apart in
            [access(1, 16, 8, What::Write), access(1, 0, 8, What::Write), access(2, 8, 8, What::Write)]
        {
            assert!(!write.conflicts(&apart) && !apart.conflicts(&write), "{apart:?}");
        }
        assert!(!access(1, 8, 8, What::Read).conflicts(&access(1, 8, 8, What::Read)));
    }

    #[test]
    fn off_records_nothing_and_on_everything_but_nothing_touched() {
        let who = Who::Adapter { node: NodeId(3), qp: QpNum(9), wr_id: 4 };
        let mut log = AccessLog::new(false);
        log.note(Nanos(1), who, RegionId(0), 0, 8, What::Write);
        assert!(log.as_slice().is_empty());
        log.set(true);
        log.note(Nanos(2), who, RegionId(0), 0, 8, What::Write);
        log.note(Nanos(3), who, RegionId(0), 8, 0, What::Write);
        let mut out = vec![];
        log.drain_into(&mut out);
        assert_eq!((out.len(), out[0].range(), out[0].who.node()), (1, 0..8, NodeId(3)));
        assert!(log.take().is_empty());
    }
}
