//! Requests and replies as bytes.

use super::{DirEntry, Distribution, Handle, MalformedCall};
use crate::bytes::{Reader, Writer};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What is in a directory?
    List {
        /// Its path; the root's is empty.
        directory: String,
        /// What is behind this name; all, if it is empty.
        after: String,
        /// With the sizes of files.
        sizes: bool,
    },
    /// What is this file?
    Stat {
        /// Its name.
        name: String,
    },
    /// Make a file.
    Create {
        /// Its name.
        name: String,
        /// Bytes of a strip, by default the cluster's.
        strip: Option<u32>,
        /// Over how many servers it is, by default all.
        servers: Option<u16>,
    },
    /// Write bytes.
    Write {
        /// The file's name.
        name: String,
        /// The file.
        handle: Handle,
        /// Where they begin.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Read bytes.
    Read {
        /// The file's name.
        name: String,
        /// The file.
        handle: Handle,
        /// Where they begin.
        at: u64,
        /// How many, at most.
        len: u32,
    },
    /// Give a file another size.
    Truncate {
        /// The file's name.
        name: String,
        /// Its size in bytes from now on.
        size: u64,
    },
    /// Remove a file's name.
    Remove {
        /// The name.
        name: String,
    },
    /// Make a directory.
    MakeDirectory {
        /// Its path.
        path: String,
    },
    /// Remove a directory in which nothing is.
    RemoveDirectory {
        /// Its path.
        path: String,
    },
    /// Give a file or a directory another path.
    Rename {
        /// The path that it has.
        from: String,
        /// The one that it is to have.
        to: String,
        /// Whether a file takes the place of the file that has it.
        replaces: bool,
    },
}

/// What a directory has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name there.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// A file's size in bytes, if it was asked for.
    pub size: Option<u64>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What is in a directory, in order, but for files that were removed meanwhile.
    Names {
        /// It.
        entries: Vec<Listed>,
        /// Whether there are more behind the last one.
        more: bool,
    },
    /// A file.
    Stat {
        /// What no other file ever has.
        handle: Handle,
        /// Its size in bytes.
        size: u64,
        /// How it is distributed.
        layout: Distribution,
    },
    /// Bytes: fewer than were asked for at the file's end.
    Bytes(Vec<u8>),
    /// It was done.
    Done,
}

const LIST: u8 = 1;
const STAT: u8 = 2;
const CREATE: u8 = 3;
const WRITE: u8 = 4;
const READ: u8 = 5;
const REMOVE: u8 = 6;
const DONE: u8 = 7;
const MAKE_DIRECTORY: u8 = 8;
const REMOVE_DIRECTORY: u8 = 9;
const RENAME: u8 = 10;
const TRUNCATE: u8 = 11;

/// The fewest bytes of what a directory has: those beside its name.
const SHORTEST_NAME: usize = 2 + 1 + 1 + 8;

/// How many of the first names a reply of so many bytes has room for.
pub(super) fn fitting(names: &[DirEntry], mut room: usize) -> usize {
    let fits = |entry: &&DirEntry| {
        let left = room.checked_sub(SHORTEST_NAME + entry.name.as_str().len());
        left.inspect(|left| room = *left).is_some()
    };
    names.iter().take_while(fits).count()
}

impl Request {
    /// Whether nothing else comes of it if it is done twice: all that changes no names and cuts nothing off. (What changes names is asked
    /// again by its number, as all such calls of nodes are.) A write that is repeated writes the same
    /// bytes, which is no harm as long as its client writes a place once and waits.
    pub fn may_repeat(&self) -> bool {
        match self {
            Request::List { .. } | Request::Stat { .. } | Request::Write { .. } | Request::Read { .. } => {
                true
            }
            Request::Create { .. } | Request::Remove { .. } | Request::Rename { .. } => false,
            Request::MakeDirectory { .. } | Request::RemoveDirectory { .. } => false,
            // Bytes that somebody has written since would be cut off.
            Request::Truncate { .. } => false,
        }
    }

    /// Whether something may be another than before, once it was done.
    pub fn changes(&self) -> bool {
        !matches!(self, Request::List { .. } | Request::Stat { .. } | Request::Read { .. })
    }

