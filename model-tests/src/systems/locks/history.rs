//! What the clients of a lock service asked for and what they got, event by event.
//!
//! A history is recorded at the client's side of the interface, since that is where the promises are made: a
//! grant counts from the moment a client's `lock` returns until the moment before it calls `unlock`.

pub use weft_protocols::locks::Token;

use crate::history::{HistoryEvent, RequestId, Stage, nanos};
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_protocols::locks::{LockError, LockKey, Mode};
use weft_verbs::Nanos;

/// Something that a client saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the clock of the client's node; see [`HistoryEvent::at`].
    #[serde(with = "nanos")]
    pub at: Nanos,
    /// The request it is about.
    pub request: RequestId,
    /// The lock that the request is for.
    #[serde(with = "KeyData")]
    pub key: LockKey,
    /// The mode that it asks for. A hold that was downgraded is a shared one from then on.
    #[serde(with = "ModeData")]
    pub mode: Mode,
    /// What happened to it.
    pub what: What,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The client calls `lock`, `lock_until` or `try_lock`.
    Requested {
        /// When it stops waiting, if it does, by the clock of the client's node; at once, if it only tries.
        #[serde(with = "deadline")]
        deadline: Option<Nanos>,
    },
    /// The call returned with a grant.
    Granted {
        /// The grant's fencing token. Schemes that remember nothing have none.
        #[serde(with = "token")]
        token: Option<Token>,
    },
    /// The client calls `downgrade`, and goes on sharing what it held exclusively.
    Downgraded {
        /// The token that it has from now on.
        #[serde(with = "token")]
        token: Option<Token>,
    },
    /// Nothing else can happen any more before the client gives back what it holds. Only explored worlds know that.
    Outlasts,
    /// The client is about to call `unlock`.
    Released,
    /// The call returned without a grant because its deadline passed.
    TimedOut {
        /// How long before its deadline that was, by the clock of the client's node, which alone knows.
        #[serde(with = "nanos")]
        early: Nanos,
    },
    /// A `try_lock` returned without a grant because the lock was not free.
    Refused,
    /// The call returned with another error.
    Failed(Why),
    /// The client was told that it holds no more: its node was left out of the membership, or the membership began anew.
    Lost,
    /// Of a node, and of no request: its lease runs until then, by its clock, in this lineage of views. What its clients hold
    /// counts until then.
    Leased {
        /// Until when.
        #[serde(with = "nanos")]
        until: Nanos,
        /// Which lineage: tokens of two have no order.
        lineage: u64,
    },
    /// Of a node, and of no request: it crashed, and its clients with it.
    Crashed,
    /// Of a node, and of no request: a view has begun that leaves it out, dead or alive.
    LeftOut,
}

/// Why a call failed that did not wait for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// The membership goes on without the client's node, or begins anew.
    LeftOut,
    /// An operation failed, and what is published does not say what to do then. Of readings and planted bugs alone.
    NotSaid,
    /// Its user dropped it.
    Dropped,
    /// Something that should not happen.
    Other,
}

impl From<&LockError> for What {
    fn from(error: &LockError) -> What {
        match error {
            LockError::Deadline => What::TimedOut { early: Nanos::ZERO },
            LockError::WouldBlock => What::Refused,
            LockError::LeftOut => What::Failed(Why::LeftOut),
            _ => What::Failed(Why::Other),
        }
    }
}

