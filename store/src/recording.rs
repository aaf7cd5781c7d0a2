//! A run's journal: what a node asked of its disks and was answered, and what a power cut at any moment of it may have left.
//!
//! A call is noted when the node begins it and when the node takes its end. What was written and not synced in between is, sector by
//! sector, as any of the writes has made it; the object's end is as any of them has left it. That is what the contract says of disks
//! ([`weft_verbs::Disk`]), and more than most file systems lose.

use crate::pool::{Buffer, Call, End};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_verbs::ObjectName;

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: usize = 512;

/// A change that was begun.
#[derive(Clone, Debug)]
enum Change {
    Create,
    Remove,
    Write { at: u64, bytes: Arc<[u8]> },
    Resize { size: u64 },
    Sync,
}

/// Something of a store that happened.
#[derive(Clone, Debug)]
enum Entry {
    Begun { call: u64, object: ObjectName, change: Change },
    Ended { call: u64, well: bool },
}

type Journal = Vec<(u32, Entry)>;

/// The journal of a run. Clones are the same one; stores that share it are told apart by their server's number.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<Journal>>);

impl Recording {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much has happened.
    pub fn len(&self) -> usize {
        self.journal().len()
    }

    /// Whether nothing has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn begun(&self, server: u32, call: u64, what: &Call) {
        let (object, change) = match what {
            Call::Create(object) => (*object, Change::Create),
            Call::Remove(object) => (*object, Change::Remove),
            Call::Sync(object) => (*object, Change::Sync),
            Call::Resize { object, size } => (*object, Change::Resize { size: *size }),
            Call::Write { object, at, from: Buffer::Owned(bytes) } => {
                (*object, Change::Write { at: *at, bytes: bytes.as_slice().into() })
            }
            Call::Write { from: Buffer::Foreign(_), .. } => {
                unreachable!("a store that is recorded is given bytes of its own")
            }
            Call::Size(_) | Call::List | Call::Read { .. } => return,
        };
        self.journal().push((server, Entry::Begun { call, object, change }));
    }

    pub(crate) fn ended(&self, server: u32, end: &End) {
        self.journal().push((server, Entry::Ended { call: end.id, well: end.outcome.is_ok() }));
    }

    /// Walks through what has happened, from its begin.
    pub fn replay(&self) -> Replay {
        Replay { journal: self.journal().clone(), at: 0, stores: BTreeMap::new() }
    }
}

/// A write of which not all is durable.
#[derive(Clone, Debug)]
struct Write {
    call: u64,
    at: usize,
    bytes: Arc<[u8]>,
    ended: bool,
}

