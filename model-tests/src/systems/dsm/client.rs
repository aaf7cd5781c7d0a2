//! A thread of the workload: it accesses words, and waits at barriers.

use super::history::{At, Event, Op, What, Why};
use super::with_memory;
use super::workload::Request;
use crate::history::RequestId;
use crate::record::Record;
use std::collections::BTreeMap;
use std::ops::Range;
use weft_protocols::dsm::{BarrierId, DsmError, Shared, Stamp, Thread};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// The barrier of all threads.
const BARRIER: BarrierId = BarrierId(0);

/// A thread, and what it saw last of the words that it accessed.
pub struct Client<V: Verbs> {
    /// The thread.
    pub thread: Thread<V>,
    /// The words of all minipages.
    pub words: Shared<[u64]>,
    /// Threads of all nodes.
    pub parties: u32,
    /// Whether all threads still come to barriers: none has died.
    pub meets: bool,
    /// For compare-and-exchanges: what is likely to be there.
    pub seen: BTreeMap<u32, u64>,
    /// Whether it accesses a word just now.
    pub accesses: bool,
}

impl<V: Verbs> Client<V> {
    /// Makes a request, and records what becomes of it. A compare-and-exchange expects what this thread saw last.
    ///
    /// # Errors
    ///
    /// It failed.
    pub async fn perform(
        &mut self,
        rt: &Rt<V>,
        id: RequestId,
        request: Request,
        record: &impl Record<Event>,
    ) -> Result<(), Why> {
        let request = match request {
            Request::Access { word, op: Op::CompareExchange(_, value), claims } => {
                let there = self.seen.get(&word).copied().unwrap_or_default();
                Request::Access { word, op: Op::CompareExchange(there, value), claims }
            }
            other => other,
        };
        self.make(rt, id, request, record).await.map(drop)
    }

    /// Makes a request as it is, and records what becomes of it. Gives what an access found.
    ///
    /// # Errors
    ///
    /// It failed.
    pub async fn make(
        &mut self,
        rt: &Rt<V>,
        id: RequestId,
        request: Request,
        record: &impl Record<Event>,
    ) -> Result<Option<u64>, Why> {
        let happens = |what| record.record(Event { at_ns: rt.now().0, request: id, what });
        match request {
            Request::Access { word, op, claims } => {
                happens(What::Accesses { word, op });
                self.accesses = true;
                record.written().await;
                // Nothing comes between the access and its record: the order of recording is that of execution.
                let done = with_memory(rt, async || match claims {
                    0 => self.execute(word, op).await.map(|found| (found, self.thread.last())),
                    _ => self.claim(rt, word, op, claims).await,
                });
                let done = done.await;
                self.accesses = false;
                happens(match &done {
                    Ok((found, last)) => {
                        What::Accessed { word, op, found: *found, place: At::from(*last), hops: last.hops }
                    }
                    Err(why) => What::Failed(why.into()),
                });
                record.written().await;
                let (found, _) = done.map_err(|why| Why::from(&why))?;
                self.seen.insert(word, op.stores(found).unwrap_or(found));
                return Ok(Some(found));
            }
            Request::Application(..) => {}
            // Where a thread has died all learn it at the barrier that they wait at or the next one, and nobody comes to another.
            Request::Barrier(_) if !self.meets => {}
            Request::Barrier(round) => {
                happens(What::Enters(round));
                record.written().await;
                let done = self.thread.barrier(BARRIER, self.parties).await;
                let done = done.map_err(|why| Why::from(&why));
                self.meets = !matches!(done, Err(Why::Died(_)));
                happens(done.map_or_else(What::Failed, |()| What::Leaves(round)));
                record.written().await;
                done?;
            }
        }
        Ok(None)
    }

    /// Accesses a word by a claim of its minipage, from the word on, and of those behind it.
    async fn claim(&mut self, rt: &Rt<V>, word: u32, op: Op, pages: u32) -> Result<(u64, Stamp), DsmError> {
        let (words, at) = (self.words, word as usize);
        let range = claimed(at, pages, words.elements_a_page(), words.len());
        if op == Op::Load {
            let claim = self.thread.claim(words, range, Nanos::MAX).await?;
            rt.yield_now().await;
            return Ok((claim[0], claim.place(words, at).unwrap_or_default()));
        }
        let mut claim = self.thread.claim_mut(words, range, Nanos::MAX).await?;
        rt.yield_now().await;
        let found = claim[0];
        claim[0] = op.stores(found).unwrap_or(found);
        Ok((found, claim.place(words, at).unwrap_or_default()))
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

/// Words that lie in so many minipages, in those that there are.
fn claimed(word: usize, pages: u32, words_a_page: usize, all: usize) -> Range<usize> {
    let end = (word / words_a_page + pages as usize) * words_a_page;
    word..end.min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_as_many_minipages_as_it_was_asked_for_wherever_its_word_lies() {
        for (word, pages) in [(0, 1), (7, 1), (7, 2), (8, 3), (15, 64)] {
            let claimed = claimed(word, pages, 8, 32);
            let last = (word / 8 + pages as usize - 1).min(3);
            assert_eq!((claimed.start, (claimed.end - 1) / 8), (word, last), "{word}, {pages}");
        }
    }
}
