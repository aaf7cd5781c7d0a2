//! A node's memory: the minipages' bytes, and what the node's threads may do with them.
//!
//! [`Memory`] is all that the protocol asks of it. Here accesses are calls, which look at a table; mapped memory will look at the
//! processor's page tables instead.

use super::DsmError;
use super::messages::Access;
use super::shared::{Cut, ObjectId, PageId, Plain};
use crate::rt::sync::Signal;
use crate::rt::{BufferGuard, LabelGuard};
use crate::transport::{Mesh, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs, VerbsError};
use zerocopy::IntoBytes;

/// What the protocol asks of a node's memory. No call waits.
pub(super) trait Memory {
    /// Threads may access a minipage so from now on. (Mapped: `UFFDIO_CONTINUE`, write-protected for a read.)
    fn grant(&self, page: PageId, access: Access, version: u64);
    /// Threads may only read it from now on. Returns when no processor can write by an old translation. (Mapped:
    /// `UFFDIO_WRITEPROTECT`.)
    fn downgrade(&self, page: PageId);
    /// Threads may not access it any more. Returns when no processor can use an old translation. (Mapped: `MADV_DONTNEED`.)
    fn take_away(&self, page: PageId);
    /// Wakes the threads that wait for it; they look again. (Mapped: `UFFDIO_WAKE`, or the handler's mailbox.)
    fn wake(&self, page: PageId);
}

/// What a node knows of a minipage.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(super) struct Page {
    /// What its threads may do with it.
    pub access: Access,
    /// The version that it has, or had last.
    pub version: u64,
    /// Stores executed under that version's grant, as far as they are [counted](Page::stored).
    pub stores: u32,
    /// Accesses that waited for the present grant and are not executed yet.
    pub owed: u32,
    /// For whom it was given up last, since that grant: the bytes are still there.
    pub given: Option<Rank>,
    /// That was said in an epoch before: its manager may have gone on from another node's copy since, which the bytes are older than.
    pub told: bool,
    /// Other nodes have it in another length, and nothing of it comes here.
    pub otherwise: bool,
}

/// An object at a node: all of its bytes, of which the minipages with access are valid.
pub(super) struct Object<V: Verbs> {
    pub cut: Cut,
    /// What it has in bytes; the last minipage may be shorter than the others.
    bytes: usize,
    memory: V::Mr,
    _label: LabelGuard,
    pages: RefCell<Vec<Page>>,
    /// What all minipages owe.
    owed: Cell<u64>,
}

impl<V: Verbs> Object<V> {
    /// A minipage's bytes.
    pub fn range(&self, index: u32) -> Range<usize> {
        let grain = self.cut.grain as usize;
        let begin = (index as usize * grain).min(self.bytes);
        begin..(begin + grain).min(self.bytes)
    }

    /// What the node knows of a minipage; of one that the object has not, nothing.
    pub fn page(&self, index: u32) -> Page {
        self.pages.borrow().get(index as usize).copied().unwrap_or_default()
    }

    /// Changes what the node knows of a minipage.
    pub fn change(&self, index: u32, change: impl FnOnce(&mut Page)) {
        if let Some(page) = self.pages.borrow_mut().get_mut(index as usize) {
            let before = page.owed;
            change(page);
            self.owed.set(self.owed.get() + u64::from(page.owed) - u64::from(before));
        }
    }

    /// How many accesses waited for grants of its minipages and are not executed yet.
    pub fn owed(&self) -> u64 {
        self.owed.get()
    }

    /// Whether the object has such a minipage.
    pub fn has(&self, index: u32) -> bool {
        (index as usize) < self.pages.borrow().len()
    }

    /// Where a minipage's data go when this node is to have them.
    pub fn remote(&self, index: u32) -> RemoteSlice {
        self.memory.remote(self.range(index)).unwrap_or_default()
    }

    /// Whether it is cut so, and has so many bytes.
    pub fn is_cut(&self, cut: Cut, bytes: usize) -> bool {
        self.cut == cut && self.bytes == bytes
    }

