//! When all is released, nothing is left.

use super::Violation;
use std::fmt;
use weft_verbs::Nanos;

/// Something that should be gone when all locks are released and nothing is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The node where it is, or `None` if it is the fabric's.
    pub node: Option<u32>,
    /// What it is, in the plural: "lock words not free", "completion slots in use".
    pub what: String,
    /// How many there are.
    pub count: u64,
}

impl Leftover {
    /// What a node has left of what is named here. Most often that is nothing, and explorers ask at the end of every
    /// execution.
    pub fn named(node: u32, all: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<Leftover> {
        let left = all.into_iter().filter(|&(_, count)| count > 0);
        left.map(|(what, count)| Leftover { node: Some(node), what: what.to_owned(), count }).collect()
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "n{node} has {} {}", self.count, self.what),
            None => write!(f, "the fabric has {} {}", self.count, self.what),
        }
    }
}

/// When all is released, nothing is left: every lock word is free, no request is queued, and no slot, lease,
/// credit, message or queue pair is kept for nothing.
#[derive(Debug, Default)]
pub struct Leaks;

impl Leaks {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "no leaks";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "when all is released, nothing is left over";

    /// Judges what is left at rest.
    pub fn finish(now: Nanos, leftovers: &[Leftover]) -> Vec<Violation> {
        let broken = leftovers.iter().filter(|leftover| leftover.count > 0);
        broken
            .map(|leftover| Violation { oracle: Leaks::NAME, at: now, text: leftover.to_string() })
            .collect()
    }
}
