//! What both ends of a copy saw.

use super::super::super::history::Why;
use crate::history::{HistoryEvent, Stage};
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_protocols::sdp::copy::CopyError;
use weft_verbs::Nanos;

/// Something that an end of a copy saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The node on which it was seen.
    pub node: u32,
    /// What happened.
    pub what: What,
}

/// What happened to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A node begins to put it.
    Puts,
    /// A node begins to take it.
    Takes,
    /// Who puts it is told how many of its bytes have come.
    Told { bytes: u64 },
    /// It has its name now, and is the file that was put or not.
    Named { whole: bool },
    /// The call of `put` has ended.
    PutEnds(End),
    /// The call of `take` has ended.
    TakeEnds(End),
    /// The call of `put` was dropped.
    PutDropped,
    /// The call of `take` was dropped.
    TakeDropped,
    /// The node has crashed.
    Crashes,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The file is stored.
    Stored,
    /// It has its name, which may not be safe.
    Named,
    /// The stream failed.
    Stream(Why),
    /// The file could not be read.
    Source,
    /// It could not be stored.
    Store,
    /// The receiver did not take it.
    Refused,
    /// The sender ended before the file did.
    Incomplete,
    /// Something that no world leads to.
    Other,
}

impl<T> From<&Result<T, CopyError>> for End {
    fn from(end: &Result<T, CopyError>) -> End {
        match end {
            Ok(_) => End::Stored,
            Err(CopyError::Named(_)) => End::Named,
            Err(CopyError::Stream(why)) => End::Stream((*why).into()),
            Err(CopyError::Source(_)) => End::Source,
            Err(CopyError::Store(_)) => End::Store,
            Err(CopyError::Refused(_)) => End::Refused,
            Err(CopyError::Incomplete { .. }) => End::Incomplete,
            Err(_) => End::Other,
        }
    }
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
            What::Puts | What::Takes => Stage::Asked,
            What::PutEnds(End::Stored) | What::TakeEnds(End::Stored) => Stage::Served,
            _ => Stage::Other,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node;
        match self.what {
            What::Puts => write!(f, "n{node} puts the file"),
            What::Takes => write!(f, "n{node} takes the file"),
            What::Told { bytes } => write!(f, "n{node} is told that {bytes} bytes have come"),
            What::Named { whole: true } => write!(f, "n{node} has the file under its name"),
            What::Named { whole: false } => write!(f, "n{node} has another file under its name"),
            What::PutEnds(end) => write!(f, "n{node}'s put ends: {end:?}"),
            What::TakeEnds(end) => write!(f, "n{node}'s take ends: {end:?}"),
            What::PutDropped => write!(f, "n{node}'s put is dropped"),
            What::TakeDropped => write!(f, "n{node}'s take is dropped"),
            What::Crashes => write!(f, "n{node} has crashed"),
        }
    }
}
