//! What a node has done with segments.

/// What a node has done with segments since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DdssStats {
    /// Gets that returned a value.
    pub gets: u64,
    /// Gets that found that what the caller had is good enough, and moved no data.
    pub unchanged: u64,
    /// Gets that read a slot while somebody published, and read again.
    pub get_retries: u64,
    /// Gets that read slots of another node than had put last, and read again.
    pub wrong_guesses: u64,
    /// Puts that were published.
    pub puts: u64,
    /// Compare-and-swaps that found another header than they guessed, and were tried again.
    pub swap_misses: u64,
    /// Calls that asked a home for a turn.
    pub turns: u64,
    /// Writes and swaps whose completion said that they may have been executed.
    pub unknown_outcomes: u64,
    /// Segments that this node has made. What it keeps now [`Ddss::kept`](super::Ddss::kept) says.
    pub segments: u64,
    /// Those of them that were released.
    pub released: u64,
    /// Those whose keys the adapter did not revoke: their memory is not used again.
    pub unrevoked: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages by which a node ended a turn that it did not have.
    pub out_of_turn: u64,
}
