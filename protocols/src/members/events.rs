//! What happens to a member, and what it wants done.

use super::messages::Envelope;
use super::view::{Member, View, ViewId};
use crate::transport::Rank;

/// What happens to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It begins.
    Begin,
    /// A message comes from a node.
    Message(Rank, Envelope),
    /// A node has restarted: what it was sent before may be lost.
    PeerReset(Rank),
    /// From now on something is held or asked for under its lease, or nothing is.
    Hold(bool),
    /// From now on something here waits for that node, or nothing does.
    Watch(Rank, bool),
    /// It wants to leave.
    Leave,
    /// A node has [expelled](crate::transport::Mesh::expel) this incarnation, which it says is not in this view.
    Expelled(ViewId),
    /// A [deadline](super::Core::deadline) has come.
    Time,
}

/// What a member wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message, in order with the others to that node.
    Send(Rank, Envelope),
    /// A view begins, before anything is said in it. `left` are those of the view before who are not in it, and never will be again.
    Install {
        /// The view.
        view: View,
        /// Who left.
        left: Vec<Member>,
    },
    /// The lease runs longer than it did.
    Leased,
    /// The view can never decide anything again: a majority of its members has restarted. Whatever was held is not held any
    /// more, and this member begins anew.
    Lost,
    /// The others go on without this member, for good. Whatever it held it does not hold any more.
    Out,
}
