//! A set of objects, as ranges of their numbers. A node numbers what it makes one after another, so that all that was ever freed takes as
//! little room as there are gaps in it.

use super::shared::ObjectId;
use std::collections::BTreeMap;

/// Objects: by the first number of a range its last one. No two ranges are neighbours.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub fn contains(&self, ObjectId(number): ObjectId) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Puts an object in, and makes one range of what it joins.
    pub fn insert(&mut self, object: ObjectId) {
        if self.contains(object) {
            return;
        }
        let ObjectId(number) = object;
        let before = self.0.range(..number).next_back().filter(|(_, last)| **last + 1 == number);
        let first = before.map_or(number, |(first, _)| *first);
        let behind = number.checked_add(1).and_then(|next| self.0.remove(&next));
        self.0.insert(first, behind.unwrap_or(number));
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ObjectId> {
        self.0.iter().flat_map(|(first, last)| (*first..=*last).map(ObjectId))
    }

    /// How many ranges they are.
    #[cfg(test)]
    pub fn pieces(&self) -> usize {
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
        let mut ranges = Ranges::default();
        [u64::MAX, 0, u64::MAX - 1, 1, u64::MAX].iter().for_each(|number| ranges.insert(ObjectId(*number)));
        assert_eq!(ranges.pieces(), 2);
        assert!([0, 1, u64::MAX - 1, u64::MAX].iter().all(|number| ranges.contains(ObjectId(*number))));
        assert!(!ranges.contains(ObjectId(2)) && !ranges.contains(ObjectId(u64::MAX - 2)));
    }

    proptest! {
        #[test]
        fn ranges_have_what_was_put_in_and_no_two_are_neighbours(
            numbers in prop::collection::vec(0u64..60, 0..80)
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for number in numbers {
                ranges.insert(ObjectId(number));
                set.insert(ObjectId(number));
                prop_assert!(ranges.iter().eq(set.iter().copied()));
                let begins = |ObjectId(number): &ObjectId| {
                    number.checked_sub(1).is_none_or(|before| !set.contains(&ObjectId(before)))
                };
                prop_assert_eq!(ranges.pieces(), set.iter().filter(|object| begins(object)).count());
            }
            prop_assert!((0..70).map(ObjectId).all(|object| ranges.contains(object) == set.contains(&object)));
        }
    }
}
