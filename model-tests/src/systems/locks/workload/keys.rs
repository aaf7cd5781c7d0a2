//! Which lock a request asks for.

use super::Keys;
use crate::fields::math::{exp, ln};
use weft_protocols::locks::LockKey;
use weft_sim::choice::Rng;

/// Draws locks with the popularity that a scenario gives them. Locks are numbered by popularity; 0 leads.
///
/// Zipf's law is kept as a table of thresholds in units of 2^-53, so that a draw is one random word and a
/// binary search, the same on every machine.
#[derive(Clone, Debug)]
pub struct KeyPicker {
    locks: u32,
    /// For Zipf: the share of draws that fall on lock `i` or a more popular one.
    thresholds: Vec<u64>,
}

const UNIT: u32 = 53;

impl KeyPicker {
    /// Draws from `locks` locks, at least 1.
    pub fn new(keys: Keys, locks: u32) -> KeyPicker {
        let locks = locks.max(1);
        match keys {
            Keys::Single => KeyPicker { locks: 1, thresholds: Vec::new() },
            Keys::Uniform => KeyPicker { locks, thresholds: Vec::new() },
            Keys::Zipf(theta) => KeyPicker { locks, thresholds: zipf(theta, locks) },
        }
    }

    /// Draws a lock.
    pub fn pick(&self, rng: &mut Rng) -> LockKey {
        let index = if self.thresholds.is_empty() {
            rng.below(self.locks.into())
        } else {
            let at = rng.next_u64() >> (64 - UNIT);
            self.thresholds.partition_point(|&threshold| threshold <= at) as u64
        };
        LockKey(index)
    }
}

fn zipf(theta: f64, locks: u32) -> Vec<u64> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=locks)
        .map(|rank| {
            sum += exp(-theta * ln(f64::from(rank)));
            sum
        })
        .collect();
    let scale = (1u64 << UNIT) as f64 / sum;
    let mut thresholds: Vec<u64> = cumulative.into_iter().map(|share| (share * scale) as u64).collect();
    // Rounding must not leave a gap above the last lock.
    thresholds[locks as usize - 1] = 1 << UNIT;
    thresholds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(keys: Keys, locks: u32, n: u32) -> Vec<u32> {
        let picker = KeyPicker::new(keys, locks);
        let mut rng = Rng::from_seed(1);
        let mut counts = vec![0; locks as usize];
        (0..n).for_each(|_| counts[picker.pick(&mut rng).0 as usize] += 1);
        counts
    }

    #[test]
    fn a_single_lock_is_always_the_first() {
        assert_eq!(draws(Keys::Single, 5, 100), [100, 0, 0, 0, 0]);
    }

    #[test]
    fn uniform_locks_are_equally_popular() {
        assert!(draws(Keys::Uniform, 10, 10_000).iter().all(|count| (900..1_100).contains(count)));
    }

    #[test]
    fn zipf_locks_are_popular_by_their_rank() {
        let counts = draws(Keys::Zipf(0.99), 64, 1_000_000);
        let sum: f64 = (1..=64).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for (index, count) in counts.iter().enumerate() {
            let expected = 1e6 * (index as f64 + 1.0).powf(-0.99) / sum;
            let off = (f64::from(*count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "lock {index}: {count}, expected {expected}");
        }
    }

    #[test]
    fn zipf_without_skew_is_uniform() {
        let counts = draws(Keys::Zipf(0.0), 10, 10_000);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }
}
