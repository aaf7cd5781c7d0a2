//! The machine's disk: a [store](weft_store) of files, whose calls a few threads make.
//!
//! When a call has ended, a thread rings the reactor's bell; the driver takes what has ended and wakes the tasks. The threads have
//! bytes of their own: what a call moves between a region and files is copied once more here.

use crate::{Tcp, TcpMr, refused};
use mio::Waker as Bell;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use weft_store::{Buffer, Call, End, Objects, Pool};
use weft_verbs::{
    Disk, DiskBuffer, DiskCall, DiskDone, DiskEnd, DiskError, DiskRequest, MemoryRegion, Result, VerbsError,
};

/// Threads of a disk: so many calls are under way at once.
const THREADS: usize = 8;

/// Memory of a region that a call moves.
struct Region {
    mr: TcpMr,
    at: usize,
    len: usize,
}

/// A call that was begun.
#[derive(Default)]
struct Begun {
    waker: Option<Waker>,
    end: Option<End>,
    /// Nobody waits for it.
    dropped: bool,
    /// Where what it reads goes; for a write, what is given back.
    region: Option<Region>,
}

/// The calls of a machine's disk.
pub(crate) struct Calls {
    pool: Pool,
    begun: RefCell<BTreeMap<u64, Begun>>,
}

impl Calls {
    pub(crate) fn start(objects: Arc<Objects>, bell: Bell) -> Result<Rc<Calls>> {
        // A bell that cannot be rung belongs to a machine that is gone.
        let pool =
            Pool::start(objects, THREADS, move || drop(bell.wake())).map_err(refused("a disk's thread"))?;
        Ok(Rc::new(Calls { pool, begun: RefCell::default() }))
    }

    /// Takes what has ended, puts what was read where it goes, and wakes who waits.
    pub(crate) fn collect(&self) {
        let mut wake = Vec::new();
        let mut begun = self.begun.borrow_mut();
        for end in self.pool.take() {
            let id = end.id;
            let Some(call) = begun.get_mut(&id) else { continue };
            if let (Some(Region { mr, at, .. }), Some(Buffer::Owned(bytes)), Ok(DiskDone::Moved(moved))) =
                (&call.region, &end.buffer, &end.outcome)
            {
                // It lay inside when the call began, and no region shrinks.
                let _ = mr.write(*at, &bytes[..*moved]);
            }
            if call.dropped {
                begun.remove(&id);
                continue;
            }
            wake.extend(call.waker.take());
            call.end = Some(end);
        }
        drop(begun);
        wake.into_iter().for_each(Waker::wake);
    }

    fn take(&self, id: u64, waker: &Waker) -> Option<(End, Option<Region>)> {
        let mut begun = self.begun.borrow_mut();
        let call = begun.get_mut(&id)?;
        match call.end.take() {
            Some(end) => {
                let region = call.region.take();
                begun.remove(&id);
                Some((end, region))
            }
            None => {
                call.waker = Some(waker.clone());
                None
            }
        }
    }

    fn abandon(&self, id: u64) {
        let mut begun = self.begun.borrow_mut();
        let ended = begun.get_mut(&id).is_some_and(|call| {
            (call.waker, call.dropped) = (None, true);
            call.end.is_some()
        });
        if ended {
            begun.remove(&id);
        }
    }
}

/// A machine's disk: files of a directory.
#[derive(Clone)]
pub struct TcpDisk(Rc<Calls>);

impl fmt::Debug for TcpDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TcpDisk").field(&self.0.pool).finish()
    }
}

/// The bytes of a buffer for a thread, and the region if it is one of that.
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
                let id = self.0.pool.begin(call);
                self.0.begun.borrow_mut().insert(id, Begun { region, ..Begun::default() });
                State::Begun(id)
            }
            Err((why, buffer)) => State::Refused(Some((why, buffer))),
        };
        TcpDiskRequest { calls: Rc::clone(&self.0), state }
    }
}

enum State {
    /// The call's number.
    Begun(u64),
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
        if let State::Begun(id) = self.state {
            self.calls.abandon(id);
        }
    }
}

impl DiskRequest<Tcp> for TcpDiskRequest {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<Tcp>> {
        let ended = match &mut self.state {
            State::Refused(refused) => {
                let Some((why, buffer)) = refused.take() else { return Poll::Pending };
                return Poll::Ready(DiskEnd { outcome: Err(why), buffer: Some(buffer) });
            }
            State::Begun(id) => self.calls.take(*id, cx.waker()),
        };
        let Some((End { outcome, buffer, .. }, region)) = ended else { return Poll::Pending };
        let buffer = match (region, buffer) {
            (Some(Region { mr, at, len }), _) => Some(DiskBuffer::Region { mr, at, len }),
            (None, Some(Buffer::Owned(bytes))) => Some(DiskBuffer::Owned(bytes)),
            (None, _) => None,
        };
        Poll::Ready(DiskEnd { outcome, buffer })
    }
}
