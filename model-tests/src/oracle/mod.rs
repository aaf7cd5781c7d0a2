//! The promises of a lock service, each as a part that watches a history and speaks up when one is broken.
//!
//! An [`Oracle`] sees each event as it is recorded, so that a violation carries its moment and the event log
//! around that moment can be read. What can only be seen at rest is asked for at the end: requests that never
//! ended ([`Progress`]) and what the service still keeps ([`Leaks`]), what its nodes
//! had to drop ([`Conduct`]), what became of messages ([`Delivery`]), what the fabric saw done to memory ([`Sanitizer`]).
//! An object's history as a whole is judged by [`Linearizability`]. [`Bypass`] gives a figure and no verdict.

mod at_most_once;
mod bypass;
mod conduct;
mod delivery;
mod judge;
mod leaks;
pub mod linearizability;
mod mutual_exclusion;
mod progress;
mod sanitizer;
mod tokens;

#[cfg(test)]
mod against_brute_force;
#[cfg(test)]
mod tests;

pub use at_most_once::AtMostOnce;
pub use bypass::{Bypass, MostBypassed};
pub use conduct::Conduct;
pub use delivery::{Correspondence, Delivery, Sent};
pub use judge::{Check, Judge};
pub use leaks::{Leaks, Leftover};
pub use linearizability::Linearizability;
pub use mutual_exclusion::MutualExclusion;
pub use progress::Progress;
pub use sanitizer::Sanitizer;
pub use tokens::Tokens;

use crate::history::Event;
use serde::Serialize;
use std::fmt;
use weft_verbs::Nanos;

/// A promise, watched.
pub trait Oracle {
    /// The oracle's name, as reports have it.
    fn name(&self) -> &'static str;

    /// What is promised, in a few words.
    fn promise(&self) -> &'static str;

    /// Looks at the next event of the history; `Err` says in one line what was broken.
    fn observe(&mut self, event: &Event) -> Result<(), String>;
}

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
