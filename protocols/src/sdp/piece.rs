//! How much of a buffer one operation moves: less while connections break under it.
//!
//! A requester waits for the first packet of an answer no longer than its adapter's time-out. Where several peers answer at one
//! port, an answer stands behind all that the others were asked for, and what broken connections had asked for is still on
//! its way. If each new connection asked for as much again, the port would never come to an end. So a connection that breaks
//! halves what is asked for at a time, as TCP does with its window, and what comes to its end lets it grow again, slowly.

/// No operation is made shorter than this: a packet's header is a hundredth of it.
const LEAST: u32 = 4 * 1024;

/// What an operation that has come to its end adds, as a part of what it moved: a break costs what many operations gain.
const GROWTH: u32 = 16;

/// The most bytes that one operation with a peer moves now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece(u32);

impl Default for Piece {
    fn default() -> Piece {
        Piece(u32::MAX)
    }
}

impl Piece {
    /// How many of so many bytes an operation may move.
    pub fn of(self, len: u32) -> u32 {
        len.min(self.0)
    }

    /// An operation with so many bytes has come to its end. One that was shorter than it might have been says nothing of longer ones.
    pub fn moved(&mut self, len: u32) {
        if len >= self.0 {
            self.0 = self.0.saturating_add(self.0 / GROWTH);
        }
    }

    /// The connection broke under an operation with so many bytes. Of one that cannot be made shorter this says nothing.
    pub fn broke(&mut self, len: u32) {
        if len > LEAST {
            self.0 = self.0.min(len / 2).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_halves_what_is_tried_next_and_what_arrives_lets_it_grow() {
        let mut piece = Piece::default();
        assert_eq!(piece.of(1 << 20), 1 << 20, "at first all that there is");
        piece.broke(1 << 20);
        assert_eq!(piece.of(1 << 20), 1 << 19);
        piece.moved(100);
        assert_eq!(piece.of(1 << 20), 1 << 19, "a short one says nothing");
        piece.moved(1 << 19);
        assert!(piece.of(1 << 20) > 1 << 19 && piece.of(1 << 20) < 1 << 20, "not at once to where it broke");
        for _ in 0..100 {
            piece.broke(piece.of(1 << 20));
        }
        assert_eq!(piece.of(1 << 20), LEAST);
        for _ in 0..1000 {
            piece.moved(piece.of(u32::MAX));
        }
        assert_eq!(piece.of(u32::MAX), u32::MAX, "no cut is remembered for ever");
    }

    #[test]
    fn operations_that_cannot_be_shorter_say_nothing_when_they_break() {
        let mut piece = Piece::default();
        piece.broke(LEAST);
        assert_eq!(piece.of(1 << 20), 1 << 20);
        piece.broke(LEAST + 2);
        assert_eq!(piece.of(1 << 20), LEAST);
    }
}
