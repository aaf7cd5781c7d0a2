//! Ledgers: for every queue pair, what was posted to it and has not ended, in order.
//!
//! Some requests never complete by themselves: unsignaled ones that succeeded, and those of a queue pair that
//! is destroyed. The ledger knows them, so that a later completion, a drain or the destruction resolves them.

use std::collections::{BTreeSet, VecDeque};
use std::task::{Context, Waker};

/// Names a queue pair's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueId(pub(super) u32);

/// Which of a queue pair's two queues, or a queue that many queue pairs draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Send,
    Receive,
    Shared,
}

/// Completions of a queue pair after which none comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Of the receives that it has drawn from a shared queue: it draws no more.
    Drawn,
    /// Of its own queues: it was fenced, and nothing posted behind the fence will tell that all before has ended.
    Unmarked,
}

#[derive(Default)]
struct Ledger {
    /// Outstanding requests, oldest first: order holds within a queue (IBA 9.5).
    sends: VecDeque<u64>,
    receives: VecDeque<u64>,
    /// Of a shared receive queue: its requests end in any order.
    shared: BTreeSet<u64>,
    /// Requests at the end of `sends` that were posted unsignaled.
    unsignaled_tail: u32,
    /// Send requests posted ever, and those of them that are known to have succeeded, in order.
    sends_posted: u64,
    sends_succeeded: u64,
    /// A request of either queue failed: the queue pair is in error.
    broken: bool,
    /// It may draw receives from a shared queue, or have drawn some of whose ends the runtime has not heard.
    draws: bool,
    /// It was fenced, and the completions are known that it had. The others of its requests tell of no end.
    unmarked: bool,
    /// Who waits for send requests to end.
    send_watchers: Vec<Waker>,
    /// Who waits for both queues to be empty, and for the last receive that is drawn.
    drain_watchers: Vec<Waker>,
}

/// Wakers to call outside of the table's borrow.
pub(super) struct Watchers(Vec<Waker>);

impl Watchers {
    pub(super) fn wake(self) {
        for waker in self.0 {
            waker.wake();
        }
    }
}

/// All ledgers of a node.
#[derive(Default)]
pub(super) struct Ledgers {
    ledgers: Vec<Ledger>,
    free: Vec<u32>,
    in_vain: u64,
}

impl Ledgers {
    pub(super) fn open(&mut self) -> QueueId {
        QueueId(self.free.pop().unwrap_or_else(|| {
            self.ledgers.push(Ledger::default());
            (self.ledgers.len() - 1) as u32
        }))
    }

    /// Closes a ledger and gives back all that was outstanding, sends first.
    pub(super) fn close(&mut self, queue: QueueId) -> (impl Iterator<Item = u64> + use<>, Watchers) {
        let Ledger { sends, receives, shared, send_watchers: mut watchers, drain_watchers, .. } =
            std::mem::take(&mut self.ledgers[queue.0 as usize]);
        self.free.push(queue.0);
        watchers.extend(drain_watchers);
        (sends.into_iter().chain(receives).chain(shared), Watchers(watchers))
    }

    pub(super) fn reserve_receives(&mut self, queue: QueueId, receives: usize) {
        self.ledgers[queue.0 as usize].receives.reserve_exact(receives);
    }

    /// A queue pair draws receives from a shared queue.
    pub(super) fn begin_to_draw(&mut self, queue: QueueId) {
        self.ledgers[queue.0 as usize].draws = true;
    }

    /// All completions of that kind are known; says who waits for that.
    pub(super) fn closes(&mut self, queue: QueueId, kind: Closing) -> Watchers {
        let ledger = &mut self.ledgers[queue.0 as usize];
        match kind {
            Closing::Drawn => ledger.draws = false,
            Closing::Unmarked => ledger.unmarked = true,
        }
        Watchers(std::mem::take(&mut ledger.drain_watchers))
    }

    /// Whether nothing more of it completes: nothing is outstanding, or what is tells of no end.
    pub(super) fn is_drained(&self, queue: QueueId) -> bool {
        let ledger = &self.ledgers[queue.0 as usize];
        let has_ended = ledger.sends.is_empty() && ledger.receives.is_empty();
        (has_ended || ledger.unmarked) && !ledger.draws
    }

    /// Enters a request that was accepted.
    pub(super) fn enter(&mut self, queue: QueueId, side: Side, id: u64, signaled: bool) {
        let ledger = &mut self.ledgers[queue.0 as usize];
        match side {
            Side::Send => {
                ledger.sends.push_back(id);
                ledger.sends_posted += 1;
                ledger.unsignaled_tail = if signaled { 0 } else { ledger.unsignaled_tail + 1 };
            }
            Side::Receive => ledger.receives.push_back(id),
            Side::Shared => drop(ledger.shared.insert(id)),
        }
    }

