//! Why a call has no result.

use crate::transport::{NotExecuted, SendError, TransportError};
use thiserror::Error;
use weft_verbs::{DiskError, VerbsError};

/// Why a call has no result. Unless it says otherwise, nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FsError {
    /// Nothing can have the path: names of 1 to 255 bytes of UTF-8 without zero, neither "." nor "..", with '/' between them, and at most
    /// 1,024 bytes in all.
    #[error(
        "{0:?} is no path of a file: names of 1 to 255 bytes with '/' between, at most 1,024 bytes in all"
    )]
    Path(String),
    /// The root is always there, and is no file.
    #[error("the root is there, and is no file")]
    Root,
    /// There is a file or a directory of that name.
    #[error("there is a file or a directory of that name")]
    Exists,
    /// There is none, or not the directory that it would be in.
    #[error("there is no file or directory of that name")]
    NotFound,
    /// It is a file, or lies in one.
    #[error("it is no directory, or lies in what is none")]
    NotDirectory,
    /// It is a directory.
    #[error("it is a directory")]
    IsDirectory,
    /// Something is in the directory.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A directory cannot be moved into itself.
    #[error("a directory cannot be moved into itself")]
    Inside,
    /// A path would have more than 1,024 bytes after a move.
    #[error("a path would have more than 1,024 bytes")]
    LongPath,
    /// The handle is of no file, or of one that this client has not opened.
    #[error("no open file has that handle")]
    Stale,
    /// The cluster has no such servers.
    #[error("the cluster has no servers for that distribution")]
    Distribution,
    /// Beyond the largest file: 2^63 bytes.
    #[error("a file ends before 2^63: byte {at} and {len} more cannot be")]
    Position {
        /// The first byte.
        at: u64,
        /// The length.
        len: u64,
    },
    /// The bytes of the file and those of memory are not as many.
    #[error("{file} bytes of the file and {memory} bytes of memory cannot go together")]
    Lengths {
        /// Of the file.
        file: u64,
        /// Of memory.
        memory: u64,
    },
    /// A view reaches beyond its buffer.
    #[error("the buffer has {len} bytes, and the view of it reaches to byte {end}")]
    Buffer {
        /// The first byte behind the view.
        end: u64,
        /// The buffer's length.
        len: u64,
    },
    /// A description of bytes is too long for a request, or of too many regions.
    #[error("what bytes are meant takes too long to say: describe them by steps, or in several calls")]
    TooLong,
    /// A server's disk is full, or has no file so large. Parts of a write may have taken effect.
    #[error("a server's disk is full, or has no file so large")]
    Full,
    /// A server's disk failed. Parts of a write may have taken effect.
    #[error("a server's disk failed")]
    Io,
    /// A server could not reach the memory that it was offered. Parts of a write may have taken effect.
    #[error("a server could not reach the memory that it was offered")]
    Memory,
    /// A server restarted: writes to this file that were answered and not synced are lost, as far as they were that server's.
    /// Told once.
    #[error("a server restarted, and writes that were not synced are lost")]
    WritesLost,
    /// The directory's log is damaged, as no crash does it. Nothing is told of any name until somebody has looked.
    #[error("the directory's log is damaged")]
    Damaged,
    /// A server restarted before it answered: nobody knows what it did.
    #[error("a server restarted before it answered")]
    Unknown,
    /// Another member of the group could not do it.
    #[error("another member of the group could not do it")]
    Member,
    /// A server sent what is no answer to this.
    #[error("a server's answer makes no sense")]
    Nonsense,
    /// The node has been shut down.
    #[error("the node has been shut down")]
    Closed,
    /// The request could not be sent.
    #[error("the request was not sent: {0}")]
    Send(SendError),
    /// A server cannot be reached.
    #[error("not executed: {0}")]
    NotExecuted(NotExecuted),
    /// The adapter refused something.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
    /// The service cannot start.
    #[error("{0}")]
    Transport(#[from] TransportError),
    /// A configuration that no service can have.
    #[error("{field} is {value}: {must}")]
    Config {
        /// The field of [`FsConfig`](super::FsConfig).
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
}

impl From<SendError> for FsError {
    fn from(error: SendError) -> FsError {
        match error {
            SendError::Closed => FsError::Closed,
            other => FsError::Send(other),
        }
    }
}

/// Why a server refuses, in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Refusal {
    Exists = 1,
    NotFound,
    Stale,
    Distribution,
    Position,
    Full,
    Io,
    Memory,
    TooLong,
    Damaged,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    Inside,
    LongPath,
    /// Another server restarted before it answered.
    Unknown,
}

impl Refusal {
    const ALL: [Refusal; 16] = [
        Refusal::Exists,
        Refusal::NotFound,
        Refusal::Stale,
        Refusal::Distribution,
        Refusal::Position,
        Refusal::Full,
        Refusal::Io,
        Refusal::Memory,
        Refusal::TooLong,
        Refusal::Damaged,
        Refusal::NotDirectory,
        Refusal::IsDirectory,
        Refusal::NotEmpty,
        Refusal::Inside,
        Refusal::LongPath,
        Refusal::Unknown,
    ];

    pub(super) fn from_code(code: u8) -> Option<Refusal> {
        Refusal::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }
}

impl From<Refusal> for FsError {
    fn from(refusal: Refusal) -> FsError {
        match refusal {
            Refusal::Exists => FsError::Exists,
            Refusal::NotFound => FsError::NotFound,
            Refusal::Stale => FsError::Stale,
            Refusal::Distribution => FsError::Distribution,
            // Clients check positions themselves and name them, but for places of appends, which they name when they are refused.
            Refusal::Position => FsError::Nonsense,
            Refusal::Full => FsError::Full,
            Refusal::Io => FsError::Io,
            Refusal::Memory => FsError::Memory,
            Refusal::TooLong => FsError::TooLong,
            Refusal::Damaged => FsError::Damaged,
            Refusal::NotDirectory => FsError::NotDirectory,
            Refusal::IsDirectory => FsError::IsDirectory,
            Refusal::NotEmpty => FsError::NotEmpty,
            Refusal::Inside => FsError::Inside,
            Refusal::LongPath => FsError::LongPath,
            Refusal::Unknown => FsError::Unknown,
        }
    }
}

impl From<&DiskError> for Refusal {
    fn from(error: &DiskError) -> Refusal {
        match error {
            DiskError::Full => Refusal::Full,
            DiskError::Position { .. } => Refusal::Position,
            DiskError::NoObject(_) => Refusal::Stale,
            DiskError::Io | DiskError::Exists(_) | DiskError::Memory(_) => Refusal::Io,
        }
    }
}
