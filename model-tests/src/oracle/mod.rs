//! The promises of a lock service, each as a part that watches a history and speaks up when one is broken.
//!
//! An oracle sees each event as it is recorded, so that a violation carries its moment and the event log
//! around that moment can be read. What can only be seen at rest (leaks, requests that never ended) is asked
//! for at the end.

use serde::Serialize;
use std::fmt;
use verbs_trait::Nanos;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The oracle that noticed it.
    pub oracle: &'static str,
    /// When, in virtual time since the start.
    #[serde(rename = "at_ns", serialize_with = "as_number")]
    pub at: Nanos,
    /// What happened, in one line.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at {}: {}", self.oracle, self.at, self.text)
    }
}

fn as_number<S: serde::Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.0)
}
