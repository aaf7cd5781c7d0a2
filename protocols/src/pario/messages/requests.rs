//! Requests as bytes.

use super::super::Handle;
use super::super::slots::Asked;
use super::Frame;
use super::{Reader, Request, Source, Target, Writer, kind};

impl Request {
    /// The call that a home is to know again, if it is one.
    pub(in super::super) fn asked(&self) -> Option<Asked> {
        if let Request::Recorded { asked, .. } = self { Some(*asked) } else { None }
    }

    /// Whether it makes something that takes room for good.
    pub(in super::super) fn makes(&self) -> bool {
        match self {
            Request::Recorded { request, .. } => request.makes(),
            Request::Create { .. } | Request::MakeDirectory { .. } | Request::Rename { .. } => true,
            Request::Place { .. } => true,
            _ => false,
        }
    }

    /// Whether it alters a file, which takes a little room of the log and gives none of it back.
    pub(in super::super) fn alters(&self) -> bool {
        match self {
            Request::Recorded { request, .. } => request.alters(),
            Request::SetAttributes { .. } | Request::Truncate { .. } => true,
            _ => false,
        }
    }

    /// Whether it takes a little room of the log, and leaves more.
    pub(in super::super) fn removes(&self) -> bool {
        match self {
            Request::Recorded { request, .. } => request.removes(),
            Request::Unlink { .. } | Request::RemoveDirectory { .. } => true,
            _ => false,
        }
    }

    /// Whether it is about names, or a file's end: the affair of its home.
    pub(in super::super) fn is_of_names(&self) -> bool {
        match self {
            Request::Recorded { request, .. } => request.is_of_names(),
            Request::Create { .. } | Request::Open { .. } | Request::List { .. } | Request::Close { .. } => {
                true
            }
            Request::Unlink { .. } | Request::MakeDirectory { .. } | Request::RemoveDirectory { .. } => true,
            Request::Rename { .. } | Request::Stat { .. } | Request::SetAttributes { .. } => true,
            Request::Place { .. } | Request::Placed { .. } | Request::Truncate { .. } => true,
            _ => false,
        }
    }

    /// Whether other calls wait for it: it is asked however many calls of its node the server has not answered, since those may be the
    /// ones that wait.
    pub(in super::super) fn is_waited_for(&self) -> bool {
        let is_of_servers =
            matches!(self, Request::Lives { .. } | Request::Remove { .. } | Request::Cut { .. });
        is_of_servers || matches!(self, Request::Gather { .. } | Request::Opens { .. })
    }

    /// Whether it is answered when servers have answered that may be away for long.
    pub(in super::super) fn waits_for_others(&self) -> bool {
        matches!(self, Request::Truncate { .. })
    }

    /// Of which file it asks for data, where they end, or that they last.
    pub(in super::super) fn of_data(&self) -> Option<Handle> {
        match self {
            Request::Read { bytes, .. } | Request::Write { bytes, .. } => Some(bytes.handle),
            Request::Size { handle } | Request::Sync { handle } => Some(*handle),
            _ => None,
        }
    }

    /// Its bytes for a stream, its data apart.
    pub(in super::super) fn into_frame(mut self, id: u64) -> Frame {
        let data = match &mut self {
            Request::Write { from: Source::Request(data), .. } => std::mem::take(data),
            _ => Vec::new(),
        };
        Frame { head: self.encode(id), data }
    }

    /// Reads what [`Request::into_frame`] made.
    pub(in super::super) fn of_frame(frame: Frame) -> Option<(u64, Request)> {
        let (id, mut request) = Request::decode(&frame.head)?;
        match &mut request {
            Request::Write { from: Source::Request(data), .. } if data.is_empty() => *data = frame.data,
            _ if frame.data.is_empty() => {}
            _ => return None,
        }
        Some((id, request))
    }

