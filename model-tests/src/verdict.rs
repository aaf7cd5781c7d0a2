//! What judging comes to, in the words that every report has.

use serde::Serialize;

/// Whether promises were kept, and of how much that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All were kept.
    Held,
    /// All were kept in what was judged, and something was not.
    #[serde(rename = "held so far")]
    HeldSoFar,
    /// One was broken.
    Violated,
}

impl Verdict {
    /// The verdict of promises that were kept or not, where all that was asked for was judged or not.
    pub fn of(kept: bool, all: bool) -> Verdict {
        match (kept, all) {
            (true, true) => Verdict::Held,
            (true, false) => Verdict::HeldSoFar,
            (false, _) => Verdict::Violated,
        }
    }
}
