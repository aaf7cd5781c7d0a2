//! What a crash does to a disk: of what was written and not synced, each sector is kept or lost.
//!
//! The disk goes back to what is durable at once. Then somebody decides what else is there: a draw for each sector, or an explorer
//! for each write. Until then the writes are *undecided*.

use super::{Disk, Object};
use std::ops::Range;
use weft_verbs::{Nanos, ObjectName};

/// Bytes that a disk keeps or loses together.
const SECTOR: u64 = 512;

/// A write that has ended and was not synced since.
#[derive(Clone, Debug)]
pub(crate) struct Unsynced {
    /// The call.
    pub id: u32,
    /// How many writes had ended before.
    pub(super) nth: u64,
    pub object: ObjectName,
    at: u64,
    bytes: Vec<u8>,
    /// What was there before: bytes, with zeros where there were none, and the object's size if it was there.
    before: (Vec<u8>, Option<u64>),
    /// When the medium has it.
    pub(super) stable: Nanos,
    /// After a crash: whether it is among what was kept.
    pub kept: bool,
}

impl Unsynced {
    /// A write that is about to be done to an object.
    pub(super) fn new(
        (id, nth, stable): (u32, u64, Nanos),
        object: ObjectName,
        there: Option<&Object>,
        at: u64,
        bytes: &[u8],
    ) -> Unsynced {
        let mut before = vec![0; bytes.len()];
        if let Some(there) = there {
            there.read(at, &mut before);
        }
        let before = (before, there.map(Object::size));
        Unsynced { id, nth, object, at, bytes: bytes.to_vec(), before, stable, kept: false }
    }

    /// Its parts that lie in one sector each.
    fn sectors(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (mut at, end) = (self.at, self.at + self.bytes.len() as u64);
        std::iter::from_fn(move || {
            let here = at..end.min((at / SECTOR + 1) * SECTOR);
            at = here.end;
            (!here.is_empty()).then_some(here)
        })
    }
}

impl<R: Clone> Disk<R> {
    /// The machine stops: calls under way are forgotten, and writes that were not synced are undecided.
    pub fn crash(&mut self, now: Nanos) {
        self.under_way.clear();
        self.ended.clear();
        self.places.clear();
        self.forget_stable(now);
        // One crash soon after another.
        self.decide(|write| write.kept);
        self.undecided = std::mem::take(&mut self.unsynced);
        for Unsynced { object, at, before: (bytes, size), .. } in self.undecided.iter().rev() {
            match (size, self.objects.get_mut(object)) {
                (Some(size), Some(there)) => {
                    there.write(*at, bytes);
                    there.cut(*size);
                }
                _ => drop(self.objects.remove(object)),
            }
        }
        self.count_taken();
    }

    /// Writes of which nobody knows whether a crash kept them.
    pub fn undecided(&self) -> &[Unsynced] {
        &self.undecided
    }

    /// An undecided write was kept; whether there is one of that number.
    pub fn keep(&mut self, id: u32) -> bool {
        let found = self.undecided.iter_mut().find(|write| write.id == id && !write.kept);
        found.map(|write| write.kept = true).is_some()
    }

    /// Decides which sectors of undecided writes a crash kept.
    pub fn decide(&mut self, mut keeps: impl FnMut(&Unsynced) -> bool) {
        for write in std::mem::take(&mut self.undecided) {
            for part in write.sectors() {
                if keeps(&write) {
                    let bytes =
                        &write.bytes[(part.start - write.at) as usize..(part.end - write.at) as usize];
                    self.objects.entry(write.object).or_default().write(part.start, bytes);
                }
            }
        }
        self.count_taken();
    }

    /// All objects with their bytes.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectName, Vec<u8>)> {
        self.objects.iter().map(|(name, object)| {
            let mut bytes = vec![0; object.size() as usize];
            object.read(0, &mut bytes);
            (*name, bytes)
        })
    }

    /// What the medium has is durable without a sync.
    pub(super) fn forget_stable(&mut self, now: Nanos) {
        let stable = self.unsynced.iter().take_while(|write| write.stable <= now).count();
        self.unsynced.drain(..stable);
    }

    fn count_taken(&mut self) {
        self.taken = self.objects.values().map(Object::taken).sum();
    }
}
