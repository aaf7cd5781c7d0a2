//! What happens to a connection, and what is to be done about it.

use crate::transport::grounds::Grounds;
use crate::transport::rail::ConnId;
use crate::transport::wire::{Hello, Refusal};

/// What happened to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Event {
    /// Something waits to be sent.
    Wanted,
    /// The attempt that was asked for has this identity.
    Begun(ConnId),
    /// The attempt that was asked for could not begin.
    NotBegun,
    /// The peer's address is known.
    Resolved(ConnId),
    /// The peer asks.
    Request(ConnId, Hello),
    /// An acceptance of our request arrived.
    Accepted(ConnId, Hello),
    /// An acceptance of ours reached the peer.
    Established(ConnId),
    /// The peer turned our request down, and why if it said so.
    Rejected(ConnId, Option<Refusal>),
    /// An attempt failed, on whichever side.
    Failed(ConnId),
    /// The peer ended the connection.
    Disconnected(ConnId),
    /// A connection that was made by other means than the connection manager stands.
    Adopted(Hello),
    /// The queue pair broke: a request completed in error, or the peer broke the protocol.
    Broken,
    /// The fenced queue pair has drained.
    Drained,
    /// A pause is over.
    Paused(u32),
    /// The port of a rail lost its link.
    RailDown(u8),
    /// The port of a rail has its link again.
    RailUp(u8),
    /// A better rail than the present one works, and was left alone for long enough or is where a user wants the connection: it
    /// moves there.
    FailBack(u8),
    /// A rail is the best one from now on.
    Prefer(u8),
    /// An incarnation of the peer is expelled, on these grounds: nothing of it is accepted any more.
    Expelled(u64, Grounds),
    /// This node has nothing to do with anybody any more.
    Retired,
    /// A guest is to be forgotten: what stands ends.
    Farewell,
    /// A connection that nothing goes over stands by, for when this one breaks.
    StandsBy(ConnId),
    /// It does not any more.
    NoStandby(ConnId),
    /// A request over a connection that stood by was not answered in time.
    Unanswered(ConnId),
}

/// What is to be done about it, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Action {
    /// Fence the queue pair in use and drain it; [`Event::Drained`] follows.
    Fence,
    /// Give up this attempt or connection of ours toward the connection manager, or one that stands by.
    Disconnect(ConnId),
    /// Destroy the queue pair of an attempt that came to nothing.
    Discard,
    /// Find the peer on a rail; [`Event::Begun`] or [`Event::NotBegun`] follows at once.
    Resolve(u8),
    /// Ask the peer, on a new queue pair or on that of the connection that stood by.
    Connect(ConnId, u32),
    /// Accept this request likewise, with the generation that is agreed by it.
    Accept(ConnId, Hello),
    /// Turn a request down.
    Reject(ConnId, Refusal),
    /// The peer is in its first or in a new incarnation. True where an older session ends by that.
    NewIncarnation(bool),
    /// The connection stands; resume the session from the peer's report.
    Resume(Hello),
    /// Set a timer for the pause before the next attempt, which is the n-th after a success;
    /// [`Event::Paused`] follows, with the second number.
    Pause(u32, u32),
    /// The peer says that it has expelled this node's incarnation, on these grounds.
    Outcast(Grounds),
    /// The peer says that it has retired.
    Gone,
}
