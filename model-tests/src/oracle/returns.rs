//! Once faults stop, every call returns: for systems whose clients make one call after the other.

use super::{Oracle, Violation};
use crate::history::{ClientId, HistoryEvent, RequestId, Stage};
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// The name of the oracle by which everything that was begun ends, of every system.
pub(crate) const PROGRESS: &str = "progress";

/// An event of a call: it begins one, or ends it.
pub trait CallEvent: HistoryEvent {
    /// The request that the call is of.
    fn request(&self) -> RequestId;
}

/// Once faults stop, every call returns.
#[derive(Clone, Debug)]
pub struct Returns<E> {
    /// The calls that have not returned. A request may take several calls, one after the other.
    open: BTreeMap<RequestId, E>,
    /// The last request of each client.
    last: BTreeMap<ClientId, u32>,
    requests: u64,
}

impl<E> Default for Returns<E> {
    fn default() -> Returns<E> {
        Returns { open: BTreeMap::new(), last: BTreeMap::new(), requests: 0 }
    }
}

impl<E: CallEvent> Returns<E> {
    /// How many requests have no call that is open, and so have ended or are between two calls.
    pub fn ended(&self) -> u64 {
        self.requests - self.unended()
    }

    /// How many requests have a call that has not returned.
    pub fn unended(&self) -> u64 {
        self.open.len() as u64
    }

    /// Since when the oldest of those calls is open.
    pub fn oldest(&self) -> Option<Nanos> {
        self.open.values().map(HistoryEvent::at).min()
    }

    /// A node has crashed: nobody waits for the calls of its clients any more.
    pub fn node_restarted(&mut self, node: u32) {
        self.open.retain(|request, _| request.client.node != node);
    }

    /// Calls that need not return.
    pub fn excuse(&mut self, which: impl Fn(&RequestId) -> bool) {
        self.open.retain(|request, _| !which(request));
    }

    /// The calls that are open at the end, after nothing has gone wrong for `healthy`.
    pub fn finish(&self, now: Nanos, healthy: Nanos) -> impl Iterator<Item = Violation> {
        self.open.values().map(move |open| Violation {
            oracle: self.name(),
            at: now,
            text: format!(
                "{open} and does not return since {}; the last fault was over {healthy} ago",
                open.at()
            ),
        })
    }
}

impl<E: CallEvent> Oracle<E> for Returns<E> {
    fn name(&self) -> &'static str {
        PROGRESS
    }

    fn promise(&self) -> &'static str {
        "once faults stop, every call returns"
    }

    fn observe(&mut self, event: &E) -> Result<(), String> {
        let request = event.request();
        match event.stage() {
            Stage::Asked => {
                let before = self.last.insert(request.client, request.number);
                self.requests += u64::from(before != Some(request.number));
                self.open.insert(request, event.clone());
            }
            Stage::Amid | Stage::OfNode => {}
            Stage::Served | Stage::Other => drop(self.open.remove(&request)),
        }
        Ok(())
    }
}
