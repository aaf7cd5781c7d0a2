//! A directory that was opened once, and its files by their names.
//!
//! A path may lead elsewhere later: the directory is moved, or another file system is mounted over it. A server that looked for its
//! objects by the path would then take those that it has for none, answer with zeros, and lose what it makes there. So nothing here
//! asks for the path again.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::retry_on_intr;
use std::ffi::{OsStr, OsString};
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
        Ok(self.entries()?.map(|entry| entry.map(|(name, _)| name)))
    }

    /// The names of what is in it and no file: directories, links, pipes, devices. In any order.
    pub(crate) fn no_files(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let is_none = |name: &OsStr, kind| match kind {
            // Some file systems do not say it of their entries.
            FileType::Unknown => {
                let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(FileType::from_raw_mode(found.st_mode) != FileType::RegularFile)
            }
            kind => Ok::<bool, io::Error>(kind != FileType::RegularFile),
        };
        Ok(self.entries()?.filter_map(move |entry| {
            let of = entry.and_then(|(name, kind)| Ok(is_none(&name, kind)?.then_some(name)));
            of.transpose()
        }))
    }

    fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<(OsString, FileType)>>> {
        let entries = Dir::read_from(&self.0)?.map(|entry| match entry {
            Ok(entry) => Ok((OsString::from_vec(entry.file_name().to_bytes().to_vec()), entry.file_type())),
            Err(why) => Err(why.into()),
        });
        Ok(entries.filter(|entry| !matches!(entry, Ok((name, _)) if name == "." || name == "..")))
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
