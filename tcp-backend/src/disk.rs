//! The machine's disk: a [store](weft_store) of files, whose calls a few threads make.
//!
//! When a call has ended, a thread rings the reactor's bell; the driver takes what has ended and wakes the tasks. The threads have
//! bytes of their own: what a call moves between a region and files is copied once more here.

use crate::{Tcp, TcpMr, refused};
use mio::Waker as Bell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use weft_store::{Buffer, Moves, Objects, Pool, Range, Reached, Request, THREADS};
use weft_verbs::{Disk, DiskCall, DiskDone, DiskEnd, DiskError, DiskRequest, MemoryRegion, Result};

/// Where what a call reads goes.
struct Into {
    mr: TcpMr,
    at: usize,
}

/// The calls of a machine's disk.
pub(crate) struct Calls(Rc<weft_store::Calls<Into>>);

impl Calls {
    pub(crate) fn start(objects: Arc<Objects>, bell: Bell) -> Result<Rc<Calls>> {
        // A bell that cannot be rung belongs to a machine that is gone.
        let pool =
            Pool::start(objects, THREADS, move || drop(bell.wake())).map_err(refused("a disk's thread"))?;
        Ok(Rc::new(Calls(Rc::new(weft_store::Calls::of(pool)))))
    }

    /// Takes what has ended, puts what was read where it goes, and wakes who waits.
    pub(crate) fn collect(&self) {
        self.0.collect(|Into { mr, at }, end| {
            if let (Some(Buffer::Owned(bytes)), Ok(DiskDone::Moved(moved))) = (&end.buffer, &end.outcome) {
                // It lay inside when the call began, and no region shrinks.
                let _ = mr.write(at, &bytes[..*moved]);
            }
        });
    }
}

/// A machine's disk: files of a directory.
#[derive(Clone)]
pub struct TcpDisk(Rc<Calls>);

impl fmt::Debug for TcpDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TcpDisk").field(&self.0.0).finish()
    }
}

/// Bytes for a thread: what is written is copied, and what is read has none yet.
fn copied(Range { mr, at, len, moves }: Range<'_, Tcp>) -> Reached<Into> {
    let mut bytes = vec![0; len];
    let into = match moves {
        Moves::In => Some(Into { mr: mr.clone(), at }),
        Moves::Out => mr.read(at, &mut bytes).map(|()| None).map_err(DiskError::Memory)?,
    };
    Ok((Buffer::Owned(bytes), into))
}

impl TcpDisk {
    pub(crate) fn new(calls: Rc<Calls>) -> TcpDisk {
        TcpDisk(calls)
    }
}

impl Disk<Tcp> for TcpDisk {
    fn begin(&self, call: DiskCall<Tcp>) -> TcpDiskRequest {
        TcpDiskRequest(self.0.0.request(call, copied))
    }
}

/// A call of a disk that is under way.
#[derive(Debug)]
pub struct TcpDiskRequest(Request<Tcp, Into>);

impl DiskRequest<Tcp> for TcpDiskRequest {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<Tcp>> {
        self.0.poll_end(cx)
    }
}
