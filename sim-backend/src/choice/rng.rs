//! The project's random number generator, behind a type of our own so that no other crate's version of a
//! trait reaches a trace.

use rand::{Rng as _, RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Xoshiro256++, seeded through SplitMix64: portable, and the same for ever.
///
/// The distributions of `rand` draw from it ([`RngCore`]). Those of integers and of `f64` that `rand` itself has are
/// portable: they multiply, add and compare, and IEEE 754 fixes the results of that to the bit.
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

    /// A number below `n`, each with the same probability (to one in 2^64). 0 if `n` is 0 or 1, and then no word is drawn.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        if n <= 1 { 0 } else { self.random_range(0..n) }
    }

    /// A generator of its own for one part of a run, so that what the part draws shifts nobody else's stream.
    #[must_use]
    pub fn fork(&mut self) -> Rng {
        Rng::from_seed(self.next_u64())
    }
}

impl RngCore for Rng {
    #[inline]
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    #[inline]
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
