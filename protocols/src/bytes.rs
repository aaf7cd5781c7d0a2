//! Messages in the making, and messages that are read. Little-endian; texts have their length before them, in two bytes.
//!
//! Systems add what their messages are made of, beside their messages.

use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// What came from outside the mesh is no message of the system that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is none of the messages of that system: are both programs of one version?")]
pub struct MalformedCall;

/// What is said of a call from outside the mesh that took too long, and of what it was to change: one that only looks does nothing.
pub(crate) fn unknown(changes: bool) -> &'static str {
    if changes { ", and nobody knows what they did" } else { "" }
}

/// Whether a text of somebody outside the mesh may be kept and shown: it has at most so many bytes, and none that no terminal should be sent.
pub(crate) fn can_be_shown(text: &str, longest: usize) -> bool {
    text.len() <= longest && !text.contains(char::is_control)
}

/// The longest text, in bytes.
pub(crate) const LONGEST_TEXT: usize = 1_024;

/// A message in the making.
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn u32(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    /// A word that may not be there.
    pub(crate) fn some_u64(&mut self, word: Option<u64>) {
        self.u8(word.is_some().into());
        self.u64(word.unwrap_or(0));
    }

    /// A text.
    ///
    /// # Panics
    ///
    /// If it is longer than [`LONGEST_TEXT`].
    pub(crate) fn text(&mut self, text: &str) {
        assert!(text.len() <= LONGEST_TEXT, "a text of {} bytes", text.len());
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn rest(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// What is left of a message that is read. No length in it is trusted, and what cannot be read is none.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    /// The same of a length that the message says.
    pub(crate) fn split(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A word that may not be there.
    pub(crate) fn some_u64(&mut self) -> Option<Option<u64>> {
        let there = self.flag()?;
        Some(Some(self.u64()?).filter(|_| there))
    }

    pub(crate) fn rank(&mut self) -> Option<Rank> {
        Rank::new(self.u32()?)
    }

    pub(crate) fn slice(&mut self) -> Option<RemoteSlice> {
        self.array().map(RemoteSlice::from_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let len = self.u16()?;
        String::from_utf8(self.split(len.into())?.to_vec()).ok()
    }

    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    /// So many things, each of which has at least so many bytes: no memory is taken for more than there can be.
    pub(crate) fn list<T>(
        &mut self,
        shortest: usize,
        one: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / shortest {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }

    /// The message, if all of it was read.
    pub(crate) fn end<T>(self, message: T) -> Option<T> {
        self.0.is_empty().then_some(message)
    }
}
