//! An application's thread: the synchronous entry points (kernel-dsm.txt, 4.1).

use super::DsmError;
use super::barrier::BarrierId;
use super::fault::come;
use super::memory::{Object, Page};
use super::messages::Access;
use super::pins::Purpose;
use super::service::Dsm;
use super::shared::{Number, Plain, Shared, Spot, Word};
use crate::rt::sync::{OneshotReceiver, oneshot};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_verbs::Verbs;
use zerocopy::IntoBytes;

/// A thread of an application. Its accesses are sequentially consistent with those of all threads on all nodes, if each is to
/// one word, or to elements of one minipage.
///
/// An access that its node is granted returns at once; another one waits until the node has the minipage. A call may be dropped at any
/// moment, as `select` and time-outs do it: nothing of it is executed from then on. Of a call that copies several minipages, those that
/// came first may have been.
///
/// # Errors
///
/// Calls at elements end in
///
/// - [`DsmError::Index`]: there are no such elements;
/// - [`DsmError::Freed`]: the object has been freed;
/// - [`DsmError::Otherwise`]: the node knows the object otherwise, or another node has asked for the minipage in another length;
/// - [`DsmError::Placement`] and [`DsmError::Message`]: the name was made for a cluster that is not this one;
/// - [`DsmError::Memory`]: the operating system registers no memory for the object, at which this node's first call is that does so. It may
///   be called again;
/// - [`DsmError::Lost`]: the minipage's last version was with a node that died;
/// - [`DsmError::Closed`], [`DsmError::Out`] and [`DsmError::PeerReset`]: the memory has ended for this node.
pub struct Thread<V: Verbs> {
    dsm: Dsm<V>,
    last: Stamp,
    /// How many of the nodes that died it was told of.
    told: usize,
    /// Barriers that it has entered by calls which were dropped: what says that it may leave.
    entered: BTreeMap<BarrierId, OneshotReceiver<Result<(), DsmError>>>,
}

/// An access's place in the order of all accesses to its minipage, which the protocol gives: for oracles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The minipage's version: one more with each grant to write.
    pub version: u64,
    /// How many stores were executed under that grant up to here; a reader's copy has all.
    pub stores: u32,
    /// If the access waited: how many messages one after the other the request took, none of them to oneself.
    pub hops: Option<u8>,
}

impl<V: Verbs> Thread<V> {
    pub(super) fn new(dsm: Dsm<V>) -> Thread<V> {
        let told = dsm.0.died();
        Thread { dsm, last: Stamp::default(), told, entered: BTreeMap::new() }
    }

    /// The node's shared memory.
    pub fn dsm(&self) -> &Dsm<V> {
        &self.dsm
    }

    /// The place of this thread's last access.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// Loads a word.
    ///
    /// # Errors
    ///
    /// As [`Thread`] lists them.
    pub async fn load<T: Word>(&mut self, from: Shared<[T]>, index: usize) -> Result<T, DsmError> {
        let spot = from.spot(index)?;
        self.access(from, spot, Access::Read, |object, _| object.value(spot.at)).await
    }

    /// Stores a word.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`].
    pub async fn store<T: Word>(&mut self, to: Shared<[T]>, index: usize, value: T) -> Result<(), DsmError> {
        self.update(to, index, |_| Some(value)).await.map(drop)
    }

    /// Stores a word, and returns the one before.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`].
    pub async fn swap<T: Word>(&mut self, at: Shared<[T]>, index: usize, value: T) -> Result<T, DsmError> {
        self.update(at, index, |_| Some(value)).await
    }

    /// Stores a word if another one is there; returns what was there.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`].
    pub async fn compare_exchange<T: Word>(
        &mut self,
        at: Shared<[T]>,
        index: usize,
        there: T,
        value: T,
    ) -> Result<T, DsmError> {
        self.update(at, index, |old| (old == there).then_some(value)).await
    }

    /// Adds to a word; returns what was there.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`].
    pub async fn fetch_add<T: Number>(
        &mut self,
        at: Shared<[T]>,
        index: usize,
        by: T,
    ) -> Result<T, DsmError> {
        self.update(at, index, |old| Some(old.plus(by))).await
    }

    /// Changes a word in one access, if `new` says so; returns what was there. An access that may store needs the right to.
    async fn update<T: Word>(
        &mut self,
        at: Shared<[T]>,
        index: usize,
        new: impl FnOnce(T) -> Option<T>,
    ) -> Result<T, DsmError> {
        let spot = at.spot(index)?;
        let change = |object: &Object<V>, _: Page| {
            let old: T = object.value(spot.at);
            if let Some(new) = new(old) {
                put(object, spot, new);
            }
            old
        };
        self.access(at, spot, Access::Write, change).await
    }

    /// Copies elements out, minipage by minipage in ascending order: each minipage's part is one access.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`]. Then a part may have been copied.
    pub async fn read<T: Plain>(
        &mut self,
        from: Shared<[T]>,
        begin: usize,
        into: &mut [T],
    ) -> Result<(), DsmError> {
        let mut rest = into;
        for part in parts(from, begin, rest.len())? {
            let spot = from.spot(part.start)?;
            let (now, later) = rest.split_at_mut(part.len());
            self.access(from, spot, Access::Read, |object, _| {
                object.read(spot.at, now.as_mut_bytes());
            })
            .await?;
            rest = later;
        }
        Ok(())
    }

