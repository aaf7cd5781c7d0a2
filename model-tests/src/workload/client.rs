//! A client's task: it asks for locks, holds them and gives them back, and records what it sees.

use super::{Manner, Plan, Wish};
use crate::history::{ClientId, Event, RequestId, What};
use weft_protocols::locks::{Grant, LockClient, LockError};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// Takes down what clients see.
pub trait Recorder {
    /// The next event of the history.
    fn record(&self, event: Event);

    /// Ends once the history has what was recorded so far. A client waits for it before it goes on with a grant and
    /// before it gives one back: where the history is kept on another machine, the order in which it arrives there is
    /// then one in which it can have happened. At once, where the history is at hand.
    fn written(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}

/// How many requests a client makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So many.
    Requests(u32),
    /// As many as it can begin before this time of its node's clock.
    Time(Nanos),
}

/// One client: it fulfils the wishes of its plan, one after the other, until it has made its requests.
pub async fn run<V: Verbs>(
    rt: Rt<V>,
    locks: LockClient<V>,
    id: ClientId,
    mut plan: Plan,
    until: Until,
    recorder: impl Recorder,
) {
    let goes_on = |number| match until {
        Until::Requests(most) => number < most,
        Until::Time(end) => rt.now() < end,
    };
    let mut number = 0;
    while goes_on(number) {
        let wish = plan.wish();
        rest(&rt, wish.think).await;
        let request = RequestId { client: id, number };
        let record = |at, what| recorder.record(Event { at, request, key: wish.key, mode: wish.mode, what });
        match ask(&rt, &locks, &wish, &record).await {
            Ok(grant) => hold(&rt, grant, &wish, &record, &recorder).await,
            Err(error) => record(rt.now(), outcome(&error)),
        }
        number += 1;
    }
}

async fn ask<V: Verbs>(
    rt: &Rt<V>,
    locks: &LockClient<V>,
    wish: &Wish,
    record: &impl Fn(Nanos, What),
) -> Result<Grant<V>, LockError> {
    match wish.manner {
        Manner::Patient => {
            record(rt.now(), What::Requested { deadline: None });
            locks.lock(wish.key, wish.mode).await
        }
        Manner::Hurried(patience) => {
            let deadline = rt.now() + patience;
            record(rt.now(), What::Requested { deadline: Some(deadline) });
            locks.lock_until(wish.key, wish.mode, deadline).await
        }
        Manner::Try => {
            record(rt.now(), What::Requested { deadline: None });
            locks.try_lock(wish.key, wish.mode).await
        }
    }
}

/// The grant counts until the moment before `unlock` is called, and as an exclusive one until the moment before
/// `downgrade` is called.
async fn hold<V: Verbs>(
    rt: &Rt<V>,
    mut grant: Grant<V>,
    wish: &Wish,
    record: &impl Fn(Nanos, What),
    recorder: &impl Recorder,
) {
    record(rt.now(), What::Granted { token: grant.token() });
    recorder.written().await;
    let first = if wish.downgrade { Nanos(wish.hold.0 / 2) } else { wish.hold };
    rest(rt, first).await;
    if wish.downgrade {
        let before = rt.now();
        // A scheme that cannot leaves the hold as it is.
        if grant.downgrade().await.is_ok() {
            record(before, What::Downgraded { token: grant.token() });
        }
        rest(rt, wish.hold - first).await;
    }
    record(rt.now(), What::Released);
    recorder.written().await;
    grant.unlock().await;
}

async fn rest<V: Verbs>(rt: &Rt<V>, time: Nanos) {
    if time > Nanos::ZERO {
        rt.sleep(time).await;
    }
}

fn outcome(error: &LockError) -> What {
    match error {
        LockError::Deadline => What::TimedOut,
        LockError::WouldBlock => What::Refused,
        _ => What::Failed,
    }
}
