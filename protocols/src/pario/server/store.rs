//! Where a server keeps its objects: on the machine's disk, or in memory.

use super::super::error::Refusal;
use super::super::{FsError, Handle, Storage};
use super::machine::{Place, StoreCall, Stored};
use crate::rt::Rt;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use weft_verbs::{
    Context, Disk, DiskBuffer, DiskCall, DiskDone, DiskEnd, DiskError, DiskRequest, MemoryRegion, ObjectName,
    Verbs, Work,
};

/// Objects in memory.
#[derive(Debug, Default)]
struct Objects {
    bytes: BTreeMap<Handle, Vec<u8>>,
    taken: u64,
    most: u64,
}

impl Objects {
    fn read(&self, handle: Handle, at: u64, out: &mut [u8]) -> u32 {
        let object = self.bytes.get(&handle).map_or(&[][..], Vec::as_slice);
        let from = object.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        let moved = from.len().min(out.len());
        out[..moved].copy_from_slice(&from[..moved]);
        out[moved..].fill(0);
        moved as u32
    }

    fn write(&mut self, handle: Handle, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let object = self.bytes.entry(handle).or_default();
        let end = at + bytes.len() as u64;
        let more = end.saturating_sub(object.len() as u64);
        if self.taken + more > self.most {
            return Err(Refusal::Full);
        }
        self.taken += more;
        if more > 0 {
            object.resize(end as usize, 0);
        }
        object[at as usize..end as usize].copy_from_slice(bytes);
        Ok(())
    }

    fn remove(&mut self, handle: Handle) {
        self.taken -= self.bytes.remove(&handle).map_or(0, |object| object.len() as u64);
    }
}

/// A server's objects, and its staging.
pub(super) struct Store<V: Verbs> {
    rt: Rt<V>,
    kind: Kind<V>,
    /// Places in staging, one behind the other.
    staging: V::Mr,
    unit: u32,
}

enum Kind<V: Verbs> {
    Memory(RefCell<Objects>),
    Disk(V::Disk),
}

impl<V: Verbs> Store<V> {
    pub(super) fn open(rt: &Rt<V>, storage: Storage, staging: V::Mr, unit: u32) -> Result<Store<V>, FsError> {
        let kind = match storage {
            Storage::Memory { most } => Kind::Memory(RefCell::new(Objects { most, ..Objects::default() })),
            Storage::Disk => Kind::Disk(rt.context().disk()?),
        };
        Ok(Store { rt: rt.clone(), kind, staging, unit })
    }

    /// Calls the disk, or what stands for it. An object that is not there has no bytes.
    pub(super) async fn call(&self, call: StoreCall) -> Result<Stored, Refusal> {
        match &self.kind {
            Kind::Memory(objects) => self.in_memory(objects, call),
            Kind::Disk(disk) => self.on_disk(disk, call).await,
        }
    }

    fn in_memory(&self, objects: &RefCell<Objects>, call: StoreCall) -> Result<Stored, Refusal> {
        let copied = |len: u64| self.rt.spend(Work::Copy { bytes: len });
        let mut objects = objects.borrow_mut();
        match call {
            StoreCall::Size(handle) => {
                Ok(Stored::Size(objects.bytes.get(&handle).map_or(0, |object| object.len() as u64)))
            }
            StoreCall::Sync(_) => Ok(Stored::Done),
            StoreCall::Remove(handle) => {
                objects.remove(handle);
                Ok(Stored::Done)
            }
            StoreCall::Read { handle, at, into: Place::Bytes(mut bytes) } => {
                copied(bytes.len() as u64);
                let moved = objects.read(handle, at, &mut bytes);
                Ok(Stored::Read { moved, bytes })
            }
            StoreCall::Read { handle, at, into: Place::Stage { stage, len } } => {
                copied(len.into());
                let mut bytes = vec![0; len as usize];
                let moved = objects.read(handle, at, &mut bytes);
                self.staging.write(self.place(stage.0), &bytes).map_err(|_| Refusal::Io)?;
                Ok(Stored::Read { moved, bytes: Vec::new() })
            }
            StoreCall::Write { handle, at, from } => {
                let bytes = match from {
                    Place::Bytes(bytes) => bytes,
                    Place::Stage { stage, len } => {
                        let mut bytes = vec![0; len as usize];
                        self.staging.read(self.place(stage.0), &mut bytes).map_err(|_| Refusal::Io)?;
                        bytes
                    }
                };
                copied(bytes.len() as u64);
                objects.write(handle, at, &bytes).map(|()| Stored::Done)
            }
        }
    }

    fn place(&self, stage: u32) -> usize {
        stage as usize * self.unit as usize
    }

    fn buffer(&self, place: Place) -> DiskBuffer<V> {
        match place {
            Place::Bytes(bytes) => DiskBuffer::Owned(bytes),
            Place::Stage { stage, len } => {
                DiskBuffer::Region { mr: self.staging.clone(), at: self.place(stage.0), len: len as usize }
            }
        }
    }

    async fn on_disk(&self, disk: &V::Disk, call: StoreCall) -> Result<Stored, Refusal> {
        let name = |handle: Handle| ObjectName(handle.0);
        let (call, nothing) = match call {
            StoreCall::Read { handle, at, into } => {
                let nothing = Stored::Read { moved: 0, bytes: Vec::new() };
                (DiskCall::Read { object: name(handle), at, into: self.buffer(into) }, nothing)
            }
            StoreCall::Write { handle, at, from } => {
                (DiskCall::Write { object: name(handle), at, from: self.buffer(from) }, Stored::Done)
            }
            StoreCall::Size(handle) => (DiskCall::Size(name(handle)), Stored::Size(0)),
            StoreCall::Sync(handle) => (DiskCall::Sync(name(handle)), Stored::Done),
            StoreCall::Remove(handle) => (DiskCall::Remove(name(handle)), Stored::Done),
        };
        let mut request = disk.begin(call);
        let DiskEnd { outcome, buffer } = poll_fn(|cx| request.poll_end(cx)).await;
        match outcome {
            Ok(DiskDone::Moved(moved)) => self.moved(moved, buffer, &nothing),
            Ok(DiskDone::Size(size)) => Ok(Stored::Size(size)),
            Ok(_) => Ok(Stored::Done),
            Err(DiskError::NoObject(_)) if matches!(nothing, Stored::Read { .. }) => {
                self.moved(0, buffer, &nothing)
            }
            Err(DiskError::NoObject(_)) => Ok(nothing),
            Err(why) => Err(Refusal::from(&why)),
        }
    }

    /// A transfer has ended: what was not there to be read is zero.
    fn moved(&self, moved: usize, buffer: Option<DiskBuffer<V>>, kind: &Stored) -> Result<Stored, Refusal> {
        let Stored::Read { .. } = kind else { return Ok(Stored::Done) };
        let bytes = match buffer {
            Some(DiskBuffer::Owned(mut bytes)) => {
                bytes[moved..].fill(0);
                bytes
            }
            Some(DiskBuffer::Region { mr, at, len }) if moved < len => {
                mr.write(at + moved, &vec![0; len - moved]).map_err(|_| Refusal::Io)?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        Ok(Stored::Read { moved: moved as u32, bytes })
    }
}
