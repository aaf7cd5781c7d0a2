//! Turns at the bytes of objects: of two transfers that overlap and of which one writes, the later one waits.
//!
//! A disk's calls that are under way at once take effect in any order and, on some disks, in parts. With turns, each unit is
//! read and written whole. Many clients may write to one file, each to its own part of it: a transfer is compared with those that begin near
//! it, and one that waits is looked at again when the one ends that it waits for.

use super::super::Handle;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One transfer's wish.
#[derive(Clone, Debug)]
struct Turn {
    ranges: Vec<Range<u64>>,
    writes: bool,
    /// Later transfers that wait for this one to end: each waits for one at a time, whichever was found.
    waiting: Vec<u64>,
}

/// Where a range begins and ends, and whose it is.
type Span = (u64, u64, u64);

/// Ranges of transfers, by the powers of two that their lengths have reached: how far back one may begin that overlaps with another.
#[derive(Clone, Debug, Default)]
struct Spans(BTreeMap<u32, BTreeSet<Span>>);

impl Spans {
    fn insert(&mut self, op: u64, range: &Range<u64>) {
        self.0.entry(magnitude(range)).or_default().insert((range.start, range.end, op));
    }

    fn remove(&mut self, op: u64, range: &Range<u64>) {
        let magnitude = magnitude(range);
        if let Some(spans) = self.0.get_mut(&magnitude) {
            spans.remove(&(range.start, range.end, op));
            if spans.is_empty() {
                self.0.remove(&magnitude);
            }
        }
    }

    /// A transfer before this one that has a byte in common with a range: of those with the same bytes the latest, so that they wait in line,
    /// each for the one before it.
    fn earlier(&self, range: &Range<u64>, op: u64) -> Option<u64> {
        self.0.iter().find_map(|(magnitude, spans)| {
            let longest = u64::MAX >> (63 - magnitude);
            let first = (range.start.saturating_sub(longest), 0, 0);
            let mut behind = (range.end, 0, 0);
            while let Some(&(start, end, of)) = spans.range(first..behind).next_back() {
                // Of those that begin there none ends later; of those with the same bytes the later ones are passed at once.
                behind = match end > range.start {
                    true if of < op => return Some(of),
                    true => (start, end, op),
                    false => (start, 0, 0),
                };
            }
            None
        })
    }
}

/// Which power of two a range's length has reached.
fn magnitude(range: &Range<u64>) -> u32 {
    range.end.saturating_sub(range.start).checked_ilog2().unwrap_or(0)
}

/// The turns of one object, by number: who asks later has a larger one.
#[derive(Clone, Debug, Default)]
struct Object {
    turns: BTreeMap<u64, Turn>,
    read: Spans,
    written: Spans,
}

impl Object {
    fn spans(&mut self, writes: bool) -> &mut Spans {
        if writes { &mut self.written } else { &mut self.read }
    }

    fn insert(&mut self, op: u64, turn: Turn) {
        turn.ranges.iter().for_each(|range| self.spans(turn.writes).insert(op, range));
        self.turns.insert(op, turn);
    }

    fn remove(&mut self, op: u64) -> Option<Turn> {
        let turn = self.turns.remove(&op)?;
        turn.ranges.iter().for_each(|range| self.spans(turn.writes).remove(op, range));
        Some(turn)
    }

    /// Whether it is a transfer's turn: none before it overlaps with it, of which one writes. If one does, it waits for that.
    fn grant(&mut self, op: u64) -> bool {
        let Some(turn) = self.turns.get(&op) else { return false };
        let met = |spans: &Spans| turn.ranges.iter().find_map(|range| spans.earlier(range, op));
        let earlier = met(&self.written).or_else(|| if turn.writes { met(&self.read) } else { None });
        let earlier = earlier.and_then(|earlier| self.turns.get_mut(&earlier));
        match earlier {
            Some(earlier) => earlier.waiting.push(op),
            None => return true,
        }
        false
    }
}

/// The turns of all objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    objects: BTreeMap<Handle, Object>,
}

impl Ranges {
    /// A transfer asks for its turn; whether it has it at once. Its number is larger than those of all that have asked before.
    pub(super) fn ask(&mut self, op: u64, object: Handle, ranges: Vec<Range<u64>>, writes: bool) -> bool {
        let turns = self.objects.entry(object).or_default();
        turns.insert(op, Turn { ranges, writes, waiting: Vec::new() });
        turns.grant(op)
    }

