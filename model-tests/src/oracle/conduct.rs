//! No message contradicts the protocol.

use super::Violation;
use weft_verbs::Nanos;

/// The messages that a node had to drop. Each node drops and counts what its state does not allow, and anything but zero
/// is a bug of the sender, even where nobody was hurt this time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// Messages that no member of the protocol should have sent.
    pub out_of_turn: u64,
    /// Messages that could not be read.
    pub malformed: u64,
}

impl Conduct {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "conduct";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "no message contradicts the protocol";

    /// Judges a node.
    pub fn finish(self, now: Nanos, node: u32) -> Vec<Violation> {
        let dropped = [(self.out_of_turn, "out of turn"), (self.malformed, "that it could not read")];
        let broken = dropped.into_iter().filter(|(count, _)| *count > 0);
        let violation = |(count, which)| Violation {
            oracle: Conduct::NAME,
            at: now,
            text: format!("n{node} dropped {count} messages {which}"),
        };
        broken.map(violation).collect()
    }
}
