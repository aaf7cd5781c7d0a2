//! Why a member cannot start.

use crate::transport::TransportError;
use thiserror::Error;

/// Why a member could not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MembersError {
    /// Settings that no membership can have.
    #[error("{field} is {value}: {must}")]
    Config {
        /// The field of [`MembersConfig`](super::MembersConfig), or of the mesh.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
    /// The mesh refuses, since members were started on it before, say.
    #[error("{0}")]
    Transport(#[from] TransportError),
}
