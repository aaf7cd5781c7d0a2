//! Memory regions: keys, bounds, rights.

use super::bytes::{Bytes, PAGE};
use super::keys::{KeyStack, keys_of, number_of, numbered};
use super::{Gather, Key, Late, Slab};
use crate::access::RegionId;
use crate::config::Keys;
use crate::in_place::clone_in_place;
use std::hash::{Hash, Hasher};
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
    /// Whether one ever has.
    was_leased: bool,
    /// Whether the program still holds it.
    held: bool,
    /// Its ranges that are registered as regions of their own: first byte and length. Their bytes are there meanwhile.
    lent: Vec<(usize, usize)>,
    /// The region of which it is a part, and where in it.
    of: Option<(Key, usize)>,
    /// The number of its key, where keys are given out by a stack: none once it was deregistered.
    number: Option<u32>,
}

clone_in_place! { Region { addr, access, pd, id, bytes, leases, was_leased, held, lent, of, number } }

/// An adapter's memory regions.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Slab<Region>,
    next_addr: u64,
    /// The keys, where a region's are not those of its place.
    stack: Option<KeyStack>,
    /// Whether one was removed since that was last asked.
    removed: bool,
}

clone_in_place! { Memory { regions, next_addr, stack, removed } }

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
        Memory { regions: Slab::default(), next_addr: base, stack: None, removed: false }
    }

    /// Says how keys are given out, before there is a region.
    pub fn set_keys(&mut self, keys: Keys) {
        self.stack = match keys {
            Keys::Rest => None,
            Keys::Stack => Some(KeyStack::default()),
        };
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
        let (lent, of, number) = (Vec::new(), None, None);
        let (leases, was_leased, held) = (0, false, true);
        let region = Region { addr, access, pd, id, bytes, leases, was_leased, held, lent, of, number };
        let key = self.regions.insert(region);
        if let (Some(stack), Some(region)) = (&mut self.stack, self.regions.get_mut(key)) {
            region.number = Some(stack.give(key));
        }
        key
    }

    /// A region's local and remote key.
    pub fn keys(&self, key: Key) -> (u32, u32) {
        self.get(key).and_then(|region| region.number).map_or(keys_of(key), numbered)
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

    /// A region has a range of another one from now on. By a stack of keys it has the range's address as well, as real memory has.
    pub fn lend(&mut self, of: Key, at: usize, part: Key) {
        let Some(region) = self.regions.get_mut(part) else { return };
        region.of = Some((of, at));
        let (len, keeps_address) = (region.bytes.len(), region.number.is_some());
        let Some(whole) = self.regions.get_mut(of) else { return };
        whole.lent.push((at, len));
        let addr = whole.addr + at as u64;
        if let Some(region) = self.regions.get_mut(part).filter(|_| keeps_address) {
            region.addr = addr;
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
        let number = region.number.take();
        self.let_die(number);
        Ok(())
    }

    /// A region's key dies, where it has one of the stack's.
    fn let_die(&mut self, number: Option<u32>) {
        if let (Some(stack), Some(number)) = (&mut self.stack, number) {
            stack.take_back(number);
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
        if region.held || region.leases > 0 || !region.lent.is_empty() {
            return None;
        }
        let gone = self.regions.remove(key)?;
        self.removed = true;
        self.let_die(gone.number);
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
            region.was_leased = true;
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
        let (key, region) = self.opened_by(rkey)?;
        if region.pd != pd || !region.access.contains(right) {
            return None;
        }
        let at = addr.checked_sub(region.addr)?;
        let end = at.checked_add(u64::from(len))?;
        (end <= region.bytes.len() as u64).then_some(Target { region: key, at: at as usize })
    }

    /// The region that a remote key opens now.
    #[inline]
    fn opened_by(&self, rkey: u32) -> Option<(Key, &Region)> {
        let number = number_of(rkey)?;
        let Some(stack) = &self.stack else {
            return self.regions.at(number).filter(|(key, _)| keys_of(*key).1 == rkey);
        };
        let key = stack.opened_by(number).filter(|_| numbered(number).1 == rkey)?;
        Some((key, self.regions.get(key)?))
    }

    /// Adds to a hash which keys will be given out, where a stack gives them: which region opens by an old key depends on it.
    pub fn digest_keys(&self, hash: &mut impl Hasher) {
        if let Some(stack) = &self.stack {
            stack.hash(hash);
        }
    }

    /// Whether a work request has ever held a region: what becomes of it depends on when the last one ends.
    pub fn was_leased(&self, key: Key) -> bool {
        self.get(key).is_some_and(|region| region.was_leased)
    }

    /// Whether a region was removed since the last call.
    pub fn take_removed(&mut self) -> bool {
        std::mem::take(&mut self.removed)
    }

    /// All regions.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Region)> {
        self.regions.iter()
    }

    /// Forgets every region: the node crashed. Brought memory is handed back.
    pub fn clear(&mut self) -> Vec<Rc<dyn PinnedMemory>> {
        let gone = self.regions.drain();
        gone.iter().for_each(|region| self.let_die(region.number));
        gone.into_iter()
            .filter_map(|region| match region.bytes {
                Bytes::Own(_) => None,
                Bytes::Brought(memory) => Some(memory),
            })
            .collect()
    }
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

    #[test]
    fn a_stack_gives_the_key_that_died_last_to_the_next_region() {
        let mut memory = Memory::new(1 << 20);
        memory.set_keys(Keys::Stack);
        let pd = crate::hca::Slab::default().insert(0u32);
        let new =
            |memory: &mut Memory, len| memory.insert(pd, AccessFlags::all(), RegionId(0), Bytes::zeroed(len));
        let opens = |memory: &Memory, rkey, addr| {
            memory.check_remote(rkey, addr, 8, pd, AccessFlags::REMOTE_READ).map(|target| target.region)
        };
        let (first, second) = (new(&mut memory, 64), new(&mut memory, 64));
        let (rkey, addr) = (memory.keys(first).1, memory.get(first).unwrap().addr);
        assert_eq!(opens(&memory, rkey, addr), Some(first));
        memory.drop_handle(second);
        memory.revoke(first).unwrap();
        assert_eq!(opens(&memory, rkey, addr), None, "a key that died opens nothing");
        let next = new(&mut memory, 64);
        assert_eq!(memory.keys(next).1, rkey);
        assert_eq!(opens(&memory, rkey, addr), None, "it opens no memory of the region that it was of");
        let next_addr = memory.get(next).unwrap().addr;
        assert_eq!(opens(&memory, rkey, next_addr), Some(next));
        // The handle of a region that was deregistered has no key to give back.
        memory.drop_handle(first);
        assert_eq!(opens(&memory, rkey, next_addr), Some(next));
    }

    #[test]
    fn a_stack_lets_an_old_key_and_address_open_the_next_part_of_the_same_range() {
        let mut memory = Memory::new(1 << 20);
        memory.set_keys(Keys::Stack);
        let pd = crate::hca::Slab::default().insert(0u32);
        let (all, id) = (AccessFlags::all(), RegionId(0));
        let whole = memory.insert(pd, all, id, Bytes::zeroed(8192));
        let part = |memory: &mut Memory| {
            let bytes = memory.part_of(whole, pd, &(1024..2048)).unwrap();
            let part = memory.insert(pd, all, id, bytes);
            memory.lend(whole, 1024, part);
            part
        };
        let first = part(&mut memory);
        let (rkey, addr) = (memory.keys(first).1, memory.get(first).unwrap().addr);
        assert_eq!(addr, memory.get(whole).unwrap().addr + 1024);
        memory.drop_handle(first);
        let second = part(&mut memory);
        let target = memory.check_remote(rkey, addr, 8, pd, AccessFlags::REMOTE_READ);
        assert_eq!(target, Some(Target { region: second, at: 0 }));
    }
}
