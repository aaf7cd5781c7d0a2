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
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use weft_store::{Buffer, Objects, Pool, Range, Request, THREADS};
use weft_verbs::{Disk, DiskCall, DiskEnd, DiskRequest, Result, VerbsError};

/// The calls of a context's disk.
pub(crate) struct Calls {
    /// Each with what its transfer reads or writes.
    calls: Rc<weft_store::Calls<TransferGuard>>,
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
        let calls = Rc::new(Calls { calls: Rc::new(weft_store::Calls::of(pool)), bell });
        let weak = Rc::downgrade(&calls);
        reactor.watch_source(calls.bell.as_fd(), weak)?;
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

impl HwDisk {
    pub(crate) fn new(calls: Rc<Calls>, context: Rc<ContextInner>) -> HwDisk {
        HwDisk { calls, _context: context }
    }
}

impl Disk<Hw> for HwDisk {
    fn begin(&self, call: DiskCall<Hw>) -> HwDiskRequest {
        let request = self.calls.calls.request(call, |Range { mr, at, len, .. }| {
            let (transfer, guard) = mr.0.transfer(at, len);
            Ok((Buffer::Foreign(Box::new(transfer)), Some(guard)))
        });
        HwDiskRequest { request, disk: self.clone() }
    }
}

/// A call of a disk that is under way.
#[derive(Debug)]
pub struct HwDiskRequest {
    request: Request<Hw, TransferGuard>,
    disk: HwDisk,
}

impl DiskRequest<Hw> for HwDiskRequest {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<Hw>> {
        self.disk.calls.collect();
        self.request.poll_end(cx)
    }
}
