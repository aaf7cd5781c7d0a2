//! What an end says and hears beyond bytes.

use crate::sdp::message::{Greeting, Handle, Header};
use crate::sdp::{Mode, Refusal, SdpError};
use weft_verbs::RemoteSlice;

/// What a control message needs beyond the stream's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Ask for the connection.
    Hello(Greeting),
    /// Say that it is there.
    HelloAck { to: Handle, greeting: Greeting },
    /// Return credits, acknowledge.
    Credits(Header),
    /// Advertise bytes.
    SrcAvail { header: Header, source: RemoteSlice },
    /// Say that the oldest advertised bytes were read.
    RdmaRdCompl { header: Header, len: u32 },
    /// Say where bytes are wanted.
    SinkAvail { header: Header, start: u64, sink: RemoteSlice },
    /// Say that bytes were written where they were wanted.
    RdmaWrCompl { header: Header, len: u32 },
    /// Ask for what is advertised and was not read.
    SrcAvailCancel(Header),
    /// Say that nothing of it will be read any more.
    SendSm(Header),
    /// Ask for what was wanted and was not written.
    SinkAvailCancel(Header),
    /// Say that nothing of it will be written any more.
    SinkCancelAck(Header),
    /// Say how bytes may come here.
    ModeChange { header: Header, mode: Mode },
    /// Ask for private buffers of another size.
    ChRcvBuf { header: Header, bytes: u32 },
    /// Say of which size they are.
    ChRcvBufAck { header: Header, bytes: u32 },
    /// Say that nothing more is written.
    DisConn(Header),
    /// Say that the stream is over, and whether because its address changed.
    AbortConn { to: Handle, moved: bool },
}

/// What a message did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The stream stands.
    Connected,
    /// Bytes for the user.
    Data,
    /// The peer advertises bytes: they may be read.
    Source(RemoteSlice),
    /// The peer wants bytes somewhere: they may be written.
    Sink,
    /// So many bytes were written where this end wanted them.
    Written(u32),
    /// Bytes for a user who reads no more: they are lost.
    Unread,
    /// The peer wants back what it advertises, as far as it was not read.
    Recalled,
    /// What was advertised and not read up to the acknowledged position never will be.
    Returned,
    /// The peer writes no more.
    End,
    /// Credits came back, or an acknowledgement.
    Progress,
    /// The peer has aborted the stream.
    Aborted,
}

/// The peer contradicts the state of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation;

/// Why a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The connection was refused.
    Refused(Refusal),
    /// The peer aborted it, or restarted.
    Reset,
    /// This end aborted it.
    Aborted,
    /// Its connection went over to another rail, when the peer was known to have so many bytes.
    AddressChanged { acknowledged: u64 },
    /// The peer was away for too long.
    TimedOut,
    /// The node has left the cluster.
    Closed,
}

impl From<Failure> for SdpError {
    fn from(why: Failure) -> SdpError {
        match why {
            Failure::Refused(why) => SdpError::Refused(why),
            Failure::Reset => SdpError::Reset,
            Failure::Aborted => SdpError::Aborted,
            Failure::AddressChanged { acknowledged } => SdpError::AddressChanged { acknowledged },
            Failure::TimedOut => SdpError::TimedOut,
            Failure::Closed => SdpError::Closed,
        }
    }
}
