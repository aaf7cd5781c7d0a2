//! What the threads of shared memory did, and what they saw.

use crate::history::{HistoryEvent, RequestId, Stage};
use crate::oracle::CallEvent;
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_protocols::dsm::{DsmError, Stamp};
use weft_verbs::Nanos;

/// An access to one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    /// Load.
    Load,
    /// Store this.
    Store(u64),
    /// Store this, and return what was there.
    Swap(u64),
    /// Add this, and return what was there.
    Add(u64),
    /// Store the second if the first is there; return what was there.
    CompareExchange(u64, u64),
}

impl Op {
    /// What it stores, if it finds this.
    pub fn stores(self, found: u64) -> Option<u64> {
        match self {
            Op::Load => None,
            Op::Store(value) | Op::Swap(value) => Some(value),
            Op::Add(by) => Some(found.wrapping_add(by)),
            Op::CompareExchange(there, value) => (found == there).then_some(value),
        }
    }
}

/// The place of an access in the order of all accesses to its minipage: version, and stores under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct At(pub u64, pub u32);

impl From<Stamp> for At {
    fn from(stamp: Stamp) -> At {
        At(stamp.version, stamp.stores)
    }
}

/// Something that a thread did or saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the node's clock, in nanoseconds.
    pub at_ns: u64,
    /// The request it is about.
    pub request: RequestId,
    /// What happened to it.
    pub what: What,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The thread accesses a word, counted over all minipages.
    Accesses {
        /// The word.
        word: u32,
        /// How.
        op: Op,
    },
    /// It has.
    Accessed {
        /// The word.
        word: u32,
        /// How.
        op: Op,
        /// What was there. Of a store nobody asks.
        found: u64,
        /// The access's place.
        place: At,
        /// If it waited: over how many hops.
        hops: Option<u8>,
    },
    /// The thread enters the barrier, for this round.
    Enters(u32),
    /// It leaves it.
    Leaves(u32),
    /// The thread copies all words from one to another, both counted over all minipages, by one call: each minipage's part is one access,
    /// whose place nobody knows.
    Copies(u32, u32),
    /// It has.
    Copied,
    /// The call returned an error.
    Failed(Why),
    /// The thread runs its part of the application.
    Runs,
    /// It has.
    Ran {
        /// Its part of the answer.
        part: u64,
        /// What its time went into.
        spent: Spent,
    },
    /// Of a node, and of no request: it crashed.
    Crashed,
    /// Of a node that has begun: it has no memory yet.
    Waits,
    /// Of a node: its memory has begun, with all nodes; the memory's name.
    Begun(u64),
    /// Of a node that lives: the memory has ended for it.
    LeftOut,
    /// Of a node: its memory goes on without that one.
    Outlives(u32),
}

/// Why a call had no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// The latest version of a minipage died: the first word that is lost, counted over its object.
    Lost(u32),
    /// That node died, whose threads may have been awaited.
    Died(u32),
    /// The memory has ended for the caller's node: it has restarted, or others go on without it.
    Ended,
    /// The caller's node has been shut down.
    Closed,
    /// Its user dropped it: nothing of it is executed from then on.
    Dropped,
    /// Something that should not happen.
    Other,
}

impl From<&DsmError> for Why {
    fn from(error: &DsmError) -> Why {
        match error {
            DsmError::Lost { start, .. } => Why::Lost((start / size_of::<u64>()) as u32),
            DsmError::Died(rank) => Why::Died(rank.index() as u32),
            DsmError::Out | DsmError::PeerReset(_) => Why::Ended,
            DsmError::Closed => Why::Closed,
            _ => Why::Other,
        }
    }
}

impl Event {
    /// Something that happens to a node.
    pub fn of_node(at: Nanos, node: u32, what: What) -> Event {
        Event { at_ns: at.0, request: RequestId::of_node(node), what }
    }
}

