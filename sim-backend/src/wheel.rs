//! The event queue: a timing wheel at nanosecond resolution.
//!
//! A binary heap of a few thousand pending events costs a dozen unpredictable comparisons an operation; the
//! wheel costs a bit scan. All of it is flat vectors, so that a world with its pending events is copied by
//! `clone_from` without an allocation.
//!
//! Time is cut into blocks of 4,096 ns. The block of the last event taken and the one behind it are **near**:
//! each of their nanoseconds has a slot of its own. Packets mostly fall there, and are never moved. Later
//! blocks are **far**: level `L` has 256 slots, each 256^L blocks wide, and an event sits at the level of the
//! highest byte in which its block differs from the last near one. When time enters a block, the block behind
//! it becomes near, and its events move down.
//!
//! Events of one time are therefore always in one slot, in a list in the order of their insertion: first in,
//! first out holds without sequence numbers.

use weft_verbs::Nanos;

/// Nanoseconds of a block, as a power of two.
const BLOCK_BITS: u32 = 12;
/// Slots of the two near blocks.
const NEAR: usize = 2 << BLOCK_BITS;
const NEAR_WORDS: usize = NEAR / 64;

const FAR_BITS: u32 = 8;
const FAR: usize = 1 << FAR_BITS;
const FAR_WORDS: usize = FAR / 64;
const LEVELS: usize = (u64::BITS - BLOCK_BITS).div_ceil(FAR_BITS) as usize;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry<T> {
    time: u64,
    next: u32,
    item: T,
}

/// A list of entries.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NIL, tail: NIL };

/// Pending events in the order of their times.
pub struct Wheel<T> {
    /// The time of the last event taken; nothing pending is earlier.
    base: u64,
    /// The last near block: that of `base` and one.
    horizon: u64,
    len: usize,
    near: Vec<List>,
    near_bits: [u64; NEAR_WORDS],
    /// One bit for each word of `near_bits` that is not zero.
    near_words: [u64; NEAR_WORDS.div_ceil(64)],
    far: Vec<List>,
    /// The earliest time in each far list. Exact, because such a list is only ever emptied as a whole.
    earliest: Vec<u64>,
    far_bits: [[u64; FAR_WORDS]; LEVELS],
    /// One bit for each level that holds anything.
    levels: u32,
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
            horizon: 1,
            len: 0,
            near: vec![EMPTY; NEAR],
            near_bits: [0; NEAR_WORDS],
            near_words: [0; NEAR_WORDS.div_ceil(64)],
            far: vec![EMPTY; FAR * LEVELS],
            earliest: vec![u64::MAX; FAR * LEVELS],
            far_bits: [[0; FAR_WORDS]; LEVELS],
            levels: 0,
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

    /// Adds an event. One before the last event taken is due at once, behind those of that event's time.
    #[inline]
    pub fn insert(&mut self, time: Nanos, item: T) {
        let time = time.0.max(self.base);
        let entry = Entry { time, next: NIL, item };
        let id = self.free;
        let id = if id == NIL {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let place = &mut self.entries[id as usize];
            self.free = place.next;
            *place = entry;
            id
        };
        self.len += 1;
        self.place(id, time);
    }

    /// The time of the earliest event.
    #[inline]
    pub fn peek_time(&self) -> Option<Nanos> {
        match self.first_near() {
            Some(slot) => Some(Nanos(self.time_of(slot))),
            None => self.first_far().map(|slot| Nanos(self.earliest[slot])),
        }
    }

