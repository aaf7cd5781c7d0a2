//! What a user says of a segment: its name, its size and its coherence model.

use crate::transport::Rank;
use std::fmt;
use std::str::FromStr;

/// A segment's name, the same on all nodes (ddss.txt, 5.9: what allocation is asked for).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u64);

impl Name {
    /// The node that keeps the segment, among so many: round robin by name (5.7).
    pub fn home(self, nodes: u32) -> Rank {
        Rank::from_index((self.0 % u64::from(nodes.max(1))) as u32)
    }
}

/// What a get may return while others put (ddss.txt, 4 and 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// Whatever is there, torn values too: no coordination at all.
    Null,
    /// The latest completed put's value with its version. Who has that version already moves no data.
    Version,
    /// The latest completed put's value.
    Write,
    /// The same; in the paper, gets exclude each other, too.
    Strict,
}

impl Model {
    /// Every model that there is.
    pub const ALL: [Model; 4] = [Model::Null, Model::Version, Model::Write, Model::Strict];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Null => "null",
            Model::Version => "version",
            Model::Write => "write",
            Model::Strict => "strict",
        }
    }

    /// Whether a get may return a mixture of values.
    pub const fn may_tear(self) -> bool {
        matches!(self, Model::Null)
    }

    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Model> {
        Model::ALL.into_iter().find(|model| model.code() == code)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Model {
    type Err = ();

    fn from_str(name: &str) -> Result<Model, ()> {
        Model::ALL.into_iter().find(|model| model.name() == name).ok_or(())
    }
}

/// What a segment is: all who open it say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Its size in bytes, 1 to [`Spec::LARGEST`].
    pub size: u32,
    /// Its coherence model.
    pub model: Model,
}

impl Spec {
    /// The largest segment, in bytes: with its slots it fits into one registered region of common adapters.
    pub const LARGEST: u32 = 1 << 20;

    /// How many slots a segment has among so many nodes: the first value's, and two for each node that puts. Null has one.
    pub const fn slots(self, nodes: u32) -> u32 {
        match self.model {
            Model::Null => 1,
            _ => 1 + 2 * nodes,
        }
    }

    /// The length of a slot: the size, rounded up so that slots begin at words.
    pub const fn stride(self) -> u32 {
        self.size.next_multiple_of(8)
    }

    /// Where a slot begins, behind the header.
    pub const fn slot_at(self, slot: u32) -> u32 {
        8 + slot * self.stride()
    }

    /// The length of the whole segment in memory.
    pub const fn footprint(self, nodes: u32) -> u64 {
        8 + self.slots(nodes) as u64 * self.stride() as u64
    }
}
