//! The event queue: a hierarchical timing wheel at nanosecond resolution.
//!
//! A binary heap of a few thousand pending events costs a dozen unpredictable comparisons an operation; the
//! wheel costs a shift and a bit scan, and each event moves a handful of times at most. All of it is flat
//! vectors, so that a world with its pending events is copied by `clone_from` without an allocation.
//!
//! Level `L` has 256 slots, each 256^L ns wide. An event sits at the level of the highest byte in which its
//! time differs from the wheel's own time, in the slot of that byte. Events of one time are therefore always
//! in one slot, in a list in the order of their insertion: first in, first out holds without sequence numbers.

use verbs_trait::Nanos;

const BITS: u32 = 8;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
const WORDS: usize = SLOTS / 64;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry<T> {
    time: u64,
    next: u32,
    item: T,
}

#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
    /// The earliest time in the list. Exact, because a slot is only ever emptied as a whole.
    earliest: u64,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL, earliest: u64::MAX };

/// Pending events in the order of their times.
pub struct Wheel<T> {
    /// The time of the last event taken; nothing pending is earlier.
    base: u64,
    len: usize,
    /// One bit a level that holds anything.
    levels: u32,
    occupied: [[u64; WORDS]; LEVELS],
    slots: Vec<Slot>,
    entries: Vec<Entry<T>>,
    free: u32,
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Wheel::new()
    }
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel at time 0.
    pub fn new() -> Wheel<T> {
        Wheel {
            base: 0,
            len: 0,
            levels: 0,
            occupied: [[0; WORDS]; LEVELS],
            slots: vec![EMPTY; SLOTS * LEVELS],
            entries: Vec::new(),
            free: NIL,
        }
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. One in the past of the last event taken is due at once, after those of that time.
    #[inline]
    pub fn insert(&mut self, time: Nanos, item: T) {
        let time = time.0.max(self.base);
        let entry = Entry { time, next: NIL, item };
        let id = if self.free == NIL {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let id = self.free;
            self.free = self.entries[id as usize].next;
            self.entries[id as usize] = entry;
            id
        };
        self.len += 1;
        self.append(id, time);
    }

    /// The time of the earliest event.
    #[inline]
    pub fn peek_time(&self) -> Option<Nanos> {
        self.earliest_slot().map(|slot| Nanos(self.slots[slot].earliest))
    }

    /// Takes the earliest event; of several at one time, the one inserted first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        let slot = self.settle()?;
        let id = self.slots[slot].head;
        let entry = self.entries[id as usize];
        self.slots[slot].head = entry.next;
        if entry.next == NIL {
            self.vacate(slot);
        }
        self.release(id);
        Some((Nanos(entry.time), entry.item))
    }

    /// Appends all events of the earliest time to `out`, in the order of their insertion, and says the time.
    pub fn take_earliest(&mut self, out: &mut Vec<T>) -> Option<Nanos> {
        let slot = self.settle()?;
        let Slot { mut head, earliest, .. } = self.slots[slot];
        while head != NIL {
            let entry = self.entries[head as usize];
            out.push(entry.item);
            self.release(head);
            head = entry.next;
        }
        self.vacate(slot);
        Some(Nanos(earliest))
    }

    /// Forgets every event and goes back to time 0. Keeps its memory.
    pub fn clear(&mut self) {
        self.for_each_occupied(|slots, slot| slots[slot] = EMPTY);
        self.occupied = [[0; WORDS]; LEVELS];
        (self.base, self.len, self.levels, self.free) = (0, 0, 0, NIL);
        self.entries.clear();
    }

    /// All pending events with their times, in no order that means anything. For fingerprints and reports.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, &T)> {
        let mut heads = Vec::new();
        for level in 0..LEVELS {
            for (word, &bits) in self.occupied[level].iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    let slot = level * SLOTS + word * 64 + bits.trailing_zeros() as usize;
                    heads.push(self.slots[slot].head);
                    bits &= bits - 1;
                }
            }
        }
        heads.into_iter().flat_map(move |head| {
            std::iter::successors((head != NIL).then_some(head), |&id| {
                let next = self.entries[id as usize].next;
                (next != NIL).then_some(next)
            })
            .map(|id| {
                let entry = &self.entries[id as usize];
                (Nanos(entry.time), &entry.item)
            })
        })
    }

    /// The slot that an event of this time belongs to now.
    #[inline]
    fn slot_of(&self, time: u64) -> usize {
        // `| 1` makes an event of this very moment a level-0 one.
        let level = (63 - ((time ^ self.base) | 1).leading_zeros()) / BITS;
        level as usize * SLOTS + (time >> (level * BITS)) as usize % SLOTS
    }

    #[inline]
    fn append(&mut self, id: u32, time: u64) {
        let at = self.slot_of(time);
        let slot = &mut self.slots[at];
        if slot.head == NIL {
            *slot = Slot { head: id, tail: id, earliest: time };
            self.occupied[at / SLOTS][at % SLOTS / 64] |= 1 << (at % 64);
            self.levels |= 1 << (at / SLOTS);
        } else {
            slot.earliest = slot.earliest.min(time);
            let tail = std::mem::replace(&mut slot.tail, id);
            self.entries[tail as usize].next = id;
        }
    }

    /// The occupied slot with the earliest event. Lower levels are earlier, and within a level lower slots:
    /// a slot below the base's own byte cannot be occupied.
    #[inline]
    fn earliest_slot(&self) -> Option<usize> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let word = self.occupied[level].iter().position(|&bits| bits != 0).expect("an occupied level");
        Some(level * SLOTS + word * 64 + self.occupied[level][word].trailing_zeros() as usize)
    }

    /// Moves the base to the earliest event, which brings all of its time into one slot of level 0.
    #[inline]
    fn settle(&mut self) -> Option<usize> {
        let slot = self.earliest_slot()?;
        self.base = self.slots[slot].earliest;
        if slot < SLOTS {
            return Some(slot);
        }
        let mut id = self.slots[slot].head;
        self.vacate(slot);
        while id != NIL {
            let Entry { time, next, .. } = self.entries[id as usize];
            self.entries[id as usize].next = NIL;
            self.append(id, time);
            id = next;
        }
        Some(self.base as usize % SLOTS)
    }

    #[inline]
    fn vacate(&mut self, slot: usize) {
        self.slots[slot] = EMPTY;
        let level = slot / SLOTS;
        self.occupied[level][slot % SLOTS / 64] &= !(1 << (slot % 64));
        if self.occupied[level] == [0; WORDS] {
            self.levels &= !(1 << level);
        }
    }

    #[inline]
    fn release(&mut self, id: u32) {
        self.entries[id as usize].next = self.free;
        self.free = id;
        self.len -= 1;
    }

    /// Calls `with` for every occupied slot.
    fn for_each_occupied(&mut self, mut with: impl FnMut(&mut [Slot], usize)) {
        for (level, words) in self.occupied.iter().enumerate() {
            for (word, &bits) in words.iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    with(&mut self.slots, level * SLOTS + word * 64 + bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                }
            }
        }
    }
}

impl<T: Copy> Clone for Wheel<T> {
    fn clone(&self) -> Self {
        let mut copy = Wheel::new();
        copy.clone_from(self);
        copy
    }

    /// Costs what is pending, not what the wheel could hold: vacant slots are all alike.
    fn clone_from(&mut self, other: &Self) {
        self.for_each_occupied(|slots, slot| slots[slot] = EMPTY);
        self.occupied = other.occupied;
        self.for_each_occupied(|slots, slot| slots[slot] = other.slots[slot]);
        self.entries.clone_from(&other.entries);
        (self.base, self.len, self.levels, self.free) = (other.base, other.len, other.levels, other.free);
    }
}

impl<T> std::fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wheel").field("base", &self.base).field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