    /// Takes the oldest request of the queue: an earlier one than `id`, which is given back to be resolved, or
    /// `id` itself, which ends the matter.
    pub(super) fn retire_next(&mut self, queue: QueueId, side: Side, id: u64) -> Option<u64> {
        let ledger = &mut self.ledgers[queue.0 as usize];
        let entries = match side {
            Side::Send => &mut ledger.sends,
            Side::Receive => &mut ledger.receives,
            Side::Shared => {
                ledger.shared.remove(&id);
                return None;
            }
        };
        let oldest = entries.pop_front()?;
        if oldest == id {
            return None;
        }
        if side == Side::Send {
            // A failed request has a completion of its own, so this one succeeded.
            ledger.sends_succeeded += 1;
        }
        Some(oldest)
    }

    /// Notes that a request ended, and says who waits for that.
    pub(super) fn progress(&mut self, queue: QueueId, side: Side, ok: bool) -> Watchers {
        let ledger = &mut self.ledgers[queue.0 as usize];
        // What breaks a queue pair that draws from a shared queue breaks no other one.
        ledger.broken |= !ok && side != Side::Shared;
        if side == Side::Send {
            // Once one has failed, all later ones do (IBA 10.3.1.7): the count has no gap.
            ledger.sends_succeeded += u64::from(ok);
            // Unsignaled ones complete by themselves when they fail.
            ledger.unsignaled_tail = ledger.unsignaled_tail.min(ledger.sends.len() as u32);
        }
        let mut watchers = Vec::new();
        if side == Side::Send && !ledger.send_watchers.is_empty() {
            watchers.append(&mut ledger.send_watchers);
        }
        if ledger.sends.is_empty() && ledger.receives.is_empty() && !ledger.drain_watchers.is_empty() {
            watchers.append(&mut ledger.drain_watchers);
        }
        Watchers(watchers)
    }

    /// What is outstanding in a queue, oldest first.
    pub(super) fn outstanding(&self, queue: QueueId, side: Side) -> &VecDeque<u64> {
        let ledger = &self.ledgers[queue.0 as usize];
        match side {
            Side::Send => &ledger.sends,
            // Nothing is outstanding in an order there.
            Side::Receive | Side::Shared => &ledger.receives,
        }
    }

    /// How many tasks watch a queue pair's requests end.
    pub(super) fn watchers(&self, queue: QueueId) -> usize {
        let ledger = &self.ledgers[queue.0 as usize];
        ledger.send_watchers.len() + ledger.drain_watchers.len()
    }

    pub(super) fn sends(&self, queue: QueueId) -> usize {
        self.ledgers[queue.0 as usize].sends.len()
    }

    #[cfg(test)]
    pub(super) fn receives(&self, queue: QueueId) -> usize {
        self.ledgers[queue.0 as usize].receives.len()
    }

    #[cfg(test)]
    pub(super) fn shared(&self, queue: QueueId) -> usize {
        self.ledgers[queue.0 as usize].shared.len()
    }

    pub(super) fn unsignaled_tail(&self, queue: QueueId) -> u32 {
        self.ledgers[queue.0 as usize].unsignaled_tail
    }

    /// A send is posted that is to be carried out.
    pub(super) fn is_used(&mut self, queue: QueueId) {
        self.in_vain += u64::from(self.is_broken(queue));
    }

    /// Sends that were posted where a request had failed before: the outcome of each is unknown for nothing.
    pub(super) fn in_vain(&self) -> u64 {
        self.in_vain
    }

    pub(super) fn is_broken(&self, queue: QueueId) -> bool {
        self.ledgers[queue.0 as usize].broken
    }

    /// How many sends were posted, and how many of them, from the first on, have succeeded.
    pub(super) fn counts(&self, queue: QueueId) -> (u64, u64) {
        let ledger = &self.ledgers[queue.0 as usize];
        (ledger.sends_posted, ledger.sends_succeeded)
    }

    pub(super) fn watch_sends(&mut self, queue: QueueId, cx: &Context<'_>) {
        watch(&mut self.ledgers[queue.0 as usize].send_watchers, cx);
    }

    pub(super) fn watch_drain(&mut self, queue: QueueId, cx: &Context<'_>) {
        watch(&mut self.ledgers[queue.0 as usize].drain_watchers, cx);
    }

    /// Who waits for a drain of whatever queue pair.
    pub(super) fn all_drain_watchers(&mut self) -> Watchers {
        Watchers(
            self.ledgers.iter_mut().flat_map(|ledger| std::mem::take(&mut ledger.drain_watchers)).collect(),
        )
    }

    /// Requests outstanding on all queue pairs: sends, sends that wait for a later signaled one, receives.
    pub(super) fn totals(&self) -> (usize, usize, usize) {
        self.ledgers.iter().fold((0, 0, 0), |(sends, tail, receives), ledger| {
            (
                sends + ledger.sends.len(),
                tail + ledger.unsignaled_tail as usize,
                receives + ledger.receives.len() + ledger.shared.len(),
            )
        })
    }
}

fn watch(watchers: &mut Vec<Waker>, cx: &Context<'_>) {
    if !watchers.iter().any(|w| w.will_wake(cx.waker())) {
        watchers.push(cx.waker().clone());
    }
}
