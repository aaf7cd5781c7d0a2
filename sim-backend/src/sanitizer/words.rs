//! Words under atomics, and who touched them last.

use super::Party;
use std::ops::Range;

/// An atomic as it was executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    /// The queue pair that it came by, at the word's adapter, and which of its lives.
    pub qp: u16,
    pub incarnation: u32,
    /// Whose it was.
    pub party: Party,
}

/// A word that was once the target of an atomic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    at: u64,
    /// The last atomic, and the last one that came by another queue pair than that.
    pub last: Executed,
    pub other: Option<Executed>,
}

/// The words under atomics of a region, by offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Vec<Word>);

const WORD: u64 = 8;

impl Words {
    /// An atomic was executed on the word at `at`.
    pub fn touch(&mut self, at: u64, by: Executed) {
        match self.0.binary_search_by_key(&at, |word| word.at) {
            Ok(place) => {
                let word = &mut self.0[place];
                if word.last.qp != by.qp {
                    word.other = Some(word.last);
                }
                word.last = by;
            }
            Err(place) => self.0.insert(place, Word { at, last: by, other: None }),
        }
    }

    /// The words that share a byte with a range.
    #[inline]
    pub fn within(&self, range: Range<u64>) -> &[Word] {
        if self.0.is_empty() { &[] } else { self.search(range) }
    }

    fn search(&self, range: Range<u64>) -> &[Word] {
        let first = self.0.partition_point(|word| word.at + WORD <= range.start);
        let end = self.0.partition_point(|word| word.at < range.end);
        self.0.get(first..end).unwrap_or(&[])
    }
}

impl Word {
    /// Its bytes.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + WORD
    }
}
