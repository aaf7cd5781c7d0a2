//! A machine's disk.

use super::{Sim, SimContext, WorldRef, on_drop};
use crate::NodeId;
use crate::disk::{Buffer, Call};
use crate::world::RegionKey;
use std::fmt;
use std::task::{Context, Poll};
use weft_verbs::{Caps, Disk, DiskBuffer, DiskCall, DiskEnd, DiskError, DiskRequest, Result, VerbsError};

/// A machine's disk.
#[derive(Clone)]
pub struct SimDisk {
    context: SimContext,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimDisk").field(&self.context).finish()
    }
}

impl SimDisk {
    pub(super) fn open(context: &SimContext) -> Result<SimDisk> {
        let ctx = context.place();
        let mut world = ctx.world.borrow_mut();
        world.hca_mut(ctx.hca)?.check_context(ctx.ctx)?;
        match world.has_disks() {
            true => Ok(SimDisk { context: context.clone() }),
            false => Err(VerbsError::Unsupported(Caps::DISK)),
        }
    }

    fn buffer(&self, buffer: &mut DiskBuffer<Sim>) -> std::result::Result<Buffer<RegionKey>, DiskError> {
        let whole = buffer.is_whole();
        match buffer {
            DiskBuffer::Owned(bytes) => Ok(Buffer::Owned(std::mem::take(bytes))),
            DiskBuffer::Region { mr, at, len } if !whole => Err(DiskError::Memory(VerbsError::OutOfRange {
                at: *at as u64,
                len: *len as u64,
                size: weft_verbs::MemoryRegion::len(mr) as u64,
            })),
            DiskBuffer::Region { mr, .. } if mr.0.place.node != self.context.place().node => {
                Err(DiskError::Memory(VerbsError::Invalid("the region is of another machine")))
            }
            DiskBuffer::Region { mr, at, len } => {
                Ok(Buffer::Region { region: (mr.0.place.hca, mr.0.key), at: *at, len: *len })
            }
        }
    }

    /// The call as the disk knows it. What is owned goes along; the region stays with the handle.
    fn call(&self, call: &mut DiskCall<Sim>) -> std::result::Result<Call<RegionKey>, DiskError> {
        Ok(match call {
            DiskCall::Create(object) => Call::Create(*object),
            DiskCall::Remove(object) => Call::Remove(*object),
            DiskCall::Size(object) => Call::Size(*object),
            DiskCall::List => Call::List,
            DiskCall::Sync(object) => Call::Sync(*object),
            DiskCall::Resize { object, size } => Call::Resize { object: *object, size: *size },
            DiskCall::Read { object, at, into } => {
                Call::Read { object: *object, at: *at, into: self.buffer(into)? }
            }
            DiskCall::Write { object, at, from } => {
                Call::Write { object: *object, at: *at, from: self.buffer(from)? }
            }
        })
    }
}

impl Disk<Sim> for SimDisk {
    fn begin(&self, mut call: DiskCall<Sim>) -> SimDiskRequest {
        let place = self.context.place();
        let begun = self.call(&mut call).and_then(|call| {
            let mut world = place.world.borrow_mut();
            world.call_is_unrepeatable();
            world.begin_disk_call(place.node, call).map_err(DiskError::Memory)
        });
        let buffer = match call {
            DiskCall::Read { into: buffer, .. } | DiskCall::Write { from: buffer, .. } => Some(buffer),
            _ => None,
        };
        SimDiskRequest { world: place.world.clone(), node: place.node, begun, buffer }
    }
}

/// A call of a disk that is under way.
pub struct SimDiskRequest {
    world: WorldRef,
    node: NodeId,
    /// The call's number, or why it never began.
    begun: std::result::Result<u32, DiskError>,
    buffer: Option<DiskBuffer<Sim>>,
}

impl fmt::Debug for SimDiskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDiskRequest")
            .field("node", &self.node)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}

impl Drop for SimDiskRequest {
    fn drop(&mut self) {
        if let Ok(id) = self.begun {
            let node = self.node;
            on_drop(&self.world, move |world| world.abandon_disk_call(node, id));
        }
    }
}

impl DiskRequest<Sim> for SimDiskRequest {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<DiskEnd<Sim>> {
        let id = match &self.begun {
            Ok(id) => *id,
            Err(why) => {
                return Poll::Ready(DiskEnd { outcome: Err(why.clone()), buffer: self.buffer.take() });
            }
        };
        let end = self.world.borrow_mut().disk_end(self.node, id, cx.waker());
        let Some(end) = end else { return Poll::Pending };
        let buffer = end.bytes.map(DiskBuffer::Owned).or(self.buffer.take());
        Poll::Ready(DiskEnd { outcome: end.outcome, buffer })
    }
}
