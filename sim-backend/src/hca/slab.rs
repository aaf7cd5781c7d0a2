//! Objects by number: a flat vector whose places are used again late.

use crate::in_place::clone_in_place;
use std::collections::VecDeque;

/// An object's place and the number of its use: a stale key finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The place.
    pub index: u32,
    /// How often the place had been used before.
    pub generation: u32,
}

/// A place is used again only when this many others have been given up after it, so that an old number stays
/// dead for long.
const REST: usize = 16;

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

clone_in_place! { Entry<T> { generation, value } }

/// Objects by [`Key`].
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    /// Places given up, oldest first. Apart, since it is looked at when objects come and go, and the rest with
    /// every packet.
    #[allow(clippy::box_collection)]
    free: Option<Box<VecDeque<u32>>>,
}

clone_in_place! { Slab<T> { entries, free } }

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: None }
    }
}

impl<T> Slab<T> {
    /// How many objects live.
    pub fn len(&self) -> u32 {
        (self.entries.len() - self.free.as_ref().map_or(0, |free| free.len())) as u32
    }

    /// Whether no object lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key that the next insertion will give.
    pub fn next_key(&self) -> Key {
        match &self.free {
            Some(free) if free.len() > REST => {
                let index = free[0];
                Key { index, generation: self.entries[index as usize].generation }
            }
            _ => Key { index: self.entries.len() as u32, generation: 0 },
        }
    }

    /// Adds an object.
    pub fn insert(&mut self, value: T) -> Key {
        let key = self.next_key();
        if key.index as usize == self.entries.len() {
            self.entries.push(Entry { generation: 0, value: Some(value) });
        } else {
            self.free.as_mut().and_then(|free| free.pop_front());
            self.entries[key.index as usize].value = Some(value);
        }
        key
    }

    /// Removes an object.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation += 1;
        self.free.get_or_insert_default().push_back(key.index);
        Some(value)
    }

    /// An object.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.index as usize)?;
        if entry.generation == key.generation { entry.value.as_ref() } else { None }
    }

    /// An object, to change it.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation == key.generation { entry.value.as_mut() } else { None }
    }

    /// The object at a place, whichever it is now.
    #[inline]
    pub fn at(&self, index: u32) -> Option<(Key, &T)> {
        let entry = self.entries.get(index as usize)?;
        Some((Key { index, generation: entry.generation }, entry.value.as_ref()?))
    }

    /// The object at a place, to change it.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<(Key, &mut T)> {
        let entry = self.entries.get_mut(index as usize)?;
        Some((Key { index, generation: entry.generation }, entry.value.as_mut()?))
    }

    /// How many places there are, empty ones included.
    pub fn places(&self) -> u32 {
        self.entries.len() as u32
    }

    /// All objects, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..self.entries.len() as u32).filter_map(|index| self.at(index))
    }

    /// Removes every object; their keys stay dead.
    pub fn drain(&mut self) -> Vec<T> {
        let keys: Vec<Key> = self.iter().map(|(key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::default();
        let keys: Vec<Key> = (0..20).map(|n| slab.insert(n)).collect();
        assert_eq!(keys.iter().filter_map(|&k| slab.remove(k)).count(), 20);
        let again: Vec<Key> = (0..20).map(|n| slab.insert(100 + n)).collect();
        assert!(again.iter().any(|k| k.index == 0), "places are used again");
        assert!(keys.iter().all(|&k| slab.get(k).is_none() && slab.remove(k).is_none()));
        assert!(again.iter().all(|&k| slab.get(k).is_some()));
        assert_eq!(slab.len(), 20);
    }

    #[test]
    fn a_place_rests_before_it_is_used_again() {
        let mut slab = Slab::default();
        let first = slab.insert(0);
        slab.remove(first);
        for _ in 0..REST {
            let key = slab.insert(0);
            assert_ne!(key.index, first.index);
            slab.remove(key);
        }
        assert_eq!(slab.insert(0), Key { index: first.index, generation: 1 });
    }
}
