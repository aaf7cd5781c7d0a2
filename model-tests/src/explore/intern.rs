//! Dense numbers for sparse identities.

/// Numbers identities in the order in which it meets them. Nothing iterates over it, so that the order of its slots
/// reaches no result.
#[derive(Debug)]
pub(super) struct Interner {
    /// Open addressing with linear probing; the length is a power of two, at most half of it in use.
    slots: Vec<(u64, u32)>,
    len: u32,
}

const EMPTY: u32 = u32::MAX;

impl Interner {
    pub(super) fn new() -> Interner {
        Interner { slots: vec![(0, EMPTY); 1 << 10], len: 0 }
    }

    /// The number of `identity`, and whether it is new.
    #[inline]
    pub(super) fn number(&mut self, identity: u64) -> (u32, bool) {
        let mask = self.slots.len() - 1;
        let mut at = home(identity, self.slots.len());
        loop {
            match self.slots[at] {
                (_, EMPTY) => return (self.insert(at, identity), true),
                (known, number) if known == identity => return (number, false),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn insert(&mut self, at: usize, identity: u64) -> u32 {
        let number = self.len;
        self.slots[at] = (identity, number);
        self.len += 1;
        if self.len as usize * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, EMPTY); old.len() * 2];
        let mask = self.slots.len() - 1;
        for (identity, number) in old.into_iter().filter(|(_, number)| *number != EMPTY) {
            let mut at = home(identity, self.slots.len());
            while self.slots[at].1 != EMPTY {
                at = (at + 1) & mask;
            }
            self.slots[at] = (identity, number);
        }
    }
}

/// Fibonacci hashing (Knuth, volume 3, 6.4): the product's highest bits are taken, which alone depend on all of the
/// identity's. (Objects differ in their highest bits, by kind and by unit.)
#[inline]
fn home(identity: u64, slots: usize) -> usize {
    (identity.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - slots.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_keeps_its_number() {
        let mut interner = Interner::new();
        let identities: Vec<u64> = (0..5_000).map(|i: u64| i.wrapping_mul(i) << 20 | i).collect();
        for (number, identity) in identities.iter().enumerate() {
            assert_eq!(interner.number(*identity), (number as u32, true));
        }
        for (number, identity) in identities.iter().enumerate() {
            assert_eq!(interner.number(*identity), (number as u32, false));
        }
    }
}
