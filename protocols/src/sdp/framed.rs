//! A user's bytes on their way into a message: copied once, from where they are to where the adapter reads them.

use crate::transport::Content;
use std::ops::Range;

/// Bytes that are to be copied into messages.
pub(super) trait Bytes {
    /// Hands on so many of them, from a place on.
    fn put(&self, at: usize, len: usize, to: &mut dyn FnMut(&[u8]));
}

impl Bytes for &[u8] {
    fn put(&self, at: usize, len: usize, to: &mut dyn FnMut(&[u8])) {
        to(&self[at..at + len]);
    }
}

/// Bytes in several places, one after the other.
impl Bytes for &[&[u8]] {
    fn put(&self, at: usize, len: usize, to: &mut dyn FnMut(&[u8])) {
        let (mut skip, mut left) = (at, len);
        for part in self.iter() {
            let skipped = skip.min(part.len());
            let n = left.min(part.len() - skipped);
            to(&part[skipped..skipped + n]);
            (skip, left) = (skip - skipped, left - n);
        }
    }
}

/// A message's head, and what of a user's bytes follows it.
pub(super) struct Framed<'a, B> {
    pub head: &'a [u8],
    pub parts: &'a B,
    pub range: Range<usize>,
}

impl<B: Bytes> Content for Framed<'_, B> {
    fn len(&self) -> usize {
        self.head.len() + self.range.len()
    }

    fn put(&self, to: &mut dyn FnMut(&[u8])) {
        to(self.head);
        if !self.range.is_empty() {
            self.parts.put(self.range.start, self.range.len(), to);
        }
    }
}