    /// Its bytes, with the call's number.
    pub(in super::super) fn encode(&self, id: u64) -> Vec<u8> {
        let mut to = Writer::new(self.kind(), id);
        match self {
            Request::Create { path, layout } => {
                to.layout(*layout);
                to.path(path);
            }
            Request::Open { path } | Request::Unlink { path } | Request::Stat { path } => to.path(path),
            Request::MakeDirectory { path } | Request::RemoveDirectory { path } => to.path(path),
            Request::Rename { from, to: target, replaces } => {
                to.path(from);
                to.path(target);
                to.0.push(u8::from(*replaces));
            }
            Request::List { directory, after } => {
                to.path(directory);
                after.iter().for_each(|name| to.name(name));
            }
            Request::Close { handle, epoch: word }
            | Request::Placed { handle, at: word }
            | Request::Truncate { handle, size: word } => {
                to.u64(handle.0);
                to.u64(*word);
            }
            Request::Recorded { asked, request } => {
                to.asked(*asked);
                let inner = request.encode(id);
                // Its number is that of the call.
                to.0.push(inner[0]);
                to.0.extend(&inner[9..]);
            }
            Request::SetAttributes { path, set } => {
                to.path(path);
                to.set(*set);
            }
            Request::Place { handle, len, least, cuts } => {
                [handle.0, *len, *least, cuts.0, cuts.1].into_iter().for_each(|word| to.u64(word));
            }
            Request::Cut { handle, size, grows } => {
                to.u64(handle.0);
                to.u64(*size);
                to.0.push(u8::from(*grows));
            }
            Request::Gather { group, round, member, members, word } => {
                to.u64(*group);
                to.u64(*round);
                to.u32(*member);
                to.u32(*members);
                to.u64(*word);
            }
            Request::Epoch => {}
            Request::Opens { epoch, after } => {
                to.u64(*epoch);
                to.u64(after.0);
            }
            Request::Size { handle } | Request::Sync { handle } => to.u64(handle.0),
            Request::Lives { handle } => to.u64(handle.0),
            Request::Remove { handle, first } => {
                to.u64(handle.0);
                to.u64(first.0);
            }
            Request::Moved { op, done } => {
                to.u64(*op);
                to.0.push(u8::from(*done));
            }
            Request::Read { bytes, into: Target::Answer } => to.bytes(bytes),
            Request::Write { bytes, from: Source::Request(data) } => {
                to.bytes(bytes);
                to.0.extend(data);
            }
            Request::Read { bytes, into: Target::Memory(memory) }
            | Request::Write { bytes, from: Source::Memory(memory) } => {
                to.bytes(bytes);
                to.memory(memory);
            }
        }
        to.0
    }

    fn kind(&self) -> u8 {
        match self {
            Request::Create { .. } => kind::CREATE,
            Request::Open { .. } => kind::OPEN,
            Request::Close { .. } => kind::CLOSE,
            Request::Unlink { .. } => kind::UNLINK,
            Request::List { .. } => kind::LIST,
            Request::MakeDirectory { .. } => kind::MAKE_DIRECTORY,
            Request::RemoveDirectory { .. } => kind::REMOVE_DIRECTORY,
            Request::Rename { .. } => kind::RENAME,
            Request::Size { .. } => kind::SIZE,
            Request::Read { into: Target::Answer, .. } => kind::READ,
            Request::Read { into: Target::Memory(_), .. } => kind::READ_INTO,
            Request::Write { from: Source::Request(_), .. } => kind::WRITE,
            Request::Write { from: Source::Memory(_), .. } => kind::WRITE_FROM,
            Request::Sync { .. } => kind::SYNC,
            Request::Remove { .. } => kind::REMOVE,
            Request::Lives { .. } => kind::LIVES,
            Request::Recorded { .. } => kind::RECORDED,
            Request::Stat { .. } => kind::STAT,
            Request::SetAttributes { .. } => kind::SET_ATTRIBUTES,
            Request::Place { .. } => kind::PLACE,
            Request::Placed { .. } => kind::PLACED,
            Request::Truncate { .. } => kind::TRUNCATE,
            Request::Cut { .. } => kind::CUT,
            Request::Gather { .. } => kind::GATHER,
            Request::Epoch => kind::EPOCH,
            Request::Opens { .. } => kind::OPENS,
            Request::Moved { .. } => kind::MOVED,
        }
    }

    /// Reads bytes: the call's number and the request. `None` if they are none.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<(u64, Request)> {
        let mut from = Reader(bytes);
        let (kind, id) = (from.u8()?, from.u64()?);
        if kind == kind::RECORDED {
            let asked = from.asked()?;
            let kind = from.u8().filter(|inner| *inner != kind::RECORDED)?;
            let request = Box::new(Request::decode_as(kind, from)?);
            return Some((id, Request::Recorded { asked, request }));
        }
        Some((id, Request::decode_as(kind, from)?))
    }

    fn decode_as(kind: u8, mut from: Reader<'_>) -> Option<Request> {
        let request = match kind {
            kind::STAT => Request::Stat { path: from.path()? },
            kind::SET_ATTRIBUTES => Request::SetAttributes { path: from.path()?, set: from.set()? },
            kind::PLACE => Request::Place {
                handle: from.handle()?,
                len: from.u64()?,
                least: from.u64()?,
                cuts: (from.u64()?, from.u64()?),
            },
            kind::PLACED => Request::Placed { handle: from.handle()?, at: from.u64()? },
            kind::TRUNCATE => Request::Truncate { handle: from.handle()?, size: from.u64()? },
            kind::CUT => Request::Cut { handle: from.handle()?, size: from.u64()?, grows: from.flag()? },
            kind::GATHER => {
                let (group, round) = (from.u64()?, from.u64()?);
                let (member, members) = (from.u32()?, from.u32()?);
                Request::Gather { group, round, member, members, word: from.u64()? }
            }
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
            kind::REMOVE => Request::Remove { handle: from.handle()?, first: from.handle()? },
            kind::LIVES => Request::Lives { handle: from.handle()? },
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
        from.end(request)
    }
}
