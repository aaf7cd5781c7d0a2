//! A thread of the workload: it accesses words, and waits at barriers.

use super::history::{At, Event, Op, What};
use super::workload::Request;
use crate::history::RequestId;
use crate::record::Record;
use std::collections::BTreeMap;
use weft_protocols::dsm::{BarrierId, DsmError, Reading, Repaired, Shared, Thread};
use weft_protocols::rt::Rt;
use weft_verbs::Verbs;

/// The barrier of all threads.
const BARRIER: BarrierId = BarrierId(0);

/// A thread, and what it saw last of the words that it accessed.
pub struct Client<V: Verbs, R: Reading = Repaired> {
    /// The thread.
    pub thread: Thread<V, R>,
    /// The words of all minipages.
    pub words: Shared<[u64]>,
    /// Threads of all nodes.
    pub parties: u32,
    /// For compare-and-exchanges: what is likely to be there.
    pub seen: BTreeMap<u32, u64>,
}

impl<V: Verbs, R: Reading> Client<V, R> {
    /// Makes a request, and records what becomes of it.
    pub async fn perform(
        &mut self,
        rt: &Rt<V>,
        id: RequestId,
        request: Request,
        record: &impl Record<Event>,
    ) {
        let happens = |what| record.record(Event { at_ns: rt.now().0, request: id, what });
        let request = match request {
            Request::Access { word, op: Op::CompareExchange(_, value) } => {
                let there = self.seen.get(&word).copied().unwrap_or_default();
                Request::Access { word, op: Op::CompareExchange(there, value) }
            }
            other => other,
        };
        match request {
            Request::Access { word, op } => {
                happens(What::Accesses { word, op });
                record.written().await;
                // Nothing comes between the access and its record: the order of recording is that of execution.
                let done = self.execute(word, op).await;
                let last = self.thread.last();
                happens(match done {
                    Ok(found) => What::Accessed { word, op, found, place: At::from(last), hops: last.hops },
                    Err(_) => What::Failed,
                });
                if let Ok(found) = done {
                    self.seen.insert(word, op.stores(found).unwrap_or(found));
                }
            }
            Request::Barrier(round) => {
                happens(What::Enters(round));
                record.written().await;
                let done = self.thread.barrier(BARRIER, self.parties).await;
                happens(done.map_or(What::Failed, |()| What::Leaves(round)));
            }
        }
        record.written().await;
    }

    async fn execute(&mut self, word: u32, op: Op) -> Result<u64, DsmError> {
        let (thread, words, at) = (&mut self.thread, self.words, word as usize);
        match op {
            Op::Load => thread.load(words, at).await,
            Op::Store(value) => thread.store(words, at, value).await.map(|()| 0),
            Op::Swap(value) => thread.swap(words, at, value).await,
            Op::Add(by) => thread.fetch_add(words, at, by).await,
            Op::CompareExchange(there, value) => thread.compare_exchange(words, at, there, value).await,
        }
    }
}
