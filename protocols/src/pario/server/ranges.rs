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
    ranges: Vec<Range<u64>>,
    writes: bool,
    granted: bool,
}

impl Turn {
    fn conflicts(&self, other: &Turn) -> bool {
        (self.writes || other.writes) && overlap(&self.ranges, &other.ranges)
    }
}

/// Whether two sets of ranges, each in order, have a byte in common.
fn overlap(one: &[Range<u64>], other: &[Range<u64>]) -> bool {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        if a.start < b.end && b.start < a.end {
            return true;
        }
        // The one that ends first meets nothing that is still to come.
        if a.end <= b.end {
            one.next()
        } else {
            other.next()
        };
    }
    false
}

/// Those of an object's turns that meet none before them have it from now on: which they are, in the order of asking. Whoever has its turn
/// already is not held against others once more.
fn grant(turns: &mut VecDeque<Turn>, mut conflict: impl FnMut(&Turn, &Turn) -> bool) -> Vec<u64> {
    let mut now = Vec::new();
    for n in 0..turns.len() {
        if !turns[n].granted && !turns.iter().take(n).any(|earlier| conflict(earlier, &turns[n])) {
            turns[n].granted = true;
            now.push(turns[n].op);
        }
    }
    now
}

/// The turns of all objects.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Ranges {
    objects: BTreeMap<Handle, VecDeque<Turn>>,
}

impl Ranges {
    /// A transfer asks for its turn; whether it has it at once.
    pub(super) fn ask(&mut self, op: u64, object: Handle, mut ranges: Vec<Range<u64>>, writes: bool) -> bool {
        ranges.sort_by_key(|range| range.start);
        let turns = self.objects.entry(object).or_default();
        let mut turn = Turn { op, ranges, writes, granted: false };
        turn.granted = !turns.iter().any(|earlier| earlier.conflicts(&turn));
        let granted = turn.granted;
        turns.push_back(turn);
        granted
    }

    /// A call has ended, which may have had a turn. Whose turn it is now, in the order of asking.
    pub(super) fn end(&mut self, op: u64, object: Handle) -> Vec<u64> {
        let Some(turns) = self.objects.get_mut(&object) else { return Vec::new() };
        let before = turns.len();
        turns.retain(|turn| turn.op != op);
        if turns.len() == before {
            return Vec::new();
        }
        let now = grant(turns, Turn::conflicts);
        if turns.is_empty() {
            self.objects.remove(&object);
        }
        now
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

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range).collect()
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_all_before_it() {
        let mut ranges = Ranges::default();
        assert!(ranges.ask(1, A, one(0..10), false) && ranges.ask(2, A, one(5..15), false));
        assert!(!ranges.ask(3, A, one(9..11), true));
        assert!(!ranges.ask(4, A, one(0..10), false), "behind the writer, or it would wait for ever");
        assert!(ranges.ask(5, A, one(20..30), true) && ranges.ask(6, Handle(2), one(0..10), true));
        assert_eq!(ranges.end(1, A), []);
        assert_eq!(ranges.end(2, A), [3]);
        assert_eq!(ranges.end(3, A), [4]);
        assert_eq!((ranges.end(4, A), ranges.end(5, A), ranges.end(6, Handle(2))), (vec![], vec![], vec![]));
        assert_eq!(ranges.len(), 0);
    }

    #[test]
    fn those_who_interleave_do_not_wait_for_each_other() {
        let mut ranges = Ranges::default();
        assert!(ranges.ask(1, A, vec![20..30, 0..10], true) && ranges.ask(2, A, vec![10..20, 30..40], true));
        assert!(!ranges.ask(3, A, vec![50..60, 39..40], true));
        assert!(!ranges.ask(4, A, one(0..40), false));
        assert_eq!((ranges.end(2, A), ranges.end(1, A), ranges.end(3, A)), (vec![3], vec![], vec![4]));
    }

    #[test]
    fn a_call_that_took_no_turn_changes_nobodys_by_its_end() {
        let mut ranges = Ranges::default();
        assert!(ranges.ask(1, A, one(0..10), true) && !ranges.ask(2, A, one(0..10), true));
        assert_eq!((ranges.end(7, A), ranges.end(7, Handle(2)), ranges.len()), (vec![], vec![], 2));
        assert_eq!((ranges.end(1, A), ranges.end(2, A)), (vec![2], vec![]));
    }

    #[test]
    fn only_those_that_wait_for_their_turns_are_held_against_others() {
        let mut ranges = Ranges::default();
        for op in 0..1_000 {
            assert!(ranges.ask(op, A, one(op * 10..op * 10 + 10), true));
        }
        assert!(!ranges.ask(1_000, A, one(0..5), true));
        let turns = ranges.objects.get_mut(&A).expect("they are there");
        turns.pop_front();
        let mut compared = 0;
        let mut conflict = |one: &Turn, other: &Turn| {
            compared += 1;
            one.conflicts(other)
        };
        assert_eq!((grant(turns, &mut conflict), grant(turns, &mut conflict)), (vec![1_000], vec![]));
        assert_eq!(compared, 999, "the one that waited, with all before it");
    }
}
