//! What can go wrong with a stream, as users of sockets know it.

use crate::transport::{Rank, TransportError};
use std::io;
use thiserror::Error;

/// Why a peer refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Nobody listens on the port.
    NoListener,
    /// As many connections wait to be accepted as the listener keeps.
    BacklogFull,
    /// The two ends do not agree on what they can do.
    Unfit,
}

/// Why a call on a socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SdpError {
    /// The peer refuses the connection.
    #[error("the peer refuses the connection: {}", match .0 {
        Refusal::NoListener => "nobody listens on the port",
        Refusal::BacklogFull => "its backlog is full",
        Refusal::Unfit => "the two ends do not agree on what they can do",
    })]
    Refused(Refusal),
    /// The peer has ended the stream without waiting for what was under way, or has restarted.
    #[error("the peer has reset the stream")]
    Reset,
    /// This end has ended the stream: the user did, or the peer broke the protocol.
    #[error("the stream was aborted")]
    Aborted,
    /// The user wanted the buffer back before anything of it was moved.
    #[error("the buffer was recalled")]
    Recalled,
    /// It took longer than the user wanted to wait, or the peer was not there for too long.
    #[error("timed out")]
    TimedOut,
    /// The connection went over to another rail, and the stream's user wanted to be told ([`Failover::Application`](super::Failover)).
    #[error("the address changed; the peer has {acknowledged} bytes for certain")]
    AddressChanged {
        /// How many of the bytes that were written the peer's end is known to have. It may have more.
        acknowledged: u64,
    },
    /// The user wrote after it had said that it would not.
    #[error("this end of the stream is shut down")]
    BrokenPipe,
    /// The stream ended before the buffer was full.
    #[error("the stream ended too soon")]
    UnexpectedEnd,
    /// Another listener has the port.
    #[error("port {0} is in use")]
    PortInUse(u16),
    /// No node has that rank.
    #[error("there is no node of rank {0}")]
    NoSuchPeer(Rank),
    /// The options cannot be.
    #[error("{field} is {value}: {must}")]
    Options {
        /// The field of [`SdpOptions`](super::SdpOptions), or what it is of the mesh.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
    /// Another service has the channel.
    #[error("another service has the channel of sockets")]
    ChannelTaken,
    /// The node has left the cluster.
    #[error("the node has left the cluster")]
    Closed,
}

impl SdpError {
    /// The kind of error that a user of sockets expects.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            SdpError::Refused(_) => io::ErrorKind::ConnectionRefused,
            SdpError::Reset => io::ErrorKind::ConnectionReset,
            SdpError::Aborted | SdpError::AddressChanged { .. } => io::ErrorKind::ConnectionAborted,
            SdpError::Recalled => io::ErrorKind::Interrupted,
            SdpError::TimedOut => io::ErrorKind::TimedOut,
            SdpError::BrokenPipe => io::ErrorKind::BrokenPipe,
            SdpError::UnexpectedEnd => io::ErrorKind::UnexpectedEof,
            SdpError::PortInUse(_) => io::ErrorKind::AddrInUse,
            SdpError::NoSuchPeer(_) => io::ErrorKind::AddrNotAvailable,
            SdpError::Options { .. } => io::ErrorKind::InvalidInput,
            SdpError::ChannelTaken | SdpError::Closed => io::ErrorKind::NotConnected,
        }
    }
}

impl From<SdpError> for io::Error {
    fn from(error: SdpError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

impl From<TransportError> for SdpError {
    fn from(error: TransportError) -> SdpError {
        match error {
            TransportError::ChannelTaken(_) => SdpError::ChannelTaken,
            _ => SdpError::Closed,
        }
    }
}
