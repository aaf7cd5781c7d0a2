//! What two machines tell each other about a stream.

use crate::NodeId;
use weft_verbs::Service;

/// A stream's end, or a listener, by a name that is never used again in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndId(pub u32);

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks to open a stream.
    Ask {
        /// With whom.
        service: Service,
    },
    /// Opens it.
    Accept,
    /// Bytes, an end, an acknowledgement.
    Data,
    /// It is over.
    Reset,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Who sent it.
    pub from_node: NodeId,
    /// Which of its streams.
    pub from: EndId,
    /// Whom it is for.
    pub at_node: NodeId,
    /// Which of its streams, where the sender knows.
    pub to: Option<EndId>,
    /// What it is.
    pub kind: Kind,
    /// The position of its first byte.
    pub at: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The stream ends behind them; the end counts as one position.
    pub last: bool,
    /// It is to be acknowledged.
    pub asks: bool,
    /// The sender has received everything before this position.
    pub taken: u64,
    /// The sender has room for everything before this position.
    pub room: u64,
}

impl Segment {
    /// The position behind it.
    pub fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64 + u64::from(self.last)
    }

    /// The name in the event log.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ask { .. } => "ask",
            Kind::Accept => "accept",
            Kind::Data => "data",
            Kind::Reset => "reset",
        }
    }

    fn answer(&self, kind: Kind) -> Segment {
        Segment {
            from_node: self.at_node,
            from: self.to.unwrap_or(EndId(0)),
            at_node: self.from_node,
            to: Some(self.from),
            kind,
            at: self.taken,
            bytes: Vec::new(),
            last: false,
            asks: false,
            taken: self.end(),
            room: self.end(),
        }
    }

    /// The answer that there is no such stream, or no such service.
    pub(super) fn refusal(&self) -> Segment {
        self.answer(Kind::Reset)
    }

    /// The answer that everything was received.
    pub(super) fn confirmation(&self) -> Segment {
        self.answer(Kind::Data)
    }
}
