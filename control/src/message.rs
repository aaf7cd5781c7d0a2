//! What is said on a connection once both ends have proved that they know the secret.
//!
//! JSON, so that a newer end can tell an older one why it is refused. A message is never longer than
//! [`crate::frame::FROM_CALLER`] or [`crate::frame::FROM_COORDINATOR`].

use crate::frame::Ended;
use crate::refusal::Refusal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The longest text of a node about itself: name, version, digest.
pub const TEXT: usize = 256;

/// The most bytes that a node gives others about its adapters.
pub const BLOB: usize = 4_096;

/// The most bytes of a report, as JSON.
pub const REPORT: usize = 16 * 1_024;

/// The most bytes of a call to a system, and of its answer. They travel as text (RFC 4648), which must fit into one message.
pub const CALL: usize = 100 * 1_024;

/// So many entries of a roster travel in one message, each with at most [`BLOB`] bytes as text.
pub const ENTRIES: usize = 256;

/// So many entries travel in one message of a node's, which is shorter.
pub const KNOWN: usize = 16;

/// Bytes in a message: as text in base 64, which JSON leaves as it is.
mod bytes {
    use base64::prelude::{BASE64_STANDARD, Engine};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    /// Bytes as text.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    /// Bytes of such text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        BASE64_STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}

/// Why a node is lost that the last coordinator knew.
pub const NOT_COME: &str = "it did not come to the new coordinator";

/// The first message of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opening {
    /// A node joins.
    Join(Join),
    /// A client asks.
    Ask(Ask),
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The cluster that it belongs to.
    pub cluster: String,
    /// The version of its program.
    pub program: String,
    /// The digest of its scenario or configuration; empty where there is none.
    pub scenario: String,
    /// Which node it is, from 0.
    pub rank: u32,
    /// How many nodes it thinks there are.
    pub nodes: u32,
    /// Drawn when its process began: a process that starts again is another incarnation of its rank.
    pub incarnation: u64,
    /// Where peers find it, if not where it calls from.
    pub address: Option<IpAddr>,
    /// What peers need to connect to its adapters; opaque here.
    #[serde(with = "bytes")]
    pub blob: Vec<u8>,
}

/// A client's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The cluster that it means; none: whichever is there.
    pub cluster: Option<String>,
    /// What it asks.
    pub question: Question,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Who is there, and what they report.
    Status,
    /// Something of a system that a node runs.
    Call(Call),
}

/// What a client wants of a system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Which node is to do it; `None`: the one of lowest rank that reports the system.
    pub node: Option<u32>,
    /// The system.
    pub system: String,
    /// What it is to do, in the system's own language; at most [`CALL`] bytes.
    #[serde(with = "bytes")]
    pub body: Vec<u8>,
}

impl Call {
    /// Refuses one that is longer than a call may be.
    pub(crate) fn is_short(&self) -> Result<(), Refusal> {
        for (what, bytes, most) in
            [("the name of a system", self.system.len(), TEXT), ("a call to a system", self.body.len(), CALL)]
        {
            if bytes > most {
                let (bytes, most) = (bytes as u64, most as u64);
                return Err(Refusal::TooLong { what: what.to_string(), bytes, most });
            }
        }
        Ok(())
    }
}

/// What a system answers to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was done; in the system's own language, at most [`CALL`] bytes.
    Done(#[serde(with = "bytes")] Vec<u8>),
    /// It was not, or nobody knows.
    Failed(Failed),
}

/// Why a system did not do what a call says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// In one line.
    pub why: String,
    /// Whether another attempt cannot end otherwise until somebody changes something.
    pub is_final: bool,
}

impl Failed {
    /// Somebody has to change something first.
    pub fn for_good(why: impl Into<String>) -> Failed {
        Failed { why: why.into(), is_final: true }
    }

    /// It may be done if it is asked for again.
    pub fn for_now(why: impl Into<String>) -> Failed {
        Failed { why: why.into(), is_final: false }
    }
}

/// From a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// Nothing else to say.
    Alive,
    /// The answer to [`ToNode::Probe`].
    Here,
    /// What it reports of itself and its systems, in place of what it reported before.
    Report(Report),
    /// The answer to [`ToNode::Call`].
    Answer {
        /// Of the call.
        id: u64,
        /// What it came to.
        answer: Answer,
    },
    /// Ranks of which the last coordinator told, and this one has not.
    Known(Vec<Entry>),
    /// It leaves.
    Leave,
}

/// To a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToNode {
    /// It is in.
    Welcome {
        /// Drawn when the coordinator's process began.
        coordinator: u64,
        /// See [`crate::timing::Timing::beat`].
        beat_ms: u64,
        /// See [`crate::timing::Timing::silence`].
        silence_ms: u64,
    },
    /// It is not.
    Refused(Refusal),
    /// What changed, or all that is known to a node that has just come.
    Roster(Vec<Entry>),
    /// Nothing else to say.
    Alive,
    /// Another node claims this one's rank: answer.
    Probe,
    /// A client wants something of one of its systems.
    Call {
        /// By which the answer is known.
        id: u64,
        /// The system.
        system: String,
        /// What it is to do.
        #[serde(with = "bytes")]
        body: Vec<u8>,
    },
    /// The answer to [`FromNode::Leave`].
    Farewell,
    /// The coordinator ends, and will not be back.
    Ending,
}

