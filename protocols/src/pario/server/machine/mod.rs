//! A server as a state machine without I/O: requests and the ends of disk calls and transfers go in, actions come out.
//!
//! A request for data is cut into **units**: what lies together in one strip, at most [`FsConfig::unit`] bytes. A unit of a
//! large request needs a place in **staging**, which bounds what a server holds at a time; requests take turns at places, one
//! unit each (pvfs2-quadrics.txt, 5.1: the throttle).
//!
//! | request | way of a unit |
//! |---|---|
//! | write, bytes in the request | turn at the range, disk |
//! | write, bytes in memory | place, **pull** by RDMA read, turn, disk; the place is free |
//! | read, into the answer | turn, disk, answer |
//! | read, into memory | place, turn, disk, **push** by RDMA write; the place is free |
//!
//! A unit is pulled whole before any of it is written: a client that dies in the middle leaves it as it was. The answer comes
//! after the last unit, and under [`Sync::Each`] after the disk has made them durable.

mod removals;
mod units;

use super::super::error::Refusal;
use super::super::messages::{Answer, Bytes, LISTING, Request, Source, Target};
use super::super::{FsConfig, Handle, Name, Piece, Pieces, Sync};
use super::names::{Gone, Names};
use super::ranges::Ranges;
use crate::transport::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use weft_verbs::RemoteSlice;

/// A place in staging, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stage(pub u32);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A client, or a file's home, asks.
    Request { from: Rank, id: u64, request: Request },
    /// A disk call has ended.
    Stored { op: u64, end: Result<Stored, Refusal> },
    /// A transfer has ended: its bytes are where they were to go, or they cannot be moved.
    Moved { op: u64, done: bool },
    /// Another server has removed its object, or cannot be asked any more.
    Removed { op: u64 },
    /// A client began anew: it knows nothing of what it had asked for.
    Reset { client: Rank },
}

/// What a disk call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is done.
    Done,
    /// So many bytes were read; the rest of the place is zero. The bytes, if they were not read into staging.
    Read { moved: u32, bytes: Vec<u8> },
    /// The object's size.
    Size(u64),
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send an answer.
    Answer { to: Rank, id: u64, answer: Answer },
    /// Call the disk.
    Store { op: u64, call: StoreCall },
    /// Read a client's memory into staging.
    Pull { op: u64, from: Rank, at: RemoteSlice, stage: Stage },
    /// Write staging into a client's memory.
    Push { op: u64, to: Rank, at: RemoteSlice, stage: Stage },
    /// Ask another server to remove its object of a file.
    Remove { op: u64, server: u32, handle: Handle },
}

/// A disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreCall {
    /// Read; what is not there is zero.
    Read {
        handle: Handle,
        at: u64,
        into: Place,
    },
    Write {
        handle: Handle,
        at: u64,
        from: Place,
    },
    Size(Handle),
    Sync(Handle),
    Remove(Handle),
}

/// Memory of a disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Stage { stage: Stage, len: u32 },
    Bytes(Vec<u8>),
}

/// A request for data that is under way.
#[derive(Clone, Debug)]
struct Job {
    /// Whom to answer, unless it began anew meanwhile.
    client: Option<Rank>,
    id: u64,
    bytes: Bytes,
    /// The client's memory, if the data do not ride in messages.
    memory: Option<RemoteSlice>,
    writes: bool,
    /// Units that have not begun.
    left: Pieces,
    /// Units that have.
    begun: u32,
    /// Some bytes were not there.
    short: bool,
    failed: Option<Refusal>,
    /// Nothing is left to do but to make it durable and to answer.
    ending: bool,
}

/// What an operation is for.
#[derive(Clone, Debug)]
enum Op {
    /// A unit is pulled into staging.
    Pull { job: u64, piece: Piece, stage: Stage },
    /// A staged unit is written to the disk.
    Write { job: u64, stage: Stage },
    /// A unit is read from the disk into staging.
    Read { job: u64, piece: Piece, stage: Stage },
    /// A staged unit is pushed.
    Push { job: u64, stage: Stage },
    /// All of a request whose data ride in messages.
    Eager { job: u64 },
    /// A request's writes are made durable.
    Durable { job: u64 },
    /// A call of the disk that is the request.
    Plain { from: Rank, id: u64 },
    /// A part of a removal.
    Part { removal: u64 },
}

