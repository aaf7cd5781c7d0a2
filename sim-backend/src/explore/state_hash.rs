//! Hashing of states: quick, the same on every machine and in every run.

use std::hash::{Hash, Hasher};

/// Two independent lanes of 64 bits. Not for adversaries: for telling states of one world apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateHash(u64, u64);

impl Default for StateHash {
    fn default() -> StateHash {
        StateHash(0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03)
    }
}

/// The two halves of a product, folded: every bit of the factors reaches every bit of it.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl StateHash {
    /// Adds a word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0xa076_1d64_78bd_642f);
        self.1 = fold(self.1.rotate_left(23) ^ word, 0xe703_7ed1_a0b4_28db);
    }

    /// Adds a value.
    #[inline]
    pub fn value(&mut self, value: &(impl Hash + ?Sized)) {
        value.hash(self);
    }

    /// All that was added.
    pub fn whole(self) -> u128 {
        u128::from(fold(self.0, 0x8ebc_6af0_9c88_c6e3)) << 64
            | u128::from(fold(self.1, 0x5899_65cc_7537_4cc3))
    }
}

impl Hasher for StateHash {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length goes in with what is left, so that zeros at the end count.
        self.word(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }
    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.word(u64::from(n));
    }
    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.word(u64::from(n));
    }
    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.word(u64::from(n));
    }
    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }
    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }
    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.word(n as u64);
    }
    fn finish(&self) -> u64 {
        self.whole() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&[u8]]) -> u128 {
        let mut mix = StateHash::default();
        values.iter().for_each(|bytes| mix.write(bytes));
        mix.whole()
    }

    #[test]
    fn bytes_their_order_and_their_boundaries_all_count() {
        let all = [
            of(&[b"12345678", b"9"]),
            of(&[b"123456789"]),
            of(&[b"9", b"12345678"]),
            of(&[b"123456789\0"]),
            of(&[b"12345678"]),
            of(&[]),
            of(&[b""]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(a), "{i}");
        }
    }

    #[test]
    fn a_million_neighbours_differ_in_both_lanes() {
        let mut seen: Vec<u128> = (0..1_000_000u64).map(|n| of(&[&n.to_le_bytes()])).collect();
        for _ in 0..2 {
            seen.sort_unstable_by_key(|hash| *hash as u64);
            assert!(seen.windows(2).all(|pair| pair[0] as u64 != pair[1] as u64));
            seen.iter_mut().for_each(|hash| *hash = hash.rotate_left(64));
        }
    }
}
