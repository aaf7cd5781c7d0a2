//! Guests: nodes that use the servers' files and are no nodes of their mesh.
//!
//! What a guest has at servers (files that it has open, places in staging that it was offered, requests) ends with its lease or its
//! farewell: the transport fences its connection, and then tells the server as it tells of a node that began anew.

use super::FsError;
use super::service::Pario;
use weft_verbs::Verbs;

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