/// To a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToClient {
    /// The answer to [`Question::Status`].
    Status(Box<Status>),
    /// The answer to [`Question::Call`]. The connection stays, for another [`Ask`].
    Answer {
        /// The node that it is from.
        node: u32,
        /// What the call came to.
        answer: Answer,
    },
    /// No answer.
    Refused(Refusal),
    /// No answer yet.
    Alive,
    /// The connection ends, and no further question on it is looked at.
    Bye,
}

/// A rank, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which node.
    pub rank: u32,
    /// Which process of it.
    pub incarnation: u64,
    /// Where it is.
    pub address: IpAddr,
    /// What it gave others about its adapters.
    #[serde(with = "bytes")]
    pub blob: Vec<u8>,
    /// Whether it is there.
    pub presence: Presence,
}

/// Whether a node is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// It is.
    Present,
    /// It said that it left.
    Left,
    /// It went without saying so.
    Lost(String),
}

/// What a node reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The view of members that its systems run in, if they have one.
    pub view: Option<View>,
    /// What each system says: by system, by key. One that the node does not serve at this moment has [`WAITS`] behind its name.
    pub systems: BTreeMap<String, BTreeMap<String, String>>,
}

/// What stands behind a system's name in the report of a node that does not serve it at this moment.
pub const WAITS: &str = " (waits)";

/// A view: which nodes agree that they are members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its number; later views have greater ones.
    pub number: u64,
    /// The ranks in it.
    pub members: Vec<u32>,
}

/// The state of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub cluster: String,
    /// The version of the coordinator's program.
    pub program: String,
    /// How long the coordinator has been there.
    pub up_ms: u64,
    /// All ranks, in order.
    pub members: Vec<Member>,
    /// What was counted since the coordinator began.
    pub counts: Counts,
}

/// A rank, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Which node.
    pub rank: u32,
    /// Whether it is there; `None`: it has not come yet.
    pub presence: Option<Presence>,
    /// Where it is or was.
    pub address: Option<IpAddr>,
    /// Since when it is so.
    pub since_ms: u64,
    /// When something was last heard of it.
    pub heard_ms: u64,
    /// What it last reported.
    pub report: Report,
}

/// What a coordinator counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Nodes that joined, each time.
    pub joined: u64,
    /// Nodes that left.
    pub left: u64,
    /// Nodes that were lost.
    pub lost: u64,
    /// Questions that were answered.
    pub answered: u64,
    /// Nodes and clients that were refused.
    pub refused: u64,
    /// Connections that were turned away because they did not prove who they are. One that its caller closed before is none.
    pub strangers: u64,
}

/// Writes a message.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("these messages can always be written")
}

/// Reads a message.
///
/// # Errors
/// It is none.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Ended> {
    serde_json::from_slice(body).map_err(|why| Ended::Message(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FROM_CALLER, FROM_COORDINATOR};
    use proptest::prelude::*;

    fn entry(blob: Vec<u8>, why: String) -> Entry {
        let address = IpAddr::from([255; 16]);
        Entry { rank: u32::MAX, incarnation: u64::MAX, address, blob, presence: Presence::Lost(why) }
    }

    #[test]
    fn the_longest_call_and_the_longest_answer_fit_into_messages() {
        let (system, body) = ("x".repeat(TEXT), vec![255; CALL]);
        let call = Call { node: Some(u32::MAX), system: system.clone(), body: body.clone() };
        let ask = Ask { cluster: Some("\u{1}".repeat(TEXT)), question: Question::Call(call) };
        assert!(encode(&Opening::Ask(ask)).len() <= FROM_CALLER);
        assert!(
            encode(&FromNode::Answer { id: u64::MAX, answer: Answer::Done(body.clone()) }).len()
                <= FROM_CALLER
        );
        assert!(encode(&ToNode::Call { id: u64::MAX, system, body }).len() <= FROM_COORDINATOR);
    }

    #[test]
    fn the_longest_part_of_a_roster_fits_into_a_message() {
        let entries = vec![entry(vec![255; BLOB], "x".repeat(TEXT)); ENTRIES];
        assert!(encode(&ToNode::Roster(entries)).len() <= FROM_COORDINATOR);
        // As a node was told it: a control character takes six bytes in JSON.
        let entries = vec![entry(vec![255; BLOB], "\u{1}".repeat(TEXT)); KNOWN];
        assert!(encode(&FromNode::Known(entries)).len() <= FROM_CALLER);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = decode::<Opening>(&bytes);
            let _ = decode::<FromNode>(&bytes);
            let _ = decode::<ToNode>(&bytes);
            let _ = decode::<ToClient>(&bytes);
        }

        #[test]
        fn what_is_written_is_read(blob in prop::collection::vec(any::<u8>(), 0..64), why in ".{0,40}") {
            let message = ToNode::Roster(vec![entry(blob, why)]);
            prop_assert_eq!(decode::<ToNode>(&encode(&message)), Ok(message));
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = [b"{\"report\":".as_slice(), &[b'['; 100_000]].concat();
        assert!(matches!(decode::<FromNode>(&deep), Err(Ended::Message(_))));
    }
}
