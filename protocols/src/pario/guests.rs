//! Guests: nodes that use the servers' files and are no nodes of their mesh.
//!
//! What a guest has at servers (files that it has open, places in staging that it was offered, requests) ends with its lease or its
//! farewell: the transport fences its connection, and then tells the server as it tells of a node that began anew.

use super::server::{self, Event};
use super::service::{Pario, Shared};
use super::{FsError, Handle};
use crate::rt::WaitPoint;
use crate::rt::sync::Mailbox;
use crate::transport::Rank;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// In the place of those guests that have not come back yet.
const ABSENT: Rank = Rank::from_index(u32::MAX - 2);

impl<V: Verbs> Pario<V> {
    /// Leaves the servers, whose guest this node is. Files that it has open are closed, and calls that have not ended will not. The mesh is
    /// closed.
    pub async fn leave(&self) {
        self.0.mesh.leave().await;
        self.0.calls.look_again();
    }

    /// Ends as a process does that is killed: no server is told. For tests.
    pub fn vanish(&self) {
        self.0.mesh.vanish();
        self.0.calls.look_again();
    }

    /// The same guest's place taken by another one: a new mesh with the same settings, and a service on it.
    ///
    /// # Errors
    ///
    /// As of [`Pario::start`].
    pub fn another(&self) -> Result<Pario<V>, FsError> {
        let mesh = self.0.mesh.another(&self.0.rt)?;
        Pario::start(&self.0.rt, &mesh, self.0.config)
    }

    /// What this node has of its guests.
    pub fn guests(&self) -> crate::transport::GuestAudit {
        self.0.mesh.guests()
    }
}

/// After a home began anew it waits one lease for its guests: each that comes back is asked what it has open. Who has not come by then has
/// nothing any more. No file ends before.
pub(super) async fn hear_guests<V: Verbs>(shared: Rc<Shared<V>>, mut met: Mailbox<Rank>, lease: Nanos) {
    let end = shared.rt.now() + lease;
    while let Ok(Ok(guest)) = shared.rt.deadline(end, met.recv()).at("guests").await {
        server::on(&shared, Event::Met { client: guest });
        drop(shared.rt.spawn(server::ask_for_opens(Rc::clone(&shared), guest)));
    }
    server::on(&shared, Event::Heard { client: ABSENT, open: Vec::<(Handle, u32)>::new(), more: false });
}

/// Guests that are to be waited for.
pub(super) fn absent() -> impl Iterator<Item = Rank> {
    std::iter::once(ABSENT)
}
