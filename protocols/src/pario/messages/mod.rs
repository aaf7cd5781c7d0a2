//! The messages between clients and servers, and their bytes.
//!
//! A request is a kind, the call's number and what the kind has; an answer is the same. All numbers are little-endian. What
//! cannot be read is no message: a decoder trusts no length that it was sent.

mod answers;
mod fields;
mod requests;
#[cfg(test)]
mod tests;

pub(super) use crate::bytes::{Reader, Writer};

use super::access::{PIECES, Run};
use super::datatype::View;
use super::error::Refusal;
use super::slots::Asked;
use super::{Attributes, DirEntry, Distribution, Handle, Name, Path, SetAttributes};
use weft_verbs::RemoteSlice;

/// What a member says, and is told, of a group that is broken.
pub(super) const BROKEN: u64 = u64::MAX;

/// A message for a stream: what it says, and the data that it carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub head: Vec<u8>,
    pub data: Vec<u8>,
}

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
    /// All files from the `first` handle to that one are gone, of whichever servers they were.
    Remove { handle: Handle, first: Handle },
    /// Whether a file has not ended: a server asks its home.
    Lives { handle: Handle },
    /// A change of names that a home which has done it answers once more, and does not do again.
    Recorded { asked: Asked, request: Box<Request> },
    /// What is at a path.
    Stat { path: Path },
    /// A file has other attributes.
    SetAttributes { path: Path, set: SetAttributes },
    /// A place for so many bytes behind a file's end, which lies there or later, as a client saw that had seen so many cuts.
    Place { handle: Handle, len: u64, least: u64, cuts: (u64, u64) },
    /// A client writes to a place no more.
    Placed { handle: Handle, at: u64 },
    /// A file ends here.
    Truncate { handle: Handle, size: u64 },
    /// The server's object of a file ends here, from its home; one that ended before is as long only if the file is to grow.
    Cut { handle: Handle, size: u64, grows: bool },
    /// One of so many members of a group has come to a round, and says a number.
    Gather { group: u64, round: u64, member: u32, members: u32, word: u64 },
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
    /// What is at a path: a file, or a directory.
    Stat { file: Option<(Handle, Distribution)>, attributes: Attributes },
    /// The first byte of a place.
    Place { at: u64 },
    /// No place: the file was cut meanwhile, in this life of its home so often.
    Cuts((u64, u64)),
    /// All members have come; the largest number that one said.
    Gathered(u64),
    /// An object's size; zero if there is none.
    Size(u64),
    /// The file has not ended. How many handles its home has given out by now.
    Lives { given: u64 },
    /// The bytes of a read: those asked for, with zeros where there are none. Whether there were fewer.
    Data { bytes: Vec<u8>, short: bool },
    /// The bytes are in the client's memory; the same.
    Pushed { short: bool },
    /// No answer yet: a place in staging for these runs of the client's memory, which the client is to write, or to read.
    Offer { op: u64, place: RemoteSlice, runs: Vec<Run>, writes: bool },
}

/// Bytes of the longest offer.
pub(super) const OFFER: u32 = 1 + 8 + 8 + 16 + 1 + 12 * PIECES as u32;

/// Bytes of the longest request about names, a move that its home knows again: kind, number, slot, sequence, kind, two paths, a flag.
pub(super) const PATHS: u32 = 1 + 8 + 2 + 8 + 1 + 2 * (2 + Path::LONGEST as u32) + 1;

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
    pub(super) const RECORDED: u8 = 19;
    pub(super) const STAT: u8 = 20;
    pub(super) const SET_ATTRIBUTES: u8 = 21;
    pub(super) const PLACE: u8 = 22;
    pub(super) const PLACED: u8 = 23;
    pub(super) const TRUNCATE: u8 = 24;
    pub(super) const CUT: u8 = 25;
    pub(super) const GATHER: u8 = 26;
    pub(super) const LIVES: u8 = 27;

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
    pub(super) const HAS: u8 = 43;
    pub(super) const PLACE_AT: u8 = 44;
    pub(super) const CUTS: u8 = 45;
    pub(super) const GATHERED: u8 = 46;
    pub(super) const LIVING: u8 = 47;
}

/// Bytes of a list of open files beside the files, and of each.
pub(super) const OPENS: (u32, u32) = (1 + 8 + 1, 8 + 4);
