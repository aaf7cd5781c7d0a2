//! What the users of streams asked for and what they saw.

use crate::history::{HistoryEvent, RequestId, Stage};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use weft_protocols::sdp::SdpError;
use weft_verbs::Nanos;

/// Something that a client or a server saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the node's clock, in nanoseconds.
    pub at_ns: u64,
    /// The node on which it was seen.
    pub node: u32,
    /// The request it is about.
    pub request: RequestId,
    /// What happened.
    pub what: What,
}

/// Why a call failed, in the words of `std::io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The connection was refused.
    Refused,
    /// The peer has reset the stream.
    Reset,
    /// This end has aborted it.
    Aborted,
    /// It took too long.
    TimedOut,
    /// The stream's connection went over to another rail, and its user had asked to be told.
    AddressChanged,
    /// The stream ended too soon.
    UnexpectedEnd,
    /// Its user dropped it.
    Dropped,
    /// Something else.
    Other,
}

impl From<SdpError> for Why {
    fn from(error: SdpError) -> Why {
        if let SdpError::AddressChanged { .. } = error {
            return Why::AddressChanged;
        }
        match error.kind() {
            ErrorKind::ConnectionRefused => Why::Refused,
            ErrorKind::ConnectionReset => Why::Reset,
            ErrorKind::ConnectionAborted => Why::Aborted,
            ErrorKind::TimedOut => Why::TimedOut,
            ErrorKind::UnexpectedEof => Why::UnexpectedEnd,
            _ => Why::Other,
        }
    }
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The client begins: it sends so many bytes and wants so many back.
    Asks {
        /// The server.
        to: u32,
        /// Bytes there.
        bytes: u32,
        /// Bytes back.
        reply: u32,
    },
    /// The connection that it made for that stands.
    Connected,
    /// The server has read so many bytes, to the end of the request.
    Took {
        /// Bytes read.
        bytes: u32,
        /// Whether each was the one that belongs there.
        intact: bool,
        /// The longest wait for the next bytes, in nanoseconds.
        stall_ns: u64,
    },
    /// The client has read so many bytes, to the end of the answer.
    Answered {
        /// Bytes read.
        bytes: u32,
        /// Whether each was the one that belongs there.
        intact: bool,
        /// The longest wait for the next bytes, in nanoseconds.
        stall_ns: u64,
    },
    /// The client's stream failed since its address changed; the server is known to have so many of its bytes. The client connects
    /// again, and makes the request anew.
    Moved {
        /// Bytes of the stream.
        acknowledged: u64,
    },
    /// There was more on the stream than belongs there.
    Surplus,
    /// The client's call failed.
    Fails(Why),
    /// The server's stream failed in the middle.
    Breaks(Why),
    /// The node had crashed, and is there again, with nothing of what it had.
    Restarts,
    /// The node has crashed, and does not come back.
    Crashes,
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        Nanos(self.at_ns)
    }

    fn by_another_clock(self, at: Nanos) -> Event {
        Event { at_ns: at.0, ..self }
    }

    fn node(&self) -> u32 {
        self.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Asks { .. } => Stage::Asked,
            What::Answered { .. } => Stage::Served,
            What::Restarts | What::Crashes => Stage::OfNode,
            _ => Stage::Other,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { node, request, what, .. } = self;
        let damage = |intact: &bool| if *intact { "" } else { ", and not those that were written" };
        write!(f, "{request}: ")?;
        match what {
            What::Asks { to, bytes, reply } => write!(f, "sends {bytes} bytes to n{to} and wants {reply}"),
            What::Connected => f.write_str("is connected"),
            What::Took { bytes, intact, .. } => write!(f, "n{node} reads {bytes} bytes{}", damage(intact)),
            What::Answered { bytes, intact, .. } => write!(f, "gets {bytes} bytes{}", damage(intact)),
            What::Moved { acknowledged } => {
                write!(f, "the address changes, n{node} knows of {acknowledged} bytes that arrived")
            }
            What::Surplus => write!(f, "n{node} reads more than was written"),
            What::Fails(why) => write!(f, "fails: {why:?}"),
            What::Breaks(why) => write!(f, "fails at n{node}: {why:?}"),
            What::Restarts => write!(f, "n{node} had crashed and begins anew"),
            What::Crashes => write!(f, "n{node} has crashed"),
        }
    }
}
