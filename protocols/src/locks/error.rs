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
    /// Somebody else holds the lock or was before in its queue, or the outcome of an attempt of this node was lost and what the lock's
    /// word says is being found out; only [`try_lock`](super::LockClient::try_lock) answers so.
    #[error("the lock is not free")]
    WouldBlock,
    /// The node's lock service has ended.
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
    /// The other members go on without this node ([`Members::is_out`](crate::members::Members::is_out)), or a majority of them has
    /// restarted: it holds nothing any more. One that was left out must be restarted.
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
