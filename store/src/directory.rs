//! Whose store a directory is, and that one server has it open.
//!
//! A store is a directory with a **head**, the file `weft-store`: three lines of text with the version of the format, the cluster and
//! the server's number. Beside it lies a file for each object, by its name in 16 hexadecimal digits, and one that says for how many
//! [servers](Directory::of_servers) files were placed (no line of the head, which earlier programs of this format would take to be
//! damaged). Whoever opens the store locks the head (`flock`), which ends with the process: a server for itself alone, those who only
//! look together. Whoever makes the head locks the directory itself meanwhile. The directory is opened once: its [`Folder`] says why.
//!
//! All of these files are the server's user's alone: who can read the head can lock it, and bytes of files are in the others.

use crate::folder::Folder;
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;
use weft_verbs::ObjectName;

/// The format that this program reads and writes.
const VERSION: &str = "4";

const HEAD: &str = "weft-store";

/// How many servers the cluster had for which files were placed.
pub(crate) const SERVERS: &str = "weft-store.servers";

/// Where one of these two is written before it has its name, and what is made to find out whether files can be made.
const FRESH: &str = "weft-store.new";

/// What a file system has at its root from its beginning: a disk that is mounted is empty with it.
const OF_THE_DISK: &str = "lost+found";

/// Whose store it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreId {
    /// The cluster's name, without line ends.
    pub cluster: String,
    /// The server's number in it.
    pub server: u32,
}

impl StoreId {
    fn text(&self) -> String {
        format!("version {VERSION}\ncluster {}\nserver {}\n", self.cluster, self.server)
    }

    /// What a head says.
    fn parse(text: &str) -> Result<StoreId, Unread> {
        let mut lines = text.lines();
        let mut value = |key: &str| {
            let line = lines.next().unwrap_or_default();
            line.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned)
        };
        let version = value("version").ok_or(Unread::Line(1))?;
        if version != VERSION {
            return Err(Unread::Version(version));
        }
        let cluster = value("cluster").ok_or(Unread::Line(2))?;
        let server = value("server").and_then(|server| server.parse().ok()).ok_or(Unread::Line(3))?;
        let id = StoreId { cluster, server };
        if id.text() == text { Ok(id) } else { Err(Unread::Line(4)) }
    }
}

/// Why a head cannot be read.
enum Unread {
    Version(String),
    Line(u32),
}

/// Why a directory cannot be used as this store. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum StoreRefused {
    /// It is not there, or is no directory that can be read and written.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The directory or the file.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// It has no head, and is not empty.
    #[error("{}: has '{found}' in it and is no store; a new store needs an empty directory", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
        /// One of the files in it.
        found: String,
    },
    /// It is empty, and nobody asked for a new store.
    #[error("{}: is empty, and no store: is its disk mounted?", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// It has no head, and was only looked at.
    #[error("{}: is no store, since it has no file '{HEAD}'", path.display())]
    NoHead {
        /// The directory.
        path: PathBuf,
    },
    /// Its head is damaged.
    #[error("{}:{line}: the head is damaged; take it from a copy, the objects beside it are as they were", path.display())]
    Head {
        /// The head.
        path: PathBuf,
        /// The line.
        line: u32,
    },
    /// An object's name is that of a directory, a link, a pipe or a device.
    #[error("{}: has an object's name and is no file; put the file there from a copy, with the server ended", path.display())]
    NoFile {
        /// Where it is.
        path: PathBuf,
    },
    /// It is of another version.
    #[error("{}:1: is a store of version {found}, and this program has version {VERSION}", path.display())]
    Version {
        /// The head.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// It is of another cluster.
    #[error("{}:2: is a store of cluster '{found}' and not of '{wanted}'", path.display())]
    Cluster {
        /// The head.
        path: PathBuf,
        /// Its cluster.
        found: String,
        /// The cluster that it should be of.
        wanted: String,
    },
    /// It is another server's.
    #[error("{}:3: is the store of server {found} and not of server {wanted}", path.display())]
    Server {
        /// The head.
        path: PathBuf,
        /// Its server.
        found: u32,
        /// The server that asks.
        wanted: u32,
    },
    /// Its files were placed for another number of servers.
    #[error(
        "{}: files are placed over {found} file servers, and not over {wanted}: start with {found} again (`file_servers`); for another \
         number copy the files out (`weft fs get`), begin with new stores on all servers, and put them back",
        path.display()
    )]
    Servers {
        /// The file that says so.
        path: PathBuf,
        /// For how many they were placed.
        found: u32,
        /// How many there are to be.
        wanted: u32,
    },
    /// Somebody has it open.
    #[error("{}: {who} has this store open; end it first", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
        /// Who that may be.
        who: &'static str,
    },
}

