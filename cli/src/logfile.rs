//! A file that is there in whole or not at all: written beside its final name and renamed at the end.

use crate::exit::Failure;
use crate::interrupt;
use crate::part::part_beside;
use rustix::fs::{Access, access};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file being written. Dropped before [`LogFile::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// The temporary name and the final one; none where bytes go to a device or pipe, which has no "whole".
    names: Option<(PathBuf, PathBuf)>,
    asked: PathBuf,
    /// What it is, for messages.
    what: &'static str,
}

impl LogFile {
    /// Begins a file that holds `what`, and refuses now what would fail at the end: a directory, a file that may not be written,
    /// a directory that takes no new file.
    pub fn create(path: &Path, what: &'static str) -> Result<LogFile, Failure> {
        let path = path.to_path_buf();
        // A pipe is there once somebody reads it, and until then the user may ask to stop.
        interrupt::unless_requested(move || LogFile::open(&path, what).map_err(|e| refused(&path, what, &e)))
    }

    /// Refuses the same, and leaves all as it is. A pipe is not opened: who reads it would take it for ended once it is closed.
    pub fn can_be_created(path: &Path, what: &'static str) -> Result<(), Failure> {
        match fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
            true => access(path, Access::WRITE_OK).map_err(|e| refused(path, what, &e.into())),
            false => LogFile::create(path, what).map(drop),
        }
    }

    fn open(path: &Path, what: &'static str) -> io::Result<LogFile> {
        let asked = path.to_path_buf();
        // A link stays a link: what it points to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| asked.clone());
        let mut mode = None;
        if let Ok(found) = fs::metadata(&path) {
            if found.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let file = OpenOptions::new().write(true).open(&path)?;
            if !found.is_file() {
                return Ok(LogFile { file, names: None, asked, what });
            }
            mode = Some(found.permissions().mode());
        } else if fs::symlink_metadata(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is a link to what is not there"));
        } else if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such directory"));
        }
        let temporary = part_beside(&path)?;
        let usual = 0o666;
        let made =
            OpenOptions::new().write(true).create_new(true).mode(mode.unwrap_or(usual)).open(&temporary)?;
        temporaries().push(temporary.clone());
        let file = LogFile { file: made, names: Some((temporary, path)), asked, what };
        // Who could read the file that it replaces can read it, and nobody else.
        mode.map_or(Ok(()), |mode| file.file.set_permissions(fs::Permissions::from_mode(mode)))?;
        Ok(file)
    }

    /// Where its bytes go, in large pieces. Whoever writes flushes at the end.
    pub fn writer(&self) -> Result<Box<dyn Write>, Failure> {
        let file = self.file.try_clone().map_err(|e| self.failure(&e))?;
        Ok(Box::new(BufWriter::with_capacity(1 << 18, file)))
    }

    /// Whether nothing of it stays where it is dropped now: what was written to a device or a pipe does.
    pub fn leaves_nothing(&self) -> bool {
        self.names.is_some()
    }

    /// Gives the file its name. Until then nobody sees it under that name.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.give_name()
    }

    /// The same, and what it has is on the disk before its name is, and both are when this returns. A loss of power leaves the older file or
    /// the whole new one.
    pub fn finish_on_disk(mut self) -> Result<(), Failure> {
        // A device or a pipe has nothing to sync.
        let Some((_, path)) = &self.names else { return Ok(()) };
        // The folder before the name: where it cannot be opened no name can be put on the disk.
        let folder = self.file.sync_all().and_then(|()| File::open(folder_of(path)));
        let folder = folder.map_err(|e| self.failure(&e))?;
        self.give_name()?;
        match folder.sync_all() {
            // Of this kind of file system no folder can be synced.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced.map_err(|e| self.failure(&e)),
        }
    }

    fn give_name(&mut self) -> Result<(), Failure> {
        if let Some((temporary, path)) = &self.names {
            fs::rename(temporary, path).map_err(|e| self.failure(&e))?;
            temporaries().retain(|other| other != temporary);
        }
        self.names = None;
        Ok(())
    }

    /// What it means that something of it could not be written.
    pub fn failure(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::unfinished(format!("cannot write {} {}: {why}", self.what, self.asked.display()))
    }
}

fn refused(path: &Path, what: &str, why: &io::Error) -> Failure {
    Failure::bad_input(format!("cannot write {what} {}: {why}", path.display()))
}

/// The folder of a file, by a name that can be opened.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses a file to be written that is the one to be read.
pub fn is_not(read: &Path, written: &Path, option: &str) -> Result<(), Failure> {
    let same = |(a, b): (PathBuf, PathBuf)| a == b;
    let known = fs::canonicalize(read).and_then(|read| Ok((read, fs::canonicalize(written)?)));
    match known.is_ok_and(same) {
        true => {
            let file = read.display();
            Err(Failure::bad_input(format!(
                "{option} {file} would overwrite what is read: give another name"
            )))
        }
        false => Ok(()),
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.names {
            let _ = fs::remove_file(temporary);
            temporaries().retain(|other| other != temporary);
        }
    }
}

/// Files that are being written: what a program that ends at once leaves behind.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what would be left behind by ending now.
pub fn abandon() {
    for path in temporaries().drain(..) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_a_program_of_the_same_process_number_left_is_in_nobodys_way() {
        let scratch = Scratch(std::env::temp_dir().join(format!("weft-logfile-{}", std::process::id())));
        fs::create_dir_all(&scratch.0).expect("a folder");
        fs::write(scratch.0.join(format!(".a.{}.part", std::process::id())), "left").expect("written");
        for name in ["a".to_string(), "b".repeat(250)] {
            let path = scratch.0.join(name);
            let file = LogFile::create(&path, "a test").expect("it can be written");
            let mut writer = file.writer().expect("a writer");
            writer.write_all(b"whole").and_then(|()| writer.flush()).expect("written");
            file.finish_on_disk().expect("it has its name");
            assert_eq!(fs::read(&path).expect("a file"), b"whole");
        }
        assert_eq!(fs::read_dir(&scratch.0).expect("a folder").count(), 3, "what was left, and both files");
    }

    #[test]
    fn a_file_of_the_working_directory_has_a_folder_that_can_be_opened() {
        for (file, folder) in [("f", "."), ("a/f", "a"), ("/f", "/")] {
            assert_eq!(folder_of(Path::new(file)), Path::new(folder));
        }
    }
}
