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
use weft_store::{Buffer, Call, End, Objects, Pool};
use weft_verbs::{
    Disk, DiskBuffer, DiskCall, DiskDone, DiskEnd, DiskError, DiskRequest, MemoryRegion, Result, VerbsError,
};

/// Threads of a disk: so many calls are under way at once.
const THREADS: usize = 8;

/// Memory of a region that a call moves.
#[derive(Clone)]
struct Region {
    mr: TcpMr,
    at: usize,
    len: usize,
}

/// The calls of a machine's disk.
pub(crate) struct Calls(
    /// Each with where what it reads goes.
    weft_store::Calls<Region>,
);

impl Calls {
    pub(crate) fn start(objects: Arc<Objects>, bell: Bell) -> Result<Rc<Calls>> {
        // A bell that cannot be rung belongs to a machine that is gone.
        let pool =
            Pool::start(objects, THREADS, move || drop(bell.wake())).map_err(refused("a disk's thread"))?;
        Ok(Rc::new(Calls(weft_store::Calls::of(pool))))
    }

    /// Takes what has ended, puts what was read where it goes, and wakes who waits.
    pub(crate) fn collect(&self) {
        self.0.collect(|Region { mr, at, .. }: Region, end| {
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

/// The bytes of a buffer for a thread, and the region if it is one of that. What is read has no bytes yet.
fn memory(
    buffer: DiskBuffer<Tcp>,
    is_read: bool,
) -> std::result::Result<(Buffer, Option<Region>), (DiskError, DiskBuffer<Tcp>)> {
    let whole = buffer.is_whole();
    match buffer {
        DiskBuffer::Owned(bytes) => Ok((Buffer::Owned(bytes), None)),
        DiskBuffer::Region { ref mr, at, len } if !whole => {
            let (at, len, size) = (at as u64, len as u64, mr.len() as u64);
            Err((DiskError::Memory(VerbsError::OutOfRange { at, len, size }), buffer))
        }
        DiskBuffer::Region { mr, at, len } => {
            let mut bytes = vec![0; len];
            if !is_read && let Err(why) = mr.read(at, &mut bytes) {
                return Err((DiskError::Memory(why), DiskBuffer::Region { mr, at, len }));
            }
            Ok((Buffer::Owned(bytes), Some(Region { mr, at, len })))
        }
    }
}

/// What a call is to the store, with the region that it is about.
type Prepared = std::result::Result<(Call, Option<Region>), (DiskError, DiskBuffer<Tcp>)>;

fn prepared(call: DiskCall<Tcp>) -> Prepared {
    Ok(match call {
        DiskCall::Create(object) => (Call::Create(object), None),
        DiskCall::Remove(object) => (Call::Remove(object), None),
        DiskCall::Size(object) => (Call::Size(object), None),
        DiskCall::List => (Call::List, None),
        DiskCall::Sync(object) => (Call::Sync(object), None),
        DiskCall::Resize { object, size } => (Call::Resize { object, size }, None),
        DiskCall::Read { object, at, into } => {
            let (into, region) = memory(into, true)?;
            (Call::Read { object, at, into }, region)
        }
        DiskCall::Write { object, at, from } => {
            let (from, region) = memory(from, false)?;
            (Call::Write { object, at, from }, region)
        }
    })
}

impl TcpDisk {
    pub(crate) fn new(calls: Rc<Calls>) -> TcpDisk {
        TcpDisk(calls)
    }
}

impl Disk<Tcp> for TcpDisk {
    fn begin(&self, call: DiskCall<Tcp>) -> TcpDiskRequest {
        let state = match prepared(call) {
            Ok((call, region)) => {
                let goes = region.clone().filter(|_| matches!(call, Call::Read { .. }));
                State::Begun(self.0.0.begin(call, goes), region)
            }
            Err((why, buffer)) => State::Refused(Some((why, buffer))),
        };
        TcpDiskRequest { calls: Rc::clone(&self.0), state }
    }
}

enum State {
    /// The call's number, and the region that is given back.
    Begun(u64, Option<Region>),
    /// It never began.
    Refused(Option<(DiskError, DiskBuffer<Tcp>)>),
}

/// A call of a disk that is under way.
pub struct TcpDiskRequest {
    calls: Rc<Calls>,
    state: State,
}

impl fmt::Debug for TcpDiskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpDiskRequest").finish_non_exhaustive()
    }
}

impl Drop for TcpDiskRequest {
    fn drop(&mut self) {
        if let State::Begun(id, _) = self.state {
            self.calls.0.abandon(id);
        }
    }
}

impl DiskRequest<Tcp> for TcpDiskRequest {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<Tcp>> {
        let (id, region) = match &mut self.state {
            State::Refused(refused) => {
                let Some((why, buffer)) = refused.take() else { return Poll::Pending };
                return Poll::Ready(DiskEnd { outcome: Err(why), buffer: Some(buffer) });
            }
            State::Begun(id, region) => (*id, region),
        };
        let Some(End { outcome, buffer, .. }) = self.calls.0.take(id, cx.waker()) else {
            return Poll::Pending;
        };
        let buffer = match (region.take(), buffer) {
            (Some(Region { mr, at, len }), _) => Some(DiskBuffer::Region { mr, at, len }),
            (None, Some(Buffer::Owned(bytes))) => Some(DiskBuffer::Owned(bytes)),
            (None, _) => None,
        };
        Poll::Ready(DiskEnd { outcome, buffer })
    }
}
