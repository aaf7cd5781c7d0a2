//! Every access to registered memory, by processors and adapters.
//!
//! The [sanitizer](crate::sanitizer) watches them for those that real adapters punish silently; the explorer
//! asks for what an event touched, and so for which events commute. Watched by nobody, an access costs one branch.

use crate::NodeId;
use crate::hca::Endpoint;
use crate::in_place::clone_in_place;
use crate::sanitizer::Sanitizer;
use std::ops::Range;
use weft_verbs::{Nanos, QpNum, WcOp};

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
    /// When, by the clock of the processor or adapter: a processor's runs ahead of the fabric's within a step.
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
}

/// An access as the explorer looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub region: RegionId,
    pub start: u64,
    pub len: u64,
    pub what: What,
}

/// Shows accesses to those who want to know of them.
#[derive(Debug, Default)]
pub struct AccessLog {
    /// Whether anybody wants to know.
    watched: bool,
    /// Whether the explorer wants to know.
    marking: bool,
    marks: Vec<Mark>,
    sanitizer: Option<Box<Sanitizer>>,
}

clone_in_place! { AccessLog { watched, marking, marks, sanitizer } }

impl AccessLog {
    /// One that a sanitizer watches. It must not have missed anything: only a world without objects gets one.
    pub fn watched_by(sanitizer: Sanitizer) -> AccessLog {
        AccessLog { watched: true, sanitizer: Some(Box::new(sanitizer)), ..AccessLog::default() }
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

    /// Turns the explorer's marks on or off.
    pub(crate) fn mark(&mut self, on: bool) {
        self.marking = on;
        self.watched = on || self.sanitizer.is_some();
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

    /// Notes an atomic. One that changes nothing, as a compare-and-swap that fails, is to an explorer a read.
    pub fn note_atomic(&mut self, at: Nanos, who: Who, region: RegionId, start: u64, changes: bool) {
        self.note(at, who, region, start, 8, What::Atomic);
        if self.marking
            && !changes
            && let Some(mark) = self.marks.last_mut()
        {
            mark.what = What::Read;
        }
    }

    fn take_note(&mut self, access: &Access) {
        if self.marking {
            let &Access { region, start, len, what, .. } = access;
            self.marks.push(Mark { region, start, len, what });
        }
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.access(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_made_while_they_are_asked_for_and_of_what_was_touched() {
        let who = Who::Adapter { node: NodeId(3), qp: QpNum(9), wr_id: 4 };
        let mut log = AccessLog::default();
        log.note(Nanos(1), who, RegionId(0), 0, 8, What::Write);
        log.mark(true);
        log.note(Nanos(2), who, RegionId(1), 8, 16, What::Read);
        log.note(Nanos(3), who, RegionId(0), 8, 0, What::Write);
        log.mark(false);
        log.note(Nanos(4), who, RegionId(0), 0, 8, What::Write);
        let marks = log.take_marks();
        assert!(matches!(marks[..], [Mark { region: RegionId(1), start: 8, len: 16, what: What::Read }]));
    }
}
