//! Which lock a request asks for.

use super::Keys;
use crate::fields::draw::Zipf;
use weft_protocols::locks::LockKey;
use weft_sim::choice::Rng;

/// Draws locks with the popularity that a scenario gives them. Locks are numbered by popularity; 0 leads.
#[derive(Clone, Debug)]
pub enum KeyPicker {
    /// Each of so many is equally likely.
    Even(u32),
    /// By Zipf's law.
    Zipf(Zipf),
}

impl KeyPicker {
    /// Draws from `locks` locks, at least 1.
    pub fn new(keys: Keys, locks: u32) -> KeyPicker {
        match keys {
            Keys::Single => KeyPicker::Even(1),
            Keys::Uniform => KeyPicker::Even(locks),
            Keys::Zipf(theta) => KeyPicker::Zipf(Zipf::new(locks, theta)),
        }
    }

    /// Draws a lock.
    pub fn pick(&self, rng: &mut Rng) -> LockKey {
        LockKey(match self {
            KeyPicker::Even(locks) => rng.below((*locks).into()),
            KeyPicker::Zipf(zipf) => zipf.draw(rng),
        })
    }
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