/// What a thread's time went into, in nanoseconds, and how often it did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// From when on its time is counted, by its node's clock: when all had begun.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// Units that it computed.
    pub units: u64,
    /// Computing.
    pub compute: u64,
    /// What handlers took out of that, and other threads.
    pub handlers: u64,
    /// Waiting for minipages.
    pub faults: u64,
    /// Waiting at barriers.
    pub barriers: u64,
    /// Waiting for locks.
    pub locks: u64,
    /// Barriers.
    pub barriers_entered: u64,
    /// Locks.
    pub locks_taken: u64,
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        Nanos(self.at_ns)
    }

    fn by_another_clock(mut self, at: Nanos) -> Event {
        if let What::Ran { spent, .. } = &mut self.what {
            let moves = |time: u64| at.0.saturating_sub(self.at_ns.saturating_sub(time));
            (spent.from, spent.to) = (moves(spent.from), moves(spent.to));
        }
        Event { at_ns: at.0, ..self }
    }

    fn node(&self) -> u32 {
        self.request.client.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Accesses { .. } | What::Copies(..) | What::Enters(_) | What::Runs => Stage::Asked,
            What::Accessed { .. } | What::Copied | What::Leaves(_) | What::Ran { .. } => Stage::Served,
            What::Crashed | What::LeftOut | What::Waits | What::Begun(_) | What::Outlives(_) => Stage::OfNode,
            What::Failed(_) => Stage::Other,
        }
    }
}

impl CallEvent for Event {
    fn request(&self) -> RequestId {
        self.request
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { request, what, .. } = *self;
        match what {
            What::Accesses { word, op } => write!(f, "{request}: {op:?} of word {word}"),
            What::Accessed { word, op, found, place: At(version, stores), .. } => {
                write!(f, "{request}: {op:?} of word {word} at version {version}")?;
                if stores != u32::MAX {
                    write!(f, ", store {stores}")?;
                }
                if !matches!(op, Op::Store(_)) {
                    write!(f, " finds {found:#x}")?;
                }
                Ok(())
            }
            What::Copies(from, to) => write!(f, "{request}: copies words {from} to {to}"),
            What::Copied => write!(f, "{request}: has copied"),
            What::Enters(round) => write!(f, "{request}: enters the barrier, round {round}"),
            What::Leaves(round) => write!(f, "{request}: leaves the barrier, round {round}"),
            What::Failed(Why::Lost(word)) => write!(f, "{request}: word {word} is lost"),
            What::Failed(Why::Died(node)) => write!(f, "{request}: is told that n{node} has died"),
            What::Failed(Why::Ended) => write!(f, "{request}: the memory has ended here"),
            What::Failed(Why::Closed) => write!(f, "{request}: its node is shut down"),
            What::Failed(Why::Dropped) => write!(f, "{request}: is dropped"),
            What::Failed(Why::Other) => write!(f, "{request}: fails"),
            What::Crashed => write!(f, "n{} crashes", request.client.node),
            What::Waits => write!(f, "n{} waits for memory", request.client.node),
            What::Begun(name) => write!(f, "n{} shares memory {:x}", request.client.node, name >> 48),
            What::LeftOut => write!(f, "n{} has no part in the memory any more", request.client.node),
            What::Outlives(node) => write!(f, "n{} goes on without n{node}", request.client.node),
            What::Runs => write!(f, "{request}: runs"),
            What::Ran { part, .. } => write!(f, "{request}: has run, its part is {part:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;

    /// On machines each node's clock begins with its process: by these an application's threads took as long as lay between two starts.
    #[test]
    fn the_times_of_a_thread_that_has_run_move_with_the_clock() {
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number: 0 };
        let ran = |from, to| What::Ran { part: 3, spent: Spent { from, to, faults: 2, ..Spent::default() } };
        let event = |at_ns, what| Event { at_ns, request, what };
        assert_eq!(event(9, ran(2, 8)).by_another_clock(Nanos(109)), event(109, ran(102, 108)));
        assert_eq!(event(109, ran(102, 108)).by_another_clock(Nanos(9)), event(9, ran(2, 8)));
    }
}
