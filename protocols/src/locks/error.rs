//! Why there is no grant, and why there is no service.

use super::Scheme;
use crate::transport::TransportError;
use thiserror::Error;

/// Why a lock request ended without a grant, or a lock service did not start.
///
/// After any of them the caller holds nothing more than before, and nothing is left to undo: a grant that
/// arrives later is passed on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// The deadline passed first.
    #[error("the lock was not granted before the deadline")]
    Deadline,
    /// Somebody else holds the lock or was before in its queue, or the lock's word is being rebuilt, since the outcome of an atomic was lost
    /// or its count is full; only [`try_lock`](super::LockClient::try_lock) answers so.
    #[error("the lock is not free")]
    WouldBlock,
    /// The node's lock service has ended: with its runtime, or since its mesh was closed.
    #[error("the lock service has ended")]
    Closed,
    /// The scheme cannot do that; the grant is what it was before.
    #[error("{scheme} cannot {what}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// The service's scheme.
        scheme: Scheme,
    },
    /// The lock's home has no memory left for another lock.
    #[error("the home of the lock has no room for another one")]
    HomeFull,
    /// The other members go on without this node ([`Members::is_out`](crate::members::Members::is_out)): it holds nothing any more, and
    /// must be restarted.
    #[error("the membership goes on without this node, which must be restarted")]
    LeftOut,
    /// A configuration that no service can have.
    #[error("{field} is {value}: {must}")]
    Config {
        /// The field of [`LockConfig`](super::LockConfig).
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
    /// The mesh refused what the service needs.
    #[error(transparent)]
    Transport(#[from] TransportError),
}
