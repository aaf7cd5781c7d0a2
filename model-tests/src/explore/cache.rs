//! The states that a caching exploration has seen, and what of each was not explored because it slept.
//!
//! Godefroid, "Partial-order methods for the verification of concurrent systems" (1996), 5.4: a state that is met again is
//! explored again only in what slept there every time before and does not sleep now.

use super::intern::Interner;
use super::system::Fingerprint;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use weft_sim::explore::{Actor, Outcome};

/// Ways to go on from a state: actors with an outcome. An actor has one next event at most, so this names what may happen
/// the same in equal states, whatever had happened before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways(u128);

impl Ways {
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, way: Ways) -> bool {
        self.0 & way.0 != 0
    }

    pub(super) fn add(&mut self, way: Ways) {
        self.0 |= way.0;
    }

    fn without(self, other: Ways) -> Ways {
        Ways(self.0 & !other.0)
    }
}

/// What is to be done with a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// It is new: all that does not sleep.
    New,
    /// These, which slept before.
    Again(Ways),
    /// It is on the present path, after so many steps.
    Circle(usize),
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The most faults that were left when it was seen: what follows with fewer is part of what was explored.
    faults: u32,
    /// What was not explored.
    slept: Ways,
}

/// States by fingerprint. Nothing iterates over it.
#[derive(Debug)]
pub(super) struct Cache {
    seen: HashMap<u128, Seen, BuildHasherDefault<Half>>,
    /// The states on the present path: after how many steps, and with how many faults left.
    path: Vec<(usize, u128, u32)>,
    actors: Interner,
    ways: Interner,
    most: usize,
    /// Whether executions are cut off after so many steps: then what follows on a state depends on how many came before.
    cuts: bool,
}

/// What tells a state from the same one after a step more, where that matters: a number without a pattern.
const EACH_STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// What one state takes: its entry, its byte of control, and the share of the table that is free.
const BYTES_A_STATE: u64 = 2 * (size_of::<(u128, Seen)>() as u64 + 1);

impl Cache {
    /// A cache that holds as many states as fit into `bytes`, of executions that are cut off somewhere or are not.
    pub(super) fn new(bytes: u64, cuts: bool) -> Cache {
        let most = usize::try_from(bytes / BYTES_A_STATE).unwrap_or(usize::MAX);
        Cache {
            seen: HashMap::default(),
            path: Vec::new(),
            actors: Interner::new(),
            ways: Interner::new(),
            most,
            cuts,
        }
    }

    /// The path is that of the first so many steps, and what was seen from there.
    pub(super) fn go_back(&mut self, depth: usize) {
        self.path.retain(|&(after, ..)| after <= depth);
    }

    /// Whether no more states fit in.
    pub(super) fn is_full(&self) -> bool {
        self.seen.len() >= self.most
    }

    /// A way to go on; none if there are more than can be told apart, and then it must not sleep.
    pub(super) fn way(&mut self, actor: Actor, outcome: Outcome) -> Option<Ways> {
        let (actor, _) = self.actors.number(actor.0);
        let (way, _) = self.ways.number(u64::from(actor) * Outcome::ALL.len() as u64 + outcome as u64);
        1u128.checked_shl(way).map(Ways)
    }

