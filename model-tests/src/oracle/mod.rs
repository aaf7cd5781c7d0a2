//! Promises, each as a part that watches a history and speaks up when one is broken.
//!
//! An [`Oracle`] sees each event as it is recorded, so that a violation carries its moment and the event log around that
//! moment can be read. A system's oracles together are its [`Oracles`]; a [`Judge`] asks them, and adds what every system must
//! keep: nothing is left over at rest ([`Leaks`]), no message contradicts the protocol ([`Conduct`]), no connection breaks
//! without a fault ([`Standing`]), and no memory is touched while it may not be ([`Sanitizer`]). An object's history as a whole
//! is judged by [`Linearizability`].

mod conduct;
mod judge;
mod leaks;
pub mod linearizability;
mod outcasts;
mod returns;
mod sanitizer;
mod standing;

pub use conduct::Conduct;
pub use judge::{Check, Judge};
pub use leaks::{Leaks, Leftover};
pub use linearizability::Linearizability;
pub use outcasts::{Outcasts, unexplained};
pub(crate) use returns::PROGRESS;
pub use returns::{CallEvent, Returns};
pub use sanitizer::Sanitizer;
pub use standing::Standing;

use crate::history::HistoryEvent;
use serde::Serialize;
use std::fmt;
use std::hash::Hasher;
use weft_verbs::Nanos;

/// A promise, watched.
pub trait Oracle<E> {
    /// The oracle's name, as reports have it.
    fn name(&self) -> &'static str;

    /// What is promised, in a few words.
    fn promise(&self) -> &'static str;

    /// Looks at the next event of the history; `Err` says in one line what was broken.
    fn observe(&mut self, event: &E) -> Result<(), String>;
}

/// Shows an event to several oracles in turn, and tells `broken` what it breaks.
pub fn show<'a, E: HistoryEvent>(
    event: &E,
    oracles: impl IntoIterator<Item = &'a mut dyn Oracle<E>>,
    broken: &mut dyn FnMut(Violation),
) {
    for oracle in oracles {
        if let Err(text) = oracle.observe(event) {
            broken(Violation { oracle: oracle.name(), at: event.at(), text });
        }
    }
}

/// All the oracles of a system: they watch one history.
pub trait Oracles: Clone + 'static {
    /// What the history consists of.
    type Event: HistoryEvent;

    /// Each oracle's name with what it promises, always in the same order.
    fn promises(&self) -> Vec<(&'static str, &'static str)>;

    /// Shows the next event to all oracles, and tells `broken` what it breaks.
    fn observe(&mut self, event: &Self::Event, broken: &mut dyn FnMut(Violation));

    /// Oracles that nothing has happened to judge: that they were not broken says nothing.
    fn untested(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// How many requests have ended, whatever became of them.
    fn ended(&self) -> u64;

    /// How many requests have not ended.
    fn unended(&self) -> u64;

    /// When the oldest of the requests that have not ended was made, or, where one holds something, has had it. One that waits for its
    /// turn counts from the last turn of another one. `None` if there is none, or where that is not known.
    fn oldest(&self) -> Option<Nanos> {
        None
    }

    /// Judges the end, after nothing has gone wrong for `healthy`: requests that are still open, and what only an end shows.
    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation>;

    /// Judges the end of an execution or a run without a fault: what a fault would excuse.
    fn finish_unharmed(&self) -> Option<Violation> {
        None
    }

    /// Adds to a hash all that a verdict to come may depend on, where no time passes. The explorer compares states by it.
    fn state(&self, to: &mut dyn Hasher);
}

/// What oracles say of a history, and of its end.
#[cfg(test)]
pub(crate) fn said<O: Oracles>(
    oracles: &mut O,
    history: impl IntoIterator<Item = O::Event>,
) -> Vec<Violation> {
    let mut said = Vec::new();
    history.into_iter().for_each(|event| oracles.observe(&event, &mut |violation| said.push(violation)));
    said.extend(oracles.finish(Nanos::ZERO, Nanos::ZERO));
    said
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
