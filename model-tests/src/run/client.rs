//! The client loop, of every system and on both backends: rest, ask, and go on until there is nothing more to do.

use crate::history::{ClientId, RequestId};
use crate::record::Record;
use crate::system::{System, Until};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// One client: it makes the requests of its plan, one after the other.
pub async fn client<S: System, V: Verbs>(
    rt: Rt<V>,
    mut calls: S::Client<V>,
    id: ClientId,
    mut plan: S::Plan,
    until: Until,
    record: impl Record<S::Event>,
) {
    let goes_on = |number| match until {
        Until::Requests(most) => number < most,
        Until::Time(end) => rt.now() < end,
    };
    let mut number = 0;
    while goes_on(number) {
        let (think, request) = S::next(&mut plan);
        rest(&rt, think).await;
        S::perform(&rt, &mut calls, RequestId { client: id, number }, request, &record).await;
        number += 1;
    }
}

/// Lets time pass, if there is any to pass.
pub async fn rest<V: Verbs>(rt: &Rt<V>, time: Nanos) {
    if time > Nanos::ZERO {
        rt.sleep(time).await;
    }
}
