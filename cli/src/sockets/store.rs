//! Files on this machine: where `weft cp` reads from, and what `weft cp --serve` writes. A disk may take minutes for a call, so a thread beside
//! the node makes all of them.

use super::aside::Aside;
use crate::part::part_beside;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::mem;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use weft_protocols::sdp::copy::{Finished, Partial, Source, Store};
use weft_verbs::Stream;

/// A file that is read.
pub struct Reads<B> {
    file: Arc<File>,
    aside: Aside<B>,
    /// What is read into beside the node.
    bytes: Vec<u8>,
}

impl<B: Stream> Reads<B> {
    /// A file, and both ends of a pair of sockets.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn new(file: File, pair: (B, UnixStream)) -> io::Result<Reads<B>> {
        Ok(Reads { file: Arc::new(file), aside: Aside::begin(pair)?, bytes: Vec::new() })
    }
}

impl<B: Stream> Source for Reads<B> {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (file, mut bytes, most) = (Arc::clone(&self.file), mem::take(&mut self.bytes), into.len());
        let read = move || {
            bytes.resize(most, 0);
            let len = (&*file).read(&mut bytes)?;
            Ok((len, bytes))
        };
        let (len, bytes) = self.aside.make(read).await?;
        into[..len].copy_from_slice(&bytes[..len]);
        self.bytes = bytes;
        Ok(len)
    }
}

/// A folder into which a file is stored, and what makes a pair of sockets for it.
pub struct Folder<P> {
    root: PathBuf,
    pair: P,
    tells: Sender<()>,
}

impl<P> Folder<P> {
    /// A folder, and by what one learns what has become of a file in it whose end nobody has waited for.
    pub fn new(root: &Path, pair: P) -> (Folder<P>, Fate) {
        let (tells, told) = mpsc::channel();
        (Folder { root: root.to_path_buf(), pair, tells }, Fate(told))
    }
}

/// What has become of a file.
pub struct Fate(Receiver<()>);

impl Fate {
    /// Waits until the file has its name, or none will have one: the folder is dropped, and what was begun is removed. A disk may take long
    /// for that. True if it has its name.
    pub fn is_named(&self) -> bool {
        self.0.recv().is_ok()
    }
}

impl<B: Stream, P: Fn() -> io::Result<(B, UnixStream)>> Store for Folder<P> {
    type Partial = Unfinished<B>;

    async fn create(&self, name: &str, _: u64) -> io::Result<Unfinished<B>> {
        let to = self.root.join(name);
        let path = part_beside(&to)?;
        let mut aside = Aside::begin((self.pair)()?)?;
        let (place, tells) = (to.clone(), self.tells.clone());
        let opened = aside.make(move || {
            // Before a byte is moved: some names no file can have, and in a folder that cannot be opened none can be put on the disk.
            let older = may_be_called(&place)?;
            let folder = place.parent().map(File::open).transpose()?;
            let file = create(&path, older)?;
            Ok((Part { file: Arc::new(file), path, named: false, tells }, folder))
        });
        let (part, folder) = opened.await?;
        Ok(Unfinished { part, folder, to, aside })
    }
}

/// A file that is removed with this unless it has its final name.
struct Part {
    file: Arc<File>,
    path: PathBuf,
    named: bool,
    /// Tells [`Fate`] that it has its name; dropped behind the file's removal, that it will not have one.
    tells: Sender<()>,
}

impl Part {
    /// Puts the bytes on the disk, then the name, if somebody still waits for it: an interrupted copy leaves nothing.
    fn name(&mut self, to: &Path, waits: &Weak<()>) -> io::Result<()> {
        self.file.sync_all()?;
        if waits.strong_count() == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        fs::rename(&self.path, to)?;
        self.named = true;
        // Whoever waits for the call itself need not ask.
        let _ = self.tells.send(());
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.named {
            // A file that cannot be removed has no name that anybody would take for a whole one.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file on its way, under a name that begins with a dot and ends with a number of its own and `.part`.
pub struct Unfinished<B> {
    part: Part,
    /// The folder of both names.
    folder: Option<File>,
    to: PathBuf,
    aside: Aside<B>,
}

impl<B: Stream> Partial for Unfinished<B> {
    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (file, bytes) = (Arc::clone(&self.part.file), bytes.to_vec());
        self.aside.make(move || (&*file).write_all(&bytes)).await
    }

    /// Puts the bytes on the disk, then the name, then the name's folder: an answer that it is stored holds after a crash.
    async fn finish(self) -> io::Result<Finished> {
        let Unfinished { mut part, folder, to, mut aside } = self;
        // It is gone with this call, whose end the thread does not depend on.
        let waits = Arc::new(());
        let awaited = Arc::downgrade(&waits);
        let synced = aside.make(move || {
            part.name(&to, &awaited)?;
            Ok(folder.map_or(Ok(()), |folder| folder.sync_all()))
        });
        Ok(finished(synced.await?))
    }
}

/// Whether a file may get this name: no folder has it, and the file system takes it. The permissions of the file that has it, if one has.
fn may_be_called(name: &Path) -> io::Result<Option<u32>> {
    match fs::symlink_metadata(name) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) => Ok(there.is_file().then(|| there.permissions().mode() & 0o777)),
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        Err(_) => Ok(None),
    }
}