    /// Notes the state after `depth` steps, of which `slept` is not to be explored now.
    pub(super) fn visit(&mut self, state: Fingerprint, faults: u32, slept: Ways, depth: usize) -> Visit {
        self.path.retain(|&(after, ..)| after < depth);
        let same = |&&(_, known, left): &&(usize, u128, u32)| (known, left) == (state.0, faults);
        if let Some(&(first, ..)) = self.path.iter().find(same) {
            return Visit::Circle(first);
        }
        self.path.push((depth, state.0, faults));
        let now = Seen { faults, slept };
        let name = if self.cuts { state.0 ^ EACH_STEP.wrapping_mul(depth as u128) } else { state.0 };
        let Some(seen) = self.seen.get_mut(&name) else {
            self.seen.insert(name, now);
            return Visit::New;
        };
        if seen.faults < faults {
            *seen = now;
            return Visit::New;
        }
        let again = seen.slept.without(slept);
        if seen.faults == faults {
            seen.slept = seen.slept.without(again);
        }
        Visit::Again(again)
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

    fn visit(cache: &mut Cache, state: u128, faults: u32, slept: u128, depth: usize) -> Visit {
        cache.visit(Fingerprint(state), faults, Ways(slept), depth)
    }

    const NOTHING: Visit = Visit::Again(Ways(0));

    #[test]
    fn ways_to_go_on_are_told_apart_by_who_acts_and_by_how_it_turns_out() {
        let mut cache = Cache::new(1 << 20, false);
        let actors = (0..9).map(Actor);
        let all: Vec<(Actor, Outcome)> =
            actors.flat_map(|actor| Outcome::ALL.map(|outcome| (actor, outcome))).collect();
        let ways: Vec<u128> =
            all.iter().map(|(actor, outcome)| cache.way(*actor, *outcome).unwrap().0).collect();
        assert_eq!(ways.iter().fold(0, |together, way| together | way).count_ones() as usize, ways.len());
    }

    #[test]
    fn a_state_is_explored_again_only_with_more_faults_left() {
        let mut cache = Cache::new(1 << 20, false);
        assert_eq!(visit(&mut cache, 7, 1, 0, 0), Visit::New);
        assert_eq!(visit(&mut cache, 7, 1, 0, 0), NOTHING);
        assert_eq!(visit(&mut cache, 7, 0, 0, 0), NOTHING);
        assert_eq!(visit(&mut cache, 7, 2, 0, 0), Visit::New);
        assert_eq!(visit(&mut cache, 7, 1, 0, 0), NOTHING);
    }

    #[test]
    fn what_slept_every_time_before_is_explored_when_it_is_awake() {
        let mut cache = Cache::new(1 << 20, false);
        assert_eq!(visit(&mut cache, 7, 0, 0b110, 0), Visit::New);
        assert_eq!(visit(&mut cache, 7, 0, 0b011, 0), Visit::Again(Ways(0b100)));
        assert_eq!(visit(&mut cache, 7, 0, 0, 0), Visit::Again(Ways(0b010)));
        assert_eq!(visit(&mut cache, 7, 0, 0, 0), NOTHING);
    }

    /// With fewer faults left, what slept is explored with that many only: it is still to be explored with more.
    #[test]
    fn what_is_explored_with_fewer_faults_counts_for_no_more() {
        let mut cache = Cache::new(1 << 20, false);
        assert_eq!(visit(&mut cache, 7, 1, 0b1, 0), Visit::New);
        assert_eq!(visit(&mut cache, 7, 0, 0, 0), Visit::Again(Ways(1)));
        assert_eq!(visit(&mut cache, 7, 1, 0, 0), Visit::Again(Ways(1)));
    }

    #[test]
    fn a_state_on_its_own_path_is_noticed() {
        let mut cache = Cache::new(1 << 20, false);
        assert_eq!(visit(&mut cache, 1, 0, 0, 0), Visit::New);
        assert_eq!(visit(&mut cache, 2, 0, 0, 1), Visit::New);
        assert_eq!(visit(&mut cache, 1, 0, 0, 2), Visit::Circle(0));
        // Another branch from the root on: 2 was left behind.
        assert_eq!(visit(&mut cache, 2, 0, 0, 1), NOTHING);
    }

    /// What follows on it is cut off sooner, or later.
    #[test]
    fn where_executions_are_cut_off_a_state_counts_as_seen_after_as_many_steps_alone() {
        let mut cache = Cache::new(1 << 20, true);
        assert_eq!(visit(&mut cache, 7, 0, 0, 3), Visit::New);
        assert_eq!(visit(&mut cache, 7, 0, 0, 3), NOTHING);
        assert_eq!(visit(&mut cache, 7, 0, 0, 2), Visit::New);
        assert_eq!(visit(&mut cache, 7, 0, 0, 4), Visit::Circle(2));
    }
}
