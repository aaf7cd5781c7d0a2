//! What a node has done with shared memory, in all and by object.

use super::shared::{ObjectId, PageId};
use std::collections::BTreeMap;

/// What a node has done with shared memory since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DsmStats {
    /// Requests for Read that this node made.
    pub read_faults: u64,
    /// Requests for Write that this node made.
    pub write_faults: u64,
    /// Accesses that waited for a request that was made already.
    pub joined: u64,
    /// Minipages that this node sent.
    pub transfers: u64,
    /// Their bytes.
    pub transferred: u64,
    /// Minipages that this node pulled by RDMA read.
    pub pulls: u64,
    /// Their bytes.
    pub pulled: u64,
    /// Minipages that this node gave up because another one writes.
    pub invalidations: u64,
    /// Writes that this node was granted without data, since it had a copy.
    pub upgrades: u64,
    /// Orders that waited until accesses were executed.
    pub orders_waited: u64,
    /// Messages that found no room in the transport and were sent later.
    pub stalls: u64,
    /// Epochs that began because members died.
    pub epochs: u64,
    /// Minipages that this node, as their manager, found lost with one that died, but for those of memory that is being freed.
    pub lost: u64,
    /// Writes and pulls that were unfinished when an epoch began: this node awaited their end, or took them back.
    pub fenced: u64,
    /// Messages of epochs that were over.
    pub stale: u64,
    /// Messages that contradict the protocol.
    pub out_of_turn: u64,
    /// Messages that could not be read.
    pub malformed: u64,
}

/// Why accesses to an object waited at a node: what nodes fight over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// Requests for minipages that the node had never had.
    pub first: u64,
    /// Requests for minipages that it had given up for another node that writes.
    pub taken: u64,
    /// Requests to write minipages that it had a copy of.
    pub copies: u64,
    /// Accesses that waited for a request that was made already.
    pub joined: u64,
    /// Of the minipages that the node manages, the one that was granted most often to write.
    pub hottest: Option<Hottest>,
}

/// A minipage, and how often it was granted to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hottest {
    /// How often.
    pub writes: u64,
    /// Which, counted over its object.
    pub index: u32,
}

/// By object: why accesses waited.
#[derive(Debug, Default)]
pub(super) struct ByObject {
    there: BTreeMap<ObjectId, ObjectStats>,
    /// Those that were freed, together.
    freed: ObjectStats,
}

impl ByObject {
    pub fn of(&mut self, object: ObjectId) -> &mut ObjectStats {
        self.there.entry(object).or_default()
    }

    /// An object is freed.
    pub fn forget(&mut self, object: ObjectId) {
        let ObjectStats { first, taken, copies, joined, .. } = self.there.remove(&object).unwrap_or_default();
        self.freed.first += first;
        self.freed.taken += taken;
        self.freed.copies += copies;
        self.freed.joined += joined;
    }

    /// The sum of those that were freed.
    pub fn freed(&self) -> ObjectStats {
        self.freed
    }

    /// What is known, with what a manager's book says: each minipage and how often it was granted to write.
    pub fn with_book(&self, book: impl Iterator<Item = (PageId, u64)>) -> Vec<(ObjectId, ObjectStats)> {
        let mut all = self.there.clone();
        for (PageId { object, index }, writes) in book.filter(|(_, writes)| *writes > 0) {
            let of = all.entry(object).or_default();
            of.hottest = of.hottest.max(Some(Hottest { writes, index }));
        }
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minipage_that_was_granted_most_often_is_named() {
        let mut stats = ByObject::default();
        let [a, b] = [3, 4].map(ObjectId);
        stats.of(a).taken = 7;
        let page = |object, index, writes| (PageId { object, index }, writes);
        let all = stats.with_book([page(a, 0, 2), page(a, 1, 9), page(b, 5, 0), page(b, 6, 1)].into_iter());
        let hottest = |writes, index| Some(Hottest { writes, index });
        assert_eq!(all[0], (a, ObjectStats { taken: 7, hottest: hottest(9, 1), ..ObjectStats::default() }));
        assert_eq!((all[1].0, all[1].1.hottest, all.len()), (b, hottest(1, 6), 2));
    }

    #[test]
    fn what_was_freed_is_counted_in_one_sum() {
        let mut stats = ByObject::default();
        for object in (0..10).map(ObjectId) {
            (stats.of(object).taken, stats.of(object).joined) = (2, 1);
            stats.forget(object);
            stats.forget(object);
        }
        assert_eq!(stats.freed(), ObjectStats { taken: 20, joined: 10, ..ObjectStats::default() });
        assert!(stats.with_book([].into_iter()).is_empty());
    }
}
