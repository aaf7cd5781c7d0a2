//! A set of numbers, as ranges. Who names things by numbers gives them out one after another, and they end in about that order: a set of
//! those that have ended takes as little room as there are gaps in it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Numbers: by the first of a range the last one. No two ranges are neighbours.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct NumberSet(BTreeMap<u64, u64>);

impl NumberSet {
    pub fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Puts a number in, and makes one range of what it joins.
    pub fn insert(&mut self, number: u64) {
        self.insert_all(number..=number);
    }

    /// Puts all numbers of a range in, which has one at least, and makes one range of all that they join.
    pub fn insert_all(&mut self, range: RangeInclusive<u64>) {
        let (mut first, mut last) = range.into_inner();
        while let Some((&from, &to)) = self.0.range(..=last.saturating_add(1)).next_back()
            && to.saturating_add(1) >= first
        {
            self.0.remove(&from);
            (first, last) = (first.min(from), last.max(to));
        }
        self.0.insert(first, last);
    }

    /// From which number on all up to this one are in the set; this one, if it is not.
    pub fn first(&self, number: u64) -> u64 {
        let range = self.0.range(..=number).next_back().filter(|(_, last)| number <= **last);
        range.map_or(number, |(first, _)| *first)
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// How many ranges they are.
    #[cfg(test)]
    pub fn ranges(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_and_the_last_number_are_like_all_others() {
        let mut numbers = NumberSet::default();
        [u64::MAX, 0, u64::MAX - 1, 1, u64::MAX].iter().for_each(|number| numbers.insert(*number));
        assert_eq!(numbers.ranges(), 2);
        assert!([0, 1, u64::MAX - 1, u64::MAX].iter().all(|number| numbers.contains(*number)));
        assert!(!numbers.contains(2) && !numbers.contains(u64::MAX - 2));
    }

    proptest! {
        #[test]
        fn ranges_have_what_was_put_in_and_no_two_are_neighbours(
            put_in in prop::collection::vec((0u64..60, prop_oneof![4 => Just(0u64), 1 => 0u64..9]), 0..80)
        ) {
            let (mut numbers, mut set) = (NumberSet::default(), BTreeSet::new());
            for (number, more) in put_in {
                numbers.insert_all(number..=number + more);
                set.extend(number..=number + more);
                prop_assert!(numbers.iter().eq(set.iter().copied()));
                let begins = |number: &u64| number.checked_sub(1).is_none_or(|before| !set.contains(&before));
                prop_assert_eq!(numbers.ranges(), set.iter().filter(|number| begins(number)).count());
                let first = (0..=number).rev().take_while(|before| set.contains(before)).last();
                prop_assert_eq!(Some(numbers.first(number)), first);
            }
            prop_assert!((0..70).all(|number| numbers.contains(number) == set.contains(&number)));
        }
    }
}