    /// Copies elements in, minipage by minipage in ascending order: each minipage's part is one access.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`]. Then a part may have been copied.
    pub async fn write<T: Plain>(
        &mut self,
        to: Shared<[T]>,
        begin: usize,
        values: &[T],
    ) -> Result<(), DsmError> {
        for part in parts(to, begin, values.len())? {
            let spot = to.spot(part.start)?;
            let values = &values[part.start - begin..part.end - begin];
            self.access(to, spot, Access::Write, |object, _| {
                object.write(spot.at, values.as_bytes());
                object.change(spot.page.index, |page| page.stores = page.stored());
            })
            .await?;
        }
        Ok(())
    }

    /// Asks for the minipages of some elements, to read them soon. Does not wait.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`].
    pub fn prefetch<T: Plain>(&mut self, of: Shared<[T]>, elements: Range<usize>) -> Result<(), DsmError> {
        self.fetch(of, elements, Access::Read)
    }

    /// Asks for the minipages of some elements, to change them soon. Does not wait.
    ///
    /// # Errors
    ///
    /// As [`Thread::load`].
    pub fn prefetch_mut<T: Plain>(
        &mut self,
        of: Shared<[T]>,
        elements: Range<usize>,
    ) -> Result<(), DsmError> {
        self.fetch(of, elements, Access::Write)
    }

    fn fetch<T: Plain>(
        &mut self,
        of: Shared<[T]>,
        elements: Range<usize>,
        need: Access,
    ) -> Result<(), DsmError> {
        let service = &self.dsm.0;
        service.touch(of)?;
        for part in parts(of, elements.start, elements.len())? {
            service.fetch(of.spot(part.start)?.page, need);
        }
        Ok(())
    }

    /// Waits until as many threads have entered the barrier as take part in it.
    ///
    /// A thread whose call was dropped has entered, and counts. Its next call at that barrier goes on with the one that was dropped: it
    /// returns at once if all have come since.
    ///
    /// # Errors
    ///
    /// The shared memory has ended; or a node has died ([`DsmError::Died`]), of which a thread is told once, by the barrier that it
    /// waits at or the next one. Then those that live may have left the barrier or not, and it counts from none again.
    pub async fn barrier(&mut self, barrier: BarrierId, parties: u32) -> Result<(), DsmError> {
        let service = &self.dsm.0;
        service.check()?;
        if let Some(died) = service.died_after(self.told) {
            self.told += 1;
            // What was dropped has ended with that, too.
            self.entered.clear();
            return Err(DsmError::Died(died));
        }
        // A call that was dropped has been counted: a second entry would let the others go without somebody.
        let left = self.entered.entry(barrier).or_insert_with(|| {
            let (leave, left) = oneshot();
            service.enter(barrier, parties, leave);
            left
        });
        let left = left.await.unwrap_or_else(|_| service.check().and(Err(DsmError::Closed)));
        self.entered.remove(&barrier);
        if left.is_err() {
            self.entered.clear();
        }
        // Where several have died at once, it is told of each in turn, as those are who wait nowhere.
        match (&left, service.died_after(self.told)) {
            (Err(DsmError::Died(_)), Some(died)) => {
                self.told += 1;
                Err(DsmError::Died(died))
            }
            _ => left,
        }
    }

    /// Executes an access as soon as the node may.
    async fn access<T: Plain, Y>(
        &mut self,
        of: Shared<[T]>,
        Spot { page, .. }: Spot,
        need: Access,
        execute: impl FnOnce(&Object<V>, Page) -> Y,
    ) -> Result<Y, DsmError> {
        let service = &self.dsm.0;
        let object = service.touch(of)?;
        let come = come(service, &object, page, need, Purpose::Access).await?;
        let done = execute(&object, object.page(page.index));
        let Page { access, version, stores, .. } = object.page(page.index);
        let stores = if access == Access::Write { stores } else { u32::MAX };
        self.last = Stamp { version, stores, hops: come.hops };
        come.executed();
        Ok(done)
    }
}

/// The parts of some elements, one for each minipage.
pub(super) fn parts<T: Plain>(
    of: Shared<[T]>,
    begin: usize,
    len: usize,
) -> Result<impl Iterator<Item = Range<usize>>, DsmError> {
    let end = begin.saturating_add(len);
    if end > of.len() {
        return Err(DsmError::Index { index: end, len: of.len() });
    }
    let each = of.elements_a_page();
    let pages = if len == 0 { 0..0 } else { begin / each..(end - 1) / each + 1 };
    Ok(pages.map(move |page| begin.max(page * each)..end.min((page + 1) * each)))
}

fn put<V: Verbs, T: Plain>(object: &Object<V>, spot: Spot, value: T) {
    object.write(spot.at, value.as_bytes());
    object.change(spot.page.index, |page| page.stores = page.stored());
}
