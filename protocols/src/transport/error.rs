//! What can go wrong, told so that a protocol knows what it may do next.

use super::{Channel, Rank};
use thiserror::Error;
use weft_verbs::{Nanos, QpState, VerbsError, WcError};

/// Why a mesh could not start or a channel could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransportError {
    /// The device refused an object.
    #[error("the mesh could not start: {0}")]
    Verbs(#[from] VerbsError),
    /// A configuration that no mesh can have.
    #[error("{field} is {value}: {must}")]
    Config {
        /// The field of [`MeshConfig`](super::MeshConfig).
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
    /// Another protocol has opened the channel.
    #[error("channel {} is open already", .0.0)]
    ChannelTaken(Channel),
    /// The mesh has been closed.
    #[error("the mesh is closed")]
    Closed,
}

/// Why a connection made by other means cannot be prepared or adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AdoptError {
    /// No node has that rank.
    #[error("there is no node of rank {0}")]
    NoSuchPeer(Rank),
    /// A connection to the peer stands or is being made, or one has stood: only the first can be adopted.
    #[error("rank {0} is connected, or was")]
    Connected(Rank),
    /// The queue pair was prepared before another one for the same peer, which took its place.
    #[error("another connection to rank {0} was prepared or made since")]
    Superseded(Rank),
    /// The queue pair is not ready to send.
    #[error("the queue pair is in state {0} and must be ready to send")]
    NotReady(QpState),
    /// The bytes are no introduction that this version can read.
    #[error("what the peer says of itself cannot be read")]
    Unreadable,
    /// The introduction is of another node.
    #[error("the introduction is of rank {got} and should be of rank {want}")]
    Stranger {
        /// Whose it is.
        got: Rank,
        /// Whom the queue pair was prepared for.
        want: Rank,
    },
    /// The peer's mesh is configured otherwise, so that the two cannot talk.
    #[error("the peer's {field} is {value}")]
    Mismatch {
        /// The field of [`MeshConfig`](super::MeshConfig).
        field: &'static str,
        /// The peer's value.
        value: u32,
    },
    /// The device refused an object.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
    /// The mesh has been closed.
    #[error("the mesh is closed")]
    Closed,
}

/// Why a message was not taken. It was not sent and will not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// No node has that rank.
    #[error("there is no node of rank {0}")]
    NoSuchPeer(Rank),
    /// Longer than the mesh's largest message.
    #[error("a message of {len} bytes is longer than the {max} that the mesh carries")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The largest, in bytes.
        max: u32,
    },
    /// Too many messages wait for this peer's acknowledgement; [`Mesh::room`](super::Mesh::room) waits.
    #[error("{queued} messages wait for rank {to} already")]
    Full {
        /// The peer.
        to: Rank,
        /// How many messages wait.
        queued: u32,
    },
    /// The peer's incarnation was [expelled](super::Mesh::expel), or has expelled this one, and no other one has connected yet; or
    /// this mesh has [retired](super::Mesh::retire).
    #[error("rank {0} was expelled")]
    PeerGone(Rank),
    /// The mesh has been closed.
    #[error("the mesh is closed")]
    Closed,
    /// No memory for the message's buffer.
    #[error("no buffer for the message: {0}")]
    Memory(VerbsError),
    /// Data cannot be [placed](super::Mesh::place): the connection stands on another rail than the memory's.
    #[error("the connection to rank {0} stands on another rail than the memory's")]
    OtherRail(Rank),
}

/// How long what must be sent waits where there is no memory for it, before that is asked for again. Messages of members and of locks, which
/// are kept in queues of their own, have pauses of their own.
pub(crate) const BEFORE_MEMORY_IS_ASKED_FOR: Nanos = Nanos::from_millis(1);

impl SendError {
    /// Whether memory was refused for the message: there may be some later. An adapter that has failed refuses it too, and says that it is gone;
    /// unless it is the first one, with which the node ends, the next connection goes over another rail, whose adapter has memory.
    pub fn lacks_memory(&self) -> bool {
        matches!(self, SendError::Memory(why) if !matches!(why, VerbsError::OutOfRange { .. }))
    }
}

/// Why a one-sided operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpError {
    /// It did not execute, and never will: it may be tried again.
    #[error("not executed: {0}")]
    NotExecuted(NotExecuted),
    /// It may have executed, **or may yet**. Never resend it blindly: its outcome is fixed only after
    /// [`Mesh::resolve_outcomes`](super::Mesh::resolve_outcomes), and known only to a protocol that can then look.
    #[error("of unknown outcome: {0}")]
    Unknown(Lost),
}

impl OpError {
    /// Whether it was not posted for want of memory: there may be some later.
    pub fn lacks_memory(&self) -> bool {
        matches!(self, OpError::NotExecuted(why) if why.lacks_memory())
    }
}

/// Whether memory was refused: there may be some later.
pub(crate) fn lacks_memory(why: VerbsError) -> bool {
    matches!(why, VerbsError::Os { .. } | VerbsError::Exhausted { .. })
}

/// Why an operation did not execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotExecuted {
    /// No node has that rank.
    #[error("there is no node of rank {0}")]
    NoSuchPeer(Rank),
    /// More bytes than the operation or the remote range has.
    #[error("the remote range has {have} bytes where {need} are needed")]
    Length {
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },
    /// The adapter refused the request.
    #[error("{0}")]
    Refused(VerbsError),
    /// The request failed in a way that leaves the far side untouched.
    #[error("{0}")]
    Failed(WcError),
    /// The peer began a new incarnation before the request could be posted: the addresses were of the old one.
    #[error("rank {0} has restarted")]
    PeerReset(Rank),
    /// The peer's incarnation was [expelled](super::Mesh::expel), or has expelled this one, while the operation waited, or before and no
    /// other one has connected yet; or this mesh has [retired](super::Mesh::retire). As the end of
    /// [`Mesh::resolve_outcomes`](super::Mesh::resolve_outcomes): what became of earlier operations at that peer is not to be
    /// known, and its memory counts no more.
    #[error("rank {0} was expelled")]
    PeerGone(Rank),
    /// Messages carried the operation, since the connection stands on another rail than the peer's memory or an adapter has no remote
    /// atomics; the peer's own adapter refused it, or the request failed there and left the memory untouched.
    #[error("rank {0} could not execute it on its own memory")]
    AtPeer(Rank),
    /// The connection stands on another rail than the peer's memory, and the operation was not to be carried by messages
    /// ([`Mesh::post_list_directly`](super::Mesh::post_list_directly)).
    #[error("the connection to rank {0} stands on another rail than its memory")]
    OtherRail(Rank),
    /// The mesh has been closed.
    #[error("the mesh is closed")]
    Closed,
}

impl NotExecuted {
    /// Whether that is for want of memory: there may be some later. (Of an adapter that is gone there is none, and the next connection goes
    /// over another one; where it is the first, the node ends.)
    pub fn lacks_memory(&self) -> bool {
        matches!(*self, NotExecuted::Refused(why) if lacks_memory(why) || why == VerbsError::DeviceGone)
    }
}

/// How an operation's result was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Lost {
    /// It completed in error.
    #[error("{0}")]
    Failed(WcError),
    /// Its queue pair was destroyed before it completed.
    #[error("the queue pair was destroyed")]
    Destroyed,
    /// The adapter refused a later request of its list.
    #[error("{0}")]
    Refused(VerbsError),
    /// Messages carried it to the peer, which restarted before it answered, or lost the outcome itself. It is fixed.
    #[error("rank {0} did not say what became of it")]
    AtPeer(Rank),
}
