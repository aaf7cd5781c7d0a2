//! Files on this machine: where `weft cp` reads from, and what `weft cp --serve` writes.

use crate::part::part_beside;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use weft_protocols::sdp::copy::{Partial, Source, Store};

/// A file that is read. Reads are of the page cache, or of a disk that is as fast as the network; nothing else waits for them.
pub struct Reads(pub File);

impl Source for Reads {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

/// A folder into which files are stored.
#[derive(Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// A folder.
    pub fn new(root: &Path) -> Folder {
        Folder { root: root.to_path_buf() }
    }
}

impl Store for Folder {
    type Partial = Unfinished;

    async fn create(&self, name: &str, _: u64) -> io::Result<Unfinished> {
        let to = self.root.join(name);
        let path = part_beside(&to)?;
        // Before a byte is moved: in a folder that cannot be opened no name can be put on the disk.
        let folder = to.parent().map(File::open).transpose()?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Unfinished { file: Some(file), folder, path, to })
    }
}

/// A file on its way, under a name that begins with a dot and ends with a number of its own and `.part`.
pub struct Unfinished {
    /// None once it has its final name.
    file: Option<File>,
    /// The folder of both names.
    folder: Option<File>,
    path: PathBuf,
    to: PathBuf,
}

impl Partial for Unfinished {
    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Puts the bytes on the disk, then the name, then the name's folder: an answer that it is stored holds after a crash.
    async fn finish(mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync_all()?;
        fs::rename(&self.path, &self.to)?;
        self.file = None;
        self.folder.as_ref().map_or(Ok(()), File::sync_all)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // A file that cannot be removed has no name that anybody would take for a whole one.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::os::unix::fs::MetadataExt;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Files of this machine never wait.
    fn at_once<T>(work: impl Future<Output = T>) -> T {
        match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => unreachable!("it does not wait"),
        }
    }

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
        let folder = Folder::new(&scratch.0);
        let mut file = at_once(folder.create("sub/a", 6)).expect("created");
        at_once(file.append(b"new")).expect("written");
        let parts = names(&scratch.0.join("sub"));
        assert!(parts[0].starts_with(".a.") && parts[0].ends_with(".part"), "{parts:?}");
        assert_eq!(parts[1..], ["a"]);
        assert_eq!(fs::read(scratch.0.join("sub/a")).expect("a file"), b"older");
        at_once(file.append(b"er!")).expect("written");
        at_once(file.finish()).expect("stored");
        assert_eq!(names(&scratch.0.join("sub")), ["a"]);
        let mut reads = Reads(File::open(scratch.0.join("sub/a")).expect("a file"));
        let mut bytes = [0; 9];
        assert_eq!(at_once(reads.read(&mut bytes)).expect("read"), 6);
        assert_eq!(&bytes[..6], b"newer!");
    }

    /// Whoever runs this may be one to whom every folder opens, so that a folder that does not is no test.
    #[test]
    fn nothing_that_may_fail_is_left_for_after_a_file_has_its_name_but_to_put_that_on_the_disk() {
        let scratch = Scratch::new("folder");
        let folder = Folder::new(&scratch.0);
        for (name, of) in [("a", scratch.0.clone()), ("sub/a", scratch.0.join("sub"))] {
            let file = at_once(folder.create(name, 1)).expect("created");
            let open = file.folder.as_ref().expect("it is open before a byte is moved");
            let (open, there) = (open.metadata().expect("a folder"), fs::metadata(of).expect("a folder"));
            assert_eq!((open.dev(), open.ino()), (there.dev(), there.ino()), "{name}");
            at_once(file.finish()).expect("stored");
        }
    }

    #[test]
    fn one_name_is_stored_by_two_at_a_time_and_a_name_may_be_as_long_as_the_system_has_them() {
        let scratch = Scratch::new("twice");
        let folder = Folder::new(&scratch.0);
        for name in ["a".to_string(), "b".repeat(250)] {
            let both = [folder.create(&name, 1), folder.create(&name, 1)].map(at_once);
            for file in both {
                at_once(file.expect("created").finish()).expect("stored");
            }
            assert!(scratch.0.join(name).is_file());
        }
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing() {
        let scratch = Scratch::new("partial");
        let folder = Folder::new(&scratch.0);
        let mut file = at_once(folder.create("a", 9)).expect("created");
        at_once(file.append(b"half")).expect("written");
        drop(file);
        assert_eq!(names(&scratch.0), ["sub"]);
        // A name that a folder has is refused at the end, and nothing stays.
        let file = at_once(folder.create("sub", 0)).expect("created");
        assert!(at_once(file.finish()).is_err());
        assert_eq!(names(&scratch.0), ["sub"]);
        assert!(at_once(folder.create("none/a", 0)).is_err(), "folders are not made");
    }
}
