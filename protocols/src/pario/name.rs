//! Names of files, and handles.

use super::FsError;
use std::fmt;

/// A file's name in its directory: 1 to 255 bytes of UTF-8, as on most file systems.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 255;

    /// A name, if it can be one.
    pub fn new(name: &str) -> Option<Name> {
        let none = name.is_empty() || name.len() > Name::LONGEST || name == "." || name == "..";
        (!none && !name.contains(['/', '\0'])).then(|| Name(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn checked(name: &str) -> Result<Name, FsError> {
        // What is refused is told, but not at any length.
        let told = || name.chars().take(64).collect();
        Name::new(name).ok_or_else(|| FsError::Name(told()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A file, as servers know it. No two files of a cluster ever have the same handle (PVFS2 uses handles again).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

impl Handle {
    /// The `n`-th handle that a server gives out, from 0.
    pub(super) const fn of(server: u16, n: u64) -> Handle {
        Handle((server as u64) << 48 | (n + 1))
    }

    /// How many handles its server had given out with it.
    pub(super) const fn number(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_step_of_a_path_and_no_longer_than_255_bytes() {
        let long = "x".repeat(256);
        for none in ["", ".", "..", "a/b", "a\0", &long] {
            assert!(matches!(Name::checked(none), Err(FsError::Name(told)) if told.len() <= 64), "{none:?}");
        }
        for name in ["a", "...", "\u{fc}ber", &long[..255]] {
            assert_eq!(Name::new(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
    }
}
