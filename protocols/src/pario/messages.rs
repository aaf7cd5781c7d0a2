//! The messages between clients and servers, and their bytes.
//!
//! A request is a kind, the call's number and what the kind has; an answer is the same. All numbers are little-endian. What
//! cannot be read is no message: a decoder trusts no length that it was sent.

use super::access::{PIECES, Run};
use super::datatype::View;
use super::error::Refusal;
use super::wire::Frame;
use super::{DirEntry, Distribution, Handle, Name, Path};
use weft_verbs::RemoteSlice;

/// What a client asks a server for, or the home of a file its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Make a file of this name and open it.
    Create { path: Path, layout: Distribution },
    /// Open the file of this name.
    Open { path: Path },
    /// Close a file that was opened once, in this epoch of its home.
    Close { handle: Handle, epoch: u64 },
    /// Remove the name.
    Unlink { path: Path },
    /// The names in a directory behind this one, or from the first.
    List { directory: Path, after: Option<Name> },
    /// Make a directory.
    MakeDirectory { path: Path },
    /// Remove a directory in which nothing is.
    RemoveDirectory { path: Path },
    /// Give a file or a directory another path; whether a file takes the place of the file that has it.
    Rename { from: Path, to: Path, replaces: bool },
    /// The size of the server's object of a file.
    Size { handle: Handle },
    /// Bytes of a file, as far as they are the server's.
    Read { bytes: Bytes, into: Target },
    /// The same to be written.
    Write { bytes: Bytes, from: Source },
    /// Make durable what was written.
    Sync { handle: Handle },
    /// Remove the server's object of a file that has no name any more.
    Remove { handle: Handle },
    /// Which epoch of the server this is.
    Epoch,
    /// What the node, as a client, has open since an earlier epoch than this one of the home that asks: the files behind this
    /// one, by handle.
    Opens { epoch: u64, after: Handle },
    /// What was offered is moved, or cannot be. Nothing is answered to it; its number is that of the call.
    Moved { op: u64, done: bool },
}

/// Bytes of a file: a server finds its part by the distribution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bytes {
    pub handle: Handle,
    pub layout: Distribution,
    pub file: View,
    /// Which of the view's data are meant: from this one on, so many.
    pub from: u64,
    pub len: u32,
}

/// A client's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    pub slice: RemoteSlice,
    /// Where the data lie in it.
    pub view: View,
    /// Which of the view's data are the first that are meant.
    pub from: u64,
    /// Bytes that the client moves or waits for at present (5.1: its load).
    pub load: u32,
}

/// Where the bytes of a read go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// Into the answer, the server's pieces one behind the other.
    Answer,
    /// Into the client's memory, which holds all bytes that were asked for.
    Memory(Memory),
}

/// Where the bytes of a write are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the request, the server's pieces one behind the other.
    Request(Vec<u8>),
    /// In the client's memory, which holds all bytes that are to be written.
    Memory(Memory),
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// It is done, in this epoch of the server: what is not durable yet is lost with that.
    At { epoch: u64 },
    /// It was not done.
    Refused(Refusal),
    /// The file is open, in this epoch of its home.
    Opened { handle: Handle, layout: Distribution, epoch: u64 },
    /// How often a client has files open, by handle, and whether there are more.
    Open { files: Vec<(Handle, u32)>, more: bool },
    /// Names in their order, and whether there are more.
    Names { names: Vec<DirEntry>, more: bool },
    /// An object's size; zero if there is none.
    Size(u64),
    /// The bytes of a read: those asked for, with zeros where there are none. Whether there were fewer.
    Data { bytes: Vec<u8>, short: bool },
    /// The bytes are in the client's memory; the same.
    Pushed { short: bool },
    /// No answer yet: a place in staging for these runs of the client's memory, which the client is to write, or to read.
    Offer { op: u64, place: RemoteSlice, runs: Vec<Run>, writes: bool },
}

