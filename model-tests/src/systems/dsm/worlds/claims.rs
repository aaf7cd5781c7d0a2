//! A claim as a step of a small program: words are claimed together, used while others try to, and let go.

use super::super::client::Client;
use super::super::history::{At, Event, What, Why};
use super::program::{Claiming, WORDS, Words};
use crate::harness::Quits;
use crate::history::RequestId;
use crate::polled::polled;
use crate::record::Record;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::dsm::{DsmError, Shared, Stamp};
use weft_protocols::rt::Rt;
use weft_sim::Sim;
use weft_verbs::Nanos;

/// How long a claim that gives up is tried: so many times everything else may run.
const TRIES: u32 = 8;

/// A claim's words, where they are, and the number of the request that accesses x; y and z have the next ones.
pub struct Claimed {
    pub words: [bool; WORDS],
    pub places: Words,
    pub how: Claiming,
    pub first: RequestId,
    /// What makes the user drop the call, or the claim.
    pub quits: Option<Rc<Quits>>,
}

impl Claimed {
    fn requests(&self, words_a_page: u32) -> impl Iterator<Item = (RequestId, u32)> {
        let Claimed { words, places, first, .. } = self;
        let claimed = (0..WORDS).filter(|word| words[*word]);
        claimed.map(move |word| {
            let number = first.number + word as u32;
            (RequestId { number, ..*first }, places.place(word, words_a_page))
        })
    }
}

/// Claims words, lets others run while it has them, and lets them go. Gives what it saw or left, by word; no word if it gave up; `None` if it
/// was dropped.
pub async fn claim(
    rt: &Rt<Sim>,
    client: &mut Client<Sim>,
    step: Claimed,
    words_a_page: u32,
    record: &impl Record<Event>,
) -> Option<Vec<u64>> {
    let requests: Vec<(RequestId, u32)> = step.requests(words_a_page).collect();
    let happens = |request, what| record.record(Event { at_ns: rt.now().0, request, what });
    let (shared, op) = (client.words, step.how.op());
    let asks = || requests.iter().for_each(|(id, word)| happens(*id, What::Accesses { word: *word, op }));
    // What is given up was not called.
    if step.how != Claiming::Try {
        asks();
        record.written().await;
    }
    let claiming = held(rt, client, &requests, shared, step.how);
    let Some(done) = Quits::call(step.quits.as_deref(), claiming).await else {
        requests.iter().for_each(|(id, _)| happens(*id, What::Failed(Why::Dropped)));
        return None;
    };
    if step.how == Claiming::Try && done.is_ok() {
        asks();
    }
    let mut seen = Vec::new();
    match done {
        Ok(all) => {
            for (&(id, word), (found, stamp)) in requests.iter().zip(all) {
                let place = At::from(stamp);
                happens(id, What::Accessed { word, op, found, place, hops: stamp.hops });
                seen.push(op.stores(found).unwrap_or(found));
            }
        }
        Err(_) if step.how == Claiming::Try => {}
        Err(why) => requests.iter().for_each(|(id, _)| happens(*id, What::Failed((&why).into()))),
    }
    record.written().await;
    Some(seen)
}

async fn held(
    rt: &Rt<Sim>,
    client: &mut Client<Sim>,
    requests: &[(RequestId, u32)],
    shared: Shared<[u64]>,
    how: Claiming,
) -> Result<Vec<(u64, Stamp)>, DsmError> {
    let at = |range: usize| requests[range.min(requests.len() - 1)].1 as usize;
    // Three ranges, of which some may be empty.
    let of = [0, 1, 2].map(|range| (shared, at(range)..at(range) + usize::from(range < requests.len())));
    let places = |place: &dyn Fn(usize) -> Option<Stamp>| -> Vec<Stamp> {
        requests.iter().map(|(_, word)| place(*word as usize).unwrap_or_default()).collect()
    };
    if let (&[(_, word)], Claiming::Read | Claiming::Add) = (requests, how) {
        return alone(rt, client, shared, word as usize, how).await;
    }
    if how == Claiming::Read {
        let claim = client.thread.claim_all(of, Nanos::MAX).await?;
        others(rt).await;
        let found = claim.slices().concat();
        let places = places(&|word| claim.place(shared, word));
        return Ok(found.into_iter().zip(places).collect());
    }
    let claiming = client.thread.claim_all_mut(of, Nanos::MAX);
    let mut claim = match how {
        Claiming::Try => give_up(rt, claiming).await.ok_or(DsmError::Deadline)??,
        _ => claiming.await?,
    };
    others(rt).await;
    let found = claim.slices_mut().map(|slice| slice.to_vec()).concat();
    claim.slices_mut().into_iter().flatten().for_each(|word| *word += 1);
    let places = places(&|word| claim.place(shared, word));
    Ok(found.into_iter().zip(places).collect())
}

/// The same with one word: a claim of one range is a slice.
async fn alone(
    rt: &Rt<Sim>,
    client: &mut Client<Sim>,
    shared: Shared<[u64]>,
    word: usize,
    how: Claiming,
) -> Result<Vec<(u64, Stamp)>, DsmError> {
    let (found, place) = if how == Claiming::Read {
        let claim = client.thread.claim(shared, word..word + 1, Nanos::MAX).await?;
        others(rt).await;
        (claim[0], claim.place(shared, word))
    } else {
        let mut claim = client.thread.claim_mut(shared, word..word + 1, Nanos::MAX).await?;
        others(rt).await;
        let found = claim[0];
        claim[0] += 1;
        (found, claim.place(shared, word))
    };
    Ok(vec![(found, place.unwrap_or_default())])
}

/// Whatever may happen does.
async fn others(rt: &Rt<Sim>) {
    rt.yield_now().await;
    rt.yield_now().await;
}

/// Awaits a future for a while, and drops it then.
async fn give_up<F: Future>(rt: &Rt<Sim>, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..TRIES {
        if let Poll::Ready(done) = polled(future.as_mut()).await {
            return Some(done);
        }
        others(rt).await;
    }
    None
}
