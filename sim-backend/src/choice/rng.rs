//! The project's random number generator, behind a type of our own so that no other crate's version of a
//! trait reaches a trace.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Xoshiro256++, seeded through SplitMix64: portable, and the same for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator of a seed.
    pub fn from_seed(seed: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The next word.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`, each with the same probability. 0 if `n` is 0 or 1, and then no word is drawn.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        // Lemire, "Fast random integer generation in an interval" (2019): the high half of a product, and a
        // redraw in the few cases that would favour some numbers. One multiplication almost always.
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let reject_below = n.wrapping_neg() % n;
            while (product as u64) < reject_below {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A generator of its own for one part of a run, so that what the part draws shifts nobody else's stream.
    #[must_use]
    pub fn fork(&mut self) -> Rng {
        Rng::from_seed(self.next_u64())
    }
}