    /// The path that it is about.
    pub fn about(&self) -> &str {
        match self {
            Request::List { directory: path, .. }
            | Request::MakeDirectory { path }
            | Request::RemoveDirectory { path }
            | Request::Rename { from: path, .. }
            | Request::Stat { name: path }
            | Request::Create { name: path, .. }
            | Request::Write { name: path, .. }
            | Request::Read { name: path, .. }
            | Request::Truncate { name: path, .. }
            | Request::Remove { name: path } => path,
        }
    }

    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a path has more than 1,024 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Request::List { directory, after, sizes } => {
                to.named(LIST, directory);
                to.text(after);
                to.u8((*sizes).into());
            }
            Request::Stat { name } => to.named(STAT, name),
            Request::Create { name, strip, servers } => {
                to.named(CREATE, name);
                to.u32(strip.unwrap_or(0));
                to.u32(servers.unwrap_or(0).into());
            }
            Request::Write { name, handle, at, bytes } => {
                to.named(WRITE, name);
                to.u64(handle.0);
                to.u64(*at);
                to.rest(bytes);
            }
            Request::Read { name, handle, at, len } => {
                to.named(READ, name);
                to.u64(handle.0);
                to.u64(*at);
                to.u32(*len);
            }
            Request::Truncate { name, size } => {
                to.named(TRUNCATE, name);
                to.u64(*size);
            }
            Request::Remove { name } => to.named(REMOVE, name),
            Request::MakeDirectory { path } => to.named(MAKE_DIRECTORY, path),
            Request::RemoveDirectory { path } => to.named(REMOVE_DIRECTORY, path),
            Request::Rename { from, to: target, replaces } => {
                to.named(RENAME, from);
                to.text(target);
                to.u8((*replaces).into());
            }
        }
        to.0
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are no request.
    pub fn from_bytes(bytes: &[u8]) -> Result<Request, MalformedCall> {
        Request::read(Reader(bytes)).ok_or(MalformedCall)
    }

    fn read(mut from: Reader<'_>) -> Option<Request> {
        let (kind, name) = (from.u8()?, from.text()?);
        let request = match kind {
            LIST => Request::List { directory: name, after: from.text()?, sizes: from.flag()? },
            STAT => Request::Stat { name },
            CREATE => {
                let (strip, servers) = (from.u32()?, from.u32()?);
                let servers = u16::try_from(servers).ok()?;
                let (strip, servers) = ((strip > 0).then_some(strip), (servers > 0).then_some(servers));
                Request::Create { name, strip, servers }
            }
            WRITE => {
                let (handle, at) = (Handle(from.u64()?), from.u64()?);
                Request::Write { name, handle, at, bytes: from.rest() }
            }
            READ => Request::Read { name, handle: Handle(from.u64()?), at: from.u64()?, len: from.u32()? },
            TRUNCATE => Request::Truncate { name, size: from.u64()? },
            REMOVE => Request::Remove { name },
            MAKE_DIRECTORY => Request::MakeDirectory { path: name },
            REMOVE_DIRECTORY => Request::RemoveDirectory { path: name },
            RENAME => Request::Rename { from: name, to: from.text()?, replaces: from.flag()? },
            _ => return None,
        };
        from.end(request)
    }
}

impl Writer {
    fn named(&mut self, kind: u8, name: &str) {
        self.u8(kind);
        self.text(name);
    }
}

