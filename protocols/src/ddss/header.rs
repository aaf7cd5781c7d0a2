//! A segment's header: the word that says which value is the published one, and who has the segment's lock.

use crate::transport::Rank;
use std::fmt;

/// Which version is published, in which slot it stands, and which node has the lock: one word, so that one compare-and-swap
/// publishes a version with its data, and only where nobody else has the lock or a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// How many values were published: 39 bits. A put to a segment that has used them up is refused.
    pub version: u64,
    /// The node that has the lock: its rank; 0 for nobody. 11 bits.
    pub holder: u16,
    /// Whether only the node may change the header whose turn it is by the home's line. 1 bit.
    pub marked: bool,
    /// The slot of the value: 13 bits.
    pub slot: u16,
}

const MARK: u64 = 1 << 13;
/// Bits of the slot, and the mark.
const SLOT_BITS: u32 = 14;
const HOLDER_BITS: u32 = 11;

impl Header {
    /// The last version.
    pub const LAST: u64 = (1 << (64 - SLOT_BITS - HOLDER_BITS)) - 1;
    /// Most nodes.
    pub const NODES: u32 = (1 << HOLDER_BITS) - 1;
    /// Most slots of a segment.
    pub const SLOTS: u32 = MARK as u32;

    /// The word.
    pub const fn word(self) -> u64 {
        let mark = if self.marked { MARK } else { 0 };
        self.version << (SLOT_BITS + HOLDER_BITS)
            | (self.holder as u64) << SLOT_BITS
            | mark
            | self.slot as u64
    }

    /// What a word says.
    pub const fn from_word(word: u64) -> Header {
        Header {
            version: word >> (SLOT_BITS + HOLDER_BITS),
            holder: (word >> SLOT_BITS) as u16 & ((1 << HOLDER_BITS) - 1),
            marked: word & MARK != 0,
            slot: (word & (MARK - 1)) as u16,
        }
    }

    /// The header that publishes a slot next. The lock stays with whom it is.
    #[must_use]
    pub const fn next(self, slot: u16) -> Header {
        Header { version: self.version + 1, slot, ..self }
    }

    /// Whether a node has the lock.
    pub(super) fn is_held_by(self, node: Rank) -> bool {
        u32::from(self.holder) == node.get()
    }

    /// The header while a node has the lock.
    #[must_use]
    pub(super) fn held_by(self, node: Rank) -> Header {
        Header { holder: node.get() as u16, ..self }
    }

    /// The node that has the lock.
    pub(super) fn holder(self) -> Option<Rank> {
        Rank::new(self.holder.into())
    }

    /// The header while nobody has the lock.
    #[must_use]
    pub(super) const fn free(self) -> Header {
        Header { holder: 0, ..self }
    }

    /// The header with the mark, or without it.
    #[must_use]
    pub(super) const fn marked(self, marked: bool) -> Header {
        Header { marked, ..self }
    }

    /// Whether it has the mark.
    pub(super) const fn is_marked(self) -> bool {
        self.marked
    }

    /// Whether a node without a turn may change it: nobody has the lock, and nobody waits.
    pub(super) const fn is_free(self) -> bool {
        self.holder == 0 && !self.marked
    }

    /// Whether both publish the same value.
    pub(super) const fn publishes_as(self, other: Header) -> bool {
        self.version == other.version && self.slot == other.slot
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} in slot {}", self.version, self.slot)?;
        if let Some(holder) = self.holder() {
            write!(f, ", locked by n{}", holder.index())?;
        }
        if self.marked { f.write_str(", by turns") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_its_word_and_the_next_one_is_another() {
        let most = Header { version: Header::LAST, holder: 2_047, marked: true, slot: 8_191 };
        for header in
            [Header::default(), Header { version: 1 << 38, holder: 1_024, marked: false, slot: 9 }, most]
        {
            assert_eq!(Header::from_word(header.word()), header);
        }
        let header = Header { version: 7, holder: 3, marked: true, slot: 5 };
        assert_ne!(header.next(header.slot).word(), header.word());
        assert!(!header.is_free() && header.free().marked(false).is_free());
        assert_eq!(header.held_by(Rank::from_index(0)).free().word(), Header { holder: 0, ..header }.word());
    }
}