/// A file's objects are being removed.
#[derive(Clone, Debug)]
struct Removal {
    left: u32,
    answer: Option<(Rank, u64)>,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub requests: u64,
    pub pulls: u64,
    pub pushes: u64,
    pub eager: u64,
    /// Requests that found no place in staging.
    pub staging_waits: u64,
}

/// A server.
#[derive(Debug)]
pub(super) struct Machine {
    me: u32,
    config: FsConfig,
    /// The directory, at its home.
    names: Option<Names>,
    /// Bytes of names in an answer.
    names_room: usize,
    ranges: Ranges,
    free: Vec<Stage>,
    jobs: BTreeMap<u64, Job>,
    /// Requests with units that wait for a place in staging, in turn.
    waiting: VecDeque<u64>,
    ops: BTreeMap<u64, Op>,
    /// Disk calls that wait for their turn.
    held: BTreeMap<u64, StoreCall>,
    removals: BTreeMap<u64, Removal>,
    next: u64,
    pub counts: Counts,
}

impl Machine {
    /// Server `me` of a cluster, whose answers have at most so many bytes. The first has the directory.
    pub(super) fn new(me: u32, config: FsConfig, max_message: u32) -> Machine {
        Machine {
            me,
            names_room: max_message.saturating_sub(LISTING) as usize,
            names: (me == 0).then(Names::default),
            ranges: Ranges::default(),
            free: (0..config.stages).rev().map(Stage).collect(),
            jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
            ops: BTreeMap::new(),
            held: BTreeMap::new(),
            removals: BTreeMap::new(),
            next: 0,
            counts: Counts::default(),
            config,
        }
    }

    /// What it holds although nobody asks for anything, by name.
    pub(super) fn leftovers(&self) -> Vec<(&'static str, u64)> {
        let staged = u64::from(self.config.stages) - self.free.len() as u64;
        let open = self.names.as_ref().map_or(0, Names::open_files) as u64;
        vec![
            ("places in staging", staged),
            ("requests under way at a server", self.jobs.len() as u64),
            ("operations of a server", self.ops.len() as u64),
            ("turns at objects", self.ranges.len() as u64),
            ("removals under way", self.removals.len() as u64),
            ("open files", open),
        ]
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn begin(&mut self, op: Op) -> u64 {
        let number = self.number();
        self.ops.insert(number, op);
        number
    }

    /// Something happened.
    pub(super) fn on(&mut self, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Request { from, id, request } => {
                self.counts.requests += 1;
                if let Err(refusal) = self.on_request(from, id, request, out) {
                    out.push(Action::Answer { to: from, id, answer: Answer::Refused(refusal) });
                }
            }
            Event::Stored { op, end } => self.on_stored(op, end, out),
            Event::Moved { op, done } => self.on_moved(op, done, out),
            Event::Removed { op } => {
                if let Some(Op::Part { removal }) = self.ops.remove(&op) {
                    self.part_removed(removal, out);
                }
            }
            Event::Reset { client } => self.on_reset(client, out),
        }
        self.hand_out_places(out);
    }

