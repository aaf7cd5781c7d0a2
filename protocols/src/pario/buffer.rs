//! Buffers: registered memory that belongs to a call until all of its servers have answered.

use super::FsError;
use crate::rt::{BufferGuard, Label, LabelGuard};
use crate::transport::Mesh;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs, VerbsError};

/// What servers may do with a buffer that a call offers them.
const ACCESS: AccessFlags =
    AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_READ).union(AccessFlags::REMOTE_WRITE);

/// The smallest region, in bytes: buffers come in powers of two from here, so that few sizes serve all.
const LEAST: usize = 4096;

/// Regions that are kept for the next buffers of each size, at most.
const KEPT: usize = 64;

/// Regions that no buffer uses, by their size.
type Free<V> = Rc<RefCell<BTreeMap<usize, Vec<Region<V>>>>>;

/// A region, and what it is called in logs.
struct Region<V: Verbs> {
    mr: V::Mr,
    _label: LabelGuard,
}

/// A node's registered memory for buffers. Registering costs more than moving a small file, so regions are used again.
pub(super) struct Buffers<V: Verbs> {
    mesh: Mesh<V>,
    free: Free<V>,
    /// How many regions were made.
    made: Cell<u64>,
}

impl<V: Verbs> Buffers<V> {
    pub(super) fn new(mesh: &Mesh<V>) -> Buffers<V> {
        Buffers { mesh: mesh.clone(), free: Free::<V>::default(), made: Cell::new(0) }
    }

    fn region(&self, size: usize) -> Result<Region<V>, VerbsError> {
        let mr = self.mesh.alloc(size, ACCESS)?;
        let number = self.made.replace(self.made.get() + 1);
        let _label = self.mesh.label(&mr, 0..size, Label::new("buffer").number(number));
        Ok(Region { mr, _label })
    }

    /// A buffer of so many bytes. Its bytes are those of its last use.
    pub(super) fn take(&self, len: usize) -> Result<Buffer<V>, FsError> {
        if u32::try_from(len).is_err() {
            let (value, bound) = (len as u64, u64::from(u32::MAX));
            return Err(VerbsError::TooLarge { what: "a buffer's length", value, bound }.into());
        }
        let size = len.max(LEAST).next_power_of_two();
        let kept = self.free.borrow_mut().get_mut(&size).and_then(Vec::pop);
        let region = match kept {
            Some(region) => region,
            None => self.region(size)?,
        };
        Ok(Buffer {
            memory: Rc::new(Memory { region: Some(region), size, free: Rc::clone(&self.free) }),
            len,
        })
    }
}

/// The region under a buffer. It is free again when no call holds it any more.
struct Memory<V: Verbs> {
    region: Option<Region<V>>,
    size: usize,
    free: Free<V>,
}

impl<V: Verbs> Drop for Memory<V> {
    fn drop(&mut self) {
        let Some(region) = self.region.take() else { return };
        let mut free = self.free.borrow_mut();
        let kept = free.entry(self.size).or_default();
        if kept.len() < KEPT {
            return kept.push(region);
        }
        drop(free);
        drop(region);
    }
}

/// Memory for the data of calls. It goes into a call by value and comes back from it: meanwhile, servers may read and write
/// it. If a call's future is dropped, the memory is free when all servers have answered, and not before.
pub struct Buffer<V: Verbs> {
    memory: Rc<Memory<V>>,
    len: usize,
}

impl<V: Verbs> Buffer<V> {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn within(&self, at: usize, len: usize) -> Result<&V::Mr, VerbsError> {
        let region = &self.memory.region;
        let region = region.as_ref().filter(|_| at.checked_add(len).is_some_and(|end| end <= self.len));
        region.map(|region| &region.mr).ok_or(VerbsError::OutOfRange {
            at: at as u64,
            len: len as u64,
            size: self.len as u64,
        })
    }

    /// Copies bytes in.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<(), VerbsError> {
        self.within(at, bytes.len())?.write(at, bytes)
    }

    /// Copies bytes out.
    pub fn read(&self, at: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        self.within(at, out.len())?.read(at, out)
    }

    /// The whole buffer, for a server.
    pub(super) fn remote(&self) -> Result<RemoteSlice, VerbsError> {
        self.within(0, self.len)?.remote(0..self.len)
    }

    /// A range of it for a transfer of this node's own.
    pub(super) fn guard(&self, at: u64, len: u32) -> Option<BufferGuard<V>> {
        let at = u32::try_from(at).ok()?;
        let mr = self.within(at as usize, len as usize).ok()?.clone();
        Some(BufferGuard::Range { mr, at, len })
    }

    /// The same memory, for a call that is under way.
    pub(super) fn held(&self) -> Buffer<V> {
        Buffer { memory: Rc::clone(&self.memory), len: self.len }
    }
}