    /// Takes the earliest event; of several at one time, the one inserted first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        self.pop_by(Nanos::MAX)
    }

    /// The same if its time is not after `until`.
    #[inline]
    pub fn pop_by(&mut self, until: Nanos) -> Option<(Nanos, T)> {
        let slot = self.advance_by(until)?;
        let id = self.near[slot].head;
        let Entry { time, next, item } = self.entries[id as usize];
        self.near[slot].head = next;
        if next == NIL {
            self.vacate_near(slot);
        }
        self.release(id);
        Some((Nanos(time), item))
    }

    /// Appends all events of the earliest time to `out`, in the order of their insertion, and says the time.
    pub fn take_earliest(&mut self, out: &mut Vec<T>) -> Option<Nanos> {
        let slot = self.advance_by(Nanos::MAX)?;
        let mut id = self.near[slot].head;
        while id != NIL {
            let Entry { next, item, .. } = self.entries[id as usize];
            out.push(item);
            self.release(id);
            id = next;
        }
        self.vacate_near(slot);
        Some(Nanos(self.base))
    }

    /// Forgets every event and goes back to time 0. Keeps its memory.
    pub fn clear(&mut self) {
        self.wipe();
        self.near_bits = [0; NEAR_WORDS];
        self.near_words = [0; NEAR_WORDS.div_ceil(64)];
        self.far_bits = [[0; FAR_WORDS]; LEVELS];
        (self.base, self.horizon, self.len, self.levels, self.free) = (0, 1, 0, 0, NIL);
        self.entries.clear();
    }

    /// All pending events with their times, in no order that means anything. For fingerprints and reports.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, &T)> {
        let near = ones(&self.near_bits).map(|slot| self.near[slot].head);
        let far = ones(self.far_bits.as_flattened()).map(|slot| self.far[slot].head);
        near.chain(far).flat_map(move |head| {
            std::iter::successors(Some(&self.entries[head as usize]), |entry| {
                self.entries.get(entry.next as usize)
            })
            .map(|entry| (Nanos(entry.time), &entry.item))
        })
    }

    /// The time that a near slot stands for now.
    #[inline]
    fn time_of(&self, slot: usize) -> u64 {
        self.base + (slot.wrapping_sub(self.base as usize) % NEAR) as u64
    }

    #[inline]
    fn place(&mut self, id: u32, time: u64) {
        let block = time >> BLOCK_BITS;
        if block > self.horizon {
            return self.place_far(id, time, block);
        }
        let slot = time as usize % NEAR;
        let List { head, tail } = self.near[slot];
        if head == NIL {
            self.near[slot] = List { head: id, tail: id };
            self.near_bits[slot / 64] |= 1 << (slot % 64);
            self.near_words[slot / 4096] |= 1 << (slot / 64 % 64);
        } else {
            self.near[slot].tail = id;
            self.entries[tail as usize].next = id;
        }
    }

    fn place_far(&mut self, id: u32, time: u64, block: u64) {
        let level = ((block ^ self.horizon).ilog2() / FAR_BITS) as usize;
        let at = slot_of(level, block);
        let List { head, tail } = self.far[at];
        if head == NIL {
            self.far[at] = List { head: id, tail: id };
            self.earliest[at] = time;
            self.far_bits[level][at % FAR / 64] |= 1 << (at % 64);
            self.levels |= 1 << level;
        } else {
            self.earliest[at] = self.earliest[at].min(time);
            self.far[at].tail = id;
            self.entries[tail as usize].next = id;
        }
    }

    /// The near slot of the earliest event, if any is near: the first occupied one from the base's, round.
    #[inline]
    fn first_near(&self) -> Option<usize> {
        let from = self.base as usize % NEAR;
        let word = from / 64;
        let ahead = self.near_bits[word] & (!0 << (from % 64));
        if ahead != 0 {
            return Some(word * 64 + ahead.trailing_zeros() as usize);
        }
        // The words behind that one; then those before it; then the part of it before the base.
        let (half, mask) = (word / 64, !1 << (word % 64));
        let later = self.near_words[half] & mask;
        let other = self.near_words[half ^ 1];
        let (half, words) = match (later, other) {
            (1.., _) => (half, later),
            (0, 1..) => (half ^ 1, other),
            (0, 0) => (half, self.near_words[half]),
        };
        if words == 0 {
            return None;
        }
        let word = half * 64 + words.trailing_zeros() as usize;
        Some(word * 64 + self.near_bits[word].trailing_zeros() as usize)
    }

    /// The far slot with the earliest event. Lower levels are earlier, and within a level lower slots: a slot
    /// below the horizon's own cannot be occupied.
    fn first_far(&self) -> Option<usize> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        ones(&self.far_bits[level]).next().map(|slot| level * FAR + slot)
    }

    /// Moves the base to the earliest event, if its time is not after `until`, and says its slot, which is near
    /// then.
    #[inline]
    fn advance_by(&mut self, until: Nanos) -> Option<usize> {
        let (slot, time) = match self.first_near() {
            Some(slot) => (slot, self.time_of(slot)),
            None => {
                let time = self.earliest[self.first_far()?];
                (time as usize % NEAR, time)
            }
        };
        if time > until.0 {
            return None;
        }
        self.base = time;
        let block = self.base >> BLOCK_BITS;
        if block >= self.horizon {
            self.move_horizon(block);
        }
        Some(slot)
    }

    /// Makes a block near and the one behind it.
    #[cold]
    fn move_horizon(&mut self, block: u64) {
        if block > self.horizon {
            self.make_near(block);
        }
        // In the last block of all time there is none behind it.
        self.make_near((block + 1).min(u64::MAX >> BLOCK_BITS));
    }

    /// Moves the horizon to a block. The lists whose block range now begins within the horizon's own come
    /// down, from the coarsest.
    fn make_near(&mut self, block: u64) {
        if block == self.horizon {
            return;
        }
        let top = (block ^ self.horizon).ilog2() / FAR_BITS;
        self.horizon = block;
        for level in (0..=top as usize).rev() {
            let at = slot_of(level, block);
            let mut id = self.far[at].head;
            if id == NIL {
                continue;
            }
            self.vacate_far(level, at);
            while id != NIL {
                let Entry { time, next, .. } = self.entries[id as usize];
                self.entries[id as usize].next = NIL;
                self.place(id, time);
                id = next;
            }
        }
    }

    #[inline]
    fn vacate_near(&mut self, slot: usize) {
        self.near[slot] = EMPTY;
        self.near_bits[slot / 64] &= !(1 << (slot % 64));
        if self.near_bits[slot / 64] == 0 {
            self.near_words[slot / 4096] &= !(1 << (slot / 64 % 64));
        }
    }

    fn vacate_far(&mut self, level: usize, at: usize) {
        self.far[at] = EMPTY;
        self.far_bits[level][at % FAR / 64] &= !(1 << (at % 64));
        if self.far_bits[level] == [0; FAR_WORDS] {
            self.levels &= !(1 << level);
        }
    }

    #[inline]
    fn release(&mut self, id: u32) {
        self.entries[id as usize].next = self.free;
        self.free = id;
        self.len -= 1;
    }

    /// Empties every list and leaves the bits as they are.
    fn wipe(&mut self) {
        ones(&self.near_bits).for_each(|slot| self.near[slot] = EMPTY);
        ones(self.far_bits.as_flattened()).for_each(|slot| self.far[slot] = EMPTY);
    }
}

