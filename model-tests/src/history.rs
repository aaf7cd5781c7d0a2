//! A run's history: what clients asked of a system and what they got, event by event.
//!
//! A history is recorded at the client's side of the interface, since that is where a system makes its promises. Each system
//! has an event type of its own; this module has what all of them share.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use weft_verbs::Nanos;

/// One client: an application process on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId {
    /// The node, from 0.
    pub node: u32,
    /// The client on that node, from 0.
    pub index: u32,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}/c{}", self.node, self.index)
    }
}

/// The requests of a client in one life of its node are fewer than this.
const LIFE: u32 = 1 << 22;

/// One request: the `number`-th of its client, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Who made it.
    pub client: ClientId,
    /// Which of that client's requests it is.
    pub number: u32,
}

impl RequestId {
    /// What an event is about that is of a node, and of no request.
    pub const fn of_node(node: u32) -> RequestId {
        RequestId { client: ClientId { node, index: u32::MAX }, number: 0 }
    }

    /// The same request where its node had restarted so often before: by a number that no request of another life of the node has.
    #[must_use]
    pub const fn in_life(self, life: u32) -> RequestId {
        RequestId { number: self.number + life.wrapping_mul(LIFE), ..self }
    }

    /// In which of its node's lives it was made.
    pub const fn life(self) -> u32 {
        self.number / LIFE
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.client, self.number % LIFE)?;
        match self.life() {
            0 => Ok(()),
            life => write!(f, " of incarnation {life}"),
        }
    }
}

/// Something that a client saw. It is displayed in words, without its time.
pub trait HistoryEvent:
    Clone + fmt::Debug + fmt::Display + Serialize + DeserializeOwned + Send + 'static
{
    /// When, by the clock of the client's node. That clock runs ahead of the fabric's by what the node's
    /// processor has spent in its present step, so the times of a history are not sorted across nodes; the
    /// order of recording is the order of the processors' steps.
    fn at(&self) -> Nanos;

    /// The same event by another clock, by which it is `at` now. Every time in it moves along.
    #[must_use]
    fn by_another_clock(self, at: Nanos) -> Self;

    /// The node on which it was seen.
    fn node(&self) -> u32;

    /// What it is in the life of a request.
    fn stage(&self) -> Stage;
}

/// What an event is in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A client asks for something.
    Asked,
    /// Something happens to it, and it goes on.
    Amid,
    /// It gets what it asked for.
    Served,
    /// Something else.
    Other,
    /// Nothing: it is of a node, and of no request.
    OfNode,
}

/// A time as events carry it from machine to machine, a number of nanoseconds: `#[serde(with = "nanos")]`.
pub mod nanos {
    use serde::{Deserialize, Deserializer, Serializer};
    use weft_verbs::Nanos;

    /// Writes it.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub fn serialize<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.0)
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// It is no number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}
