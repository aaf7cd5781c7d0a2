//! What is told of a file beside its bytes. Servers keep it; whoever mounts the files heeds it.

use super::{Distribution, Handle};

/// What a file has beside its bytes. Servers have no clock that others know: times are what clients say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Who may do what, as POSIX has it: the lowest twelve bits. Default: 0o644, of a directory 0o755.
    pub mode: u32,
    /// Whose it is, by number. Default: 0.
    pub owner: u32,
    /// Which group's it is, by number. Default: 0.
    pub group: u32,
    /// When it was changed last, in nanoseconds since 1970, as a client said. Default: 0.
    pub modified: u64,
}

impl Attributes {
    /// Of a file of which nobody has said anything.
    pub const FILE: Attributes = Attributes { mode: 0o644, owner: 0, group: 0, modified: 0 };
    /// Of all directories.
    pub const DIRECTORY: Attributes = Attributes { mode: 0o755, ..Attributes::FILE };
}

/// What of a file's [`Attributes`] is to be otherwise: what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetAttributes {
    /// See [`Attributes::mode`].
    pub mode: Option<u32>,
    /// See [`Attributes::owner`].
    pub owner: Option<u32>,
    /// See [`Attributes::group`].
    pub group: Option<u32>,
    /// See [`Attributes::modified`].
    pub modified: Option<u64>,
}

impl SetAttributes {
    /// What comes of attributes by it.
    pub(super) fn of(self, before: Attributes) -> Attributes {
        Attributes {
            mode: self.mode.map_or(before.mode, |mode| mode & 0o7777),
            owner: self.owner.unwrap_or(before.owner),
            group: self.group.unwrap_or(before.group),
            modified: self.modified.unwrap_or(before.modified),
        }
    }
}

/// What is told of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The file's handle and its distribution; none if it is a directory.
    pub file: Option<(Handle, Distribution)>,
    /// A file's bytes: exact while nobody writes.
    pub size: u64,
    /// What it has beside them.
    pub attributes: Attributes,
}
