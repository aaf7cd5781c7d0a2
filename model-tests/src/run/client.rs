//! The client loop, of every system and on both backends: rest, ask, and go on until there is nothing more to do.

use crate::history::{ClientId, RequestId};
use crate::record::Record;
use crate::scenario::Quitter;
use crate::system::{System, Until};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// One client: it makes the requests of its plan, one after the other, and says when it rests before one.
pub async fn client<S: System, V: Verbs>(
    rt: Rt<V>,
    mut calls: S::Client<V>,
    id: ClientId,
    mut plan: S::Plan,
    (until, mut quits): (Until, Option<Quitter>),
    record: impl Record<S::Event>,
    rests: Rc<Cell<bool>>,
) {
    let goes_on = |number| match until {
        Until::Requests(most) => number < most,
        Until::Time(end) => rt.now() < end,
    };
    let mut number = 0;
    while goes_on(number) {
        let (think, request) = S::next(&mut plan);
        rests.set(true);
        rest(&rt, think).await;
        rests.set(false);
        let id = RequestId { client: id, number };
        let leaves = quits.as_mut().and_then(Quitter::next).filter(|_| S::may_drop(&calls, &request));
        match leaves {
            None => S::perform(&rt, &mut calls, id, request, &record).await,
            Some(after) => perform_or_drop::<S, V>(&rt, &mut calls, (id, request), after, &record).await,
        }
        number += 1;
    }
}

/// Makes a request, and drops it if it has not ended after so long.
async fn perform_or_drop<S: System, V: Verbs>(
    rt: &Rt<V>,
    calls: &mut S::Client<V>,
    (id, request): (RequestId, S::Request),
    after: Nanos,
    record: &impl Record<S::Event>,
) {
    let until = rt.now() + after;
    let ended = rt.deadline(until, S::perform(rt, calls, id, request.clone(), record)).await;
    if ended.is_err()
        && let Some(event) = S::dropped(calls, id, &request, rt.now())
    {
        record.record(event);
    }
}

/// Lets time pass, if there is any to pass.
pub async fn rest<V: Verbs>(rt: &Rt<V>, time: Nanos) {
    if time > Nanos::ZERO {
        rt.sleep(time).await;
    }
}
