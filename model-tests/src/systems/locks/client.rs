//! A client of a lock service: it asks for a lock, holds it and gives it back, and records what it sees.

use super::history::{Event, What, Why};
use super::workload::{Request, WaitPolicy};
use crate::history::RequestId;
use crate::record::Record;
use crate::run::rest;
use std::cell::Cell;
use weft_protocols::locks::{Grant, LockClient, LockError};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// What a client calls, and whether it holds what it has asked for last.
pub struct Client<V: Verbs> {
    locks: LockClient<V>,
    /// What was recorded last of its request.
    stage: Cell<Stage>,
}

#[derive(Clone, Copy)]
enum Stage {
    Waits,
    Holds,
    Over,
}

impl<V: Verbs> Client<V> {
    pub(super) fn new(locks: LockClient<V>) -> Client<V> {
        Client { locks, stage: Cell::new(Stage::Over) }
    }

    /// What the client has done when it drops its request: it asks no more, or holds no more.
    pub(super) fn drops(&self) -> Option<What> {
        match self.stage.replace(Stage::Over) {
            Stage::Waits => Some(What::Failed(Why::Dropped)),
            Stage::Holds => Some(What::Released),
            Stage::Over => None,
        }
    }
}

/// Makes one request, and holds what it is granted for as long as the request says.
pub(super) async fn perform<V: Verbs>(
    rt: &Rt<V>,
    Client { locks, stage }: &Client<V>,
    id: RequestId,
    request: Request,
    recorder: &impl Record<Event>,
) {
    let record = |at, what: What| {
        stage.set(match what {
            What::Requested { .. } => Stage::Waits,
            _ if what.ends() => Stage::Over,
            _ => Stage::Holds,
        });
        recorder.record(Event { at, request: id, key: request.key, mode: request.mode, what });
    };
    let asked = rt.now();
    let deadline = match request.wait {
        WaitPolicy::Wait => None,
        WaitPolicy::Until(timeout) => Some(asked + timeout),
        WaitPolicy::Try => Some(asked),
    };
    record(asked, What::Requested { deadline });
    match ask(locks, &request, deadline).await {
        Ok(grant) => hold(rt, grant, &request, &record, recorder).await,
        Err(error) => {
            let now = rt.now();
            let what = match What::from(&error) {
                // Who waits for ever has no deadline to give up at.
                What::TimedOut { .. } => What::TimedOut { early: deadline.unwrap_or(Nanos::MAX) - now },
                what => what,
            };
            record(now, what);
        }
    }
}

async fn ask<V: Verbs>(
    locks: &LockClient<V>,
    request: &Request,
    deadline: Option<Nanos>,
) -> Result<Grant<V>, LockError> {
    match (request.wait, deadline) {
        (WaitPolicy::Try, _) => locks.try_lock(request.key, request.mode).await,
        (_, Some(deadline)) => locks.lock_until(request.key, request.mode, deadline).await,
        (_, None) => locks.lock(request.key, request.mode).await,
    }
}

/// The grant counts until the moment before `unlock` is called, and as an exclusive one until the moment before
/// `downgrade` is called.
async fn hold<V: Verbs>(
    rt: &Rt<V>,
    mut grant: Grant<V>,
    request: &Request,
    record: &impl Fn(Nanos, What),
    recorder: &impl Record<Event>,
) {
    record(rt.now(), What::Granted { token: grant.token() });
    recorder.written().await;
    let first = if request.downgrade { Nanos(request.hold.0 / 2) } else { request.hold };
    if !holds_for(rt, &grant, first).await {
        return record(rt.now(), What::Lost);
    }
    if request.downgrade {
        let before = rt.now();
        // A scheme that cannot leaves the hold as it is.
        if grant.downgrade().await.is_ok() {
            record(before, What::Downgraded { token: grant.token() });
        }
        if !holds_for(rt, &grant, request.hold - first).await {
            return record(rt.now(), What::Lost);
        }
    }
    record(rt.now(), What::Released);
    recorder.written().await;
    grant.unlock().await;
}

/// Holds for a while. Whether it still holds then; it is told at once when it does not any more.
async fn holds_for<V: Verbs>(rt: &Rt<V>, grant: &Grant<V>, time: Nanos) -> bool {
    if grant.counts_until() == Nanos::MAX {
        rest(rt, time).await;
        return true;
    }
    rt.deadline(rt.now() + time, grant.lost()).await.is_err()
}
