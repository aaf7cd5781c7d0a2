//! A segment's header: the word that says which value is the published one.

/// Which version is published, and in which slot it stands: one word, so that one compare-and-swap publishes both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// How many values were published: 48 bits, which no cluster uses up.
    pub version: u64,
    /// The slot of the value.
    pub slot: u16,
}

impl Header {
    /// The word.
    pub const fn word(self) -> u64 {
        self.version << 16 | self.slot as u64
    }

    /// What a word says.
    pub const fn from_word(word: u64) -> Header {
        Header { version: word >> 16, slot: word as u16 }
    }

    /// The header that publishes a slot next.
    #[must_use]
    pub const fn next(self, slot: u16) -> Header {
        Header { version: self.version + 1, slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_its_word_and_the_next_one_is_another() {
        for header in [Header::default(), Header { version: 1 << 40, slot: u16::MAX }] {
            assert_eq!(Header::from_word(header.word()), header);
            assert_ne!(header.next(header.slot).word(), header.word());
        }
    }
}
