//! Figures by object: what nodes fight over, and why accesses to it wait.

use crate::metrics::{Group, Layout};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;
use weft_protocols::dsm::{Hottest, ObjectId, ObjectStats};

/// How many objects have figures of their own: those that a program names first. The others have them together.
const NAMED: usize = 7;

/// Tables by object.
const TITLES: [(&str, &str); NAMED + 1] = [
    ("object_0", "What waits for object 0"),
    ("object_1", "What waits for object 1"),
    ("object_2", "What waits for object 2"),
    ("object_3", "What waits for object 3"),
    ("object_4", "What waits for object 4"),
    ("object_5", "What waits for object 5"),
    ("object_6", "What waits for object 6"),
    ("other_objects", "What waits for other objects"),
];

/// Why accesses to an object wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Waits {
    first: u64,
    taken: u64,
    copies: u64,
    joined: u64,
    /// Of its minipages the one that was granted most often to write: how often, and which.
    hottest: (u64, u32),
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Waits) {
        self.first += other.first;
        self.taken += other.taken;
        self.copies += other.copies;
        self.joined += other.joined;
        // One node manages it.
        self.hottest = self.hottest.max(other.hottest);
    }
}

impl Waits {
    fn any(&self) -> bool {
        *self != Waits::default()
    }
}

impl From<ObjectStats> for Waits {
    fn from(ObjectStats { first, taken, copies, joined, hottest }: ObjectStats) -> Waits {
        let hottest = hottest.map_or((0, 0), |Hottest { writes, index }| (writes, index));
        Waits { first, taken, copies, joined, hottest }
    }
}

/// Why accesses wait, by object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects([Waits; NAMED + 1]);

impl AddAssign for Objects {
    fn add_assign(&mut self, other: Objects) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, other)| *sum += other);
    }
}

impl Objects {
    /// What a node has counted: by object, and of all that were freed.
    pub fn of(all: impl IntoIterator<Item = (ObjectId, ObjectStats)>, freed: ObjectStats) -> Objects {
        let mut objects = Objects::default();
        objects.0[NAMED] += freed.into();
        for (ObjectId(number), stats) in all {
            objects.0[number.min(NAMED as u64) as usize] += stats.into();
        }
        objects
    }

    /// A table of each object that somebody waited for.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        TITLES.iter().zip(&self.0).filter(|(_, waits)| waits.any()).map(|((key, title), waits)| {
            let (writes, index) = waits.hottest;
            let counts = [
                ("taken", "by a writer", waits.taken),
                ("copies", "copy to write", waits.copies),
                ("first", "first access", waits.first),
                ("joined", "joined", waits.joined),
                ("hottest", "hottest", index.into()),
                ("hottest_writes", "its grants", writes),
            ];
            // The hottest minipage of several runs says nothing.
            Group { adds_up: false, ..Group::new(key, title, Layout::Row, &counts) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_wait_for_adds_up_and_the_hottest_minipage_is_the_hottest_of_all() {
        let stats = |taken, writes, index| {
            let hottest = Some(Hottest { writes, index });
            ObjectStats { taken, hottest, ..ObjectStats::default() }
        };
        let none = ObjectStats::default();
        let mut sum = Objects::of([(ObjectId(1), stats(3, 9, 4)), (ObjectId(1 << 40), stats(1, 1, 0))], none);
        sum += Objects::of([(ObjectId(1), stats(2, 5, 7)), (ObjectId(9), stats(4, 2, 2))], none);
        let groups: Vec<Group> = sum.groups().collect();
        let of = |group: usize| {
            let count = |key| groups[group].counts.iter().find(|count| count.key == key).map(|of| of.value);
            ["taken", "hottest", "hottest_writes"].map(|key| count(key).unwrap_or_default())
        };
        assert_eq!((groups.len(), groups[0].key, groups[1].key), (2, "object_1", "other_objects"));
        assert_eq!([of(0), of(1)], [[5, 4, 9], [5, 2, 2]]);
    }
}