    fn on_request(
        &mut self,
        from: Rank,
        id: u64,
        request: Request,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let answer = |answer| Action::Answer { to: from, id, answer };
        match request {
            Request::Create { name, layout } => {
                if !layout.fits(self.config.servers) {
                    return Err(Refusal::Distribution);
                }
                let me = self.me as u16;
                let handle = self.names()?.create(me, from, name, layout)?;
                out.push(answer(Answer::Opened { handle, layout }));
            }
            Request::Open { name } => {
                let (handle, layout) = self.names()?.open(from, &name)?;
                out.push(answer(Answer::Opened { handle, layout }));
            }
            Request::List { after } => {
                let (names, more) = self.list(after.as_ref())?;
                out.push(answer(Answer::Names { names, more }));
            }
            Request::Close { handle } => match self.names()?.close(from, handle)? {
                None => out.push(answer(Answer::Done)),
                Some(gone) => self.remove_objects(gone, Some((from, id)), out),
            },
            Request::Unlink { name } => match self.names()?.unlink(&name)? {
                None => out.push(answer(Answer::Done)),
                Some(gone) => self.remove_objects(gone, Some((from, id)), out),
            },
            Request::Size { handle } => self.plain(from, id, StoreCall::Size(handle), out),
            Request::Sync { handle } => self.plain(from, id, StoreCall::Sync(handle), out),
            Request::Remove { handle } => {
                let op = self.begin(Op::Plain { from, id });
                self.in_turn(op, handle, 0..u64::MAX, StoreCall::Remove(handle), out);
            }
            Request::Read { bytes, into: Target::Answer } => {
                let (left, extent) = self.checked(&bytes, None)?;
                if extent.end - extent.start > u64::from(self.config.most_eager()) {
                    return Err(Refusal::Memory);
                }
                let room = vec![0; (extent.end - extent.start) as usize];
                let call =
                    StoreCall::Read { handle: bytes.handle, at: extent.start, into: Place::Bytes(room) };
                self.eager((from, id), bytes, (left, extent), call, out);
            }
            Request::Write { bytes, from: Source::Request(data) } => {
                let (left, extent) = self.checked(&bytes, None)?;
                if data.len() as u64 != extent.end - extent.start {
                    return Err(Refusal::Position);
                }
                let call =
                    StoreCall::Write { handle: bytes.handle, at: extent.start, from: Place::Bytes(data) };
                self.eager((from, id), bytes, (left, extent), call, out);
            }
            Request::Read { bytes, into: Target::Memory(memory) } => {
                let (left, _) = self.checked(&bytes, Some(memory))?;
                self.staged((from, id), bytes, left, (memory, false));
            }
            Request::Write { bytes, from: Source::Memory(memory) } => {
                let (left, _) = self.checked(&bytes, Some(memory))?;
                self.staged((from, id), bytes, left, (memory, true));
            }
        }
        Ok(())
    }

    fn list(&mut self, after: Option<&Name>) -> Result<(Vec<Name>, bool), Refusal> {
        let room = self.names_room;
        Ok(self.names()?.list(after, room))
    }

    fn names(&mut self) -> Result<&mut Names, Refusal> {
        self.names.as_mut().ok_or(Refusal::Stale)
    }

    /// The server's units among bytes, and where they lie in its object.
    fn checked(&self, bytes: &Bytes, memory: Option<RemoteSlice>) -> Result<(Pieces, Range<u64>), Refusal> {
        let Bytes { layout, at, len, .. } = *bytes;
        let servers = self.config.servers;
        let part = layout.fits(servers).then(|| layout.part(self.me, servers)).flatten();
        let part = part.ok_or(Refusal::Distribution)?;
        let end = at.checked_add(len.into()).filter(|end| *end <= 1 << 63).ok_or(Refusal::Position)?;
        if memory.is_some_and(|memory| memory.len < len) {
            return Err(Refusal::Memory);
        }
        let extent = layout.extent(part, &(at..end));
        if extent.is_empty() {
            return Err(Refusal::Position);
        }
        Ok((layout.pieces(part, &(at..end), self.config.unit), extent))
    }

    fn plain(&mut self, from: Rank, id: u64, call: StoreCall, out: &mut Vec<Action>) {
        let op = self.begin(Op::Plain { from, id });
        out.push(Action::Store { op, call });
    }
}

/// Where a piece lies in the memory that the client offered.
fn remote(job: &Job, piece: Piece) -> Option<RemoteSlice> {
    let from = u32::try_from(piece.logical.checked_sub(job.bytes.at)?).ok()?;
    job.memory?.slice(from..from.checked_add(piece.len)?)
}

fn within(piece: Piece) -> Range<u64> {
    piece.physical..piece.physical + u64::from(piece.len)
}

fn plain_answer(end: Result<Stored, Refusal>) -> Answer {
    match end {
        Ok(Stored::Size(size)) => Answer::Size(size),
        Ok(_) => Answer::Done,
        Err(refusal) => Answer::Refused(refusal),
    }
}

#[cfg(test)]
mod tests;
