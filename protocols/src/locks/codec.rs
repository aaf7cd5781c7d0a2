//! The bytes of lock messages: what their encodings have in common.
//!
//! Every message begins with the same twelve bytes: the encoding's version, the scheme, the kind of message,
//! a zero, and the lock's key. All numbers are little-endian. A message is exactly as long as its kind says.

use super::{LockKey, Scheme};
use crate::transport::Rank;
use thiserror::Error;
use weft_verbs::RemoteSlice;

/// The version of every encoding in this crate. Nodes of different versions do not mix.
pub(crate) const VERSION: u8 = 1;

/// No message is longer, in bytes.
pub(crate) const LONGEST: usize = 40;

/// No message with the stamp of a view behind it is longer, in bytes.
pub(crate) const STAMPED: usize = LONGEST + 8;

/// A message and the stamp of its view.
pub(crate) fn split_stamp(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let (message, stamp) = bytes.split_last_chunk()?;
    Some((message, u64::from_le_bytes(*stamp)))
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("it ends too early")]
    TooShort,
    #[error("{0} bytes follow its end")]
    TooLong(usize),
    #[error("version {0}")]
    Version(u8),
    #[error("of another scheme ({0})")]
    Scheme(u8),
    #[error("no message is of kind {0}")]
    Kind(u8),
    #[error("about sharing, which its scheme does not know")]
    Sharing,
    #[error("{0} has a value that it cannot have")]
    Value(&'static str),
}

const fn number(scheme: Scheme) -> u8 {
    match scheme {
        Scheme::Srsl => 1,
        Scheme::Ncosed => 2,
        Scheme::Dqnl => 3,
    }
}

/// A message as bytes, kept without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded {
    bytes: [u8; STAMPED],
    len: usize,
}

impl Encoded {
    pub(crate) fn new(scheme: Scheme, kind: u8, key: LockKey) -> Encoded {
        Encoded { bytes: [0; STAMPED], len: 0 }.u8(VERSION).u8(number(scheme)).u8(kind).u8(0).u64(key.0)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(mut self, bytes: &[u8]) -> Encoded {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    pub(crate) fn u8(self, n: u8) -> Encoded {
        self.put(&[n])
    }

    pub(crate) fn u32(self, n: u32) -> Encoded {
        self.put(&n.to_le_bytes())
    }

    pub(crate) fn u64(self, n: u64) -> Encoded {
        self.put(&n.to_le_bytes())
    }

    /// Zero is nobody.
    pub(crate) fn rank(self, rank: Option<Rank>) -> Encoded {
        self.u32(rank.map_or(0, Rank::get))
    }

    pub(crate) fn slice(self, slice: RemoteSlice) -> Encoded {
        self.put(&slice.to_bytes())
    }
}

/// Takes a message apart.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks the header and hands out the kind and the lock.
    pub(crate) fn open(scheme: Scheme, bytes: &'a [u8]) -> Result<(Reader<'a>, u8, LockKey), Malformed> {
        let mut reader = Reader(bytes);
        match reader.u8()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        match reader.u8()? {
            n if n == number(scheme) => {}
            other => return Err(Malformed::Scheme(other)),
        }
        let kind = reader.u8()?;
        if reader.u8()? != 0 {
            return Err(Malformed::Value("the reserved byte"));
        }
        let key = LockKey(reader.u64()?);
        Ok((reader, kind, key))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    pub(crate) fn rank(&mut self) -> Result<Option<Rank>, Malformed> {
        Ok(Rank::new(self.u32()?))
    }

    /// The place of an aligned 64-bit word.
    pub(crate) fn word(&mut self) -> Result<RemoteSlice, Malformed> {
        let slice = RemoteSlice::from_bytes(self.take()?);
        let is_word = slice.len == 8 && slice.addr.is_multiple_of(8);
        if is_word { Ok(slice) } else { Err(Malformed::Value("the place of a word")) }
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Malformed::TooLong(left)),
        }
    }
}
