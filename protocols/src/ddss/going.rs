//! Segments that are being released, as far as a node knows that does not keep them: a state machine without I/O.
//!
//! One stands here from when its home asks this node to let it go until the home says that its keys are revoked. What a home says goes out as
//! there is room, so that what it says of one segment may come behind what it says of the next that has its name: each is known by its
//! key and not by its name.

use super::Key;
use super::key::Id;
use super::parties::Party;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Going {
    now: BTreeMap<Id, Party>,
    /// How often a home has asked for one.
    asked: u64,
}

impl Going {
    /// Its home has asked for it.
    pub fn begins(&mut self, key: Key) {
        self.asked += 1;
        self.now.insert(key.id(), key.party());
    }

    /// How often homes have asked so far. As long as that is the same nothing has begun to go, nor come and gone.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Its keys are revoked.
    pub fn ends(&mut self, key: Key) {
        self.now.remove(&key.id());
    }

    /// A home has died, and what it kept with it.
    pub fn end_with(&mut self, home: Party) {
        self.now.retain(|_, of| *of != home);
    }

    pub fn contains(&self, key: Key) -> bool {
        self.now.contains_key(&key.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddss::key::Place;
    use crate::ddss::{Model, Name, Spec};
    use crate::transport::Rank;
    use weft_verbs::RemoteSlice;

    /// Segments of one name, at one address, and by one key of the adapter's.
    fn key(number: u64, incarnation: u64) -> Key {
        let spec = Spec { size: 64, model: Model::Write };
        let at = Place { memory: RemoteSlice { addr: 1 << 40, len: 99, rkey: 7 }, number };
        Key { home: Rank::from_index(1), incarnation, name: Name(4), spec, at }
    }

    #[test]
    fn what_is_said_late_of_an_earlier_segment_of_a_name_says_nothing_of_the_present_one() {
        let (mut going, earlier, present) = (Going::default(), key(1, 11), key(2, 11));
        going.begins(earlier);
        assert!(going.contains(earlier) && !going.contains(present));
        going.begins(present);
        going.ends(earlier);
        assert!(going.contains(present), "nobody opens it before it is gone");
        // That it is to be let go is heard behind that it is gone: nothing of the next one is said by that.
        going.begins(earlier);
        going.ends(present);
        assert!(going.contains(earlier) && !going.contains(key(3, 11)));
    }

    #[test]
    fn what_a_home_kept_that_died_is_not_awaited_of_its_next_incarnation() {
        let (mut going, old, new) = (Going::default(), key(1, 11), key(1, 12));
        going.begins(old);
        going.begins(new);
        going.end_with(old.party());
        assert!(!going.contains(old) && going.contains(new));
    }
}
