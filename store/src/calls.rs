//! The calls that a node has begun, by its one thread: who waits for each, and what it holds until it ends.

use crate::pool::{Call, End, Pool};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::task::Waker;

/// A call that was begun.
struct Begun<H> {
    /// Of no use to anybody once the call has ended.
    held: Option<H>,
    waker: Option<Waker>,
    end: Option<End>,
    /// Nobody waits for it.
    dropped: bool,
}

/// A pool and the calls that one node has begun in it. With each the backend keeps something until it ends: the memory that it moves.
pub struct Calls<H> {
    // First, so that no thread touches what is held any more when that is dropped.
    pool: Pool,
    begun: RefCell<BTreeMap<u64, Begun<H>>>,
}

impl<H> fmt::Debug for Calls<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl<H> Calls<H> {
    /// No calls of a pool, whose bell makes the node [collect](Calls::collect).
    pub fn of(pool: Pool) -> Calls<H> {
        Calls { pool, begun: RefCell::default() }
    }

    /// Begins a call: its number.
    pub fn begin(&self, call: Call, held: Option<H>) -> u64 {
        let id = self.pool.begin(call);
        self.begun.borrow_mut().insert(id, Begun { held, waker: None, end: None, dropped: false });
        id
    }

    /// Takes what has ended, hands over what was held for it, whether or not somebody waits, and wakes who does.
    pub fn collect(&self, mut ended: impl FnMut(H, &End)) {
        let mut wake = Vec::new();
        let mut begun = self.begun.borrow_mut();
        for end in self.pool.take() {
            let id = end.id;
            let Some(call) = begun.get_mut(&id) else { continue };
            if let Some(held) = call.held.take() {
                ended(held, &end);
            }
            if call.dropped {
                begun.remove(&id);
                continue;
            }
            wake.extend(call.waker.take());
            call.end = Some(end);
        }
        drop(begun);
        wake.into_iter().for_each(Waker::wake);
    }

    /// How a call ended that was collected; the task is woken where it was not yet.
    pub fn take(&self, id: u64, waker: &Waker) -> Option<End> {
        let mut begun = self.begun.borrow_mut();
        let call = begun.get_mut(&id)?;
        match call.end.take() {
            Some(end) => {
                begun.remove(&id);
                Some(end)
            }
            None => {
                call.waker = Some(waker.clone());
                None
            }
        }
    }

    /// Nobody waits for a call any more. It goes on, and keeps what it holds until it ends.
    pub fn abandon(&self, id: u64) {
        let mut begun = self.begun.borrow_mut();
        let ended = begun.get_mut(&id).is_some_and(|call| {
            (call.waker, call.dropped) = (None, true);
            call.end.is_some()
        });
        if ended {
            begun.remove(&id);
        }
    }
}
