//! Versioned objects with lock-free reads, as FaRM has them ("FaRM: Fast Remote Memory", Dragojevic, Narayanan, Hodson and Castro, NSDI
//! 2014, section 5.4, by its description).
//!
//! An object is a header with its version and cache lines that each end with that version. A get reads it all by one RDMA read, and
//! reads again if a line has another version than the header: a write was under way. A put is a message to the home, whose
//! processor writes the object in place; FaRM's transactions over several objects and its replication are left out, which
//! makes its puts cheaper here than there.

use super::Answer;
use super::calls::Calls;
use crate::system::Place;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use weft_protocols::rt::{BufferGuard, BufferPool, Rt};
use weft_protocols::transport::{Mesh, OpError, TransportError};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs, Work};

const OPEN: u8 = 1;
const PUT: u8 = 2;

const LINE: usize = 64;
/// Bytes of a line that are the value's; the others are its version.
const DATA: usize = LINE - 8;
/// Of a version, as the header has it while the home writes.
const BUSY: u64 = 1 << 63;

const ACCESS: AccessFlags =
    AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_READ).union(AccessFlags::TORN_READS);

/// A node's part.
pub struct Objects<V: Verbs>(Rc<Shared<V>>);

struct Shared<V: Verbs> {
    calls: Rc<Calls<V>>,
    rt: Rt<V>,
    mesh: Mesh<V>,
    size: usize,
    pool: BufferPool<V>,
    places: RefCell<BTreeMap<u64, RemoteSlice>>,
}

impl<V: Verbs> Clone for Objects<V> {
    fn clone(&self) -> Objects<V> {
        Objects(Rc::clone(&self.0))
    }
}

/// An object's length in memory.
fn length(size: usize) -> usize {
    8 + size.div_ceil(DATA) * LINE
}

/// An object's lines, all of one version.
fn lines(value: &[u8], version: u64) -> Vec<u8> {
    let line = |part: &[u8]| {
        let mut line = part.to_vec();
        line.resize(DATA, 0);
        line.extend(version.to_le_bytes());
        line
    };
    value.chunks(DATA).flat_map(line).collect()
}

/// The version and the value of an object, unless it was being written.
fn whole(object: &[u8], size: usize) -> Option<(u64, Vec<u8>)> {
    let (header, rest) = object.split_first_chunk()?;
    let mut value = Vec::with_capacity(size);
    for line in rest.chunks(LINE) {
        let (data, version) = line.split_at_checked(DATA)?;
        if version != header {
            return None;
        }
        value.extend(data);
    }
    value.truncate(size);
    Some((u64::from_le_bytes(*header), value))
}

impl<V: Verbs> Objects<V> {
    pub fn start(place: &Place<V>, size: u32) -> Result<Objects<V>, TransportError> {
        let (size, kept) = (size as usize, RefCell::new(BTreeMap::<u64, (u64, V::Mr)>::new()));
        let (mesh, rt) = (place.mesh.clone(), place.rt.clone());
        let calls = Calls::start(place, move |(kind, name, payload)| {
            let mut kept = kept.borrow_mut();
            let (version, region) = match kept.entry(name) {
                Entry::Occupied(object) => object.into_mut(),
                Entry::Vacant(place) => {
                    let Ok(region) = mesh.alloc(length(size), ACCESS) else { return (0, Vec::new()) };
                    place.insert((0, region))
                }
            };
            if kind == PUT {
                *version += 1;
                rt.spend(Work::Copy { bytes: length(size) as u64 });
                // Every line tells a reader by its version; the header is right again at last. Its own memory is there.
                let _ = region.store(0, *version | BUSY);
                let _ = region.write(8, &lines(payload, *version));
                let _ = region.store(0, *version);
                return (*version, Vec::new());
            }
            let at = region.remote(0..region.len()).map(RemoteSlice::to_bytes).unwrap_or_default();
            (*version, at.to_vec())
        })?;
        let (rt, mesh) = (place.rt.clone(), place.mesh.clone());
        let pool = mesh.pool(length(size) as u32);
        Ok(Objects(Rc::new(Shared { calls, rt, mesh, size, pool, places: RefCell::default() })))
    }

    async fn place(&self, name: u64) -> Answer<RemoteSlice> {
        if let Some(at) = self.0.places.borrow().get(&name) {
            return Some(*at);
        }
        let (_, at) = self.0.calls.call((OPEN, name, &[])).await?;
        let at = RemoteSlice::from_bytes(at.try_into().ok()?);
        self.0.places.borrow_mut().insert(name, at);
        Some(at)
    }

    pub async fn get(&self, name: u64) -> Answer<(u64, Vec<u8>)> {
        let (at, home) = (self.place(name).await?, self.0.calls.home(name));
        let mut object = vec![0; length(self.0.size)];
        loop {
            let block = self.0.pool.alloc().ok()?;
            let into = BufferGuard::Block { block, len: at.len };
            match self.0.mesh.read_into(home, at, into).await {
                Ok(BufferGuard::Block { block, .. }) => block.read(0, &mut object).ok()?,
                Ok(_) => return None,
                Err(OpError::Unknown(_)) => continue,
                Err(OpError::NotExecuted(weft_protocols::transport::NotExecuted::Failed(_))) => continue,
                Err(OpError::NotExecuted(_)) => return None,
            }
            // The check, and the copy out of the lines.
            self.0.rt.spend(Work::Copy { bytes: object.len() as u64 });
            if let Some(whole) = whole(&object, self.0.size) {
                return Some(whole);
            }
        }
    }

    pub async fn put(&self, name: u64, value: &[u8]) -> Answer<u64> {
        self.0.calls.call((PUT, name, value)).await.map(|(version, _)| version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_whole_only_if_all_its_lines_are_of_its_headers_version() {
        let value: Vec<u8> = (0..200).collect();
        let object = |header: u64, version| [&header.to_le_bytes()[..], &lines(&value, version)].concat();
        assert_eq!(object(3, 3).len(), length(200));
        assert_eq!(whole(&object(3, 3), 200), Some((3, value.clone())));
        assert_eq!((whole(&object(3 | BUSY, 3), 200), whole(&object(2, 3), 200)), (None, None));
        let mut torn = object(3, 3);
        torn[8 + LINE + DATA] = 2;
        assert_eq!(whole(&torn, 200), None);
        assert_eq!(whole(&vec![0; length(200)], 200), Some((0, vec![0; 200])), "a new one");
    }
}