/// Bytes of the longest offer.
pub(super) const OFFER: u32 = 1 + 8 + 8 + 16 + 1 + 12 * PIECES as u32;

/// Bytes of a view of bytes one behind the other.
pub(super) const PLAIN: u32 = 8 + 1 + 8;

/// Bytes of a message beside data and beside what a view has more than a plain one: kind, number, handle, distribution, view,
/// which of it, memory, view, which of it.
pub(super) const HEADER: u32 = 1 + 8 + 8 + 8 + PLAIN + 8 + 4 + 16 + PLAIN + 8 + 4;

/// Bytes of a list of names beside the names.
pub(super) const LISTING: u32 = 1 + 8 + 1;

mod kind {
    pub(super) const CREATE: u8 = 1;
    pub(super) const OPEN: u8 = 2;
    pub(super) const CLOSE: u8 = 3;
    pub(super) const UNLINK: u8 = 4;
    pub(super) const LIST: u8 = 5;
    pub(super) const SIZE: u8 = 6;
    pub(super) const READ: u8 = 7;
    pub(super) const READ_INTO: u8 = 8;
    pub(super) const WRITE: u8 = 9;
    pub(super) const WRITE_FROM: u8 = 10;
    pub(super) const SYNC: u8 = 11;
    pub(super) const REMOVE: u8 = 12;
    pub(super) const MOVED: u8 = 13;
    pub(super) const EPOCH: u8 = 14;
    pub(super) const OPENS: u8 = 15;
    pub(super) const MAKE_DIRECTORY: u8 = 16;
    pub(super) const REMOVE_DIRECTORY: u8 = 17;
    pub(super) const RENAME: u8 = 18;

    pub(super) const DONE: u8 = 33;
    pub(super) const REFUSED: u8 = 34;
    pub(super) const OPENED: u8 = 35;
    pub(super) const NAMES: u8 = 36;
    pub(super) const OBJECT: u8 = 37;
    pub(super) const DATA: u8 = 38;
    pub(super) const PUSHED: u8 = 39;
    pub(super) const OFFER: u8 = 40;
    pub(super) const AT: u8 = 41;
    pub(super) const HAS_OPEN: u8 = 42;
}

/// Bytes of a list of open files beside the files, and of each.
pub(super) const OPENS: (u32, u32) = (1 + 8 + 1, 8 + 4);

/// A message in the making, or a batch of the log.
pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    fn new(kind: u8, id: u64) -> Writer {
        let mut writer = Writer(Vec::with_capacity(HEADER as usize));
        writer.0.push(kind);
        writer.u64(id);
        writer
    }

    pub(super) fn u64(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    pub(super) fn layout(&mut self, layout: Distribution) {
        self.0.extend(layout.strip().to_le_bytes());
        self.0.extend(layout.servers().to_le_bytes());
        self.0.extend(layout.first().to_le_bytes());
    }

    fn bytes(&mut self, Bytes { handle, layout, file, from, len }: &Bytes) {
        self.u64(handle.0);
        self.layout(*layout);
        file.encode(&mut self.0);
        self.u64(*from);
        self.0.extend(len.to_le_bytes());
    }

    fn memory(&mut self, Memory { slice, view, from, load }: &Memory) {
        self.0.extend(slice.to_bytes());
        view.encode(&mut self.0);
        self.u64(*from);
        self.0.extend(load.to_le_bytes());
    }

    pub(super) fn path(&mut self, path: &Path) {
        self.0.extend((path.as_str().len() as u16).to_le_bytes());
        self.0.extend(path.as_str().as_bytes());
    }

    fn name(&mut self, name: &Name) {
        self.0.push(name.as_str().len() as u8);
        self.0.extend(name.as_str().as_bytes());
    }
}

