//! Messages in the making and messages that are read, for those who ask a system from outside the mesh. Little-endian; texts have their
//! length before them, in two bytes.

use crate::transport::Rank;

/// What came is no message of the system that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is none of the messages of that system: are both programs of one version?")]
pub struct MalformedCall;

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

/// What is left of a message that is read.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedCall> {
        let (head, rest) = self.0.split_first_chunk().ok_or(MalformedCall)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MalformedCall> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MalformedCall> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, MalformedCall> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, MalformedCall> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MalformedCall),
        }
    }

    pub(crate) fn some_u64(&mut self) -> Result<Option<u64>, MalformedCall> {
        let there = self.flag()?;
        Ok(Some(self.u64()?).filter(|_| there))
    }

    pub(crate) fn rank(&mut self) -> Result<Rank, MalformedCall> {
        Rank::new(self.u32()?).ok_or(MalformedCall)
    }

    pub(crate) fn text(&mut self) -> Result<String, MalformedCall> {
        let len = usize::from(u16::from_le_bytes(self.array()?));
        let (text, rest) = self.0.split_at_checked(len).ok_or(MalformedCall)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| MalformedCall)
    }

    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    /// So many things, each of which has at least so many bytes: no memory is taken for more than there can be.
    pub(crate) fn list<T>(
        &mut self,
        shortest: usize,
        one: impl Fn(&mut Self) -> Result<T, MalformedCall>,
    ) -> Result<Vec<T>, MalformedCall> {
        let count = self.u32()? as usize;
        if count > self.0.len() / shortest {
            return Err(MalformedCall);
        }
        (0..count).map(|_| one(self)).collect()
    }

    /// The message, if all of it was read.
    pub(crate) fn end<T>(self, message: T) -> Result<T, MalformedCall> {
        self.0.is_empty().then_some(message).ok_or(MalformedCall)
    }
}