    /// A call has ended, which may have had a turn. Whose turn it is now, in the order of asking.
    pub(super) fn end(&mut self, op: u64, object: Handle) -> Vec<u64> {
        let Some(turns) = self.objects.get_mut(&object) else { return Vec::new() };
        let Some(Turn { waiting, .. }) = turns.remove(op) else { return Vec::new() };
        let mut now: Vec<u64> = waiting.into_iter().filter(|later| turns.grant(*later)).collect();
        now.sort_unstable();
        if turns.turns.is_empty() {
            self.objects.remove(&object);
        }
        now
    }

    /// How many transfers have turns or wait for them.
    pub(super) fn len(&self) -> usize {
        self.objects.values().map(|object| object.turns.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn who_gives_up_while_it_waits_holds_nobody_up() {
        let mut ranges = Ranges::default();
        assert!(ranges.ask(1, A, one(0..10), true) && !ranges.ask(2, A, one(0..20), true));
        assert!(!ranges.ask(3, A, one(15..20), false) && !ranges.ask(4, A, one(5..20), true));
        assert_eq!((ranges.end(2, A), ranges.end(1, A), ranges.end(3, A)), (vec![3], vec![], vec![4]));
    }

    /// A server has one thread for all of its clients, and each of them may have a window of calls under way.
    #[test]
    fn of_many_writers_of_the_same_bytes_the_end_of_each_has_one_other_looked_at() {
        let mut ranges = Ranges::default();
        let granted = (0..1_000).filter(|op| ranges.ask(*op, A, one(0..10), true)).count();
        assert_eq!(granted, 1);
        for op in 0..1_000 {
            let waiting = ranges.objects[&A].turns[&op].waiting.clone();
            let next: Vec<u64> = (op + 1..1_000).take(1).collect();
            assert_eq!((waiting, ranges.end(op, A)), (next.clone(), next));
        }
    }

    /// What is done to one object: a transfer asks, with few bytes or all, or one of those that are there ends.
    #[derive(Clone, Debug)]
    enum Step {
        Ask { ranges: Vec<Range<u64>>, writes: bool },
        End(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let near = (0..40_u64, 0..12_u64).prop_map(|(at, len)| at..at + len);
        let range = prop_oneof![9 => near, 1 => Just(0..u64::MAX), 1 => Just(u64::MAX - 5..u64::MAX)];
        let asks = (prop::collection::vec(range, 1..4), any::<bool>());
        let step = prop_oneof![
            asks.prop_map(|(ranges, writes)| Step::Ask { ranges, writes }),
            any::<prop::sample::Index>().prop_map(Step::End),
        ];
        prop::collection::vec(step, 0..80)
    }

    /// Who has asked, in order: its number, its wish, and whether it has its turn.
    type All = Vec<(u64, (Vec<Range<u64>>, bool), bool)>;

    /// Those that meet none before them of all that are there have their turns from now on: which they are.
    fn granted(all: &mut All) -> Vec<u64> {
        let met = |(one, writes): &(Vec<Range<u64>>, bool), (other, too): &(Vec<Range<u64>>, bool)| {
            let overlap = |a: &Range<u64>| other.iter().any(|b| a.start < b.end && b.start < a.end);
            (*writes || *too) && one.iter().any(overlap)
        };
        let is_free = |n: usize| all[..n].iter().all(|(_, earlier, _)| !met(earlier, &all[n].1));
        let now: Vec<usize> = (0..all.len()).filter(|n| !all[*n].2 && is_free(*n)).collect();
        now.iter().for_each(|n| all[*n].2 = true);
        now.into_iter().map(|n| all[n].0).collect()
    }

    proptest! {
        #[test]
        fn whoever_meets_none_before_it_has_its_turn_at_once_and_nobody_else(steps in steps()) {
            let (mut ranges, mut all) = (Ranges::default(), All::new());
            for (op, step) in (0..).zip(steps) {
                match step {
                    Step::Ask { ranges: wish, writes } => {
                        let now = ranges.ask(op, A, wish.clone(), writes);
                        all.push((op, (wish, writes), false));
                        prop_assert_eq!(granted(&mut all), if now { vec![op] } else { vec![] });
                    }
                    Step::End(_) if all.is_empty() => {}
                    Step::End(which) => {
                        let (op, ..) = all.remove(which.index(all.len()));
                        prop_assert_eq!(ranges.end(op, A), granted(&mut all));
                    }
                }
                prop_assert_eq!(ranges.len(), all.len());
            }
            all.iter().for_each(|(op, ..)| drop(ranges.end(*op, A)));
            prop_assert!(ranges.objects.is_empty());
        }
    }
}
