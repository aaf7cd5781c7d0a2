//! Names of locks, and where a lock lives.

use crate::transport::Rank;
use std::fmt;

/// A lock's name: 64 bits, chosen by the application or hashed from a string.
///
/// Two applications mean the same lock exactly if they use the same key. A key is a name and nothing else:
/// its home and its word there are found by [`LockKey::home`] and by asking that home, so that two keys never
/// share a word (sharing would let a holder of one deadlock with itself over the other).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(pub u64);

impl LockKey {
    /// The key of a lock that has a string for a name: the 64-bit FNV-1a hash of its UTF-8 bytes.
    ///
    /// The function is part of the interface: it is the same on every node, in every version, on every
    /// machine. Two names with one hash are one lock; among a million names the odds of that are
    /// 1 in 37 million.
    ///
    /// ```
    /// use weft_protocols::locks::LockKey;
    /// assert_eq!(LockKey::named("accounts"), LockKey::named("accounts"));
    /// assert_ne!(LockKey::named("accounts"), LockKey::named("orders"));
    /// ```
    pub const fn named(name: &str) -> LockKey {
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let bytes = name.as_bytes();
        let mut hash = OFFSET_BASIS;
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(PRIME);
            i += 1;
        }
        LockKey(hash)
    }

    /// The lock's home among `members` nodes: the node that keeps its word, or its queue (ncosed.txt, 3.1).
    ///
    /// The key's bits are mixed by the finaliser of SplitMix64, so that keys 0, 1, 2, ... spread as evenly as
    /// hashes do; the upper bits then choose the rank by multiplication, which has no bias worth naming. Every
    /// member must count the same members. Zero members count as one.
    pub fn home(self, members: u32) -> Rank {
        let mut x = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        let index = (u128::from(x) * u128::from(members.max(1))) >> 64;
        // index < members, which is a u32, so the cast loses nothing and the rank exists
        Rank::from_index(index as u32)
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<u64> for LockKey {
    fn from(key: u64) -> LockKey {
        LockKey(key)
    }
}

impl From<&str> for LockKey {
    fn from(name: &str) -> LockKey {
        LockKey::named(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_name_is_the_published_fnv_1a() {
        assert_eq!(LockKey::named(""), LockKey(0xcbf2_9ce4_8422_2325));
        assert_eq!(LockKey::named("a"), LockKey(0xaf63_dc4c_8601_ec8c));
        assert_eq!(LockKey::named("foobar"), LockKey(0x8594_4171_f739_67e8));
    }

    #[test]
    fn a_key_is_written_as_sixteen_digits_and_made_of_a_number_or_a_name() {
        assert_eq!(LockKey::from(0xbeef).to_string(), "000000000000beef");
        assert_eq!(LockKey::from("foobar"), LockKey::named("foobar"));
    }

    #[test]
    fn small_keys_spread_evenly_over_the_homes() {
        let mut at = [0u32; 16];
        for key in 0..16_000 {
            at[LockKey(key).home(16).get() as usize - 1] += 1;
        }
        assert!(at.iter().all(|&n| (850..1_150).contains(&n)), "{at:?}");
    }

    #[test]
    fn a_home_never_moves() {
        // figures that a rolling upgrade depends on
        let homes: Vec<u32> = (0..8).map(|k| LockKey(k).home(5).get()).collect();
        assert_eq!(homes, [5, 3, 3, 1, 3, 2, 4, 2]);
    }

    #[test]
    fn any_count_of_members_yields_one_of_them() {
        for members in [0, 1, 2, 3, 1_000, u32::MAX] {
            let home = LockKey(u64::MAX).home(members).get();
            assert!((1..=members.max(1)).contains(&home));
        }
    }
}
