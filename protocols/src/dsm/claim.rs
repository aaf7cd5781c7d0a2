//! Claims: elements that a thread has for itself, as a slice, for as long as it borrows them.
//!
//! Outside a claim shared memory is never a Rust reference: another thread of the cluster may store at any time. A claim waits until
//! the node has all minipages of its ranges, and pins them: orders to give them up wait, and so do the node's other threads,
//! those that store for a claim to read, and all for a claim to write. A claim is one access to all its elements, at the
//! moment at which the last minipage was pinned.
//!
//! A claim borrows its thread, so a thread has one claim at a time and can wait for nothing else meanwhile; minipages are pinned in
//! ascending order. So claims wait for each other in no circle.
//!
//! Where accesses are calls, the slice is a copy, which a claim to write writes back when it ends: memory that an adapter has
//! registered is never a Rust slice. With mapped memory it will be the privileged view itself.
//!
//! ```
//! use weft_protocols::dsm::{DsmError, Shared, Thread};
//! use weft_verbs::{Nanos, Verbs};
//!
//! async fn halve<V: Verbs>(thread: &mut Thread<V>, of: Shared<[f64]>) -> Result<(), DsmError> {
//!     let mut all = thread.claim_mut(of, 0..of.len(), Nanos::MAX).await?;
//!     all.iter_mut().for_each(|element| *element /= 2.0);
//!     Ok(())
//! }
//! ```
//!
//! A reference does not outlive its claim:
//!
//! ```compile_fail,E0505
//! # use weft_protocols::dsm::{DsmError, Shared, Thread};
//! # use weft_verbs::{Nanos, Verbs};
//! async fn keeps<V: Verbs>(thread: &mut Thread<V>, of: Shared<[u64]>) -> Result<u64, DsmError> {
//!     let claim = thread.claim(of, 0..8, Nanos::MAX).await?;
//!     let first = &claim[0];
//!     drop(claim);
//!     Ok(*first)
//! }
//! ```
//!
//! While it has a claim, a thread can do nothing else:
//!
//! ```compile_fail,E0499
//! # use weft_protocols::dsm::{DsmError, Shared, Thread};
//! # use weft_verbs::{Nanos, Verbs};
//! async fn waits<V: Verbs>(thread: &mut Thread<V>, of: Shared<[u64]>) -> Result<u64, DsmError> {
//!     let claim = thread.claim(of, 0..8, Nanos::MAX).await?;
//!     let other = thread.load(of, 9).await?;
//!     Ok(claim[0] + other)
//! }
//! ```
//!
//! Nor can it leave for a barrier, or claim more:
//!
//! ```compile_fail,E0499
//! # use weft_protocols::dsm::{BarrierId, DsmError, Shared, Thread};
//! # use weft_verbs::{Nanos, Verbs};
//! async fn leaves<V: Verbs>(thread: &mut Thread<V>, of: Shared<[u64]>) -> Result<u64, DsmError> {
//!     let claim = thread.claim(of, 0..8, Nanos::MAX).await?;
//!     thread.barrier(BarrierId(0), 2).await?;
//!     Ok(claim[0])
//! }
//! ```
//!
//! What is claimed to be read cannot be written:
//!
//! ```compile_fail,E0594
//! # use weft_protocols::dsm::{DsmError, Shared, Thread};
//! # use weft_verbs::{Nanos, Verbs};
//! async fn writes<V: Verbs>(thread: &mut Thread<V>, of: Shared<[u64]>) -> Result<(), DsmError> {
//!     let mut claim = thread.claim(of, 0..8, Nanos::MAX).await?;
//!     claim[0] = 1;
//!     Ok(())
//! }
//! ```
//!
//! Types with pointers cannot be shared at all:
//!
//! ```compile_fail,E0277
//! # use weft_protocols::dsm::{Dsm, DsmError, Grain, Placement, Shared};
//! # use weft_verbs::Verbs;
//! fn points<V: Verbs>(dsm: &Dsm<V>) -> Result<Shared<[Box<u64>]>, DsmError> {
//!     dsm.alloc(8, Grain::Bytes(64), Placement::RoundRobin)
//! }
//! ```

use super::DsmError;
use super::fault::come;
use super::memory::Memory;
use super::messages::Access;
use super::pins::Purpose;
use super::reading::Decision;
use super::service::{Gone, Service};
use super::shared::{ObjectId, PageId, Plain, Shared};
use super::thread::{Stamp, Thread, parts};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};
use zerocopy::IntoBytes;

/// Elements of one object: what a claim is about.
pub type Elements<T> = (Shared<[T]>, Range<usize>);

/// Elements that a thread may read, and that nobody changes meanwhile: `N` ranges of them. Derefs to the slice if it is one.
pub struct Claim<'t, V: Verbs, T: Plain, const N: usize = 1> {
    held: Held<V>,
    slices: [Box<[T]>; N],
    of: [Elements<T>; N],
    /// The thread can do nothing else.
    thread: PhantomData<&'t mut Thread<V>>,
}

