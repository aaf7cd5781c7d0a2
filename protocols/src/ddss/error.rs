//! Why a call has no result.

use super::{Model, Spec};
use crate::transport::{NotExecuted, SendError, TransportError};
use thiserror::Error;
use weft_verbs::VerbsError;

/// Why a call has no result. Nothing was read, and nothing published.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DdssError {
    /// A segment of that size cannot be.
    #[error("a segment has 1 to {most} bytes, not {0}", most = Spec::LARGEST)]
    Size(u32),
    /// What is put or got is not as long as the segment.
    #[error("the segment has {size} bytes, not {len}")]
    Length {
        /// The segment's size.
        size: u32,
        /// The length given.
        len: usize,
    },
    /// Somebody opened the segment before, and said otherwise.
    #[error("the segment is there, with {size} bytes under {model}")]
    Otherwise {
        /// Its size.
        size: u32,
        /// Its model.
        model: Model,
    },
    /// The home has no memory left for it.
    #[error("its home has no memory for the segment")]
    Memory,
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
            other => DdssError::Send(other),
        }
    }
}

impl From<TransportError> for DdssError {
    fn from(error: TransportError) -> DdssError {
        DdssError::Transport(error)
    }
}
