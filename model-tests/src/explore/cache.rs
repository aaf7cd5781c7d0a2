//! The states that a caching exploration has seen.

use super::world::Fingerprint;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// States by fingerprint, each with the most faults that were left when it was seen: what follows on it with fewer is
/// part of what was explored. Nothing iterates over it.
#[derive(Debug)]
pub(super) struct Cache {
    seen: HashMap<u128, u32, BuildHasherDefault<Half>>,
    /// The states on the present path, with the faults left.
    path: Vec<(u128, u32)>,
    most: usize,
}

/// What one state takes: its entry, its byte of control, and the share of the table that is free.
const BYTES_A_STATE: u64 = 2 * (size_of::<(u128, u32)>() as u64 + 1);

impl Cache {
    /// A cache that holds as many states as fit into `bytes`.
    pub(super) fn new(bytes: u64) -> Cache {
        let most = usize::try_from(bytes / BYTES_A_STATE).unwrap_or(usize::MAX);
        Cache { seen: HashMap::default(), path: Vec::new(), most }
    }

    /// Whether no more states fit in.
    pub(super) fn is_full(&self) -> bool {
        self.seen.len() >= self.most
    }

    /// Notes the state after `depth` steps; whether what follows on it is to be explored.
    pub(super) fn is_new(&mut self, state: Fingerprint, faults: u32, depth: usize) -> bool {
        self.path.truncate(depth);
        let known = self.seen.get_mut(&state.0);
        let new = known.as_ref().is_none_or(|before| **before < faults);
        match known {
            Some(before) => *before = faults.max(*before),
            None => drop(self.seen.insert(state.0, faults)),
        }
        if new {
            self.path.push((state.0, faults));
        }
        new
    }

    /// After how many steps of the present path, before `depth`, the same state was reached, if it was.
    pub(super) fn on_path(&self, state: Fingerprint, faults: u32, depth: usize) -> Option<usize> {
        self.path.iter().take(depth).position(|before| *before == (state.0, faults))
    }
}

/// A fingerprint is as good as random: half of it is its hash.
#[derive(Debug, Default)]
struct Half(u64);

impl Hasher for Half {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_explored_again_only_with_more_faults_left() {
        let mut cache = Cache::new(1 << 20);
        let state = Fingerprint(7);
        assert!(cache.is_new(state, 1, 0));
        assert!(!cache.is_new(state, 1, 1) && !cache.is_new(state, 0, 1));
        assert!(cache.is_new(state, 2, 1));
        assert!(!cache.is_new(state, 2, 5));
    }

    #[test]
    fn a_state_on_its_own_path_is_noticed() {
        let mut cache = Cache::new(1 << 20);
        assert!(cache.is_new(Fingerprint(1), 0, 0) && cache.is_new(Fingerprint(2), 0, 1));
        assert_eq!(
            (cache.is_new(Fingerprint(1), 0, 2), cache.on_path(Fingerprint(1), 0, 2)),
            (false, Some(0))
        );
        // Another branch from the root on: 2 was left behind.
        assert!(!cache.is_new(Fingerprint(2), 0, 1));
        assert_eq!(cache.on_path(Fingerprint(2), 0, 1), None);
    }
}
