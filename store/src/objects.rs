//! Objects as files: the contract's calls, each blocking, from any thread.
//!
//! What a call promises is the contract's. An object is created and removed durably, so its directory is synced then; one that a write
//! has made is durable with its first sync, and so the directory is synced with that.
//!
//! After a sync has failed nobody knows what of the object is durable. Linux then takes its pages to be clean, and the next `fdatasync`
//! would end well without them. So every later sync of the object fails, as long as this process has the store open.
//!
//! A file that is closed hears of no error any more by which bytes written to it are lost. So one with bytes that no sync has seen is
//! synced before it is closed, and stays open where that fails.

use crate::directory::Directory;
use crate::recording::Recording;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_verbs::{DiskError, ObjectName};

/// Files that are open at once, beside those that must stay so.
const OPEN: usize = 256;

/// Makes the file, which must not be there.
const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL);

/// An object's file.
#[derive(Debug)]
struct Opened {
    file: File,
    /// A write has made it, and its directory was not synced since.
    unlisted: AtomicBool,
    /// Bytes were written to it that no sync may have seen.
    written: AtomicBool,
    /// A sync has failed. Syncs of one object come one after the other: of two that wait for the same pages the system tells one alone that it
    /// has lost them.
    failed: Mutex<bool>,
}

/// The files that are open.
type Files = BTreeMap<ObjectName, Arc<Opened>>;

impl Opened {
    fn failed(&self) -> MutexGuard<'_, bool> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects of a store. All calls block.
#[derive(Debug)]
pub struct Objects {
    directory: Directory,
    opened: Mutex<Files>,
    /// Where a pool notes its calls.
    pub(crate) recording: Option<Recording>,
}

/// What the contract calls an error of the operating system. There is no room where a quota or the largest file ends, too.
fn told(why: &io::Error) -> DiskError {
    match why.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => DiskError::Full,
        _ => DiskError::Io,
    }
}

/// Does it again where a signal came between.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn position(at: u64, len: usize) -> Result<(), DiskError> {
    let len = len as u64;
    match at.checked_add(len) {
        Some(end) if end <= 1 << 63 => Ok(()),
        _ => Err(DiskError::Position { at, len }),
    }
}

impl Objects {
    /// The objects of a store that was opened, and not only looked at.
    ///
    /// # Errors
    ///
    /// The directory cannot be synced.
    pub fn of(directory: Directory) -> io::Result<Objects> {
        // A store that was killed may have made objects, and not have got as far as to list them durably.
        uninterrupted(|| directory.folder.sync())?;
        Ok(Objects { directory, opened: Mutex::default(), recording: None })
    }

    /// The same, and all calls that a [pool](crate::Pool) makes of them are noted. For backends that give the pool bytes of its own
    /// (`tcp-backend`).
    pub fn recorded(self, recording: &Recording) -> Objects {
        Objects { recording: Some(recording.clone()), ..self }
    }

