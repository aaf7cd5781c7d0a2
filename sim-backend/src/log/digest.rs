//! A digest of a sequence of events.

use std::fmt;
use std::hash::Hasher;

/// A 64-bit running digest: eight bytes a step, a multiplication and a rotation each.
///
/// Events come either as values, by [`Hasher`], or as text, by [`fmt::Write`] and [`Digest::end_text`]; however the
/// text comes in pieces, it counts as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest {
    state: u64,
    /// Bytes of a text that do not fill a word yet, and how many bytes it has so far.
    partial: u64,
    length: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest { state: 0x9e37_79b9_7f4a_7c15, partial: 0, length: 0 }
    }
}

impl Digest {
    pub(super) fn value(&self) -> u64 {
        self.state
    }

    #[inline]
    pub(super) fn mix(&mut self, word: u64) {
        // The product's two halves folded together, so that high bits reach low ones.
        let product = u128::from(self.state.rotate_left(23) ^ word) * 0xd6e8_feb8_6659_fd93_u128;
        self.state = (product as u64) ^ (product >> 64) as u64 ^ 0x2545_f491_4f6c_dd1d;
    }

    /// The text that was written ends here.
    pub(super) fn end_text(&mut self) {
        let (partial, length) = (std::mem::take(&mut self.partial), std::mem::take(&mut self.length));
        self.mix(partial);
        self.mix(length);
    }
}

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let place = self.length % 8;
            self.partial |= u64::from(byte) << (8 * place);
            self.length += 1;
            if place == 7 {
                let word = std::mem::take(&mut self.partial);
                self.mix(word);
            }
        }
        Ok(())
    }
}

/// For `derive(Hash)`: each value is a word.
impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.mix(value.into());
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.mix(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
