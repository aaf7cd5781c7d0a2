//! What users of streams did, and what they saw.

use super::super::super::history::Why;
use crate::history::{HistoryEvent, Stage};
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_verbs::Nanos;

/// Something that a user of a stream did or saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The node: the first one connects, and the second one listens.
    pub node: u32,
    /// Which of the first node's streams it is about, by the order of its calls of `connect`.
    pub stream: u32,
    /// What happened.
    pub what: What,
}

/// What a user did or saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A script begins.
    Begins,
    /// It is over.
    Done,
    /// It asks for a connection.
    Connects,
    /// It has accepted one.
    Accepts,
    /// So many more bytes are written.
    Writes(u32),
    /// So many of them were not written after all, and their user has them again.
    TakesBack(u32),
    /// So many were read, and they are those that come next or not.
    Reads { bytes: u32, right: bool },
    /// The end of the stream was read.
    ReadsEnd,
    /// How many bytes were taken, and how many of them the peer has; whether it has answered all of them.
    Knows { taken: u64, acknowledged: u64, answered: bool },
    /// The user writes no more.
    Shuts,
    /// A call of `close` has succeeded.
    Closed,
    /// The stream is dropped.
    Drops,
    /// The user ends the stream at once.
    Aborts,
    /// The user ends all streams of its node at once.
    AbortsAll,
    /// The listener is dropped.
    StopsListening,
    /// A call fails, by its letter.
    Fails(char, Why),
    /// A call was dropped, by its letter.
    Dropped(char),
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        Nanos::ZERO
    }

    fn by_another_clock(self, _: Nanos) -> Event {
        self
    }

    fn node(&self) -> u32 {
        self.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Begins => Stage::Asked,
            What::Done => Stage::Served,
            _ => Stage::Other,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { node, stream, what } = self;
        write!(f, "n{node}, stream {stream}: ")?;
        match what {
            What::Begins => f.write_str("a script begins"),
            What::Done => f.write_str("a script is over"),
            What::Connects => f.write_str("asks for a connection"),
            What::Accepts => f.write_str("has accepted it"),
            What::Writes(bytes) => write!(f, "writes {bytes} bytes"),
            What::TakesBack(bytes) => write!(f, "takes back {bytes} bytes"),
            What::Reads { bytes, right: true } => write!(f, "reads {bytes} bytes"),
            What::Reads { bytes, right: false } => {
                write!(f, "reads {bytes} bytes, which are not those that come next")
            }
            What::ReadsEnd => f.write_str("reads the end"),
            What::Knows { taken, acknowledged, .. } => {
                write!(f, "has written {taken} bytes, of which the peer has {acknowledged}")
            }
            What::Shuts => f.write_str("writes no more"),
            What::Closed => f.write_str("has closed it"),
            What::Drops => f.write_str("drops it"),
            What::Aborts => f.write_str("aborts it"),
            What::AbortsAll => f.write_str("aborts all streams"),
            What::StopsListening => f.write_str("listens no more"),
            What::Fails(letter, why) => write!(f, "call {letter} fails: {why:?}"),
            What::Dropped(letter) => write!(f, "call {letter} is dropped"),
        }
    }
}
