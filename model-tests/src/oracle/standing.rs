//! No connection breaks by itself.

use super::Violation;
use weft_protocols::transport::MeshStats;
use weft_verbs::Nanos;

/// The connections that a node made again where nothing went wrong and no adapter waited for an answer in vain. The systems live through
/// that and nobody is told: their users wait.
#[derive(Clone, Copy, Debug)]
pub struct Standing;

impl Standing {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "standing";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "without a fault no connection breaks";

    /// Judges a node in a run without a fault. What moved to another rail was moved by its user.
    pub fn finish(now: Nanos, node: u32, counted: &MeshStats) -> Option<Violation> {
        let moved = counted.failovers + counted.failbacks;
        let broke = counted.reconnects.saturating_sub(moved);
        let text = || format!("n{node} made {broke} connections again, and there was no fault");
        (broke > 0).then(|| Violation { oracle: Standing::NAME, at: now, text: text() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_a_user_moved_have_not_broken() {
        let judged = |reconnects, failovers, failbacks| {
            let counted = MeshStats { reconnects, failovers, failbacks, ..MeshStats::default() };
            Standing::finish(Nanos(7), 3, &counted).map(|violation| violation.text)
        };
        assert_eq!(judged(0, 0, 0), None);
        assert_eq!(judged(5, 3, 2), None);
        assert_eq!(judged(5, 3, 0).as_deref(), Some("n3 made 2 connections again, and there was no fault"));
    }
}
