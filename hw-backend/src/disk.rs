//! Disks on real machines: a [store](weft_store) of files, whose calls a few threads make.
//!
//! A machine has a disk if its device was [given a store](crate::HwDevice::set_store). When a call has ended, a byte in a socket pair
//! makes the context's [reactor](crate::reactor) take it and wake the task. A call under way keeps its region: the threads copy
//! between that and files, and are waited for when the last handle of the context goes.

use crate::Hw;
use crate::device::ContextInner;
use crate::ffi::TransferGuard;
use crate::reactor::{Reactor, Source};
use std::fmt;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use weft_store::{Buffer, Call, End, Objects, Pool};
use weft_verbs::{
    Disk, DiskBuffer, DiskCall, DiskDone, DiskEnd, DiskError, DiskRequest, MemoryRegion, Result, VerbsError,
};

/// Threads of a disk: so many calls are under way at once.
const THREADS: usize = 8;

/// The calls of a context's disk.
pub(crate) struct Calls {
    /// Each with what its transfer reads or writes.
    calls: weft_store::Calls<TransferGuard>,
    bell: UnixStream,
}

fn refused(why: std::io::Error) -> VerbsError {
    crate::ffi::refused("a disk's thread", why.raw_os_error().unwrap_or(libc::EAGAIN))
}

impl Calls {
    pub(crate) fn start(objects: Arc<Objects>, reactor: &Reactor) -> Result<Rc<Calls>> {
        let (bell, rung) = UnixStream::pair().map_err(refused)?;
        for end in [&bell, &rung] {
            end.set_nonblocking(true).map_err(refused)?;
        }
        // A bell that cannot be rung any louder is rung.
        let pool = Pool::start(objects, THREADS, move || drop((&rung).write(&[1]))).map_err(refused)?;
        let calls = Rc::new(Calls { calls: weft_store::Calls::of(pool), bell });
        let weak = Rc::downgrade(&calls);
        reactor.watch_source(calls.bell.as_raw_fd(), weak)?;
        Ok(calls)
    }

    /// Takes what has ended, and wakes who waits for it.
    fn collect(&self) {
        self.calls.collect(|held, _| drop(held));
    }
}

impl Source for Calls {
    fn ready(&self) {
        // Before the calls are taken: one that ends afterwards rings again.
        let mut rings = [0; 64];
        while (&self.bell).read(&mut rings).is_ok_and(|read| read > 0) {}
        self.collect();
    }
}

/// A machine's disk: files of a directory.
#[derive(Clone)]
pub struct HwDisk {
    calls: Rc<Calls>,
    /// Calls are told of as long as its reactor is asked.
    _context: Rc<ContextInner>,
}

impl fmt::Debug for HwDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwDisk").field(&self.calls.calls).finish()
    }
}

type Memory = (Buffer, Option<TransferGuard>);

fn memory(buffer: &mut DiskBuffer<Hw>) -> std::result::Result<Memory, DiskError> {
    let whole = buffer.is_whole();
    match buffer {
        DiskBuffer::Owned(bytes) => Ok((Buffer::Owned(std::mem::take(bytes)), None)),
        DiskBuffer::Region { mr, at, len } if !whole => {
            let (at, len, size) = (*at as u64, *len as u64, mr.len() as u64);
            Err(DiskError::Memory(VerbsError::OutOfRange { at, len, size }))
        }
        DiskBuffer::Region { mr, at, len } => {
            let (transfer, guard) = mr.0.transfer(*at, *len);
            Ok((Buffer::Foreign(Box::new(transfer)), Some(guard)))
        }
    }
}

impl HwDisk {
    pub(crate) fn new(calls: Rc<Calls>, context: Rc<ContextInner>) -> HwDisk {
        HwDisk { calls, _context: context }
    }

    /// The call as the store knows it. What is owned goes along; the region's handle stays.
    fn call(
        call: &mut DiskCall<Hw>,
    ) -> std::result::Result<(Call, Option<TransferGuard>), DiskError> {
        Ok(match call {
            DiskCall::Create(object) => (Call::Create(*object), None),
            DiskCall::Remove(object) => (Call::Remove(*object), None),
            DiskCall::Size(object) => (Call::Size(*object), None),
            DiskCall::List => (Call::List, None),
            DiskCall::Sync(object) => (Call::Sync(*object), None),
            DiskCall::Resize { object, size } => (Call::Resize { object: *object, size: *size }, None),
            DiskCall::Read { object, at, into } => {
                let (into, held) = memory(into)?;
                (Call::Read { object: *object, at: *at, into }, held)
            }
            DiskCall::Write { object, at, from } => {
                let (from, held) = memory(from)?;
                (Call::Write { object: *object, at: *at, from }, held)
            }
        })
    }
}

impl Disk<Hw> for HwDisk {
    fn begin(&self, mut call: DiskCall<Hw>) -> HwDiskRequest {
        let begun = HwDisk::call(&mut call).map(|(call, held)| self.calls.calls.begin(call, held));
        let buffer = match call {
            DiskCall::Read { into: buffer, .. } | DiskCall::Write { from: buffer, .. } => Some(buffer),
            _ => None,
        };
        HwDiskRequest { disk: self.clone(), begun, buffer }
    }
}

/// A call of a disk that is under way.
pub struct HwDiskRequest {
    disk: HwDisk,
    /// The call's number, or why it never began.
    begun: std::result::Result<u64, DiskError>,
    buffer: Option<DiskBuffer<Hw>>,
}

impl fmt::Debug for HwDiskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HwDiskRequest").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl Drop for HwDiskRequest {
    fn drop(&mut self) {
        if let Ok(id) = self.begun {
            self.disk.calls.calls.abandon(id);
        }
    }
}

impl DiskRequest<Hw> for HwDiskRequest {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<Hw>> {
        let (outcome, bytes): (std::result::Result<DiskDone, DiskError>, _) = match &self.begun {
            Err(why) => (Err(why.clone()), None),
            Ok(id) => {
                self.disk.calls.collect();
                match self.disk.calls.calls.take(*id, cx.waker()) {
                    None => return Poll::Pending,
                    Some(End { outcome, buffer, .. }) => (outcome, buffer),
                }
            }
        };
        let buffer = match bytes {
            Some(Buffer::Owned(bytes)) => Some(DiskBuffer::Owned(bytes)),
            _ => self.buffer.take(),
        };
        Poll::Ready(DiskEnd { outcome, buffer })
    }
}
