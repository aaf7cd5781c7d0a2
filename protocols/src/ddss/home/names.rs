//! Names that stand for keys of segments, kept here or elsewhere.

use crate::ddss::key::Id;
use crate::ddss::{Key, Name};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Names {
    keys: BTreeMap<Name, Key>,
    /// The same by segment: each release in the cluster asks for the names of one, and nobody has to look at all of them.
    of: BTreeSet<(Id, Name)>,
}

impl Names {
    pub fn get(&self, name: Name) -> Option<Key> {
        self.keys.get(&name).copied()
    }

    /// Lets a name stand for a key, or for none, whatever it stood for.
    pub fn set(&mut self, name: Name, key: Option<Key>) {
        let before = match key {
            Some(key) => self.keys.insert(name, key),
            None => self.keys.remove(&name),
        };
        if let Some(before) = before {
            self.of.remove(&(before.id(), name));
        }
        if let Some(key) = key {
            self.of.insert((key.id(), name));
        }
    }

    /// Names do not stand for this key any more.
    pub fn forget(&mut self, key: Key) {
        let all = (key.id(), Name(0))..=(key.id(), Name(u64::MAX));
        let names = self.of.range(all).map(|(_, name)| *name);
        let names: Vec<Name> = names.filter(|name| self.get(*name) == Some(key)).collect();
        names.into_iter().for_each(|name| self.set(name, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddss::key::Place;
    use crate::ddss::{Model, Spec};
    use crate::transport::Rank;
    use weft_verbs::RemoteSlice;

    fn key(name: u64) -> Key {
        let at = Place { memory: RemoteSlice { addr: 1 << 40, len: 99, rkey: 7 }, number: name };
        let spec = Spec { size: 64, model: Model::Write };
        Key { home: Rank::from_index(1), incarnation: 11, name: Name(name), spec, at }
    }

    #[test]
    fn a_segment_that_goes_takes_the_names_with_it_that_stand_for_it_now() {
        let (mut names, [going, other]) = (Names::default(), [key(1), key(2)]);
        for (name, key) in [(5, going), (6, going), (7, going), (5, other), (8, other)] {
            names.set(Name(name), Some(key));
        }
        names.set(Name(7), None);
        names.forget(Key { home: Rank::from_index(2), ..going });
        assert_eq!(names.get(Name(6)), Some(going), "no other node's key is that");
        names.forget(going);
        assert_eq!([5, 6, 7, 8].map(|name| names.get(Name(name))), [Some(other), None, None, Some(other)]);
        assert_eq!((names.keys.len(), names.of.len()), (2, 2));
    }
}
