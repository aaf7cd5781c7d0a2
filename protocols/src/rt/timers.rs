//! Timers: a heap ordered by deadline, then by the order of setting.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use weft_verbs::Nanos;

/// Names a timer that was set. Stale once it fired or was cancelled; a stale name does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    index: u32,
    seq: u64,
}

struct Place {
    /// Which setting lives here; 0 for none.
    seq: u64,
    waker: Option<Waker>,
}

/// Set and not yet fired timers. Setting and firing cost a heap operation, cancelling is O(1): the heap's
/// entry stays behind and is dropped when it surfaces, or when such entries are the majority.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    places: Vec<Place>,
    free: Vec<u32>,
    last_seq: u64,
    alive: usize,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Nanos, waker: Waker) -> TimerId {
        self.last_seq += 1;
        let seq = self.last_seq;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { seq: 0, waker: None });
            (self.places.len() - 1) as u32
        });
        self.places[index as usize] = Place { seq, waker: Some(waker) };
        self.heap.push(Reverse((at, seq, index)));
        self.alive += 1;
        TimerId { index, seq }
    }

    /// Replaces whom a timer wakes. Says whether the timer is still set.
    pub(crate) fn rewake(&mut self, id: TimerId, waker: &Waker) -> bool {
        let Some(place) = self.places.get_mut(id.index as usize).filter(|p| p.seq == id.seq) else {
            return false;
        };
        match &place.waker {
            Some(kept) if kept.will_wake(waker) => {}
            _ => place.waker = Some(waker.clone()),
        }
        true
    }

    pub(crate) fn cancel(&mut self, id: TimerId) {
        if self.places.get(id.index as usize).is_some_and(|p| p.seq == id.seq) {
            self.vacate(id.index);
            self.compact();
        }
    }

    fn vacate(&mut self, index: u32) -> Option<Waker> {
        let place = &mut self.places[index as usize];
        place.seq = 0;
        self.free.push(index);
        self.alive -= 1;
        place.waker.take()
    }

    /// Drops the entries of cancelled timers once they outnumber the rest, so that a million cancelled
    /// deadlines do not stay until their time comes.
    fn compact(&mut self) {
        if self.heap.len() < 64 || self.heap.len() < 2 * self.alive {
            return;
        }
        let places = &self.places;
        self.heap.retain(|Reverse((_, seq, index))| places[*index as usize].seq == *seq);
    }

    /// The earliest deadline.
    pub(crate) fn next(&mut self) -> Option<Nanos> {
        while let Some(Reverse((at, seq, index))) = self.heap.peek() {
            if self.places[*index as usize].seq == *seq {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the earliest timer whose deadline has come.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Waker> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, index)) = self.heap.pop()?;
        self.vacate(index)
    }

    /// How many are set.
    pub(crate) fn alive(&self) -> usize {
        self.alive
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        self.heap.clear();
        self.free.clear();
        self.alive = 0;
        self.places.drain(..).filter_map(|p| p.waker).collect()
    }
}

#[cfg(test)]
#[path = "timers_tests.rs"]
mod tests;
