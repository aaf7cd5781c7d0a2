//! Turns at the bytes of objects: of two transfers that overlap and of which one writes, the later one waits.
//!
//! A disk's calls that are under way at once take effect in any order and, on some disks, in parts. With turns, each unit is
//! read and written whole.

use super::super::Handle;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// One transfer's wish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Turn {
    op: u64,
    range: Range<u64>,
    writes: bool,
    granted: bool,
}

impl Turn {
    fn conflicts(&self, other: &Turn) -> bool {
        let overlap = self.range.start < other.range.end && other.range.start < self.range.end;
        overlap && (self.writes || other.writes)
    }
}

/// The turns of all objects.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Ranges {
    objects: BTreeMap<Handle, VecDeque<Turn>>,
}

impl Ranges {
    /// A transfer asks for its turn; whether it has it at once.
    pub(super) fn ask(&mut self, op: u64, object: Handle, range: Range<u64>, writes: bool) -> bool {
        let turns = self.objects.entry(object).or_default();
        let mut turn = Turn { op, range, writes, granted: false };
        turn.granted = !turns.iter().any(|earlier| earlier.conflicts(&turn));
        let granted = turn.granted;
        turns.push_back(turn);
        granted
    }

    /// A transfer has ended. Whose turn it is now, in the order of asking.
    pub(super) fn end(&mut self, op: u64, object: Handle) -> Vec<u64> {
        let Some(turns) = self.objects.get_mut(&object) else { return Vec::new() };
        turns.retain(|turn| turn.op != op);
        let mut now = Vec::new();
        for n in 0..turns.len() {
            let free = !turns.iter().take(n).any(|earlier| earlier.conflicts(&turns[n]));
            if free && !turns[n].granted {
                turns[n].granted = true;
                now.push(turns[n].op);
            }
        }
        if turns.is_empty() {
            self.objects.remove(&object);
        }
        now
    }

    /// The object at which a transfer has its turn, if it has one.
    pub(super) fn object_of(&self, op: u64) -> Option<Handle> {
        let mut all = self.objects.iter();
        all.find(|(_, turns)| turns.iter().any(|turn| turn.op == op)).map(|(object, _)| *object)
    }

    /// How many transfers have turns or wait for them.
    pub(super) fn len(&self) -> usize {
        self.objects.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Handle = Handle(1);

    #[test]
    fn readers_share_and_a_writer_waits_for_all_before_it() {
        let mut ranges = Ranges::default();
        assert!(ranges.ask(1, A, 0..10, false) && ranges.ask(2, A, 5..15, false));
        assert!(!ranges.ask(3, A, 9..11, true));
        assert!(!ranges.ask(4, A, 0..10, false), "behind the writer, or it would wait for ever");
        assert!(ranges.ask(5, A, 20..30, true) && ranges.ask(6, Handle(2), 0..10, true));
        assert_eq!(ranges.end(1, A), []);
        assert_eq!(ranges.end(2, A), [3]);
        assert_eq!(ranges.end(3, A), [4]);
        assert_eq!((ranges.end(4, A), ranges.end(5, A), ranges.end(6, Handle(2))), (vec![], vec![], vec![]));
        assert_eq!(ranges.len(), 0);
    }
}
