//! Why a call has no result.

use super::{Model, Spec};
use crate::transport::{NotExecuted, Rank, SendError, TransportError};
use thiserror::Error;
use weft_verbs::VerbsError;

/// Why a call has no result. Nothing was read, and nothing published, unless it says otherwise. A put that was under way when its home
/// could be reached no more, or when its node was left out, may have been published.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DdssError {
    /// A segment of that size under that model cannot be on so many nodes.
    #[error("{}", Spec { size: *.0, model: *.1 }.why_impossible())]
    Impossible(u32, Model),
    /// Names from 2^63 on are not given by users.
    #[error("a name is below 2^63")]
    Name,
    /// The key is of no segment that this cluster could have.
    #[error("the key is of no segment here")]
    Key,
    /// The segment has been released, or is being released. If a put ends so, nobody will see its value.
    #[error("the segment has been released")]
    Released,
    /// The answer to a put was lost, and by the time that its home could be asked others had put more than once. Its value may have been
    /// the segment's for a while, before or between theirs, or never.
    #[error(
        "the answer to the put was lost, and others have put since: its value may have been there, or not"
    )]
    Unknown,
    /// A version so far back is not kept.
    #[error("{back} versions back is more than the {behind} that the segment keeps")]
    NotKept {
        /// How far back was asked for.
        back: u8,
        /// How far back versions are kept.
        behind: u8,
    },
    /// Under temporal: the home answers more slowly than the time within which values are good.
    #[error("the home answers more slowly than the time of the segment's model")]
    Slow,
    /// The segment has had as many versions as its header can count.
    #[error("the segment has used up its versions")]
    UsedUp,
    /// What is put or got is not as long as the segment.
    #[error("the segment has {size} bytes, not {len}")]
    Length {
        /// The segment's size.
        size: u32,
        /// The length given.
        len: usize,
    },
    /// The cluster has no node of that rank.
    #[error("there is no node {}", .0.index())]
    NoSuchNode(Rank),
    /// Somebody opened the segment before, and said otherwise.
    #[error("the segment is there, with {size} bytes under {model}")]
    Otherwise {
        /// Its size.
        size: u32,
        /// Its model.
        model: Model,
    },
    /// The name stands for a key that was bound to it: no segment is opened by it. Look the key up, and attach that. If its segment is gone,
    /// have the name stand for another key or for none ([`Ddss::bind_instead`](super::Ddss::bind_instead)).
    #[error(
        "the name stands for a key: it is to be looked up; if its segment is gone, bind_instead gives the name another one, or none"
    )]
    Bound,
    /// The home has no memory left for it.
    #[error("its home has no memory for the segment")]
    Memory,
    /// The node has died that keeps the segment or was asked, and what it kept is gone, also when it is back. A put that ends so may have
    /// been published, and got by others, before that.
    #[error("node {} has died, and the segments that it kept with it", .0.index())]
    Gone(Rank),
    /// The node that keeps the segment or is to be asked is not among the members, and did not come for as long as a lease runs.
    #[error("node {} is not among the members", .0.index())]
    Absent(Rank),
    /// The others go on without this node, which was silent for too long: it has no part in the segments any more until it is started anew.
    /// A put that ends so may have been published, and be what the others get.
    #[error("the others go on without this node")]
    Out,
    /// The node has been shut down.
    #[error("the node has been shut down")]
    Closed,
    /// The peer cannot be reached any more.
    #[error("not executed: {0}")]
    NotExecuted(NotExecuted),
    /// The request could not be sent.
    #[error("the request was not sent: {0}")]
    Send(SendError),
    /// The adapter refused something.
    #[error("{0}")]
    Verbs(VerbsError),
    /// The service cannot start.
    #[error("{0}")]
    Transport(TransportError),
}

impl From<SendError> for DdssError {
    fn from(error: SendError) -> DdssError {
        match error {
            SendError::Closed => DdssError::Closed,
            SendError::PeerGone(node) => DdssError::Gone(node),
            other => DdssError::Send(other),
        }
    }
}

impl From<TransportError> for DdssError {
    fn from(error: TransportError) -> DdssError {
        DdssError::Transport(error)
    }
}