impl StoreRefused {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreRefused {
        let path = path.to_path_buf();
        move |why| StoreRefused::Unusable { path, why }
    }
}

/// A store's directory. As long as this lives, no other server has the store open; and nobody looks at it, unless this one only looks, too.
#[derive(Debug)]
pub struct Directory {
    /// Where it was when it was opened.
    path: PathBuf,
    pub(crate) folder: Folder,
    id: StoreId,
    /// The head, locked.
    _head: File,
}

impl Directory {
    /// Opens the store of a server. An empty directory is none: the disk on which the store is may not be mounted.
    ///
    /// # Errors
    ///
    /// There is no store, or it is of another version, cluster or server, or somebody has it open; or it cannot be written.
    pub fn open(path: &Path, id: &StoreId) -> Result<Directory, StoreRefused> {
        match Directory::found(path, false) {
            Err(StoreRefused::NoHead { path }) => {
                let found = Folder::open(&path).and_then(|folder| stranger(&folder));
                Err(match found.map_err(StoreRefused::at(&path))? {
                    Some(found) => StoreRefused::NoStore { path, found },
                    None => StoreRefused::Empty { path },
                })
            }
            found => found?.of(id),
        }
    }

    /// The same, where an empty directory becomes a store first.
    ///
    /// # Errors
    ///
    /// The directory is none that can be used, or the store is of another version, cluster or server, or somebody has it open; or it cannot
    /// be written.
    pub fn open_or_make(path: &Path, id: &StoreId) -> Result<Directory, StoreRefused> {
        match Directory::found(path, false) {
            Err(StoreRefused::NoHead { .. }) => {
                Directory::make(path, id)?;
                Directory::found(path, false)?.of(id)
            }
            found => found?.of(id),
        }
    }

    /// This store, if it is that server's.
    fn of(self, id: &StoreId) -> Result<Directory, StoreRefused> {
        let at = self.path.join(HEAD);
        if self.id.cluster != id.cluster {
            let (found, wanted) = (self.id.cluster, id.cluster.clone());
            return Err(StoreRefused::Cluster { path: at, found, wanted });
        }
        if self.id.server != id.server {
            return Err(StoreRefused::Server { path: at, found: self.id.server, wanted: id.server });
        }
        self.writable()?;
        match self.misplaced().map_err(StoreRefused::at(&self.path))?.first() {
            Some(object) => Err(StoreRefused::NoFile { path: self.path.join(object.to_string()) }),
            None => Ok(self),
        }
    }

    /// Refuses a store in which files can be neither changed nor made: of a disk that is mounted for reading alone, or of another user. A
    /// full disk is none of these, and files can be removed there.
    fn writable(&self) -> Result<(), StoreRefused> {
        let folder = &self.folder;
        folder.file(HEAD, OFlags::WRONLY).map_err(StoreRefused::at(&self.path.join(HEAD)))?;
        match folder.file(FRESH, OFlags::WRONLY | OFlags::CREATE).and_then(|_| folder.remove(FRESH)) {
            Err(why) if !is_full(&why) => Err(StoreRefused::at(&self.path.join(FRESH))(why)),
            _ => Ok(()),
        }
    }

    /// Opens whatever store is there, to look at it, as others may at the same time. Changes nothing.
    ///
    /// # Errors
    ///
    /// There is no store that this program can read, or a server has it open.
    pub fn look(path: &Path) -> Result<Directory, StoreRefused> {
        Directory::found(path, true)
    }

