//! A client's task: it asks for locks, holds them and gives them back, and records what it sees.

use super::{Manner, Plan, Wish};
use crate::history::{ClientId, Event, RequestId, What};
use protocols::locks::{Grant, LockClient, LockError};
use protocols::rt::Rt;
use verbs_trait::{Nanos, Verbs};

/// Takes down what clients see.
pub trait Recorder {
    /// The next event of the history.
    fn record(&self, event: Event);
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
        if wish.think > Nanos::ZERO {
            rt.sleep(wish.think).await;
        }
        let request = RequestId { client: id, number };
        let record = |what| {
            recorder.record(Event { at: rt.now(), request, key: wish.key, mode: wish.mode, what });
        };
        match ask(&rt, &locks, &wish, &record).await {
            Ok(grant) => hold(&rt, grant, wish.hold, &record).await,
            Err(error) => record(outcome(&error)),
        }
        number += 1;
    }
}

async fn ask<V: Verbs>(
    rt: &Rt<V>,
    locks: &LockClient<V>,
    wish: &Wish,
    record: &impl Fn(What),
) -> Result<Grant<V>, LockError> {
    match wish.manner {
        Manner::Patient => {
            record(What::Requested { deadline: None });
            locks.lock(wish.key, wish.mode).await
        }
        Manner::Hurried(patience) => {
            let deadline = rt.now() + patience;
            record(What::Requested { deadline: Some(deadline) });
            locks.lock_until(wish.key, wish.mode, deadline).await
        }
        Manner::Try => {
            record(What::Requested { deadline: None });
            locks.try_lock(wish.key, wish.mode).await
        }
    }
}

/// The grant counts until the moment before `unlock` is called.
async fn hold<V: Verbs>(rt: &Rt<V>, grant: Grant<V>, time: Nanos, record: &impl Fn(What)) {
    record(What::Granted { token: grant.token() });
    if time > Nanos::ZERO {
        rt.sleep(time).await;
    }
    record(What::Released);
    grant.unlock().await;
}

fn outcome(error: &LockError) -> What {
    match error {
        LockError::Deadline => What::TimedOut,
        LockError::WouldBlock => What::Refused,
        _ => What::Failed,
    }
}