    /// The store.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The names of all objects, in order.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<ObjectName>, DiskError> {
        self.directory.objects().map_err(|why| told(&why))
    }

    /// Makes an empty object, durably.
    ///
    /// # Errors
    ///
    /// It is there already; or [`DiskError::Full`], [`DiskError::Io`].
    pub fn create(&self, object: ObjectName) -> Result<(), DiskError> {
        match self.file(object, OFlags::WRONLY | NEW).and_then(|_| self.directory.folder.sync()) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => Err(DiskError::Exists(object)),
            made => made.map_err(|why| told(&why)),
        }
    }

    /// Removes an object, durably.
    ///
    /// # Errors
    ///
    /// It is not there; or [`DiskError::Io`].
    pub fn remove(&self, object: ObjectName) -> Result<(), DiskError> {
        // Under the lock, so that nobody opens the old file for a call that begins later. One that stays is known as it was: a sync of it
        // may have failed. All other calls wait for the lock, and systems take seconds to free a large file: they do so when its last
        // descriptor is closed, which is once the removal is durable.
        let (removed, _last) = {
            let mut opened = self.opened();
            let unknown =
                if opened.contains_key(&object) { None } else { self.file(object, OFlags::RDWR).ok() };
            let removed = self.directory.folder.remove(&object.to_string());
            let known = match &removed {
                Err(why) if why.kind() != ErrorKind::NotFound => None,
                _ => opened.remove(&object),
            };
            (removed, (unknown, known))
        };
        match removed.and_then(|()| self.directory.folder.sync()) {
            Err(why) if why.kind() == ErrorKind::NotFound => Err(DiskError::NoObject(object)),
            removed => removed.map_err(|why| told(&why)),
        }
    }

    /// An object's size in bytes.
    ///
    /// # Errors
    ///
    /// It is not there; or [`DiskError::Io`].
    pub fn size(&self, object: ObjectName) -> Result<u64, DiskError> {
        match self.directory.size(object) {
            Err(why) if why.kind() == ErrorKind::NotFound => Err(DiskError::NoObject(object)),
            size => size.map_err(|why| told(&why)),
        }
    }

    /// Reads what there is of a range: how many bytes. `part` reads into what is behind so many bytes of the range, and says how many
    /// bytes that were; none at the file's end.
    ///
    /// # Errors
    ///
    /// It is not there, or the range ends beyond 2^63; or [`DiskError::Io`].
    pub fn read(
        &self,
        object: ObjectName,
        at: u64,
        len: usize,
        mut part: impl FnMut(&File, usize, u64) -> io::Result<usize>,
    ) -> Result<usize, DiskError> {
        let opened = self.open(object)?.ok_or(DiskError::NoObject(object))?;
        position(at, len)?;
        let mut done = 0;
        // Systems refuse to look beyond the largest file that they can have, and there is nothing.
        if opened.file.metadata().map_err(|why| told(&why))?.len() <= at {
            return Ok(0);
        }
        while done < len {
            match uninterrupted(|| part(&opened.file, done, at + done as u64)).map_err(|why| told(&why))? {
                0 => break,
                more => done += more,
            }
        }
        Ok(done)
    }

    /// Writes a range; makes the object if it is not there. `part` writes from what is behind so many bytes of the range, and says how
    /// many bytes that were.
    ///
    /// # Errors
    ///
    /// The range ends beyond 2^63; or [`DiskError::Full`], [`DiskError::Io`]: then parts of it may be written.
    pub fn write(
        &self,
        object: ObjectName,
        at: u64,
        len: usize,
        mut part: impl FnMut(&File, usize, u64) -> io::Result<usize>,
    ) -> Result<usize, DiskError> {
        position(at, len)?;
        let opened = self.open_or_make(object)?;
        let mut done = 0;
        let mut written = Ok(len);
        while written.is_ok() && done < len {
            match uninterrupted(|| part(&opened.file, done, at + done as u64)) {
                Ok(0) => written = Err(DiskError::Io),
                Ok(more) => done += more,
                Err(why) => written = Err(told(&why)),
            }
        }
        // Behind the last part: a sync that ends before has not seen all of them.
        opened.written.store(true, Ordering::Release);
        written
    }

    /// Makes durable what was written to an object.
    ///
    /// # Errors
    ///
    /// It is not there; or [`DiskError::Io`], now or at an earlier sync.
    pub fn sync(&self, object: ObjectName) -> Result<(), DiskError> {
        let opened = self.open(object)?.ok_or(DiskError::NoObject(object))?;
        let mut failed = opened.failed();
        if *failed {
            return Err(DiskError::Io);
        }
        // Before the sync: it may not see what is written from here on.
        opened.written.store(false, Ordering::Release);
        let synced = uninterrupted(|| opened.file.sync_data()).and_then(|()| {
            if opened.unlisted.load(Ordering::Acquire) {
                uninterrupted(|| self.directory.folder.sync())?;
                opened.unlisted.store(false, Ordering::Release);
            }
            Ok(())
        });
        synced.map_err(|why| {
            *failed = true;
            told(&why)
        })
    }

    /// Gives an object another size, durably: with all that was written to it before.
    ///
    /// # Errors
    ///
    /// It is not there, or the size is beyond 2^63; or [`DiskError::Full`], [`DiskError::Io`].
    pub fn resize(&self, object: ObjectName, size: u64) -> Result<(), DiskError> {
        position(size, 0)?;
        let opened = self.open(object)?.ok_or(DiskError::NoObject(object))?;
        // The largest object is a byte longer than the largest file that a system can name.
        if i64::try_from(size).is_err() {
            return Err(DiskError::Full);
        }
        uninterrupted(|| opened.file.set_len(size)).map_err(|why| told(&why))?;
        self.sync(object)
    }

    /// An object's file, opened once more.
    fn file(&self, object: ObjectName, how: OFlags) -> io::Result<File> {
        self.directory.folder.file(&object.to_string(), how)
    }

    fn opened(&self) -> MutexGuard<'_, Files> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object's file, if it is there.
    fn open(&self, object: ObjectName) -> Result<Option<Arc<Opened>>, DiskError> {
        let mut opened = self.opened();
        if let Some(known) = opened.get(&object) {
            return Ok(Some(Arc::clone(known)));
        }
        self.make_room(&mut opened);
        match self.file(object, OFlags::RDWR) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(told(&why)),
            Ok(file) => Ok(Some(keep(&mut opened, object, file, false))),
        }
    }

    fn open_or_make(&self, object: ObjectName) -> Result<Arc<Opened>, DiskError> {
        if let Some(opened) = self.open(object)? {
            return Ok(opened);
        }
        let mut opened = self.opened();
        // Another thread may have made it since.
        if let Some(known) = opened.get(&object) {
            return Ok(Arc::clone(known));
        }
        self.make_room(&mut opened);
        match self.file(object, OFlags::RDWR | NEW) {
            // It was created, and nobody has opened it yet.
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                drop(opened);
                self.open(object)?.ok_or(DiskError::Io)
            }
            made => made.map(|file| keep(&mut opened, object, file, true)).map_err(|why| told(&why)),
        }
    }

    /// Closes files that nobody uses, where as many are open as may be. All other calls wait meanwhile. Where all of these files have
    /// bytes that no sync has seen, that costs one sync for each file that is to be opened, and one of the directory for all files that
    /// writes have made.
    fn make_room(&self, files: &mut Files) {
        if files.len() < OPEN {
            return;
        }
        files.retain(|_, file| listed(file).is_none_or(|file| *file.written.get_mut()));
        if files.len() >= OPEN && !files.values_mut().any(|file| listed(file).is_some()) {
            self.list_made(files);
        }
        while files.len() >= OPEN
            && let Some((object, file)) = files.iter_mut().find_map(|(of, file)| Some((*of, listed(file)?)))
        {
            match uninterrupted(|| file.file.sync_data()) {
                Ok(()) => drop(files.remove(&object)),
                Err(_) => *file.failed() = true,
            }
        }
    }

    /// Makes durable that the files are there which writes have made. Where that fails nobody knows of which of them it is.
    fn list_made(&self, files: &Files) {
        let listed = uninterrupted(|| self.directory.folder.sync());
        for file in files.values().filter(|file| file.unlisted.load(Ordering::Acquire)) {
            match listed {
                Ok(()) => file.unlisted.store(false, Ordering::Release),
                Err(_) => *file.failed() = true,
            }
        }
    }
}

/// A file that may be closed once its bytes are durable: nobody uses it, its name is durable, and no sync of it has failed.
fn listed(file: &mut Arc<Opened>) -> Option<&mut Opened> {
    let file = Arc::get_mut(file)?;
    let stays = *file.unlisted.get_mut() || *file.failed();
    if stays { None } else { Some(file) }
}

/// Keeps a file open.
fn keep(files: &mut Files, object: ObjectName, file: File, made: bool) -> Arc<Opened> {
    let (unlisted, written, failed) = (AtomicBool::new(made), AtomicBool::new(false), Mutex::new(false));
    let kept = Arc::new(Opened { file, unlisted, written, failed });
    files.insert(object, Arc::clone(&kept));
    kept
}
