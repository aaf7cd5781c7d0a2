//! What the clients of shared segments asked for and what they got.

use crate::history::{ClientId, HistoryEvent, RequestId, Stage};
use crate::oracle::CallEvent;
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_protocols::ddss::DdssError;
use weft_protocols::transport::NotExecuted;
use weft_verbs::{Nanos, VerbsError};

/// A value, by who put it: every put puts another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Value {
    /// What a segment has before anybody puts.
    Zero,
    /// This request's.
    Of(RequestId),
    /// A mixture of values, or no value at all.
    Torn,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Zero => f.write_str("zero"),
            Value::Of(request) => write!(f, "the value of {request}"),
            Value::Torn => f.write_str("a torn value"),
        }
    }
}

impl Value {
    /// The shortest value, in bytes.
    pub const SHORTEST: u32 = 16;

    /// The bytes of a request's value: who put it, and a pattern of its own.
    pub fn bytes(of: RequestId, len: usize) -> Vec<u8> {
        let RequestId { client: ClientId { node, index }, number } = of;
        let mut bytes: Vec<u8> = [1, node, index, number].into_iter().flat_map(u32::to_le_bytes).collect();
        let seed = node.wrapping_mul(31).wrapping_add(index.wrapping_mul(17)).wrapping_add(number);
        bytes.extend((bytes.len()..len).map(|at| seed.wrapping_mul(7).wrapping_add(at as u32) as u8));
        bytes.truncate(len);
        bytes
    }

    /// What bytes are.
    pub fn of(bytes: &[u8]) -> Value {
        if bytes.iter().all(|byte| *byte == 0) {
            return Value::Zero;
        }
        let word = |at: usize| {
            let part = bytes.get(4 * at..4 * at + 4).and_then(|part| part.try_into().ok());
            part.map_or(0, u32::from_le_bytes)
        };
        let request = RequestId { client: ClientId { node: word(1), index: word(2) }, number: word(3) };
        if Value::bytes(request, bytes.len()) == bytes { Value::Of(request) } else { Value::Torn }
    }
}

/// Something that a client saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the node's clock, in nanoseconds.
    pub at_ns: u64,
    /// The request it is about.
    pub request: RequestId,
    /// The segment that the request is for.
    pub segment: u64,
    /// Of an end: which segment that was of those that had the name one after another. 0 where that is not known.
    #[serde(default)]
    pub life: u64,
    /// What happened to it.
    pub what: What,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The client calls `get`.
    Gets,
    /// It calls `get_earlier`.
    GetsEarlier {
        /// How many versions before the current one it asks for.
        back: u8,
    },
    /// It returned this value, at this version. No version under null.
    Got {
        /// The value.
        value: Value,
        /// Its version.
        version: Option<u64>,
    },
    /// It returned without a value: the segment is still at this version.
    Unchanged {
        /// The version that the client had.
        version: u64,
    },
    /// The client calls `put`.
    Puts,
    /// It returned; the value became this version. No version under null.
    Put {
        /// The version.
        version: Option<u64>,
    },
    /// The client locks the segment, gets, puts and unlocks. It may only try to lock.
    Exchanges,
    /// It locks the segment, gets, puts its value twice, and unlocks.
    ExchangesTwice,
    /// It has the lock and has got this value, and will put its own. Said under null, where values have no versions.
    Holds {
        /// The value that it got.
        value: Value,
    },
    /// It has: it got this value at this version, and its own, which it put last, became the other. No versions under null.
    Exchanged {
        /// The value that it got.
        value: Value,
        /// That value's version.
        got: Option<u64>,
        /// The version of its own value.
        put: Option<u64>,
    },
    /// The client releases the segment.
    Releases,
    /// It has: nobody can use it any more.
    Released,
    /// The client looks up what the name stands for.
    Finds,
    /// It was told: a segment, or none.
    Found,
    /// The call came too late: the segment was released, or is being released.
    Gone,
    /// Somebody had the lock, and it only tried.
    Locked,
    /// The segment's home has died, and the segment with it.
    Lost,
    /// The call returned another error.
    Failed(Why),
    /// Of a node, and of no request: it crashed.
    Crashed,
    /// Of a node, and of no request: a view has begun that leaves it out, dead or alive.
    LeftOut,
}

/// Why a call failed that neither came too late nor was lost with its segment's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Why {
    /// This node is to be asked, and is not among the members.
    Absent(u32),
    /// The others go on without the caller's node.
    Out,
    /// Under temporal: the home answers more slowly than the time within which values are good.
    Slow,
    /// The answer to a put was lost, and others have put since.
    Unknown,
    /// An operation failed, and what is published does not say what to do then: of readings and of rivals. Or the machine has no memory for
    /// the call.
    NotSaid,
    /// Its user dropped it.
    Dropped,
    /// Something that should not happen.
    Other,
}

