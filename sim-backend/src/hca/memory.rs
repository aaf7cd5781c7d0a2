//! Memory regions: keys, bounds, rights.

use super::bytes::{Bytes, PAGE};
use super::{Gather, Key, Slab};
use crate::access::RegionId;
use std::rc::Rc;
use verbs_trait::{AccessFlags, PinnedMemory, WcError};

/// Registered memory.
#[derive(Clone, Debug)]
pub struct Region {
    /// The address of its first byte, unique within the node.
    pub addr: u64,
    /// Who may do what.
    pub access: AccessFlags,
    /// Its protection domain.
    pub pd: Key,
    /// Its identity in the access log.
    pub id: RegionId,
    /// Its bytes.
    pub bytes: Bytes,
    /// Work requests that hold it.
    leases: u32,
    /// Whether the program still holds it.
    held: bool,
}

/// An adapter's memory regions.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    regions: Slab<Region>,
    next_addr: u64,
}

/// A part of a region that a peer may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The region.
    pub region: Key,
    /// First byte, as an offset into it.
    pub at: usize,
}

impl Memory {
    /// No regions; addresses begin at `base`.
    pub fn new(base: u64) -> Memory {
        Memory { regions: Slab::default(), next_addr: base }
    }

    /// How many regions there are.
    pub fn len(&self) -> u32 {
        self.regions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Adds a region. Addresses are never used again, so that a pointer means the same in every run.
    pub fn insert(&mut self, pd: Key, access: AccessFlags, id: RegionId, bytes: Bytes) -> Key {
        let addr = self.next_addr;
        let pages = bytes.len().div_ceil(PAGE).max(1) as u64;
        // A page that belongs to nobody lies between any two regions.
        self.next_addr += (pages + 1) * PAGE as u64;
        self.regions.insert(Region { addr, access, pd, id, bytes, leases: 0, held: true })
    }

    /// A region.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&Region> {
        self.regions.get(key)
    }

    /// A region, to write to it.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Region> {
        self.regions.get_mut(key)
    }

    /// The program gives the region up. It lives on while work requests hold it. Memory that the application
    /// brought is handed back, to be released by the caller.
    pub fn drop_handle(&mut self, key: Key) -> Option<Rc<dyn PinnedMemory>> {
        let region = self.regions.get_mut(key)?;
        region.held = false;
        self.reap(key)
    }

    /// A work request takes hold of its regions.
    #[inline]
    pub fn lease(&mut self, data: &Gather) {
        for sge in data.list() {
            if let Some(region) = self.regions.get_mut(sge.mr) {
                region.leases += 1;
            }
        }
    }

    /// A work request lets its regions go. What the application brought, and is free now, goes to `brought`.
    #[inline]
    pub fn release(&mut self, data: &Gather, brought: &mut Vec<Rc<dyn PinnedMemory>>) {
        for sge in data.list() {
            if let Some(region) = self.regions.get_mut(sge.mr) {
                region.leases -= 1;
                if !region.held {
                    brought.extend(self.reap(sge.mr));
                }
            }
        }
    }

    #[cold]
    fn reap(&mut self, key: Key) -> Option<Rc<dyn PinnedMemory>> {
        let region = self.regions.get(key)?;
        if region.held || region.leases > 0 {
            return None;
        }
        match self.regions.remove(key)?.bytes {
            Bytes::Own(_) => None,
            Bytes::Brought(memory) => Some(memory),
        }
    }

    /// What the adapter would say to a work request with this list (IBA 10.6.3): a range within each region,
    /// regions of the queue pair's domain, and the right to write where an answer or a message goes.
    pub fn check_local(&self, data: &Gather, pd: Key, write: bool) -> Result<(), WcError> {
        for sge in data.list() {
            let region = self.regions.get(sge.mr).ok_or(WcError::LocProt)?;
            let inside = u64::from(sge.at) + u64::from(sge.len) <= region.bytes.len() as u64;
            let right = !write || region.access.contains(AccessFlags::LOCAL_WRITE);
            if region.pd != pd || !inside || !right {
                return Err(WcError::LocProt);
            }
        }
        Ok(())
    }

    /// The memory that a peer's key, address and length name, if it may do that to it (IBA 10.6.3.2, 9.7.4.1.4).
    #[inline]
    pub fn check_remote(
        &self,
        rkey: u32,
        addr: u64,
        len: u32,
        pd: Key,
        right: AccessFlags,
    ) -> Option<Target> {
        let (key, region) = self.regions.at(index_of(rkey)?)?;
        if keys_of(key).1 != rkey || region.pd != pd || !region.access.contains(right) {
            return None;
        }
        let at = addr.checked_sub(region.addr)?;
        let end = at.checked_add(u64::from(len))?;
        (end <= region.bytes.len() as u64).then_some(Target { region: key, at: at as usize })
    }

    /// All regions.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Region)> {
        self.regions.iter()
    }

    /// Forgets every region: the node crashed. Brought memory is handed back.
    pub fn clear(&mut self) -> Vec<Rc<dyn PinnedMemory>> {
        let gone = self.regions.drain().into_iter();
        gone.filter_map(|region| match region.bytes {
            Bytes::Own(_) => None,
            Bytes::Brought(memory) => Some(memory),
        })
        .collect()
    }
}

/// Most regions of an adapter: what a key has room for.
pub const MAX_REGIONS: u32 = 1 << 22;

const REMOTE: u32 = 1 << 31;

/// A region's local and remote key: its place, and 8 bits of how often the place was used, so that a key of a
/// region that is gone is refused for long.
pub const fn keys_of(key: Key) -> (u32, u32) {
    let local = (key.index + 1) << 8 | (key.generation & 0xff);
    (local, local | REMOTE)
}

const fn index_of(rkey: u32) -> Option<u32> {
    if rkey & REMOTE == 0 { None } else { ((rkey & !REMOTE) >> 8).checked_sub(1) }
}
