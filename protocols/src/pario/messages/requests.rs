//! Requests as bytes.

use super::super::slots::Asked;
use super::super::{Handle, Path};
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
            Request::Recorded { asked, request } => {
                let mut to = writer(kind::RECORDED);
                to.asked(*asked);
                let inner = request.encode(id);
                // Its number is that of the call.
                to.0.push(inner[0]);
                to.0.extend(&inner[9..]);
                to
            }
            Request::Stat { path } => of_path(kind::STAT, path),
            Request::SetAttributes { path, set } => {
                let mut to = of_path(kind::SET_ATTRIBUTES, path);
                to.set(*set);
                to
            }
            Request::Place { handle, len, least, cuts } => {
                let mut to = of_handle(kind::PLACE, handle);
                [*len, *least, cuts.0, cuts.1].into_iter().for_each(|word| to.u64(word));
                to
            }
            Request::Placed { handle, at } => {
                let mut to = of_handle(kind::PLACED, handle);
                to.u64(*at);
                to
            }
            Request::Truncate { handle, size } => {
                let mut to = of_handle(kind::TRUNCATE, handle);
                to.u64(*size);
                to
            }
            Request::Cut { handle, size, grows } => {
                let mut to = of_handle(kind::CUT, handle);
                to.u64(*size);
                to.0.push(u8::from(*grows));
                to
            }
            Request::Gather { group, round, member, members, word } => {
                let mut to = writer(kind::GATHER);
                to.u64(*group);
                to.u64(*round);
                to.u32(*member);
                to.u32(*members);
                to.u64(*word);
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
            Request::Lives { handle } => of_handle(kind::LIVES, handle),
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
            kind::REMOVE => Request::Remove { handle: from.handle()? },
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
