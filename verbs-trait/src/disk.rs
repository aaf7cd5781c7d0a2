//! Disks beside the fabric: named objects that outlive the program, and transfers between them and memory.
//!
//! Calls are asynchronous, as streams are: [`Disk::begin`] begins one and never blocks, and its end steps the node and wakes
//! the task. What a user may rely on:
//!
//! - A call takes effect at one moment between its begin and its end, or not at all where it ends in an error. Calls that
//!   are under way at once take effect in any order: who needs an order waits.
//! - A transfer owns its memory until it ends. Dropping a [`DiskRequest`] recalls nothing: the call goes on.
//! - What was written is durable once a later [`DiskCall::Sync`] of its object has ended without an error, and not before:
//!   a crash leaves each sector that was not synced as any write since has made it, and the object's end as well. An object is created,
//!   removed and resized durably.
//! - After a sync has failed nobody knows what of the object is durable, and every later sync of it fails, until the machine or its
//!   server begins anew or the object is removed.
//! - Bytes that were never written and lie before an object's end are zero.

use crate::{MemoryRegion, Verbs, VerbsError};
use std::fmt;
use std::task::{Context, Poll};
use thiserror::Error;

/// An object's name on a disk. What it means is its user's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub u64);

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Memory that a transfer owns until it ends.
#[derive(Clone)]
pub enum DiskBuffer<V: Verbs> {
    /// A range of registered memory.
    Region {
        /// The region.
        mr: V::Mr,
        /// The first byte, as an offset into it.
        at: usize,
        /// How many bytes.
        len: usize,
    },
    /// Ordinary memory, as long as it is.
    Owned(Vec<u8>),
}

impl<V: Verbs> DiskBuffer<V> {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            DiskBuffer::Region { len, .. } => *len,
            DiskBuffer::Owned(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its bytes are there: a range may lie outside of its region.
    pub fn is_whole(&self) -> bool {
        match self {
            DiskBuffer::Region { mr, at, len } => at.checked_add(*len).is_some_and(|end| end <= mr.len()),
            DiskBuffer::Owned(_) => true,
        }
    }
}

/// What a disk is asked for.
#[derive(Clone)]
pub enum DiskCall<V: Verbs> {
    /// Makes an empty object.
    Create(ObjectName),
    /// Removes an object with all of its bytes.
    Remove(ObjectName),
    /// Asks for an object's size.
    Size(ObjectName),
    /// Asks for the names of all objects.
    List,
    /// Reads as many bytes as the buffer has, or as there are. What lies behind them in the buffer is left as it was.
    Read {
        /// The object.
        object: ObjectName,
        /// Its first byte to read.
        at: u64,
        /// Where to.
        into: DiskBuffer<V>,
    },
    /// Writes the whole buffer; makes the object if it is not there.
    Write {
        /// The object.
        object: ObjectName,
        /// Its first byte to write.
        at: u64,
        /// What to write.
        from: DiskBuffer<V>,
    },
    /// Gives an object another size, durably. Bytes behind it are gone, and zero should they ever be there again; so are those that
    /// it has more. What was written before it stays as durable as it was.
    Resize {
        /// The object.
        object: ObjectName,
        /// Its size from now on, at most 2^63.
        size: u64,
    },
    /// Makes all durable that was written to an object by calls that had ended before this one began.
    Sync(ObjectName),
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiskDone {
    /// It is done.
    Done,
    /// So many bytes were read or written.
    Moved(usize),
    /// The object's size in bytes.
    Size(u64),
    /// All objects, by name.
    Objects(Vec<ObjectName>),
}

/// Why a call did not take effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum DiskError {
    /// There is no room for what is written, of which sectors may be old or new. Removing objects makes room.
    #[error("the disk is full")]
    Full,
    /// The disk cannot read or write (EIO). Of a write, sectors may be old or new; of a sync, nobody knows what is durable.
    #[error("the disk failed")]
    Io,
    /// There is no such object.
    #[error("there is no object {0}")]
    NoObject(ObjectName),
    /// There is such an object already.
    #[error("object {0} is there already")]
    Exists(ObjectName),
    /// A position beyond the largest object: 2^63 bytes.
    #[error("an object ends before 2^63: byte {at} and {len} more cannot be")]
    Position {
        /// The first byte.
        at: u64,
        /// The length.
        len: u64,
    },
    /// The buffer is none.
    #[error("{0}")]
    Memory(VerbsError),
}

/// How a call ended.
pub struct DiskEnd<V: Verbs> {
    /// What it came to.
    pub outcome: Result<DiskDone, DiskError>,
    /// The buffer that the call owned, if it had one.
    pub buffer: Option<DiskBuffer<V>>,
}

/// A machine's disk. Needs [`Caps::DISK`](crate::Caps::DISK). Clones are the same disk.
pub trait Disk<V: Verbs>: Clone + 'static {
    /// Begins a call.
    fn begin(&self, call: DiskCall<V>) -> V::DiskRequest;
}

/// A call that is under way.
pub trait DiskRequest<V: Verbs>: 'static {
    /// How it ended. Where it has not yet, its end steps the node and wakes the task. Not to be polled after that.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<V>>;
}
