//! No memory is touched while it may not be.

use super::Violation;
use weft_sim::sanitizer;

/// No memory is touched while it may not be: what the fabric's own watch over registered memory found, which
/// real adapters would punish silently.
#[derive(Debug, Default)]
pub struct Sanitizer;

impl Sanitizer {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "sanitizer";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "no memory is touched while it may not be";

    /// Judges what was found.
    pub fn finish(found: &[sanitizer::Violation]) -> Vec<Violation> {
        let violation = |found: &sanitizer::Violation| Violation {
            oracle: Sanitizer::NAME,
            at: found.second.at,
            text: found.to_string(),
        };
        found.iter().map(violation).collect()
    }
}
