//! A store on the file system of this machine.

mod directory;
mod objects;
mod pool;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use weft_store::{Directory, Objects, StoreId};

/// An empty directory, removed with what is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weft-store-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// The names and bytes of all of its files.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entry = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("a file"))
        };
        let mut files: Vec<_> = fs::read_dir(&self.0).expect("the directory").map(entry).collect();
        files.sort();
        files
    }

    fn objects(&self) -> Objects {
        let directory = Directory::open_or_make(self.path(), &id(0)).unwrap_or_else(|why| panic!("{why}"));
        Objects::of(directory).expect("the directory is there")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn id(server: u32) -> StoreId {
    StoreId { cluster: "one".into(), server }
}
