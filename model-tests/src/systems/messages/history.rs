//! What nodes see of messages.

use crate::history::{HistoryEvent, Stage, nanos};
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_verbs::Nanos;

/// A message, by what its receiver knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sent {
    /// Which incarnation of its sender it is from: how often that had restarted.
    pub incarnation: u32,
    /// Which one of that incarnation's messages to this receiver it is, from 0.
    pub number: u32,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => write!(f, "message {}", self.number),
            incarnation => write!(f, "message {} of incarnation {incarnation}", self.number),
        }
    }
}

/// Something that a node saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the node's clock.
    #[serde(with = "nanos")]
    pub at: Nanos,
    /// The node, from 0.
    pub node: u32,
    /// What it saw.
    pub what: What,
}

/// What a node saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It sends a message.
    Sent {
        /// To whom.
        to: u32,
        /// Which.
        sent: Sent,
        /// How long it is.
        bytes: u32,
    },
    /// A message arrives.
    Arrived {
        /// From whom.
        from: u32,
        /// Which.
        sent: Sent,
        /// How long it is.
        bytes: u32,
        /// Whether it is what was sent.
        intact: bool,
    },
    /// It is told that a peer has restarted.
    PeerRestarted {
        /// Which peer.
        peer: u32,
        /// How many messages to that peer may be lost.
        lost: u64,
    },
    /// It has restarted itself, and knows nothing any more.
    Restarted,
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        self.at
    }

    fn by_another_clock(self, at: Nanos) -> Event {
        Event { at, ..self }
    }

    fn node(&self) -> u32 {
        self.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Sent { .. } => Stage::Asked,
            What::Arrived { .. } => Stage::Served,
            What::PeerRestarted { .. } | What::Restarted => Stage::OfNode,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{} ", self.node)?;
        match self.what {
            What::Sent { to, sent, bytes } => write!(f, "sends {sent} to n{to}, {bytes} bytes"),
            What::Arrived { from, sent, .. } => write!(f, "receives {sent} from n{from}"),
            What::PeerRestarted { peer, lost } => {
                write!(f, "is told that n{peer} has restarted; {lost} may be lost")
            }
            What::Restarted => f.write_str("restarts"),
        }
    }
}
