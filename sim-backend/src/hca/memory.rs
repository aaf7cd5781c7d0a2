//! Memory regions: keys, bounds, rights.

use super::bytes::{Bytes, PAGE};
use super::{Gather, Key, Late, Slab};
use crate::access::RegionId;
use crate::in_place::clone_in_place;
use std::ops::Range;
use std::rc::Rc;
use weft_verbs::{AccessFlags, PinnedMemory, QpNum, VerbsError, WcError};

/// Registered memory.
#[derive(Debug)]
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
    /// Its ranges that are registered as regions of their own: first byte and length. Their bytes are there meanwhile.
    lent: Vec<(usize, usize)>,
    /// The region of which it is a part, and where in it.
    of: Option<(Key, usize)>,
}

clone_in_place! { Region { addr, access, pd, id, bytes, leases, held, lent, of } }

/// An adapter's memory regions.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Slab<Region>,
    next_addr: u64,
}

clone_in_place! { Memory { regions, next_addr } }

/// A part of a region that a peer may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The region.
    pub region: Key,
    /// First byte, as an offset into it.
    pub at: usize,
}

impl Region {
    /// Refuses a range that has bytes of a living part.
    #[inline]
    pub fn reach(&self, at: usize, len: usize) -> Result<(), VerbsError> {
        let is_lent = |&(first, count): &(usize, usize)| at < first + count && first < at + len;
        if self.lent.iter().any(is_lent) {
            return Err(VerbsError::Busy("the range of the memory region"));
        }
        Ok(())
    }

    /// Keeps from the processor, for a while, what a queue pair is about to write.
    #[cold]
    pub(super) fn hide(&self, late: &mut Late, qp: QpNum, key: Key, at: usize, len: usize) {
        let mut before = vec![0; len];
        self.bytes.read(at, &mut before);
        late.hide(qp, key, at, &before);
    }
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
        let (lent, of) = (Vec::new(), None);
        self.regions.insert(Region { addr, access, pd, id, bytes, leases: 0, held: true, lent, of })
    }

    /// The bytes of a range that is to be a region of its own.
    pub fn part_of(&self, of: Key, pd: Key, range: &Range<usize>) -> Result<Bytes, VerbsError> {
        let whole = self.get(of).ok_or(VerbsError::DeviceGone)?;
        if whole.pd != pd {
            return Err(VerbsError::Invalid("the memory region is of another domain"));
        }
        if whole.of.is_some() || whole.bytes.shared_at().is_some() {
            return Err(VerbsError::Invalid("parts are of memory that was allocated whole"));
        }
        whole.reach(range.start, range.len())?;
        let mut bytes = Bytes::zeroed(range.len());
        bytes.copy_from(0, &whole.bytes, range.clone());
        Ok(bytes)
    }

    /// A region has a range of another one from now on.
    pub fn lend(&mut self, of: Key, at: usize, part: Key) {
        let Some(region) = self.regions.get_mut(part) else { return };
        region.of = Some((of, at));
        let len = region.bytes.len();
        if let Some(whole) = self.regions.get_mut(of) {
            whole.lent.push((at, len));
        }
    }

    /// A part has ended: its bytes are the whole region's again.
    #[cold]
    fn give_back(&mut self, part: &Region) {
        let Some((of, at)) = part.of else { return };
        let Some(whole) = self.regions.get_mut(of) else { return };
        whole.lent.retain(|lent| *lent != (at, part.bytes.len()));
        whole.bytes.copy_from(at, &part.bytes, 0..part.bytes.len());
        if !whole.held {
            // Its memory was allocated here: nothing is handed back.
            drop(self.reap(of));
        }
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

    /// Takes every right from a region that no work request holds.
    pub fn revoke(&mut self, key: Key) -> Result<(), VerbsError> {
        let region = self.regions.get_mut(key).ok_or(VerbsError::DeviceGone)?;
        if region.leases > 0 || !region.lent.is_empty() {
            return Err(VerbsError::Busy("the memory region"));
        }
        region.access = AccessFlags::empty();
        Ok(())
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
        if region.held || region.leases > 0 || !region.lent.is_empty() {
            return None;
        }
        let gone = self.regions.remove(key)?;
        self.give_back(&gone);
        match gone.bytes {
            Bytes::Own(_) => None,
            Bytes::Brought(memory) => Some(memory),
        }
    }

    /// A work request takes hold of its regions. Says what the adapter will say to its list (IBA 10.6.3), which
    /// needs ranges within each region, regions of the queue pair's domain, and the right to write where an
    /// answer or a message goes.
    #[inline(always)]
    pub fn take_hold(&mut self, data: &Gather, pd: Key, write: bool) -> Option<WcError> {
        let mut wrong = false;
        for sge in data.list() {
            let Some(region) = self.regions.get_mut(sge.mr) else {
                wrong = true;
                continue;
            };
            region.leases += 1;
            let inside = u64::from(sge.at) + u64::from(sge.len) <= region.bytes.len() as u64;
            let right = !write || region.access.contains(AccessFlags::LOCAL_WRITE);
            wrong |= region.pd != pd || !inside || !right;
        }
        wrong.then_some(WcError::LocProt)
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

/// A region's local and remote key: its place, and 8 bits of how often the place was used, the part of a key that its
/// owner may vary (IBA 10.6.3.3).
///
/// So a key comes again after its place was used 256 times, which is at least 4,352 registrations later. What an old one was given out with, the address, does not:
/// a peer that kept both is refused for ever, and only one that invents an address can be let in by mistake.
pub const fn keys_of(key: Key) -> (u32, u32) {
    let local = (key.index + 1) << 8 | (key.generation & 0xff);
    (local, local | REMOTE)
}

const fn index_of(rkey: u32) -> Option<u32> {
    if rkey & REMOTE == 0 { None } else { ((rkey & !REMOTE) >> 8).checked_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_slice_is_refused_even_when_its_key_comes_again() {
        let mut memory = Memory::new(1 << 20);
        let pd = crate::hca::Slab::default().insert(0u32);
        let (all, id) = (AccessFlags::all(), RegionId(0));
        let first = memory.insert(pd, all, id, Bytes::zeroed(64));
        let (rkey, addr) = (keys_of(first).1, memory.get(first).unwrap().addr);
        memory.drop_handle(first);
        let mut came_again = 0;
        for _ in 0..10_000 {
            let key = memory.insert(pd, all, id, Bytes::zeroed(64));
            came_again += u32::from(keys_of(key).1 == rkey);
            assert_eq!(memory.check_remote(rkey, addr, 8, pd, AccessFlags::REMOTE_READ), None);
            memory.drop_handle(key);
        }
        assert_eq!(came_again, 2, "once in 4,352 registrations");
    }
}