    /// A minipage's bytes, for an adapter to read.
    pub fn bytes(&self, index: u32) -> BufferGuard<V> {
        let Range { start, end } = self.range(index);
        BufferGuard::Range { mr: self.memory.clone(), at: start as u32, len: (end - start) as u32 }
    }

    /// A copy of a minipage's bytes. Nobody else changes them: the minipage is readable here, or being taken away.
    pub fn copied(&self, index: u32) -> Vec<u8> {
        let range = self.range(index);
        let mut bytes = vec![0; range.len()];
        self.memory.read(range.start, &mut bytes).expect("it lies within the object");
        bytes
    }

    /// Copies a value out.
    pub fn value<T: Plain>(&self, at: usize) -> T {
        let mut value = T::new_zeroed();
        self.memory.read(at, IntoBytes::as_mut_bytes(&mut value)).expect("it lies within the object");
        value
    }

    /// Copies bytes out.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.memory.read(at, into).expect("it lies within the object");
    }

    /// Copies bytes in. Nobody else looks at them: the minipage is writable here, or invalid. A node that crashed has no memory any more
    /// when it lets go of its claims.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        match self.memory.write(at, bytes) {
            Err(VerbsError::DeviceGone) => {}
            written => written.expect("it lies within the object"),
        }
    }

    /// It has been said for whom minipages were given up.
    pub fn told(&self) {
        self.pages.borrow_mut().iter_mut().for_each(|page| page.told = page.given.is_some());
    }

    /// The accesses to all minipages, for audits.
    pub fn pages(&self) -> Vec<Page> {
        self.pages.borrow().clone()
    }
}

impl Page {
    /// The stores under its grant once one more is executed. They are counted for oracles alone, whose runs have fewer; `u32::MAX` is a
    /// reader's copy's.
    pub fn stored(self) -> u32 {
        (self.stores + 1).min(u32::MAX - 1)
    }

    /// A grant has come. One to read what the node may write already takes nothing away: an access that waited for that one may not be
    /// executed yet, and keeps those who want to share the minipage waiting.
    fn granted(&mut self, access: Access, version: u64) {
        if self.version != version || self.access == Access::Invalid {
            (self.access, self.stores) = (access, 0);
        }
        self.access = self.access.max(access);
        (self.version, self.given, self.told) = (version, None, false);
    }
}

/// The memory of a node whose threads access it by calls.
pub(super) struct Called<V: Verbs> {
    mesh: Mesh<V>,
    objects: RefCell<BTreeMap<ObjectId, Rc<Object<V>>>>,
    waiting: RefCell<BTreeMap<PageId, Signal>>,
    /// Threads that wait, over all minipages.
    waiters: Cell<u64>,
}

impl<V: Verbs> Called<V> {
    pub fn new(mesh: &Mesh<V>) -> Called<V> {
        let mesh = mesh.clone();
        Called { mesh, objects: RefCell::default(), waiting: RefCell::default(), waiters: Cell::new(0) }
    }

    /// An object that this node has touched.
    pub fn object(&self, id: ObjectId) -> Option<Rc<Object<V>>> {
        self.objects.borrow().get(&id).cloned()
    }

