//! Names, paths, and handles.

use super::FsError;
use std::borrow::Borrow;
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
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where a file or a directory is: names from the root on, with '/' between them. The root itself is the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Box<str>);

impl Path {
    /// The longest path, in bytes.
    pub const LONGEST: usize = 1_024;

    /// A path, if it can be one: `a/b`, also as `/a/b` or `a/b/`; an empty text and `/` are the root.
    pub fn new(path: &str) -> Option<Path> {
        let inner = path.strip_prefix('/').unwrap_or(path);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let names = inner.is_empty() || inner.split('/').all(|name| Name::new(name).is_some());
        (names && inner.len() <= Path::LONGEST).then(|| Path(inner.into()))
    }

    /// The path as text: empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory that it is in; the root's is the root.
    pub fn parent(&self) -> Path {
        Path(self.0.rsplit_once('/').map_or("", |(parent, _)| parent).into())
    }

    /// The last of its names; none of the root.
    pub fn name(&self) -> Option<Name> {
        Name::new(self.0.rsplit('/').next().unwrap_or_default())
    }

    /// What lies in a directory begins with this.
    pub(super) fn prefix(&self) -> String {
        if self.is_root() { String::new() } else { format!("{}/", self.0) }
    }

    /// Where something of a directory is when that is at another place.
    pub(super) fn moved(&self, from: &Path, to: &Path) -> Path {
        Path([&to.0, &self.0[from.0.len()..]].concat().into())
    }

    /// A path of a file or of a directory that is not the root.
    pub(super) fn checked(path: &str) -> Result<Path, FsError> {
        Path::directory(path).and_then(|path| if path.is_root() { Err(FsError::Root) } else { Ok(path) })
    }

    /// A path, which may be the root.
    pub(super) fn directory(path: &str) -> Result<Path, FsError> {
        // What is refused is told, but not at any length.
        Path::new(path).ok_or_else(|| FsError::Path(path.chars().take(64).collect()))
    }
}

impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a directory has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name there.
    pub name: Name,
    /// Whether it is a directory itself; otherwise it is a file.
    pub is_directory: bool,
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
            assert_eq!(Name::new(none), None, "{none:?}");
        }
        for name in ["a", "...", "\u{fc}ber", &long[..255]] {
            assert_eq!(Name::new(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_path_is_names_and_no_longer_than_1024_bytes() {
        let name = "x".repeat(255);
        let long = [&name[..]; 5].join("/");
        for none in ["a//b", "a//", "///", "a/../b", ".", "a/\0", &long] {
            assert!(
                matches!(Path::directory(none), Err(FsError::Path(told)) if told.len() <= 64),
                "{none:?}"
            );
        }
        for (text, path, parent) in [("a", "a", ""), ("/a/b/", "a/b", "a"), ("a/b/c", "a/b/c", "a/b")] {
            let of = Path::checked(text).expect("a path");
            assert_eq!((of.as_str(), of.parent().as_str()), (path, parent));
            assert_eq!(of.name().map(|name| name.to_string()).as_deref(), path.rsplit('/').next());
        }
        for root in ["", "/"] {
            assert_eq!(Path::checked(root), Err(FsError::Root));
            assert!(Path::directory(root).expect("the root").name().is_none());
        }
    }
}
