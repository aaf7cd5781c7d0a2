//! A directory that was opened once, and its files by their names.
//!
//! A path may lead elsewhere later: the directory is moved, or another file system is mounted over it. A server that looked for its
//! objects by the path would then take those that it has for none, answer with zeros, and lose what it makes there. So nothing here
//! asks for the path again.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::retry_on_intr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Folder(File);

impl Folder {
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?.into()))
    }

    /// Opens a file. If that makes it, no other user may read it.
    pub(crate) fn file(&self, name: &str, how: OFlags) -> io::Result<File> {
        let how = how | OFlags::CLOEXEC;
        Ok(retry_on_intr(|| openat(&self.0, name, how, Mode::RUSR | Mode::WUSR))?.into())
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// How many bytes a file has.
    pub(crate) fn size(&self, name: &str) -> io::Result<u64> {
        Ok(statat(&self.0, name, AtFlags::empty())?.st_size as u64)
    }

    /// The names of what is in it, in any order.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let names = Dir::read_from(&self.0)?.map(|entry| match entry {
            Ok(entry) => Ok(OsString::from_vec(entry.file_name().to_bytes().to_vec())),
            Err(why) => Err(why.into()),
        });
        Ok(names.filter(|name| !matches!(name, Ok(name) if name == "." || name == "..")))
    }

    /// Makes durable which files are in it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Waits until nobody else has it locked.
    pub(crate) fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }
}
