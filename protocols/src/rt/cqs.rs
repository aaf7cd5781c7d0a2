//! The node's completion queues: as many as its queue pairs need, so that none can overrun.

use super::ledger::{Closing, QueueId};
use std::hash::{Hash, Hasher};
use weft_verbs::{Arm, CompletionQueue, Context, CqId, Result, Verbs, VerbsError, WorkCompletion};

struct Entry<V: Verbs> {
    /// Whose it is: identities of completion queues are an adapter's own.
    rail: u8,
    cq: V::Cq,
    capacity: u32,
    /// Promised to queue pairs: never more than the capacity, so it cannot overrun (IBA 11.6.3.1).
    reserved: u32,
    /// Promised to queue pairs that are gone, whose last completions may still be in the queue.
    leaving: u32,
    /// Promised to queue pairs that rest, and that complete nothing.
    resting: u32,
    /// How many of those are connected, so that a peer may send over them.
    listening: u32,
    /// Queue pairs whose last completions of a kind are here, if they have any left.
    ending: Vec<(QueueId, Closing)>,
    armed: bool,
    /// Its adapter has failed: it may refuse what it likes.
    lost: bool,
}

impl<V: Verbs> Entry<V> {
    /// Whether a completion is to be expected in it.
    fn is_used(&self) -> bool {
        self.reserved > self.resting
    }

    /// Whether one may come all the same.
    fn is_heard(&self) -> bool {
        self.is_used() || self.listening > 0
    }
}

/// Which completion queues are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those in which completions are to be expected.
    Used,
    /// The others in which one may be.
    Listening,
}

/// A rail's adapter refused to be polled or armed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) rail: u8,
    pub(super) why: VerbsError,
}

/// The completion queues of a node.
pub(super) struct Cqs<V: Verbs> {
    entries: Vec<Entry<V>>,
    /// Queue pairs whose last completion of a kind was taken, since somebody asked.
    ended: Vec<(QueueId, Closing)>,
}

/// What a round of polling found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    /// Every queue that was looked at gave all that it had, be it nothing.
    Empty,
    /// A queue gave as many as were asked for and may hold more, or was left for the next round.
    More,
    /// Nobody looked.
    Nothing,
}

impl<V: Verbs> Cqs<V> {
    pub(super) fn new() -> Cqs<V> {
        Cqs { entries: Vec::new(), ended: Vec::new() }
    }

