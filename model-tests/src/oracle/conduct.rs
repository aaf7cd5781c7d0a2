//! No message contradicts the protocol.

use super::Violation;
use weft_verbs::Nanos;

/// No message contradicts the protocol: each node drops and counts what its state does not allow, and anything
/// but zero is a bug of the sender, even where nobody was hurt this time.
#[derive(Debug, Default)]
pub struct Conduct;

impl Conduct {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "conduct";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "no message contradicts the protocol";

    /// Judges what a node has dropped: messages out of turn, and messages that could not be read.
    pub fn finish(now: Nanos, node: u32, out_of_turn: u64, malformed: u64) -> Vec<Violation> {
        let dropped = [(out_of_turn, "out of turn"), (malformed, "that it could not read")];
        let broken = dropped.into_iter().filter(|(count, _)| *count > 0);
        let violation = |(count, which)| Violation {
            oracle: Conduct::NAME,
            at: now,
            text: format!("n{node} dropped {count} messages {which}"),
        };
        broken.map(violation).collect()
    }
}