/// Creates a file with the permissions of the older one that it is to replace: whoever may not read that reads nothing of this one either.
fn create(path: &Path, older: Option<u32>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(older.unwrap_or(0o666)).open(path)?;
    // The umask has taken of them what it takes of those of new files.
    older.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode)))?;
    Ok(file)
}

/// What a file is that has its name, and whose folder was put on the disk so.
fn finished(synced: io::Result<()>) -> Finished {
    match synced {
        Ok(()) => Finished::Safe,
        // EBADF, EINVAL (fsync(2)): this file system puts no folder on the disk for anybody, and need not be asked to.
        Err(why) if why.raw_os_error().is_some_and(|number| [9, 22].contains(&number)) => Finished::Safe,
        Err(why) => Finished::Named(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::aside::without_node::{busy, ended, look, pair};
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::pin::pin;
    use std::thread;
    use std::time::Duration;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("weft-store-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("sub")).expect("a folder");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_whole_and_takes_the_place_of_an_older_one() {
        let scratch = Scratch::new("whole");
        fs::write(scratch.0.join("sub/a"), "older").expect("written");
        let (folder, _) = Folder::new(&scratch.0, pair);
        let mut file = ended(folder.create("sub/a", 6)).expect("created");
        ended(file.append(b"new")).expect("written");
        let parts = names(&scratch.0.join("sub"));
        assert!(parts[0].starts_with(".a.") && parts[0].ends_with(".part"), "{parts:?}");
        assert_eq!(parts[1..], ["a"]);
        assert_eq!(fs::read(scratch.0.join("sub/a")).expect("a file"), b"older");
        ended(file.append(b"er!")).expect("written");
        ended(file.finish()).expect("stored");
        assert_eq!(names(&scratch.0.join("sub")), ["a"]);
        let read = File::open(scratch.0.join("sub/a")).expect("a file");
        let mut reads = Reads::new(read, pair().expect("sockets")).expect("a thread");
        let mut bytes = [0; 9];
        assert_eq!(ended(reads.read(&mut bytes)).expect("read"), 6);
        assert_eq!(&bytes[..6], b"newer!");
    }

    /// Whoever runs this may be one to whom every folder opens, so that a folder that does not is no test.
    #[test]
    fn nothing_that_may_fail_is_left_for_after_a_file_has_its_name_but_to_put_that_on_the_disk() {
        let scratch = Scratch::new("folder");
        let (folder, _) = Folder::new(&scratch.0, pair);
        for (name, of) in [("a", scratch.0.clone()), ("sub/a", scratch.0.join("sub"))] {
            let file = ended(folder.create(name, 1)).expect("created");
            let open = file.folder.as_ref().expect("it is open before a byte is moved");
            let (open, there) = (open.metadata().expect("a folder"), fs::metadata(of).expect("a folder"));
            assert_eq!((open.dev(), open.ino()), (there.dev(), there.ino()), "{name}");
            ended(file.finish()).expect("stored");
        }
    }

    #[test]
    fn a_name_of_which_nobody_knows_whether_it_is_on_the_disk_is_neither_safe_nor_missing() {
        assert!(matches!(finished(Ok(())), Finished::Safe));
        for cannot in [9, 22] {
            assert!(matches!(finished(Err(io::Error::from_raw_os_error(cannot))), Finished::Safe));
        }
        for (fails, kind) in [(5, None), (28, Some(io::ErrorKind::StorageFull))] {
            let end = finished(Err(io::Error::from_raw_os_error(fails)));
            let Finished::Named(why) = end else { panic!("{fails}: {end:?}") };
            assert!(kind.is_none_or(|kind| why.kind() == kind), "{why}");
        }
    }

    #[test]
    fn one_name_is_stored_by_two_at_a_time_and_a_name_may_be_as_long_as_the_system_has_them() {
        let scratch = Scratch::new("twice");
        let (folder, _) = Folder::new(&scratch.0, pair);
        for name in ["a".to_string(), "b".repeat(250)] {
            let both = [folder.create(&name, 1), folder.create(&name, 1)].map(ended);
            for file in both {
                ended(file.expect("created").finish()).expect("stored");
            }
            assert!(scratch.0.join(name).is_file());
        }
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing() {
        let scratch = Scratch::new("partial");
        let (folder, _) = Folder::new(&scratch.0, pair);
        let mut file = ended(folder.create("a", 9)).expect("created");
        ended(file.append(b"half")).expect("written");
        drop(file);
        assert_eq!(names(&scratch.0), ["sub"]);
        // A folder that takes the name meanwhile keeps it, and nothing stays.
        let file = ended(folder.create("a", 0)).expect("created");
        fs::create_dir(scratch.0.join("a")).expect("a folder");
        assert!(ended(file.finish()).is_err());
        assert_eq!(names(&scratch.0), ["a", "sub"]);
    }

    #[test]
    fn a_file_that_replaces_another_one_may_be_read_by_those_alone_who_could_read_that_one() {
        let scratch = Scratch::new("mode");
        let (folder, _) = Folder::new(&scratch.0, pair);
        let mode = |name: &str| {
            let meta = fs::metadata(scratch.0.join(name)).expect("a file");
            meta.permissions().mode() & 0o777
        };
        for kept in [0o600, 0o777, 0o640] {
            fs::write(scratch.0.join("a"), "older").expect("written");
            fs::set_permissions(scratch.0.join("a"), Permissions::from_mode(kept)).expect("its owner may");
            let file = ended(folder.create("a", 0)).expect("created");
            let part =
                names(&scratch.0).into_iter().find(|name| name.ends_with(".part")).expect("it is there");
            assert_eq!(mode(&part), kept, "also while it is on its way");
            ended(file.finish()).expect("stored");
            assert_eq!(mode("a"), kept);
        }
    }

    #[test]
    fn a_name_that_no_file_can_have_is_refused_before_a_byte_is_moved() {
        let scratch = Scratch::new("refused");
        let (folder, _) = Folder::new(&scratch.0, pair);
        for name in ["sub", "none/a", "a".repeat(256).as_str()] {
            assert!(ended(folder.create(name, 0)).is_err(), "{name}: folders are kept, and none are made");
        }
        assert_eq!(names(&scratch.0), ["sub"]);
    }

    #[test]
    fn what_is_said_of_a_copy_that_was_interrupted_at_its_last_call_holds_from_then_on() {
        let scratch = Scratch::new("left");
        let (folder, fate) = Folder::new(&scratch.0, pair);
        let mut file = ended(folder.create("a", 0)).expect("created");
        let held = busy(&mut file.aside);
        {
            let mut finishes = pin!(file.finish());
            assert!(look(finishes.as_mut()).is_pending());
        }
        drop(folder);
        assert_eq!(names(&scratch.0).len(), 2, "the disk is at it");
        let disk = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(held);
        });
        assert!(!fate.is_named());
        assert_eq!(names(&scratch.0), ["sub"]);
        disk.join().expect("it ends");
    }

    #[test]
    fn a_file_gets_its_name_only_if_somebody_waits_for_that_when_its_bytes_are_on_the_disk() {
        let scratch = Scratch::new("waits");
        let (folder, fate) = Folder::new(&scratch.0, pair);
        for (name, waits) in [("a", true), ("b", false)] {
            let Unfinished { mut part, to, .. } = ended(folder.create(name, 0)).expect("created");
            let somebody = Arc::new(());
            let awaited = Arc::downgrade(&somebody);
            let somebody = Some(somebody).filter(|_| waits);
            assert_eq!(part.name(&to, &awaited).is_ok(), waits);
            drop(somebody);
        }
        assert_eq!(names(&scratch.0), ["a", "sub"]);
        drop(folder);
        assert!(fate.is_named(), "the first one");
        assert!(!fate.is_named(), "and the other one is gone");
    }

    /// A disk that takes its time keeps nobody else from running.
    #[test]
    fn every_call_of_a_file_is_made_beside_the_node() {
        let scratch = Scratch::new("beside");
        let (folder, _) = Folder::new(&scratch.0, pair);
        let mut file = ended(folder.create("a", 3)).expect("created");
        let path = file.part.path.clone();
        let held = busy(&mut file.aside);
        {
            let mut appends = pin!(file.append(b"new"));
            assert!(look(appends.as_mut()).is_pending());
            assert_eq!(fs::metadata(&path).expect("a file").len(), 0);
            drop(held);
            ended(appends).expect("written");
        }
        let held = busy(&mut file.aside);
        let mut finishes = pin!(file.finish());
        assert!(look(finishes.as_mut()).is_pending());
        assert!(path.is_file() && !scratch.0.join("a").exists());
        drop(held);
        ended(finishes).expect("stored");
        let read = File::open(scratch.0.join("a")).expect("a file");
        let mut reads = Reads::new(read, pair().expect("sockets")).expect("a thread");
        let (held, mut bytes) = (busy(&mut reads.aside), [0; 3]);
        {
            let mut read = pin!(reads.read(&mut bytes));
            assert!(look(read.as_mut()).is_pending());
            drop(held);
            assert_eq!(ended(read).expect("read"), 3);
        }
        assert_eq!(&bytes, b"new");
    }
}