/// The rest of what is read.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn handle(&mut self) -> Option<Handle> {
        self.u64().map(Handle)
    }

    pub(super) fn layout(&mut self) -> Option<Distribution> {
        let strip = u32::from_le_bytes(self.array()?);
        let servers = u16::from_le_bytes(self.array()?);
        Distribution::stripe(strip, servers, u16::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let (handle, layout) = (self.handle()?, self.layout()?);
        let file = View::decode(&mut self.0)?;
        let (from, len) = (self.u64()?, u32::from_le_bytes(self.array()?));
        Some(Bytes { handle, layout, file, from, len })
    }

    pub(super) fn path(&mut self) -> Option<Path> {
        let len = usize::from(u16::from_le_bytes(self.array()?));
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        // Only as it is written: one path has one text.
        Path::new(std::str::from_utf8(text).ok()?).filter(|path| path.as_str().len() == len)
    }

    fn entry(&mut self) -> Option<DirEntry> {
        let is_directory = self.flag()?;
        Some(DirEntry { name: self.name()?, is_directory })
    }

    fn name(&mut self) -> Option<Name> {
        let len = usize::from(self.u8()?);
        let (name, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Name::new(std::str::from_utf8(name).ok()?)
    }

    fn memory(&mut self) -> Option<Memory> {
        let slice = self.array().map(RemoteSlice::from_bytes)?;
        let (view, from) = (View::decode(&mut self.0)?, self.u64()?);
        Some(Memory { slice, view, from, load: u32::from_le_bytes(self.array()?) })
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    /// The message, if all of it was read.
    fn end<T>(self, message: T) -> Option<T> {
        self.0.is_empty().then_some(message)
    }
}

impl Request {
    /// Its bytes for a stream, its data apart.
    pub(super) fn into_frame(mut self, id: u64) -> Frame {
        let data = match &mut self {
            Request::Write { from: Source::Request(data), .. } => std::mem::take(data),
            _ => Vec::new(),
        };
        Frame { head: self.encode(id), data }
    }

    /// Reads what [`Request::into_frame`] made.
    pub(super) fn of_frame(frame: Frame) -> Option<(u64, Request)> {
        let (id, mut request) = Request::decode(&frame.head)?;
        match &mut request {
            Request::Write { from: Source::Request(data), .. } if data.is_empty() => *data = frame.data,
            _ if frame.data.is_empty() => {}
            _ => return None,
        }
        Some((id, request))
    }

    /// Its bytes, with the call's number.
    pub(super) fn encode(&self, id: u64) -> Vec<u8> {
        let writer = |kind| Writer::new(kind, id);
        let of_handle = |kind, handle: &Handle| {
            let mut writer = Writer::new(kind, id);
            writer.u64(handle.0);
            writer
        };
        let of_path = |kind, path: &Path| {
            let mut writer = Writer::new(kind, id);
            writer.path(path);
            writer
        };
        let writer = match self {
            Request::Create { path, layout } => {
                let mut to = writer(kind::CREATE);
                to.layout(*layout);
                to.path(path);
                to
            }
            Request::Open { path } => of_path(kind::OPEN, path),
            Request::Unlink { path } => of_path(kind::UNLINK, path),
            Request::MakeDirectory { path } => of_path(kind::MAKE_DIRECTORY, path),
            Request::RemoveDirectory { path } => of_path(kind::REMOVE_DIRECTORY, path),
            Request::Rename { from, to: target, replaces } => {
                let mut to = of_path(kind::RENAME, from);
                to.path(target);
                to.0.push(u8::from(*replaces));
                to
            }
            Request::List { directory, after } => {
                let mut to = of_path(kind::LIST, directory);
                after.iter().for_each(|name| to.name(name));
                to
            }
            Request::Close { handle, epoch } => {
                let mut to = of_handle(kind::CLOSE, handle);
                to.u64(*epoch);
                to
            }
            Request::Epoch => writer(kind::EPOCH),
            Request::Opens { epoch, after } => {
                let mut to = writer(kind::OPENS);
                to.u64(*epoch);
                to.u64(after.0);
                to
            }
            Request::Size { handle } => of_handle(kind::SIZE, handle),
            Request::Sync { handle } => of_handle(kind::SYNC, handle),
            Request::Remove { handle } => of_handle(kind::REMOVE, handle),
            Request::Moved { op, done } => {
                let mut to = writer(kind::MOVED);
                to.u64(*op);
                to.0.push(u8::from(*done));
                to
            }
            Request::Read { bytes, into: Target::Answer } => {
                let mut to = writer(kind::READ);
                to.bytes(bytes);
                to
            }
            Request::Read { bytes, into: Target::Memory(memory) } => {
                let mut to = writer(kind::READ_INTO);
                to.bytes(bytes);
                to.memory(memory);
                to
            }
            Request::Write { bytes, from: Source::Request(data) } => {
                let mut to = writer(kind::WRITE);
                to.bytes(bytes);
                to.0.extend(data);
                to
            }
            Request::Write { bytes, from: Source::Memory(memory) } => {
                let mut to = writer(kind::WRITE_FROM);
                to.bytes(bytes);
                to.memory(memory);
                to
            }
        };
        writer.0
    }

    /// Reads bytes: the call's number and the request. `None` if they are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Request)> {
        let mut from = Reader(bytes);
        let (kind, id) = (from.u8()?, from.u64()?);
        let request = match kind {
            kind::CREATE => {
                let layout = from.layout()?;
                Request::Create { path: from.path()?, layout }
            }
            kind::OPEN => Request::Open { path: from.path()? },
            kind::UNLINK => Request::Unlink { path: from.path()? },
            kind::MAKE_DIRECTORY => Request::MakeDirectory { path: from.path()? },
            kind::REMOVE_DIRECTORY => Request::RemoveDirectory { path: from.path()? },
            kind::RENAME => Request::Rename { from: from.path()?, to: from.path()?, replaces: from.flag()? },
            kind::LIST => {
                let directory = from.path()?;
                let after = if from.0.is_empty() { None } else { Some(from.name()?) };
                Request::List { directory, after }
            }
            kind::CLOSE => Request::Close { handle: from.handle()?, epoch: from.u64()? },
            kind::EPOCH => Request::Epoch,
            kind::OPENS => Request::Opens { epoch: from.u64()?, after: from.handle()? },
            kind::SIZE => Request::Size { handle: from.handle()? },
            kind::SYNC => Request::Sync { handle: from.handle()? },
            kind::REMOVE => Request::Remove { handle: from.handle()? },
            kind::MOVED => Request::Moved { op: from.u64()?, done: from.flag()? },
            kind::READ => Request::Read { bytes: from.bytes()?, into: Target::Answer },
            kind::READ_INTO => Request::Read { bytes: from.bytes()?, into: Target::Memory(from.memory()?) },
            kind::WRITE => {
                let bytes = from.bytes()?;
                Request::Write { bytes, from: Source::Request(from.rest()) }
            }
            kind::WRITE_FROM => Request::Write { bytes: from.bytes()?, from: Source::Memory(from.memory()?) },
            _ => return None,
        };
        from.end((id, request))
    }
}

impl Answer {
    /// Its bytes for a stream, its data apart.
    pub(super) fn into_frame(mut self, id: u64) -> Frame {
        let data = match &mut self {
            Answer::Data { bytes, .. } => std::mem::take(bytes),
            _ => Vec::new(),
        };
        Frame { head: self.encode(id), data }
    }

    /// Reads what [`Answer::into_frame`] made.
    pub(super) fn of_frame(frame: Frame) -> Option<(u64, Answer)> {
        let (id, mut answer) = Answer::decode(&frame.head)?;
        match &mut answer {
            Answer::Data { bytes, .. } if bytes.is_empty() => *bytes = frame.data,
            _ if frame.data.is_empty() => {}
            _ => return None,
        }
        Some((id, answer))
    }

    /// Its bytes, with the number of the call that it answers.
    pub(super) fn encode(&self, id: u64) -> Vec<u8> {
        let writer = |kind| Writer::new(kind, id);
        let writer = match self {
            Answer::Done => writer(kind::DONE),
            Answer::Refused(refusal) => {
                let mut to = writer(kind::REFUSED);
                to.0.push(*refusal as u8);
                to
            }
            Answer::At { epoch } => {
                let mut to = writer(kind::AT);
                to.u64(*epoch);
                to
            }
            Answer::Opened { handle, layout, epoch } => {
                let mut to = writer(kind::OPENED);
                to.u64(handle.0);
                to.layout(*layout);
                to.u64(*epoch);
                to
            }
            Answer::Open { files, more } => {
                let mut to = writer(kind::HAS_OPEN);
                to.0.push(u8::from(*more));
                for (handle, opens) in files {
                    to.u64(handle.0);
                    to.0.extend(opens.to_le_bytes());
                }
                to
            }
            Answer::Names { names, more } => {
                let mut to = writer(kind::NAMES);
                to.0.push(u8::from(*more));
                for DirEntry { name, is_directory } in names {
                    to.0.push(u8::from(*is_directory));
                    to.name(name);
                }
                to
            }
            Answer::Size(size) => {
                let mut to = writer(kind::OBJECT);
                to.u64(*size);
                to
            }
            Answer::Data { bytes, short } => {
                let mut to = writer(kind::DATA);
                to.0.push(u8::from(*short));
                to.0.extend(bytes);
                to
            }
            Answer::Pushed { short } => {
                let mut to = writer(kind::PUSHED);
                to.0.push(u8::from(*short));
                to
            }
            Answer::Offer { op, place, runs, writes } => {
                let mut to = writer(kind::OFFER);
                to.u64(*op);
                to.0.extend(place.to_bytes());
                to.0.push(u8::from(*writes));
                for Run { at, len } in runs {
                    to.u64(*at);
                    to.0.extend(len.to_le_bytes());
                }
                to
            }
        };
        writer.0
    }

    /// Reads bytes: the call's number and the answer. `None` if they are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Answer)> {
        let mut from = Reader(bytes);
        let (kind, id) = (from.u8()?, from.u64()?);
        let answer = match kind {
            kind::DONE => Answer::Done,
            kind::REFUSED => Answer::Refused(Refusal::from_code(from.u8()?)?),
            kind::AT => Answer::At { epoch: from.u64()? },
            kind::OPENED => {
                Answer::Opened { handle: from.handle()?, layout: from.layout()?, epoch: from.u64()? }
            }
            kind::HAS_OPEN => {
                let (more, mut files) = (from.flag()?, Vec::new());
                while !from.0.is_empty() {
                    files.push((from.handle()?, u32::from_le_bytes(from.array()?)));
                }
                Answer::Open { files, more }
            }
            kind::NAMES => {
                let (more, mut names) = (from.flag()?, Vec::new());
                while !from.0.is_empty() {
                    names.push(from.entry()?);
                }
                Answer::Names { names, more }
            }
            kind::OBJECT => Answer::Size(from.u64()?),
            kind::DATA => {
                let short = from.flag()?;
                Answer::Data { bytes: from.rest(), short }
            }
            kind::PUSHED => Answer::Pushed { short: from.flag()? },
            kind::OFFER => {
                let (op, place) = (from.u64()?, from.array().map(RemoteSlice::from_bytes)?);
                let (writes, mut runs) = (from.flag()?, Vec::new());
                while !from.0.is_empty() {
                    runs.push(Run { at: from.u64()?, len: u32::from_le_bytes(from.array()?) });
                }
                Answer::Offer { op, place, runs, writes }
            }
            _ => return None,
        };
        from.end((id, answer))
    }
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
