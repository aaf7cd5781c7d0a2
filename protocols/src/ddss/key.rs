//! Keys: all that a node needs to use a segment, which nodes pass on to each other (ddss.txt, 5.9: a unique key that can be shared).

use super::parties::Party;
use super::{Model, Name, Spec};
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// Where a segment is and what it is. Whoever has its key can use the segment: keys guard against accidents, not against malice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) home: Rank,
    /// The home's incarnation: what an earlier one kept is gone, and its place means nothing in the next.
    pub(super) incarnation: u64,
    pub(super) name: Name,
    pub(super) spec: Spec,
    pub(super) at: Place,
}

/// Where its home keeps a segment. Memory is used again, and some adapters give a key out again as soon as it is revoked: the number tells
/// the segment from all others that this incarnation of the home has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub memory: RemoteSlice,
    pub number: u64,
}

/// What tells a segment from all others that a node may know: its name, its home's incarnation, and its number there.
pub(super) type Id = (Name, u64, u64);

/// Where a segment is to be kept (5.5, 5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On the next node each time, of the members where nodes agree on who is alive.
    #[default]
    RoundRobin,
    /// On the node that asks.
    Local,
    /// On this node.
    On(Rank),
}

impl Key {
    /// The length of its bytes.
    pub const BYTES: usize = 4 + 8 + 9 + 8 + Place::BYTES;

    /// The incarnation of the node that keeps the segment.
    pub(super) fn party(&self) -> Party {
        Party { rank: self.home, incarnation: self.incarnation }
    }

    /// The node that keeps the segment.
    pub fn home(&self) -> Rank {
        self.home
    }

    /// What the segment is.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// What tells its segment from all others, also from those that have had its name.
    pub(super) fn id(&self) -> Id {
        (self.name, self.incarnation, self.at.number)
    }

    /// Its bytes, to be passed on: little-endian.
    pub fn to_bytes(&self) -> [u8; Key::BYTES] {
        let mut bytes = [0; Key::BYTES];
        let (code, parameter) = self.spec.model.code();
        bytes[..4].copy_from_slice(&self.home.get().to_le_bytes());
        bytes[4..12].copy_from_slice(&self.name.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.spec.size.to_le_bytes());
        bytes[16] = code;
        bytes[17..21].copy_from_slice(&parameter.to_le_bytes());
        bytes[21..29].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[29..].copy_from_slice(&self.at.to_bytes());
        bytes
    }

    /// Reads bytes; none if they are no key.
    pub fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let bytes: &[u8; Key::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let model = Model::from_code(bytes[16], word(17))?;
        Some(Key {
            home: Rank::new(word(0))?,
            incarnation: long(21),
            name: Name(long(4)),
            spec: Spec { size: word(12), model },
            at: Place::from_bytes(bytes[29..].try_into().ok()?),
        })
    }
}

impl Place {
    pub const BYTES: usize = 16 + 8;

    /// Its bytes, little-endian.
    pub fn to_bytes(self) -> [u8; Place::BYTES] {
        let mut bytes = [0; Place::BYTES];
        bytes[..16].copy_from_slice(&self.memory.to_bytes());
        bytes[16..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; Place::BYTES]) -> Place {
        let (memory, number) = (std::array::from_fn(|n| bytes[n]), std::array::from_fn(|n| bytes[16 + n]));
        Place { memory: RemoteSlice::from_bytes(memory), number: u64::from_le_bytes(number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_bytes_and_nothing_shorter_or_unknown_is_one() {
        let key = Key {
            home: Rank::from_index(3),
            incarnation: 1 << 50 | 5,
            name: Name(1 << 63 | 77),
            spec: Spec { size: 64, model: Model::Delta(4) },
            at: Place { memory: RemoteSlice { addr: 1 << 40, len: 99, rkey: 7 }, number: 1 << 33 | 2 },
        };
        let bytes = key.to_bytes();
        assert_eq!(Key::from_bytes(&bytes), Some(key));
        assert_eq!(Key::from_bytes(&bytes[1..]), None);
        let mut wrong = bytes;
        wrong[16] = 99;
        assert_eq!(Key::from_bytes(&wrong), None, "there is no such model");
        assert_eq!(Key::from_bytes(&[0; Key::BYTES]), None, "no node has rank 0");
    }
}