impl What {
    /// Whether the request is over with this, and its client holds nothing.
    pub fn ends(self) -> bool {
        matches!(self, What::Released | What::TimedOut { .. } | What::Refused | What::Failed(_) | What::Lost)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Requested { deadline: None } => "asks".to_string(),
            What::Requested { deadline: Some(deadline) } if deadline <= self.at => "tries".to_string(),
            What::Requested { deadline: Some(deadline) } => format!("asks, until {deadline}"),
            What::Granted { token: None } => "is granted".to_string(),
            What::Granted { token: Some(token) } => format!("is granted, token {token}"),
            What::Downgraded { token: None } => "goes on sharing".to_string(),
            What::Downgraded { token: Some(token) } => format!("goes on sharing, token {token}"),
            What::Outlasts => "holds while all else rests".to_string(),
            What::Released => "releases".to_string(),
            What::TimedOut { early: Nanos::ZERO } => "gives up".to_string(),
            What::TimedOut { early } => format!("gives up {early} before its deadline"),
            What::Refused => "is refused".to_string(),
            What::Failed(Why::LeftOut) => "is told that the others go on without its node".to_string(),
            What::Failed(Why::Dropped) => "is dropped".to_string(),
            What::Failed(Why::NotSaid | Why::Other) => "fails".to_string(),
            What::Lost => "is lost".to_string(),
            What::Leased { until, .. } => {
                return write!(f, "n{} has a lease until {until}", self.node());
            }
            What::Crashed => return write!(f, "n{} crashes", self.node()),
            What::LeftOut => return write!(f, "a view leaves n{} out", self.node()),
        };
        write!(f, "{} {} of lock {}: {what}", self.request, self.mode, self.key)
    }
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        self.at
    }

    fn by_another_clock(mut self, at: Nanos) -> Event {
        // A deadline is as far ahead by the other clock as it was by the node's.
        if let What::Requested { deadline: Some(deadline) } = &mut self.what {
            *deadline = at + Nanos(deadline.0.saturating_sub(self.at.0));
        }
        if let What::Leased { until, .. } = &mut self.what {
            *until = at + Nanos(until.0.saturating_sub(self.at.0));
        }
        Event { at, ..self }
    }

    fn node(&self) -> u32 {
        self.request.client.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Requested { .. } => Stage::Asked,
            What::Granted { .. } => Stage::Served,
            What::Leased { .. } | What::Crashed | What::LeftOut => Stage::OfNode,
            _ => Stage::Other,
        }
    }
}

impl Event {
    /// Something that happens to a node.
    pub fn of_node(at: Nanos, node: u32, what: What) -> Event {
        Event { at, request: RequestId::of_node(node), key: LockKey(0), mode: Mode::Exclusive, what }
    }
}

/// A key as it travels between machines. Protocols and the contract have types of their own for numbers, and no `serde`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "LockKey")]
struct KeyData(u64);

/// A mode as it travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode")]
enum ModeData {
    Shared,
    Exclusive,
}

/// A deadline, where there is one, as it travels.
mod deadline {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use weft_verbs::Nanos;

    pub fn serialize<S: Serializer>(deadline: &Option<Nanos>, to: S) -> Result<S::Ok, S::Error> {
        deadline.map(|at| at.0).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Nanos>, D::Error> {
        Ok(Option::deserialize(from)?.map(Nanos))
    }
}

/// A token, where there is one, as it travels.
mod token {
    use super::Token;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(token: &Option<Token>, to: S) -> Result<S::Ok, S::Error> {
        token.map(|token| token.0).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Token>, D::Error> {
        Ok(Option::deserialize(from)?.map(Token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;

    #[test]
    fn events_survive_the_way_and_a_deadline_moves_with_the_clock() {
        let token = Some(Token(9));
        let whats = [
            What::Requested { deadline: None },
            What::Requested { deadline: Some(Nanos(7)) },
            What::Granted { token: None },
            What::Granted { token },
            What::Downgraded { token },
            What::Released,
            What::TimedOut { early: Nanos::ZERO },
            What::TimedOut { early: Nanos(4) },
            What::Refused,
            What::Failed(Why::LeftOut),
            What::Lost,
            What::Leased { until: Nanos(9), lineage: 3 },
            What::Crashed,
            What::LeftOut,
        ];
        for (number, what) in (0..).zip(whats) {
            let request = RequestId { client: ClientId { node: 1, index: 2 }, number };
            let mode = if number % 2 == 0 { Mode::Shared } else { Mode::Exclusive };
            let event = Event { at: Nanos(5), request, key: LockKey(4), mode, what };
            let text = serde_json::to_string(&event).expect("plain data");
            let read: Event = serde_json::from_str(&text).expect("what was written");
            assert_eq!(read, event);
            let what = match what {
                What::Requested { deadline } => {
                    What::Requested { deadline: deadline.map(|at| at + Nanos(3)) }
                }
                What::Leased { until, lineage } => What::Leased { until: until + Nanos(3), lineage },
                other => other,
            };
            assert_eq!(read.by_another_clock(Nanos(8)), Event { at: Nanos(8), what, ..event });
        }
    }
}