    /// Whatever store is there, for who only looks, or for a server.
    fn found(path: &Path, only_looks: bool) -> Result<Directory, StoreRefused> {
        let at = path.join(HEAD);
        // A directory that cannot be read is another matter than one without a head.
        let folder = Folder::open(path).map_err(StoreRefused::at(path))?;
        let head = match folder.file(HEAD, OFlags::RDONLY) {
            Err(why) if why.kind() == ErrorKind::NotFound => {
                return Err(StoreRefused::NoHead { path: path.to_path_buf() });
            }
            head => head.map_err(StoreRefused::at(&at))?,
        };
        let (locked, who) = match only_looks {
            true => (head.try_lock_shared(), "a server"),
            false => (head.try_lock(), "a server or `weft fsck`"),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreRefused::Busy { path: path.to_path_buf(), who });
            }
            Err(TryLockError::Error(why)) => return Err(StoreRefused::at(&at)(why)),
        }
        let text = io::read_to_string(&head);
        let text = match text {
            Err(why) if why.kind() == ErrorKind::InvalidData => {
                return Err(StoreRefused::Head { path: at, line: 1 });
            }
            text => text.map_err(StoreRefused::at(&at))?,
        };
        match StoreId::parse(&text) {
            Ok(id) => Ok(Directory { path: path.to_path_buf(), folder, id, _head: head }),
            Err(Unread::Version(found)) => Err(StoreRefused::Version { path: at, found }),
            Err(Unread::Line(line)) => Err(StoreRefused::Head { path: at, line }),
        }
    }

    /// Makes an empty directory a store. A crash leaves a store or an empty directory, but for what is to become the head.
    fn make(path: &Path, id: &StoreId) -> Result<(), StoreRefused> {
        let folder = Folder::open(path).map_err(StoreRefused::at(path))?;
        // Of two that come at the same time one makes the store, and the other one finds it.
        folder.lock().map_err(StoreRefused::at(path))?;
        match folder.size(HEAD) {
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            found => return found.map(drop).map_err(StoreRefused::at(path)),
        }
        if let Some(found) = stranger(&folder).map_err(StoreRefused::at(path))? {
            return Err(StoreRefused::NoStore { path: path.to_path_buf(), found });
        }
        write_whole(&folder, HEAD, &id.text()).map_err(StoreRefused::at(&path.join(FRESH)))
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it is.
    pub fn id(&self) -> &StoreId {
        &self.id
    }

    /// The names of all objects, in order.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn objects(&self) -> io::Result<Vec<ObjectName>> {
        objects_of(self.folder.names()?)
    }

    /// Objects' names, in order, that stand for no files: no server has made those, and none can use them.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn misplaced(&self) -> io::Result<Vec<ObjectName>> {
        objects_of(self.folder.no_files()?)
    }

    /// An object's size in bytes.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn size(&self, object: ObjectName) -> io::Result<u64> {
        self.folder.size(&object.to_string())
    }

    /// All bytes of an object, for who may read the store and not write it.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn bytes(&self, object: ObjectName) -> io::Result<Vec<u8>> {
        self.read(&object.to_string())
    }

    /// All bytes of a file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.folder.file(name, OFlags::RDONLY)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Files in it that are none of a store's.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn strangers(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.folder.names()? {
            let name = name?;
            let known = name.to_str().is_some_and(|name| [HEAD, SERVERS, FRESH, OF_THE_DISK].contains(&name));
            if !known && object_of(&name).is_none() {
                found.push(name.to_string_lossy().into_owned());
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Whether there was no room.
pub(crate) fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Writes a file of a store, durably: a crash leaves all of it or none.
pub(crate) fn write_whole(folder: &Folder, name: &str, text: &str) -> io::Result<()> {
    let mut file = folder.file(FRESH, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    folder.rename(FRESH, name)?;
    folder.sync()
}

/// A file in a directory without a head by which it is not empty.
fn stranger(folder: &Folder) -> io::Result<Option<String>> {
    for name in folder.names()? {
        let found = name?.to_string_lossy().into_owned();
        // Somebody else may be about to make the head.
        if ![HEAD, FRESH, OF_THE_DISK].contains(&found.as_str()) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The objects that names are of, in order.
fn objects_of(names: impl Iterator<Item = io::Result<OsString>>) -> io::Result<Vec<ObjectName>> {
    let mut found = Vec::new();
    for name in names {
        found.extend(object_of(&name?));
    }
    found.sort_unstable();
    Ok(found)
}

/// The object of a file, if it is one's.
pub(crate) fn object_of(name: &OsStr) -> Option<ObjectName> {
    let text = name.to_str().filter(|text| text.len() == 16)?;
    let object = u64::from_str_radix(text, 16).ok().map(ObjectName)?;
    // One name is one spelling.
    (object.to_string() == text).then_some(object)
}