impl Write {
    fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes.len()
    }

    /// Puts what it has of a range where that belongs.
    fn apply(&self, to: &mut [u8], part: &Range<usize>) {
        let (from, end) = (self.at.max(part.start), self.range().end.min(part.end).min(to.len()));
        if from < end {
            to[from..end].copy_from_slice(&self.bytes[from - self.at..end - self.at]);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Object {
    /// It is there whatever happens.
    durable: bool,
    /// It is being removed.
    removing: bool,
    /// It is being given this size.
    resizing: Option<usize>,
    synced: Vec<u8>,
    /// In the order in which they were begun.
    writes: Vec<Write>,
}

impl Object {
    /// What a crash leaves of it, if anything. `choose` says a number below the one it is given.
    fn crash(&self, choose: &mut impl FnMut(usize) -> usize) -> Option<Vec<u8>> {
        if (self.removing || !self.durable) && choose(2) == 0 {
            return None;
        }
        let mut ends: Vec<usize> = self.writes.iter().map(|write| write.range().end).collect();
        ends.retain(|end| *end > self.synced.len());
        ends.push(self.synced.len());
        let mut left = self.synced.clone();
        left.resize(ends[choose(ends.len())], 0);
        for at in (0..left.len()).step_by(SECTOR) {
            let sector = at..at + SECTOR;
            let touches = |write: &&Write| write.at < sector.end && write.range().end > sector.start;
            let writes: Vec<&Write> = self.writes.iter().filter(touches).collect();
            let so_far = choose(writes.len() + 1);
            writes[..so_far].iter().for_each(|write| write.apply(&mut left, &sector));
        }
        if let Some(size) = self.resizing.filter(|_| choose(2) == 1) {
            left.resize(size, 0);
        }
        Some(left)
    }

    /// It has another size, durably.
    fn resize(&mut self, size: usize) {
        self.durable = true;
        self.synced.resize(size, 0);
        self.writes.retain(|write| write.at < size);
        for write in self.writes.iter_mut().filter(|write| write.range().end > size) {
            write.bytes = write.bytes[..size - write.at].into();
        }
    }

    /// Those of the writes are durable now.
    fn sync(&mut self, covered: &[u64]) {
        self.durable = true;
        let (synced, rest) = self.writes.drain(..).partition(|write| covered.contains(&write.call));
        self.writes = rest;
        let synced: Vec<Write> = synced;
        for write in synced {
            let end = write.range().end.max(self.synced.len());
            self.synced.resize(end, 0);
            write.apply(&mut self.synced, &(0..end));
        }
    }
}

/// A call that is under way: its object, and for a sync the writes that it covers.
#[derive(Clone, Debug)]
struct Open {
    object: ObjectName,
    change: Change,
    covered: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Store {
    objects: BTreeMap<ObjectName, Object>,
    open: BTreeMap<u64, Open>,
}

impl Store {
    fn step(&mut self, entry: Entry) {
        match entry {
            Entry::Begun { call, object, change } => {
                let state = self.objects.entry(object).or_default();
                let mut covered = Vec::new();
                match &change {
                    Change::Create => {}
                    Change::Remove => state.removing = true,
                    Change::Write { at, bytes } => {
                        let (at, bytes) = (*at as usize, Arc::clone(bytes));
                        state.writes.push(Write { call, at, bytes, ended: false });
                    }
                    Change::Resize { size } => state.resizing = Some(*size as usize),
                    Change::Sync => {
                        covered =
                            state.writes.iter().filter(|write| write.ended).map(|write| write.call).collect();
                    }
                }
                self.open.insert(call, Open { object, change, covered });
            }
            Entry::Ended { call, well } => {
                let Some(Open { object, change, covered }) = self.open.remove(&call) else { return };
                let Some(state) = self.objects.get_mut(&object) else { return };
                match change {
                    Change::Create if well => state.durable = true,
                    Change::Remove if well => drop(self.objects.remove(&object)),
                    Change::Remove => state.removing = false,
                    Change::Write { .. } => {
                        state
                            .writes
                            .iter_mut()
                            .filter(|write| write.call == call)
                            .for_each(|write| write.ended = true);
                    }
                    Change::Resize { size } => {
                        state.resizing = None;
                        if well {
                            state.resize(size as usize);
                        }
                    }
                    Change::Sync if well => state.sync(&covered),
                    Change::Create | Change::Sync => {}
                }
            }
        }
    }
}

/// A walk through a journal, and what a power cut at its place would leave.
#[derive(Clone, Debug)]
pub struct Replay {
    journal: Journal,
    at: usize,
    stores: BTreeMap<u32, Store>,
}

impl Replay {
    /// Goes on until so much has happened.
    pub fn advance(&mut self, to: usize) {
        while self.at < to.min(self.journal.len()) {
            let (server, entry) = self.journal[self.at].clone();
            self.stores.entry(server).or_default().step(entry);
            self.at += 1;
        }
    }

    /// What a power cut now may have left on a server's disk. `choose` says a number below the one it is given.
    pub fn after_crash(
        &self,
        server: u32,
        mut choose: impl FnMut(usize) -> usize,
    ) -> BTreeMap<ObjectName, Vec<u8>> {
        let objects = self.stores.get(&server).into_iter().flat_map(|store| &store.objects);
        objects.filter_map(|(name, object)| Some((*name, object.crash(&mut choose)?))).collect()
    }

    /// What a server's disk has if no power is cut.
    pub fn live(&self, server: u32) -> BTreeMap<ObjectName, Vec<u8>> {
        // The last of all possibilities: it is there, to its end, with all writes.
        let mut objects = BTreeMap::new();
        for (name, object) in self.stores.get(&server).into_iter().flat_map(|store| &store.objects) {
            let all: Vec<u64> = object.writes.iter().map(|write| write.call).collect();
            let mut object = object.clone();
            object.sync(&all);
            objects.insert(*name, object.synced);
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(call: u64, change: Change) -> Entry {
        Entry::Begun { call, object: ObjectName(1), change }
    }

    fn write(call: u64, at: u64, byte: u8, len: usize) -> Entry {
        begun(call, Change::Write { at, bytes: vec![byte; len].into() })
    }

    fn ended(call: u64) -> Entry {
        Entry::Ended { call, well: true }
    }

    /// All that a crash may leave after some entries: the first byte of each sector, for each choice.
    fn all(entries: Vec<Entry>) -> Vec<Option<Vec<u8>>> {
        let mut store = Store::default();
        entries.into_iter().for_each(|entry| store.step(entry));
        let mut found = std::collections::BTreeSet::new();
        let Some(object) = store.objects.get(&ObjectName(1)) else { return vec![None] };
        for seed in 0..500_usize {
            let mut rest = seed;
            let left = object.crash(&mut |below| {
                let chosen = rest % below;
                rest /= below;
                chosen
            });
            found.insert(left.map(|left| left.chunks(SECTOR).map(|sector| sector[0]).collect()));
        }
        found.into_iter().collect()
    }

    #[test]
    fn what_was_synced_is_there_and_each_sector_since_is_old_or_new() {
        let synced = vec![
            write(1, 0, 7, 2 * SECTOR),
            ended(1),
            begun(2, Change::Sync),
            ended(2),
            write(3, 0, 8, 2 * SECTOR),
        ];
        let old_or_new = [[7, 7], [7, 8], [8, 7], [8, 8]].map(|sectors| Some(sectors.to_vec()));
        assert_eq!(all(synced), old_or_new);
    }

    #[test]
    fn a_sync_covers_what_had_ended_before_it_began() {
        let late = vec![write(1, 0, 7, 1), begun(2, Change::Sync), ended(1), ended(2)];
        assert_eq!(all(late), [Some(vec![]), Some(vec![0]), Some(vec![7])], "it is there, and maybe empty");
        let first = vec![write(1, 0, 7, 1), ended(1)];
        assert_eq!(all(first), [None, Some(vec![]), Some(vec![0]), Some(vec![7])], "nothing was synced");
    }

    #[test]
    fn a_removal_that_was_not_answered_may_have_been_made() {
        let made = [begun(1, Change::Create), ended(1), begun(2, Change::Remove)];
        assert_eq!(all(made.to_vec()), [None, Some(vec![])]);
        assert_eq!(all([made.to_vec(), vec![ended(2)]].concat()), [None]);
    }
}