/// Elements that a thread may change, and that nobody else accesses meanwhile: `N` ranges of them. Derefs to the slice if it is one.
/// Others see the changes when it is dropped.
pub struct ClaimMut<'t, V: Verbs, T: Plain, const N: usize = 1>(Claim<'t, V, T, N>);

impl<V: Verbs, T: Plain, const N: usize> Claim<'_, V, T, N> {
    /// The slices, one for each range that was claimed.
    pub fn slices(&self) -> [&[T]; N] {
        std::array::from_fn(|range| &*self.slices[range])
    }

    /// The claim's place in the order of all accesses to the minipage of an element, counted over its object: for oracles.
    pub fn place(&self, of: Shared<[T]>, index: usize) -> Option<Stamp> {
        let page = of.spot(index).ok()?.page;
        self.held.pinned().find(|(held, _)| *held == page).map(|(_, stamp)| stamp)
    }
}

impl<V: Verbs, T: Plain, const N: usize> ClaimMut<'_, V, T, N> {
    /// The slices, one for each range that was claimed.
    pub fn slices_mut(&mut self) -> [&mut [T]; N] {
        self.0.slices.each_mut().map(|slice| &mut **slice)
    }

    /// See [`Claim::place`].
    pub fn place(&self, of: Shared<[T]>, index: usize) -> Option<Stamp> {
        self.0.place(of, index)
    }
}

impl<V: Verbs, T: Plain> Deref for Claim<'_, V, T, 1> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.slices[0]
    }
}

impl<V: Verbs, T: Plain> Deref for ClaimMut<'_, V, T, 1> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<V: Verbs, T: Plain> DerefMut for ClaimMut<'_, V, T, 1> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0.slices[0]
    }
}

impl<V: Verbs, T: Plain, const N: usize> Drop for ClaimMut<'_, V, T, N> {
    fn drop(&mut self) {
        let Claim { held, slices, of, .. } = &self.0;
        for ((shared, range), slice) in of.iter().zip(slices) {
            let object = held.service.memory.object(shared.object());
            if let (Some(object), false) = (object, range.is_empty()) {
                object.write(range.start * size_of::<T>(), slice.as_bytes());
            }
        }
        for (page, _) in held.pinned() {
            if let Some(object) = held.service.memory.object(page.object) {
                object.change(page.index, |page| page.stores = page.stored());
            }
        }
    }
}

impl<V: Verbs> Thread<V> {
    /// Claims elements for reading: waits until the node has them all, and keeps them as they are until the claim is dropped.
    ///
    /// # Errors
    ///
    /// As [`Thread`] lists them; or the deadline of the node's clock has passed ([`Nanos::MAX`] never does).
    pub async fn claim<T: Plain>(
        &mut self,
        of: Shared<[T]>,
        range: Range<usize>,
        deadline: Nanos,
    ) -> Result<Claim<'_, V, T, 1>, DsmError> {
        self.claim_all([(of, range)], deadline).await
    }

    /// Claims elements for writing: waits until the node alone has them all, and keeps all others away until the claim is dropped.
    ///
    /// # Errors
    ///
    /// As [`Thread::claim`].
    pub async fn claim_mut<T: Plain>(
        &mut self,
        of: Shared<[T]>,
        range: Range<usize>,
        deadline: Nanos,
    ) -> Result<ClaimMut<'_, V, T, 1>, DsmError> {
        self.claim_all_mut([(of, range)], deadline).await
    }

    /// Claims several ranges for reading, as one.
    ///
    /// # Errors
    ///
    /// As [`Thread::claim`]; or two of them overlap.
    pub async fn claim_all<T: Plain, const N: usize>(
        &mut self,
        of: [Elements<T>; N],
        deadline: Nanos,
    ) -> Result<Claim<'_, V, T, N>, DsmError> {
        self.hold(of, Access::Read, deadline).await
    }

    /// Claims several ranges for writing, as one.
    ///
    /// # Errors
    ///
    /// As [`Thread::claim`]; or two of them overlap.
    pub async fn claim_all_mut<T: Plain, const N: usize>(
        &mut self,
        of: [Elements<T>; N],
        deadline: Nanos,
    ) -> Result<ClaimMut<'_, V, T, N>, DsmError> {
        self.hold(of, Access::Write, deadline).await.map(ClaimMut)
    }

    async fn hold<T: Plain, const N: usize>(
        &mut self,
        of: [Elements<T>; N],
        need: Access,
        deadline: Nanos,
    ) -> Result<Claim<'_, V, T, N>, DsmError> {
        let pages = pages(&of)?;
        let service = &self.dsm().0;
        for (shared, _) in &of {
            service.touch(*shared)?;
        }
        let pinning = pin(Held::begin(service, pages, need));
        let held = if deadline == Nanos::MAX {
            pinning.await?
        } else {
            service.rt.deadline(deadline, pinning).await.map_err(|_| DsmError::Deadline)??
        };
        let copied = |(shared, range): &Elements<T>| held.service.copied(*shared, range.clone());
        let slices = of.each_ref().map(copied);
        Ok(Claim { held, slices, of, thread: PhantomData })
    }
}

