//! The lock's word: `[exclusive: 32 | shared: 32]` (ncosed.txt, 3.2, "Global Shared Data-Structures").

use crate::transport::Rank;
use std::fmt;

/// The value of a lock's word.
///
/// The upper half is the rank of the last node in the exclusive queue, or zero; the lower half counts the
/// shared requests since that node entered (or since the home last reset the word).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    /// Nobody holds or waits.
    pub(crate) const FREE: Word = Word(0);

    /// Of a word that was given up: a tail that no node has. The shared half starts at zero, so that 2^32
    /// stragglers would have to add to it before it stopped being recognisable.
    pub(crate) const POISON: Word = Word(0xffff_ffff_0000_0000);

    /// What one shared request adds.
    pub(crate) const ONE_SHARED: u64 = 1;

    /// Nobody in the exclusive queue, and `shared` shared requests.
    pub(crate) const fn shared_only(shared: u32) -> Word {
        Word(shared as u64)
    }

    /// `tail` is last in the exclusive queue, and `shared` shared requests came after it.
    pub(crate) const fn behind(tail: Rank, shared: u32) -> Word {
        Word((tail.get() as u64) << 32 | shared as u64)
    }

    /// The last node of the exclusive queue.
    pub(crate) const fn tail(self) -> Option<Rank> {
        Rank::new((self.0 >> 32) as u32)
    }

    /// The count of shared requests.
    pub(crate) const fn shared(self) -> u32 {
        self.0 as u32
    }

    /// Whether the word was given up.
    pub(crate) const fn is_poisoned(self) -> bool {
        self.0 >> 32 == Word::POISON.0 >> 32
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 32, self.shared())
    }
}

/// For people, who count nodes from 0: `free`, `n2 last, 3 shared`, `given up`.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tail(), self.shared()) {
            _ if self.is_poisoned() => f.write_str("given up"),
            (None, 0) => f.write_str("free"),
            (None, shared) => write!(f, "{shared} shared"),
            (Some(tail), 0) => write!(f, "n{} last", tail.index()),
            (Some(tail), shared) => write!(f, "n{} last, {shared} shared", tail.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_do_not_mix() {
        let rank = Rank::new(7).unwrap();
        let word = Word::behind(rank, 3);
        assert_eq!((word.tail(), word.shared()), (Some(rank), 3));
        assert_eq!(Word(word.0 + Word::ONE_SHARED), Word::behind(rank, 4));
        assert_eq!(Word::shared_only(5).tail(), None);
        assert_eq!(Word::FREE, Word::shared_only(0));
        assert_eq!(format!("{word:?}"), "7:3");
    }

    #[test]
    fn a_word_says_who_is_last_in_the_queue_and_how_many_share() {
        let tail = Rank::from_index(2);
        let words =
            [Word::FREE, Word::shared_only(2), Word::behind(tail, 0), Word::behind(tail, 3), Word::POISON];
        let said = ["free", "2 shared", "n2 last", "n2 last, 3 shared", "given up"];
        assert_eq!(words.map(|word| word.to_string()), said);
    }

    #[test]
    fn a_poisoned_word_stays_recognisable_under_late_additions() {
        assert!(Word::POISON.is_poisoned());
        assert!(Word(Word::POISON.0 + 1_000 * Word::ONE_SHARED).is_poisoned());
        assert!(!Word::FREE.is_poisoned());
    }
}
