//! Guests that a home waits for after it began anew: it does not know who they are.

use super::super::Handle;
use super::super::service::Shared;
use super::Event;
use crate::rt::sync::Mailbox;
use crate::transport::Rank;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// In the place of those guests that have not come back yet.
const ABSENT: Rank = Rank::from_index(u32::MAX - 2);

/// After a home began anew it waits one lease for its guests: each that comes back is asked what it has open. Who has not come by then has
/// nothing any more. No file ends before.
pub(super) async fn hear_guests<V: Verbs>(shared: Rc<Shared<V>>, mut met: Mailbox<Rank>, lease: Nanos) {
    let end = shared.rt.now() + lease;
    loop {
        match shared.rt.deadline(end, met.recv()).await {
            Ok(Ok(guest)) => ask(&shared, guest),
            // The mesh is closed: who has not come yet may come to the server's next life.
            Ok(Err(_)) => return,
            Err(_) => break,
        }
    }
    super::on(&shared, Event::Heard { client: ABSENT, open: Vec::<(Handle, u32)>::new(), more: false });
}

/// Asks those that have come already, before what they asked for meanwhile is looked at.
pub(super) fn ask_those_met<V: Verbs>(shared: &Rc<Shared<V>>, met: &mut Mailbox<Rank>) {
    while let Some(guest) = met.try_recv() {
        ask(shared, guest);
    }
}

fn ask<V: Verbs>(shared: &Rc<Shared<V>>, guest: Rank) {
    super::on(shared, Event::Met { client: guest });
    drop(shared.rt.spawn(super::ask_for_opens(Rc::clone(shared), guest)));
}

/// Guests that are to be waited for.
pub(super) fn guests() -> impl Iterator<Item = Rank> {
    std::iter::once(ABSENT)
}
