//! Which ranges of a node's memory belong to segments (ddss.txt, 5.2: memory is allocated in large chunks, and segments are
//! cut out of them): first fit, and free neighbours become one. A state machine without memory.

use std::collections::BTreeMap;

/// A range of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Block {
    /// Which of the node's arenas.
    pub arena: usize,
    /// Its first byte there.
    pub at: u32,
    /// Its length in bytes, a multiple of [`Block::UNIT`].
    pub len: u32,
}

impl Block {
    /// Blocks begin at multiples of this and are as long: a cache line, so that two segments share none.
    pub const UNIT: u32 = 64;

    /// The length of a block for so many bytes.
    pub fn len_for(bytes: u32) -> Option<u32> {
        bytes.max(1).checked_next_multiple_of(Block::UNIT)
    }
}

/// What a node's memory for segments is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Segments that are kept.
    pub segments: u64,
    /// Bytes that the node has taken for segments, in use or not.
    pub held: u64,
    /// Bytes that belong to no segment.
    pub free: u64,
    /// In how many pieces those are: 1 is none but whole.
    pub pieces: u64,
    /// The longest of these pieces, in bytes. What is longer takes new memory.
    pub longest: u64,
}

impl Holdings {
    /// The share of the free bytes that is not in the longest piece, in thousandths: 0 is not fragmented at all.
    pub fn fragmented(&self) -> u64 {
        (self.free - self.longest) * 1_000 / self.free.max(1)
    }
}

/// The blocks of a node.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The length of each arena, by its number.
    arenas: BTreeMap<usize, u32>,
    /// For each arena that has some the free ranges: first byte and length. Neighbours are one.
    free: BTreeMap<usize, BTreeMap<u32, u32>>,
    /// How many arenas there have been.
    added: usize,
}

impl Pool {
    /// The first free range that is long enough, or none: then an arena is [to be added](Pool::add).
    pub fn take(&mut self, len: u32) -> Option<Block> {
        let fits = |(_, found): &(&u32, &u32)| **found >= len;
        let mut arenas = self.free.iter();
        let (arena, at, found) = arenas
            .find_map(|(arena, free)| free.iter().find(fits).map(|(at, found)| (*arena, *at, *found)))?;
        let free = self.free.get_mut(&arena)?;
        free.remove(&at);
        if found > len {
            free.insert(at + len, found - len);
        } else if free.is_empty() {
            self.free.remove(&arena);
        }
        Some(Block { arena, at, len })
    }

    /// An arena of so many bytes, all free, a multiple of [`Block::UNIT`]: its number.
    pub fn add(&mut self, len: u32) -> usize {
        let arena = self.added;
        self.added += 1;
        self.arenas.insert(arena, len);
        self.free.insert(arena, BTreeMap::from([(0, len)]));
        arena
    }

    /// A block is free again, and one with its free neighbours.
    pub fn give_back(&mut self, Block { arena, at, len }: Block) {
        if !self.arenas.contains_key(&arena) {
            return;
        }
        let free = self.free.entry(arena).or_default();
        let (mut at, mut len) = (at, len);
        if let Some((&before, &its)) = free.range(..at).next_back()
            && before + its == at
        {
            free.remove(&before);
            (at, len) = (before, its + len);
        }
        if let Some(its) = free.remove(&(at + len)) {
            len += its;
        }
        free.insert(at, len);
    }

    /// Forgets an arena that is longer than this and has no block in use. Says whether it was one.
    pub fn drop_if_free(&mut self, arena: usize, longer_than: u32) -> bool {
        let len = self.arenas.get(&arena).copied().filter(|len| *len > longer_than);
        let whole = self.free.get(&arena).and_then(|free| free.get(&0)).copied();
        let is_free = len.is_some() && len == whole;
        if is_free {
            self.arenas.remove(&arena);
            self.free.remove(&arena);
        }
        is_free
    }

    /// What is free, without the number of segments.
    pub fn holdings(&self) -> Holdings {
        let held = self.arenas.values().map(|len| u64::from(*len)).sum();
        let pieces = self.free.values().flat_map(BTreeMap::values).map(|len| u64::from(*len));
        pieces.fold(Holdings { held, ..Holdings::default() }, |sum, len| Holdings {
            free: sum.free + len,
            pieces: sum.pieces + 1,
            longest: sum.longest.max(len),
            ..sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(at: u32, len: u32) -> Block {
        Block { arena: 0, at, len }
    }

    #[test]
    fn the_first_range_that_fits_is_taken_and_free_neighbours_become_one() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(64), None);
        pool.add(1_024);
        let [a, b, c] = [256, 128, 256].map(|len| pool.take(len).expect("room"));
        assert_eq!([a, b, c], [block(0, 256), block(256, 128), block(384, 256)]);
        pool.give_back(a);
        assert_eq!(pool.take(320), Some(block(640, 320)), "the first hole is too short");
        assert_eq!(pool.take(64), Some(block(0, 64)), "and is the first that fits");
        let whole = Holdings { held: 1_024, free: 256, pieces: 2, longest: 192, segments: 0 };
        assert_eq!((pool.holdings(), whole.fragmented()), (whole, 250));
        pool.give_back(c);
        pool.give_back(b);
        assert_eq!(pool.take(576), Some(block(64, 576)), "three neighbours");
        assert_eq!(pool.take(128), None);
        pool.add(128);
        assert_eq!(pool.take(128), Some(Block { arena: 1, at: 0, len: 128 }));
    }

    #[test]
    fn a_long_arena_goes_with_its_last_block_and_its_number_does_not_come_back() {
        let mut pool = Pool::default();
        assert_eq!((pool.add(1_024), pool.add(256)), (0, 1));
        let [a, b] = [512, 512].map(|len| pool.take(len).expect("room"));
        pool.give_back(b);
        assert!(!pool.drop_if_free(0, 256), "a block is in use");
        pool.give_back(a);
        assert!(!pool.drop_if_free(0, 1_024), "it is no longer than that");
        assert!(pool.drop_if_free(0, 256) && !pool.drop_if_free(0, 256));
        assert_eq!(pool.holdings(), Holdings { held: 256, free: 256, pieces: 1, longest: 256, segments: 0 });
        pool.give_back(b);
        assert_eq!((pool.holdings().free, pool.add(512)), (256, 2));
    }

    proptest! {
        #[test]
        fn blocks_never_overlap_and_all_that_is_given_back_is_one_piece_again(
            steps in prop::collection::vec((any::<bool>(), 1u32..2_000, any::<prop::sample::Index>()), 1..200)
        ) {
            let (mut pool, mut taken) = (Pool::default(), Vec::<Block>::new());
            let mut arenas = 0;
            for (takes, bytes, which) in steps {
                if takes {
                    let len = Block::len_for(bytes).expect("it is short");
                    let block = pool.take(len).unwrap_or_else(|| {
                        pool.add(8_192);
                        arenas += 1;
                        pool.take(len).expect("an arena has room")
                    });
                    let apart = |other: &Block| {
                        other.arena != block.arena || other.at + other.len <= block.at || block.at + block.len <= other.at
                    };
                    prop_assert!(taken.iter().all(apart) && block.at + block.len <= 8_192);
                    taken.push(block);
                } else if !taken.is_empty() {
                    pool.give_back(taken.swap_remove(which.index(taken.len())));
                }
                let used: u64 = taken.iter().map(|block| u64::from(block.len)).sum();
                prop_assert_eq!(pool.holdings().free, pool.holdings().held - used);
            }
            taken.drain(..).for_each(|block| pool.give_back(block));
            prop_assert_eq!(pool.holdings().pieces, arenas);
        }
    }
}