/// The minipages of some ranges, in ascending order and each once; the ranges must not overlap.
fn pages<T: Plain, const N: usize>(of: &[Elements<T>; N]) -> Result<Vec<PageId>, DsmError> {
    let mut pages = Vec::new();
    for (number, (shared, range)) in of.iter().enumerate() {
        for part in parts(*shared, range.start, range.len())? {
            pages.push(shared.spot(part.start)?.page);
        }
        // An empty range has no element that could be in another one, wherever it lies.
        let overlap = |(other, earlier): &Elements<T>| {
            let (start, end) = (range.start.max(earlier.start), range.end.min(earlier.end));
            let is_one = other.object() == shared.object() && start < end;
            is_one.then_some(DsmError::Overlap { start, end })
        };
        if let Some(overlap) = of[..number].iter().find_map(overlap) {
            return Err(overlap);
        }
    }
    pages.sort_unstable();
    pages.dedup();
    Ok(pages)
}

/// Fetches all minipages together, and pins one after the other.
async fn pin<V: Verbs>(mut held: Held<V>) -> Result<Held<V>, DsmError> {
    let (service, need) = (Rc::clone(&held.service), held.need);
    for &page in &held.pages {
        service.fetch(page, need);
    }
    while let Some(&page) = held.pages.get(held.stamps.len()) {
        // It is freed when the claim has ended.
        let object = service.memory.object(page.object).ok_or(DsmError::Freed(page.object))?;
        let come = come(&service, &object, page, need, Purpose::Claim).await?;
        service.pins.borrow_mut().pin(page, need);
        let has = object.page(page.index);
        // What the claim stores counts as one store; what is readable only has all of its version's.
        let stores = match (need, has.access) {
            (Access::Write, _) => has.stored(),
            (_, Access::Write) => has.stores,
            _ => u32::MAX,
        };
        held.stamps.push(Stamp { version: has.version, stores, hops: come.hops });
        come.executed();
    }
    Ok(held)
}

impl<V: Verbs> Service<V> {
    /// Elements, all of which are pinned.
    fn copied<T: Plain>(&self, of: Shared<[T]>, range: Range<usize>) -> Box<[T]> {
        let mut elements = vec![T::new_zeroed(); range.len()];
        if let (Some(object), false) = (self.memory.object(of.object()), range.is_empty()) {
            object.read(range.start * size_of::<T>(), elements.as_mut_bytes());
        }
        elements.into_boxed_slice()
    }
}

/// A claim from its call to its end: no object of it is forgotten meanwhile. Dropping it lets go of its minipages, whether it has got all
/// or not.
struct Held<V: Verbs> {
    service: Rc<Service<V>>,
    /// In ascending order.
    pages: Vec<PageId>,
    /// Of the first of them, which are pinned.
    stamps: Vec<Stamp>,
    need: Access,
}

impl<V: Verbs> Held<V> {
    fn begin(service: &Rc<Service<V>>, pages: Vec<PageId>, need: Access) -> Self {
        service.pins.borrow_mut().begin(objects(&pages));
        let stamps = Vec::with_capacity(pages.len());
        Held { service: Rc::clone(service), pages, stamps, need }
    }

    fn pinned(&self) -> impl Iterator<Item = (PageId, Stamp)> {
        self.pages.iter().copied().zip(self.stamps.iter().copied())
    }
}

/// The objects of minipages in ascending order, each once.
fn objects(pages: &[PageId]) -> impl Iterator<Item = ObjectId> {
    pages.chunk_by(|one, other| one.object == other.object).map(|of_one| of_one[0].object)
}

impl<V: Verbs> Drop for Held<V> {
    fn drop(&mut self) {
        let all = self.stamps.len() == self.pages.len();
        if !all && !self.service.decides(Decision::DroppedClaimsUnpin) {
            return;
        }
        for (page, _) in self.pinned() {
            self.service.pins.borrow_mut().unpin(page, self.need);
            self.service.memory.wake(page);
        }
        self.service.pins.borrow_mut().end(objects(&self.pages));
        for page in &self.pages {
            // Orders that waited are carried out elsewhere, and who frees an object is answered there: a destructor sends nothing.
            let _ = self.service.given_up.send(Gone::Claim(*page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::{Grain, Placement};
    use super::*;

    #[test]
    fn ranges_of_a_claim_overlap_if_an_element_is_in_two_of_them() {
        let of = Shared::<[u64]>::new(ObjectId(1), 24, Grain::Bytes(64), Placement::RoundRobin);
        let of = of.expect("it is fine");
        let claimed = |one, other| pages(&[(of, one), (of, other)]).map(|pages| pages.len());
        assert_eq!(claimed(0..9, 8..16), Err(DsmError::Overlap { start: 8, end: 9 }));
        assert_eq!(claimed(8..10, 0..24), Err(DsmError::Overlap { start: 8, end: 10 }));
        assert_eq!(claimed(0..8, 8..16), Ok(2));
        for empty in [4..4, 0..0, 8..8] {
            assert_eq!(claimed(0..8, empty.clone()), Ok(1), "{empty:?}");
            assert_eq!(claimed(empty.clone(), 0..8), Ok(1), "{empty:?}");
        }
    }
}
