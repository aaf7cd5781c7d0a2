//! The contract's calls of a disk, made of a pool's: what a backend adds is how a thread reaches its regions.

use crate::calls::Calls;
use crate::pool::{Buffer, Call, End};
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_verbs::{DiskBuffer, DiskCall, DiskEnd, DiskError, MemoryRegion, Verbs, VerbsError};

/// Which way a transfer moves its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// From the disk into memory.
    In,
    /// From memory to the disk.
    Out,
}

/// A range of a region that a transfer is about: it lies inside of it.
pub struct Range<'a, V: Verbs> {
    /// The region.
    pub mr: &'a V::Mr,
    /// Its first byte, as an offset into the region.
    pub at: usize,
    /// How many bytes.
    pub len: usize,
    /// Which way they go.
    pub moves: Moves,
}

/// What a thread reads or writes for a range, and what the backend keeps until the call has ended.
pub type Reached<H> = Result<(Buffer, Option<H>), DiskError>;

/// A call of a disk that is under way.
pub struct Request<V: Verbs, H> {
    calls: Rc<Calls<H>>,
    /// The call's number, or why it never began.
    begun: Result<u64, DiskError>,
    /// What its user gets back. Bytes of its own are with the call while that is under way.
    buffer: Option<DiskBuffer<V>>,
}

impl<V: Verbs, H> fmt::Debug for Request<V, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl<H> Calls<H> {
    /// Begins a call of the contract.
    pub fn request<V: Verbs>(
        self: &Rc<Self>,
        call: DiskCall<V>,
        reach: impl FnOnce(Range<'_, V>) -> Reached<H>,
    ) -> Request<V, H> {
        let (moved, buffer) = match call {
            DiskCall::Create(object) => (Ok((Call::Create(object), None)), None),
            DiskCall::Remove(object) => (Ok((Call::Remove(object), None)), None),
            DiskCall::Size(object) => (Ok((Call::Size(object), None)), None),
            DiskCall::List => (Ok((Call::List, None)), None),
            DiskCall::Sync(object) => (Ok((Call::Sync(object), None)), None),
            DiskCall::Resize { object, size } => (Ok((Call::Resize { object, size }, None)), None),
            DiskCall::Read { object, at, into } => {
                let (reached, kept) = memory(into, Moves::In, reach);
                (reached.map(|(into, held)| (Call::Read { object, at, into }, held)), kept)
            }
            DiskCall::Write { object, at, from } => {
                let (reached, kept) = memory(from, Moves::Out, reach);
                (reached.map(|(from, held)| (Call::Write { object, at, from }, held)), kept)
            }
        };
        let begun = moved.map(|(call, held)| self.begin(call, held));
        Request { calls: Rc::clone(self), begun, buffer }
    }
}

/// A transfer's memory as a thread knows it, and what stays here meanwhile.
fn memory<V: Verbs, H>(
    buffer: DiskBuffer<V>,
    moves: Moves,
    reach: impl FnOnce(Range<'_, V>) -> Reached<H>,
) -> (Reached<H>, Option<DiskBuffer<V>>) {
    let is_whole = buffer.is_whole();
    let (mr, at, len) = match buffer {
        DiskBuffer::Owned(bytes) => return (Ok((Buffer::Owned(bytes), None)), None),
        DiskBuffer::Region { mr, at, len } => (mr, at, len),
    };
    let reached = if is_whole {
        reach(Range { mr: &mr, at, len, moves })
    } else {
        let (at, len, size) = (at as u64, len as u64, mr.len() as u64);
        Err(DiskError::Memory(VerbsError::OutOfRange { at, len, size }))
    };
    (reached, Some(DiskBuffer::Region { mr, at, len }))
}

impl<V: Verbs, H> Drop for Request<V, H> {
    fn drop(&mut self) {
        if let Ok(id) = self.begun {
            self.calls.abandon(id);
        }
    }
}

impl<V: Verbs, H> Request<V, H> {
    /// How it ended, if it was collected; the task is woken where it was not yet.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<V>> {
        let (outcome, bytes) = match &self.begun {
            Err(why) => (Err(why.clone()), None),
            Ok(id) => match self.calls.take(*id, cx.waker()) {
                None => return Poll::Pending,
                Some(End { outcome, buffer, .. }) => (outcome, buffer),
            },
        };
        let own = bytes.and_then(|bytes| match bytes {
            Buffer::Owned(bytes) => Some(DiskBuffer::Owned(bytes)),
            Buffer::Foreign(_) => None,
        });
        Poll::Ready(DiskEnd { outcome, buffer: self.buffer.take().or(own) })
    }
}