    /// Finds room for `cqe` completions, in a new queue if need be.
    pub(super) fn reserve(
        &mut self,
        rail: u8,
        ctx: &V::Context,
        channel: Option<&V::Channel>,
        size: u32,
        cqe: u32,
    ) -> Result<(usize, V::Cq)> {
        let fits = |e: &Entry<V>| e.rail == rail && e.reserved.saturating_add(cqe) <= e.capacity;
        let index = match self.entries.iter().position(fits) {
            Some(index) => index,
            None => {
                let most = ctx.device_attr().max_cqe;
                let cq = ctx.create_cq(size.min(most).max(cqe), channel)?;
                let capacity = cq.capacity();
                self.entries.push(Entry {
                    rail,
                    cq,
                    capacity,
                    reserved: 0,
                    leaving: 0,
                    resting: 0,
                    listening: 0,
                    ending: Vec::new(),
                    armed: false,
                    lost: false,
                });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[index];
        entry.reserved += cqe;
        Ok((index, entry.cq.clone()))
    }

    /// A queue pair is gone. Completions of it may still be in the queue, but not of one that rested and was in state Init to the end.
    pub(super) fn release(&mut self, index: usize, cqe: u32, rested: bool) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        if rested {
            entry.resting -= cqe;
            entry.reserved -= cqe;
        } else {
            entry.leaving += cqe;
        }
    }

    /// A queue pair rests: of its promise nothing will be used until it is [woken](Cqs::wake).
    pub(super) fn rest(&mut self, index: usize, cqe: u32) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.resting += cqe;
        }
    }

    /// A queue pair that rests is connected: its peer may send something over it.
    pub(super) fn listen(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.listening += 1;
        }
    }

    /// A queue pair that rested, and may have listened, completes something from now on.
    pub(super) fn wake(&mut self, index: usize, cqe: u32, listened: bool) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.resting -= cqe;
            entry.listening -= u32::from(listened);
        }
    }

    /// Nothing of a queue pair completes any more that is of this kind, in this queue: once the queue was found empty all of it is known
    /// (IBA 10.3.1).
    pub(super) fn end(&mut self, index: usize, queue: QueueId, kind: Closing) {
        match self.entries.get_mut(index) {
            Some(entry) => entry.ending.push((queue, kind)),
            None => self.ended.push((queue, kind)),
        }
    }

    /// A queue pair is gone: its name may be another one's.
    pub(super) fn forget(&mut self, queue: QueueId) {
        let ending = self.entries.iter_mut().map(|entry| &mut entry.ending);
        ending.chain([&mut self.ended]).for_each(|queues| queues.retain(|(other, _)| *other != queue));
    }

    /// Whether a queue is to be polled until it is found empty, whatever else there is to wait for.
    pub(super) fn is_ending(&self) -> bool {
        self.entries.iter().any(|entry| !entry.ending.is_empty())
    }

    /// The queue pairs of which nothing of a kind is left, since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<(QueueId, Closing)> {
        std::mem::take(&mut self.ended)
    }

    /// Appends up to `max` completions of each queue, or of the first queue that has any if `one` adapter after the other
    /// is to be served: then one completion is taken of all rails, and not one of each. Queues of which nobody uses anything are
    /// not looked at, or apart from the others: on a node that spins, a look costs as much as one at a queue that has something.
    pub(super) fn poll(
        &mut self,
        which: Which,
        out: &mut Vec<WorkCompletion>,
        max: usize,
        one: bool,
    ) -> std::result::Result<Polled, Refused> {
        let mut found = Polled::Empty;
        let mut served = None;
        let wanted = |e: &Entry<V>| match which {
            Which::Used => e.is_used(),
            Which::Listening => e.is_heard() && !e.is_used(),
        };
        for entry in self.entries.iter_mut().filter(|e| wanted(e)) {
            if served.is_some_and(|rail| rail != entry.rail) {
                // It was not looked at: what it holds is taken in the next step.
                found = Polled::More;
                break;
            }
            let taken = match entry.cq.poll(out, max) {
                Err(_) if entry.lost => 0,
                answer => answer.map_err(|why| Refused { rail: entry.rail, why })?,
            };
            if taken == max {
                found = Polled::More;
            } else {
                entry.reserved -= std::mem::take(&mut entry.leaving);
                self.ended.append(&mut entry.ending);
            }
            if one && taken > 0 {
                served = Some(entry.rail);
            }
        }
        Ok(found)
    }

    /// How many completions the largest queue holds.
    pub(super) fn longest(&self) -> u32 {
        self.entries.iter().map(|entry| entry.capacity).max().unwrap_or(0)
    }

    /// Whether a completion on any queue that may have one would raise an event.
    pub(super) fn all_armed(&self) -> bool {
        self.entries.iter().all(|e| e.armed || !e.is_heard())
    }

    pub(super) fn arm(&mut self) -> std::result::Result<(), Refused> {
        for entry in self.entries.iter_mut().filter(|e| !e.armed && e.is_heard()) {
            match entry.cq.arm(Arm::Next) {
                Err(_) if entry.lost => {}
                answer => answer.map_err(|why| Refused { rail: entry.rail, why })?,
            }
            entry.armed = true;
        }
        Ok(())
    }

    /// A rail's adapter has failed, and the node goes on over others: queues of it are looked at as long as they answer.
    pub(super) fn lose(&mut self, rail: u8) {
        self.entries.iter_mut().filter(|e| e.rail == rail).for_each(|e| e.lost = true);
    }

    /// A queue raised its event, and is armed no more.
    pub(super) fn event(&mut self, rail: u8, id: CqId) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.rail == rail && e.cq.id() == id) {
            entry.armed = false;
        }
    }

    /// Adds to a hash what is armed and what is promised.
    pub(super) fn fingerprint(&self, to: &mut impl Hasher) {
        for entry in &self.entries {
            (entry.armed, entry.reserved, entry.leaving, entry.resting, entry.listening).hash(to);
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}