    /// An object, whose memory is registered when the node first touches it: all zero.
    ///
    /// # Errors
    ///
    /// There is no memory, or the object is there and is cut otherwise.
    pub fn touch(&self, cut: Cut, bytes: usize, pages: u32) -> Result<Rc<Object<V>>, DsmError> {
        if let Some(there) = self.objects.borrow().get(&cut.object) {
            return if there.is_cut(cut, bytes) {
                Ok(Rc::clone(there))
            } else {
                Err(DsmError::Otherwise(cut.object))
            };
        }
        let access =
            AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_WRITE).union(AccessFlags::REMOTE_READ);
        let memory = self.mesh.alloc(bytes, access).map_err(DsmError::Memory)?;
        let pages = RefCell::new(vec![Page::default(); pages as usize]);
        let label = cut.object.label().cut("minipage", cut.grain);
        let _label = self.mesh.label(&memory, 0..bytes, label);
        let object = Rc::new(Object { cut, bytes, memory, _label, pages, owed: Cell::new(0) });
        self.objects.borrow_mut().insert(cut.object, Rc::clone(&object));
        Ok(object)
    }

    /// Waits at a minipage until `over` says that the wait is over.
    pub async fn wait(&self, page: PageId, over: impl Fn() -> bool) {
        self.waiters.set(self.waiters.get() + 1);
        let _waiter = Waiter { memory: self };
        while !over() {
            // A wake-up takes the signal away: who waits for more is there again with a new one.
            let changed = self.waiting.borrow_mut().entry(page).or_default().changed();
            changed.await;
        }
    }

    /// Wakes all threads that wait for anything.
    pub fn wake_all(&self) {
        let waiting: Vec<PageId> = self.waiting.borrow().keys().copied().collect();
        waiting.into_iter().for_each(|page| self.wake(page));
    }

    /// Threads that wait.
    pub fn waiters(&self) -> u64 {
        self.waiters.get()
    }

    /// An object is freed: no adapter and no thread has anything to do with it any more.
    pub fn forget(&self, object: ObjectId) {
        self.objects.borrow_mut().remove(&object);
    }

    /// All objects that the node has touched.
    pub fn objects(&self) -> Vec<Rc<Object<V>>> {
        self.objects.borrow().values().cloned().collect()
    }

    fn change(&self, page: PageId, change: impl FnOnce(&mut Page)) {
        if let Some(object) = self.objects.borrow().get(&page.object) {
            object.change(page.index, change);
        }
    }
}

impl<V: Verbs> Memory for Called<V> {
    fn grant(&self, page: PageId, access: Access, version: u64) {
        self.change(page, |page| page.granted(access, version));
    }

    fn downgrade(&self, page: PageId) {
        self.change(page, |page| page.access = page.access.min(Access::Read));
    }

    fn take_away(&self, page: PageId) {
        self.change(page, |page| page.access = Access::Invalid);
    }

    fn wake(&self, page: PageId) {
        let signal = self.waiting.borrow_mut().remove(&page);
        if let Some(signal) = signal {
            signal.notify();
        }
    }
}

/// A thread that waits, counted.
struct Waiter<'a, V: Verbs> {
    memory: &'a Called<V>,
}

impl<V: Verbs> Drop for Waiter<'_, V> {
    fn drop(&mut self) {
        self.memory.waiters.set(self.memory.waiters.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Invalid, Read, Write};

    /// A thread that alone writes a minipage executes so many within minutes.
    #[test]
    fn a_grant_outlives_more_stores_than_are_counted() {
        let page = Page { stores: u32::MAX - 2, ..Page::default() };
        let page = Page { stores: page.stored(), ..page };
        assert_eq!((page.stores, page.stored()), (u32::MAX - 1, u32::MAX - 1));
    }

    /// `weft fuzz swarm-16-dsm-rails` found a minipage that was shared before a store that it had been granted for (seed 48460).
    #[test]
    fn a_grant_to_read_takes_no_grant_to_write_away() {
        let mut page = Page { access: Write, version: 4, stores: 2, owed: 1, ..Page::default() };
        page.granted(Read, 4);
        assert_eq!(page, Page { access: Write, version: 4, stores: 2, owed: 1, ..Page::default() });
        page.granted(Read, 6);
        assert_eq!(page, Page { access: Read, version: 6, stores: 0, owed: 1, ..Page::default() });
        page.granted(Write, 7);
        assert_eq!((page.access, page.version, page.stores), (Write, 7, 0));
        page.access = Invalid;
        page.granted(Read, 7);
        assert_eq!((page.access, page.stores), (Read, 0));
    }
}
