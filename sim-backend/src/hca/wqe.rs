//! Work requests as the adapter keeps them.

use super::{Address, Key};
use std::hash::{Hash, Hasher};
use weft_verbs::{Nanos, Psn, QpNum, SendFlags, WcError};

/// A range of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sge {
    /// The region.
    pub mr: Key,
    /// First byte, as an offset into it.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
}

/// A scatter or gather list. One entry, by far the most common, needs no memory of its own.
#[derive(Clone, Debug, Default, Hash)]
pub enum Gather {
    /// No memory.
    #[default]
    None,
    /// One range.
    One(Sge),
    /// Several.
    Many(Box<[Sge]>),
}

impl Gather {
    /// A list of these.
    pub fn new(mut list: impl ExactSizeIterator<Item = Sge>) -> Gather {
        match list.len() {
            0 => Gather::None,
            1 => list.next().map_or(Gather::None, Gather::One),
            _ => Gather::Many(list.collect()),
        }
    }

    /// The entries.
    #[inline]
    pub fn list(&self) -> &[Sge] {
        match self {
            Gather::None => &[],
            Gather::One(sge) => std::slice::from_ref(sge),
            Gather::Many(list) => list,
        }
    }

    /// How many entries.
    pub fn entries(&self) -> usize {
        self.list().len()
    }

    /// How many bytes in all.
    #[inline]
    pub fn len(&self) -> u64 {
        self.list().iter().map(|sge| u64::from(sge.len)).sum()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries from a byte of the list on, each with the number of its bytes that lie before that.
    #[inline]
    pub fn from(&self, at: u32) -> impl Iterator<Item = (Sge, u32)> {
        let mut before = at;
        self.list().iter().filter_map(move |&sge| {
            let skip = before.min(sge.len);
            before -= skip;
            (skip < sge.len).then_some((sge, skip))
        })
    }
}

/// Whom a one-sided request is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Virtual address.
    pub addr: u64,
    /// Key.
    pub rkey: u32,
}

/// An atomic operation on a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Replaces the word if it has the value expected.
    CompareSwap {
        /// The value expected.
        compare: u64,
        /// The value to put there.
        swap: u64,
    },
    /// Adds to the word, wrapping.
    FetchAdd {
        /// The number to add.
        add: u64,
    },
}

impl Atomic {
    /// What the word becomes.
    pub const fn apply(self, word: u64) -> u64 {
        match self {
            Atomic::CompareSwap { compare, swap } if compare == word => swap,
            Atomic::CompareSwap { .. } => word,
            Atomic::FetchAdd { add } => word.wrapping_add(add),
        }
    }
}

/// What a send request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A message.
    Send {
        /// Immediate data.
        imm: Option<u32>,
    },
    /// A datagram.
    Datagram {
        /// The peer's port.
        to: Address,
        /// The peer's queue pair.
        qp: QpNum,
        /// The peer's queue key.
        qkey: u32,
        /// Immediate data.
        imm: Option<u32>,
    },
    /// A write.
    Write {
        /// Where to.
        to: Remote,
        /// Immediate data.
        imm: Option<u32>,
    },
    /// A read.
    Read {
        /// Where from.
        from: Remote,
    },
    /// An atomic.
    Atomic {
        /// The word.
        at: Remote,
        /// What to do to it.
        atomic: Atomic,
    },
}

impl Op {
    /// Whether it has an answer that carries data, and counts against the limit of those (IBA 9.4.6).
    pub const fn is_fetch(&self) -> bool {
        matches!(self, Op::Read { .. } | Op::Atomic { .. })
    }

    /// The peer's memory that it is aimed at.
    pub const fn remote(&self) -> Option<Remote> {
        match *self {
            Op::Send { .. } | Op::Datagram { .. } => None,
            Op::Write { to, .. } => Some(to),
            Op::Read { from } => Some(from),
            Op::Atomic { at, .. } => Some(at),
        }
    }
}

/// A send request as it is posted.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// The caller's name for it.
    pub wr_id: u64,
    /// What to do.
    pub op: Op,
    /// With which local memory.
    pub data: Gather,
    /// How.
    pub flags: SendFlags,
}

/// A receive request as it is posted.
#[derive(Clone, Debug)]
pub struct RecvRequest {
    /// The caller's name for it.
    pub wr_id: u64,
    /// Where the message goes.
    pub data: Gather,
}

/// A send request in its queue.
#[derive(Clone, Debug)]
pub(super) struct SendWqe {
    pub wr_id: u64,
    pub op: Op,
    pub data: Gather,
    /// The pool's buffer with inline data.
    pub inline: Option<u32>,
    pub flags: SendFlags,
    /// Payload in bytes.
    pub len: u32,
    /// When the doorbell rang: it is not begun before.
    pub posted_at: Nanos,
    /// Why it will fail without being sent, if so.
    pub wrong: Option<WcError>,
    /// Whether it has its sequence numbers.
    pub begun: bool,
    pub psn: Psn,
    /// Sequence numbers that it takes: request packets, or a read's response packets.
    pub packets: u32,
}

impl SendWqe {
    /// The first sequence number after it.
    pub fn end(&self) -> Psn {
        self.psn.plus(self.packets)
    }
}

impl Hash for SendWqe {
    /// What may happen with it depends on; inline data is not at hand here.
    fn hash<H: Hasher>(&self, to: &mut H) {
        let SendWqe { wr_id, op, data, inline, flags, len, posted_at, wrong, begun, psn, packets } = self;
        (wr_id, op, data, inline.is_some(), flags, len).hash(to);
        (posted_at, wrong, begun, psn, packets).hash(to);
    }
}

/// A receive request in its queue.
#[derive(Clone, Debug, Hash)]
pub(super) struct RecvWqe {
    pub wr_id: u64,
    pub data: Gather,
    /// Room in bytes.
    pub len: u64,
    /// Why the adapter cannot use it, if so.
    pub wrong: Option<WcError>,
}
