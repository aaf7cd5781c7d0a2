//! An archive as the kernel unpacks it for an initial file system: `newc` (Linux, `early-userspace/buffer-format`).

use std::collections::BTreeSet;

/// An archive that grows.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    paths: BTreeSet<String>,
}

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

impl Archive {
    /// Whether a path is in it. A second entry of a path would overwrite the first, through links as well.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// A directory, with those above it.
    pub(crate) fn directory(&mut self, path: &str) {
        if path.is_empty() || self.has(path) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above);
        }
        self.entry(path, DIRECTORY, &[]);
    }

    /// A file that can be executed, in directories that are made as needed. Paths have no leading slash.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.parents(path);
        self.entry(path, PROGRAM, content);
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.parents(path);
        self.entry(path, LINK, to.as_bytes());
    }

    fn parents(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        if self.paths.insert(path.to_string()) {
            self.write(path, mode, content);
        }
    }

    fn write(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let (inode, size, name) = (self.inode, content.len(), path.len() + 1);
        // Inode, mode, user, group, links, time, size, device and rdevice (major, minor), name's length, checksum.
        let fields = [inode, mode, 0, 0, 1, 0, size as u32, 0, 0, 0, 0, name as u32, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The archive's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.write("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_each_path_once_and_is_aligned() {
        let mut archive = Archive::default();
        archive.file("usr/bin/a", b"12345");
        archive.file("usr/bin/b", b"");
        archive.file("usr/bin/a", b"other");
        archive.link("bin/sh", "busybox");
        assert!(archive.has("usr") && archive.has("usr/bin") && archive.has("bin/sh"));
        let bytes = archive.finish();
        let count = |text: &[u8]| bytes.windows(text.len()).filter(|w| *w == text).count();
        assert_eq!((count(b"070701"), count(b"usr/bin/a\0"), count(b"other")), (7, 1, 0));
        assert_eq!(bytes.len() % 4, 0);
    }
}