impl Reply {
    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If a path has more than 1,024 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Reply::Names { entries, more } => {
                to.u8(LIST);
                to.u8((*more).into());
                to.u32(entries.len() as u32);
                for Listed { name, is_directory, size } in entries {
                    to.text(name);
                    to.u8((*is_directory).into());
                    to.some_u64(*size);
                }
            }
            Reply::Stat { handle, size, layout } => {
                to.u8(STAT);
                to.u64(handle.0);
                to.u64(*size);
                to.u32(layout.strip());
                to.u32(layout.servers().into());
                to.u32(layout.first().into());
            }
            Reply::Bytes(bytes) => {
                to.u8(READ);
                to.rest(bytes);
            }
            Reply::Done => to.u8(DONE),
        }
        to.0
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are no reply.
    pub fn from_bytes(bytes: &[u8]) -> Result<Reply, MalformedCall> {
        Reply::read(Reader(bytes)).ok_or(MalformedCall)
    }

    fn read(mut from: Reader<'_>) -> Option<Reply> {
        let reply = match from.u8()? {
            LIST => {
                let more = from.flag()?;
                let entry = |from: &mut Reader<'_>| {
                    Some(Listed { name: from.text()?, is_directory: from.flag()?, size: from.some_u64()? })
                };
                Reply::Names { entries: from.list(SHORTEST_NAME, entry)?, more }
            }
            STAT => {
                let (handle, size, strip) = (Handle(from.u64()?), from.u64()?, from.u32()?);
                let servers = u16::try_from(from.u32()?).ok()?;
                let first = u16::try_from(from.u32()?).ok()?;
                let layout = Distribution::stripe(strip, servers, first)?;
                Reply::Stat { handle, size, layout }
            }
            READ => Reply::Bytes(from.rest()),
            DONE => Reply::Done,
            _ => return None,
        };
        from.end(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Name;
    use super::*;
    use proptest::prelude::*;

    const NAME: &str = "[a-z]{1,9}";

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..60)
    }

    fn requests() -> impl Strategy<Value = Request> {
        let list = ("[a-z/]{0,9}", "[a-z]{0,9}", any::<bool>())
            .prop_map(|(directory, after, sizes)| Request::List { directory, after, sizes });
        let rename = (NAME, NAME, any::<bool>()).prop_map(|(from, to, replaces)| Request::Rename {
            from,
            to,
            replaces,
        });
        let make = NAME.prop_map(|path| Request::MakeDirectory { path });
        let unmake = NAME.prop_map(|path| Request::RemoveDirectory { path });
        let create = (NAME, prop::option::of(1_u32..9), prop::option::of(1_u16..9))
            .prop_map(|(name, strip, servers)| Request::Create { name, strip, servers });
        let write = (NAME, any::<u64>(), any::<u64>(), bytes())
            .prop_map(|(name, handle, at, bytes)| Request::Write { name, handle: Handle(handle), at, bytes });
        let read = (NAME, any::<u64>(), any::<u64>(), any::<u32>())
            .prop_map(|(name, handle, at, len)| Request::Read { name, handle: Handle(handle), at, len });
        let stat = NAME.prop_map(|name| Request::Stat { name });
        let remove = NAME.prop_map(|name| Request::Remove { name });
        let truncate = (NAME, any::<u64>()).prop_map(|(name, size)| Request::Truncate { name, size });
        prop_oneof![truncate, list, create, write, read, stat, remove, rename, make, unmake]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let entry = (NAME, any::<bool>(), any::<Option<u64>>())
            .prop_map(|(name, is_directory, size)| Listed { name, is_directory, size });
        let entries = prop::collection::vec(entry, 0..4);
        let names = (entries, any::<bool>()).prop_map(|(entries, more)| Reply::Names { entries, more });
        let stat = (any::<u64>(), any::<u64>(), 1_u32..99, 1_u16..9, 0_u16..9).prop_map(
            |(handle, size, strip, servers, first)| {
                let layout = Distribution::stripe(strip, servers, first).expect("it can be");
                Reply::Stat { handle: Handle(handle), size, layout }
            },
        );
        prop_oneof![names, stat, bytes().prop_map(Reply::Bytes), Just(Reply::Done)]
    }

    proptest! {
        #[test]
        fn requests_and_replies_survive_their_bytes(request in requests(), reply in replies()) {
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
            prop_assert_eq!(Reply::from_bytes(&reply.to_bytes()), Ok(reply));
        }

        #[test]
        fn as_many_names_are_told_as_there_is_room_for(
            names in prop::collection::vec("[a-z]{1,40}", 0..40),
            room in 0..1_000_usize,
        ) {
            let entry = |name: &String| DirEntry { name: Name::new(name).expect("one"), is_directory: false };
            let all: Vec<DirEntry> = names.iter().map(entry).collect();
            let len = |told: usize| {
                let listed = |name: &String| Listed { name: name.clone(), is_directory: false, size: Some(7) };
                let entries = names[..told].iter().map(listed).collect();
                Reply::Names { entries, more: true }.to_bytes().len()
            };
            let told = fitting(&all, room);
            prop_assert!(len(told) <= len(0) + room);
            prop_assert!(told == names.len() || len(told + 1) > len(0) + room);
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in bytes()) {
            let _ = Request::from_bytes(&bytes);
            let _ = Reply::from_bytes(&bytes);
        }
    }
}