/// The far slot of a block at a level.
fn slot_of(level: usize, block: u64) -> usize {
    level * FAR + (block >> (level as u32 * FAR_BITS)) as usize % FAR
}

/// The positions of the ones in a row of words.
fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().filter(|(_, bits)| **bits != 0).flat_map(|(word, &bits)| {
        let rest = |bits: u64| (bits != 0).then_some(bits);
        std::iter::successors(rest(bits), move |&bits| rest(bits & (bits - 1)))
            .map(move |bits| word * 64 + bits.trailing_zeros() as usize)
    })
}

impl<T: Copy> Clone for Wheel<T> {
    fn clone(&self) -> Self {
        let mut copy = Wheel::new();
        copy.clone_from(self);
        copy
    }

    /// Costs what is pending, not what the wheel could hold: vacant slots are all alike.
    fn clone_from(&mut self, other: &Self) {
        if self.len == 0 && other.len == 0 {
            (self.base, self.horizon) = (other.base, other.horizon);
            return;
        }
        self.wipe();
        ones(&other.near_bits).for_each(|slot| self.near[slot] = other.near[slot]);
        ones(other.far_bits.as_flattened()).for_each(|slot| {
            self.far[slot] = other.far[slot];
            self.earliest[slot] = other.earliest[slot];
        });
        (self.near_bits, self.near_words) = (other.near_bits, other.near_words);
        (self.far_bits, self.levels) = (other.far_bits, other.levels);
        self.entries.clone_from(&other.entries);
        (self.base, self.horizon, self.len, self.free) = (other.base, other.horizon, other.len, other.free);
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