impl From<&DdssError> for Why {
    fn from(error: &DdssError) -> Why {
        match error {
            DdssError::Absent(rank) => Why::Absent(rank.index() as u32),
            DdssError::Out => Why::Out,
            DdssError::Slow => Why::Slow,
            DdssError::Unknown => Why::Unknown,
            // Machines register no more memory for a while, which says nothing of what was posted before.
            DdssError::Memory
            | DdssError::Verbs(VerbsError::Os { .. })
            | DdssError::NotExecuted(NotExecuted::Refused(VerbsError::Os { .. })) => Why::NotSaid,
            _ => Why::Other,
        }
    }
}

impl What {
    /// How often a call puts that begins.
    pub const fn puts(self) -> u64 {
        match self {
            What::Puts | What::Exchanges => 1,
            What::ExchangesTwice => 2,
            _ => 0,
        }
    }
}

impl Event {
    /// Something that happens to a node.
    pub fn of_node(at: Nanos, node: u32, what: What) -> Event {
        Event { at_ns: at.0, request: RequestId::of_node(node), segment: 0, life: 0, what }
    }
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        Nanos(self.at_ns)
    }

    fn by_another_clock(self, at: Nanos) -> Event {
        Event { at_ns: at.0, ..self }
    }

    fn node(&self) -> u32 {
        self.request.client.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Gets
            | What::GetsEarlier { .. }
            | What::Puts
            | What::Exchanges
            | What::ExchangesTwice
            | What::Releases
            | What::Finds => Stage::Asked,
            What::Got { .. }
            | What::Unchanged { .. }
            | What::Put { .. }
            | What::Exchanged { .. }
            | What::Released
            | What::Found => Stage::Served,
            What::Holds { .. } => Stage::Amid,
            What::Gone | What::Locked | What::Lost | What::Failed(_) => Stage::Other,
            What::Crashed | What::LeftOut => Stage::OfNode,
        }
    }
}

impl CallEvent for Event {
    fn request(&self) -> RequestId {
        self.request
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { request, segment, life, what, .. } = *self;
        match what {
            What::Crashed => return write!(f, "n{} crashes", request.client.node),
            What::LeftOut => return write!(f, "a view leaves n{} out", request.client.node),
            _ => {}
        }
        write!(f, "{request} of segment {segment}: ")?;
        match what {
            What::Gets => f.write_str("gets"),
            What::GetsEarlier { back } => write!(f, "gets the version {back} before the current one"),
            What::Got { value, version: Some(version) } => write!(f, "got {value}, version {version}"),
            What::Got { value, version: None } => write!(f, "got {value}"),
            What::Unchanged { version } => write!(f, "is still at version {version}"),
            What::Puts => f.write_str("puts"),
            What::Put { version: Some(version) } => write!(f, "has put version {version}"),
            What::Put { version: None } => f.write_str("has put"),
            What::Exchanges => f.write_str("locks, gets, puts and unlocks"),
            What::ExchangesTwice => f.write_str("locks, gets, puts twice and unlocks"),
            What::Holds { value } => write!(f, "has the lock, and got {value}"),
            What::Exchanged { value, got: Some(got), put: Some(put) } => {
                write!(f, "had the lock, got {value}, version {got}, and put version {put}")
            }
            What::Exchanged { value, .. } => write!(f, "had the lock, got {value}, and put"),
            What::Finds => f.write_str("looks its name up"),
            What::Found if life == 0 => f.write_str("finds none by its name"),
            What::Found => f.write_str("finds one by its name"),
            What::Releases => f.write_str("releases it"),
            What::Released => f.write_str("has released it"),
            What::Gone => f.write_str("finds it released"),
            What::Locked => f.write_str("finds the lock taken"),
            What::Lost => f.write_str("finds its home dead"),
            What::Failed(Why::Absent(node)) => write!(f, "finds n{node} not among the members"),
            What::Failed(Why::Out) => f.write_str("is told that the others go on without its node"),
            What::Failed(Why::Slow) => f.write_str("finds its home too slow"),
            What::Failed(Why::Unknown) => f.write_str("is not told whether it has put"),
            What::Failed(Why::Dropped) => f.write_str("is dropped by its user"),
            What::Failed(Why::NotSaid | Why::Other) => f.write_str("fails"),
            What::Crashed => f.write_str("crashes"),
            What::LeftOut => f.write_str("is left out"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_by_its_bytes_and_a_mixture_of_two_is_torn() {
        let request = |number| RequestId { client: ClientId { node: 2, index: 1 }, number };
        for len in [16, 17, 64, 300] {
            let (one, two) = (Value::bytes(request(1), len), Value::bytes(request(2), len));
            assert_eq!((Value::of(&one), Value::of(&two)), (Value::Of(request(1)), Value::Of(request(2))));
            assert_eq!(Value::of(&vec![0; len]), Value::Zero);
            if len > 16 {
                assert_eq!(Value::of(&[&one[..16], &two[16..]].concat()), Value::Torn);
            }
        }
    }
}
