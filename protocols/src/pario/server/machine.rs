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
                if extent.end - extent.start > u64::from(self.config.eager) {
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

    /// A request whose data ride in messages: one call of the disk, since its bytes lie together in the object.
    fn eager(
        &mut self,
        (client, id): (Rank, u64),
        bytes: Bytes,
        (mut left, extent): (Pieces, Range<u64>),
        call: StoreCall,
        out: &mut Vec<Action>,
    ) {
        left.by_ref().for_each(drop);
        let writes = matches!(call, StoreCall::Write { .. });
        let job = self.number();
        let (client, memory) = (Some(client), None);
        self.jobs.insert(
            job,
            Job {
                client,
                id,
                bytes,
                memory,
                writes,
                left,
                begun: 1,
                short: false,
                failed: None,
                ending: false,
            },
        );
        self.counts.eager += 1;
        let op = self.begin(Op::Eager { job });
        self.in_turn(op, bytes.handle, extent, call, out);
    }

    /// A request whose data go through staging.
    fn staged(
        &mut self,
        (client, id): (Rank, u64),
        bytes: Bytes,
        left: Pieces,
        (memory, writes): (RemoteSlice, bool),
    ) {
        let job = self.number();
        let (client, memory) = (Some(client), Some(memory));
        self.jobs.insert(
            job,
            Job {
                client,
                id,
                bytes,
                memory,
                writes,
                left,
                begun: 0,
                short: false,
                failed: None,
                ending: false,
            },
        );
        self.counts.staging_waits += u64::from(self.free.is_empty());
        self.waiting.push_back(job);
    }

    /// Gives free places to those who wait, one unit each in turn.
    fn hand_out_places(&mut self, out: &mut Vec<Action>) {
        while !self.free.is_empty()
            && let Some(number) = self.waiting.pop_front()
        {
            let Some(job) = self.jobs.get_mut(&number) else { continue };
            // What has failed, or has nobody to be answered, begins nothing more.
            let wanted = job.failed.is_none() && job.client.is_some();
            let Some(piece) = job.left.next().filter(|_| wanted) else {
                self.end_if_done(number, out);
                continue;
            };
            job.begun += 1;
            self.waiting.push_back(number);
            let Some(stage) = self.free.pop() else { return };
            self.begin_unit(number, piece, stage, out);
        }
    }

    fn begin_unit(&mut self, number: u64, piece: Piece, stage: Stage, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&number) else { return };
        let (handle, writes) = (job.bytes.handle, job.writes);
        if writes {
            let (from, at) = (job.client, remote(job, piece));
            let op = self.begin(Op::Pull { job: number, piece, stage });
            match (from, at) {
                (Some(from), Some(at)) => {
                    self.counts.pulls += 1;
                    out.push(Action::Pull { op, from, at, stage });
                }
                _ => self.on_moved(op, false, out),
            }
        } else {
            let op = self.begin(Op::Read { job: number, piece, stage });
            let into = Place::Stage { stage, len: piece.len };
            let call = StoreCall::Read { handle, at: piece.physical, into };
            self.in_turn(op, handle, within(piece), call, out);
        }
    }

    /// Calls the disk when it is the range's turn.
    fn in_turn(
        &mut self,
        op: u64,
        handle: Handle,
        range: Range<u64>,
        call: StoreCall,
        out: &mut Vec<Action>,
    ) {
        let writes = !matches!(call, StoreCall::Read { .. });
        match self.ranges.ask(op, handle, range, writes) {
            true => out.push(Action::Store { op, call }),
            false => drop(self.held.insert(op, call)),
        }
    }

    /// A transfer at an object has ended, and others may have their turn.
    fn turn_over(&mut self, op: u64, handle: Handle, out: &mut Vec<Action>) {
        for op in self.ranges.end(op, handle) {
            if let Some(call) = self.held.remove(&op) {
                out.push(Action::Store { op, call });
            }
        }
    }

    fn on_stored(&mut self, number: u64, end: Result<Stored, Refusal>, out: &mut Vec<Action>) {
        let Some(op) = self.ops.remove(&number) else { return };
        match op {
            Op::Plain { from, id } => {
                // A removal is the one plain call that took a turn; its object is known by it.
                self.end_any_turn(number, out);
                out.push(Action::Answer { to: from, id, answer: plain_answer(end) });
            }
            Op::Part { removal } => {
                self.end_any_turn(number, out);
                self.part_removed(removal, out);
            }
            Op::Durable { job } => {
                if let (Err(refusal), Some(job)) = (end, self.jobs.get_mut(&job)) {
                    job.failed = Some(refusal);
                }
                self.answer(job, Vec::new(), out);
            }
            Op::Eager { job } => {
                self.turn_of_job_over(number, job, out);
                let bytes = self.note_read(job, self.extent_len(job), end);
                self.unit_ended(job, bytes, out);
            }
            Op::Write { job, stage } => {
                self.turn_of_job_over(number, job, out);
                self.free.push(stage);
                self.note_read(job, 0, end);
                self.unit_ended(job, Vec::new(), out);
            }
            Op::Read { job, piece, stage } => {
                self.turn_of_job_over(number, job, out);
                self.note_read(job, piece.len, end);
                self.push(job, piece, stage, out);
            }
            // Transfers end otherwise.
            Op::Pull { .. } | Op::Push { .. } => {
                self.ops.insert(number, op);
            }
        }
    }

    fn turn_of_job_over(&mut self, op: u64, job: u64, out: &mut Vec<Action>) {
        if let Some(handle) = self.jobs.get(&job).map(|job| job.bytes.handle) {
            self.turn_over(op, handle, out);
        }
    }

    fn end_any_turn(&mut self, op: u64, out: &mut Vec<Action>) {
        if let Some(handle) = self.ranges.object_of(op) {
            self.turn_over(op, handle, out);
        }
    }

    fn extent_len(&self, job: u64) -> u32 {
        let part = |bytes: Bytes| bytes.layout.part(self.me, self.config.servers).unwrap_or_default();
        self.jobs.get(&job).map_or(0, |job| {
            let Bytes { at, len, layout, .. } = job.bytes;
            let extent = layout.extent(part(job.bytes), &(at..at + u64::from(len)));
            (extent.end - extent.start) as u32
        })
    }

    /// Notes how a request's call of the disk ended, and takes the bytes that it read.
    fn note_read(&mut self, job: u64, wanted: u32, end: Result<Stored, Refusal>) -> Vec<u8> {
        let Some(job) = self.jobs.get_mut(&job) else { return Vec::new() };
        match end {
            Ok(Stored::Read { moved, bytes }) => {
                job.short |= moved < wanted;
                bytes
            }
            Ok(_) => Vec::new(),
            Err(refusal) => {
                job.failed = Some(refusal);
                Vec::new()
            }
        }
    }

    /// A unit that was read goes to its client.
    fn push(&mut self, number: u64, piece: Piece, stage: Stage, out: &mut Vec<Action>) {
        let op = self.begin(Op::Push { job: number, stage });
        let job = self.jobs.get(&number).filter(|job| job.failed.is_none());
        match job.and_then(|job| Some((job.client?, remote(job, piece)?))) {
            Some((to, at)) => {
                self.counts.pushes += 1;
                out.push(Action::Push { op, to, at, stage });
            }
            // Failed, or nobody is there to take it.
            None => self.on_moved(op, true, out),
        }
    }

    fn on_moved(&mut self, number: u64, done: bool, out: &mut Vec<Action>) {
        let Some(op) = self.ops.remove(&number) else { return };
        let (job, stage, pulled) = match op {
            Op::Pull { job, piece, stage } => (job, stage, Some(piece)),
            Op::Push { job, stage } => (job, stage, None),
            other => {
                self.ops.insert(number, other);
                return;
            }
        };
        let Some(known) = self.jobs.get_mut(&job) else { return self.free.push(stage) };
        if !done {
            known.failed.get_or_insert(Refusal::Memory);
        }
        let handle = known.bytes.handle;
        // A client that began anew has not been promised anything: its unit is not written.
        match pulled.filter(|_| done && known.client.is_some()) {
            Some(piece) => {
                let op = self.begin(Op::Write { job, stage });
                let from = Place::Stage { stage, len: piece.len };
                let call = StoreCall::Write { handle, at: piece.physical, from };
                self.in_turn(op, handle, within(piece), call, out);
            }
            None => {
                self.free.push(stage);
                self.unit_ended(job, Vec::new(), out);
            }
        }
    }

    fn unit_ended(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.begun -= 1;
        if job.memory.is_some() {
            return self.end_if_done(number, out);
        }
        self.finish(number, bytes, out);
    }

    /// Ends a request of which nothing is under way and nothing is to begin.
    fn end_if_done(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&number) else { return };
        let over = job.failed.is_some() || job.client.is_none() || job.left.clone().next().is_none();
        if over && job.begun == 0 && !job.ending {
            self.finish(number, Vec::new(), out);
        }
    }

    /// All units of a request have ended.
    fn finish(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.ending = true;
        if job.writes && job.failed.is_none() && self.config.sync == Sync::Each {
            let call = StoreCall::Sync(job.bytes.handle);
            let op = self.begin(Op::Durable { job: number });
            return out.push(Action::Store { op, call });
        }
        self.answer(number, bytes, out);
    }

    fn answer(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.remove(&number) else { return };
        let Some(to) = job.client else { return };
        let answer = match (job.failed, job.writes, job.memory) {
            (Some(refusal), ..) => Answer::Refused(refusal),
            (None, true, _) => Answer::Done,
            (None, false, Some(_)) => Answer::Pushed { short: job.short },
            (None, false, None) => Answer::Data { bytes, short: job.short },
        };
        out.push(Action::Answer { to, id: job.id, answer });
    }

    /// Removes the objects of a file on all of its servers, and answers then.
    fn remove_objects(&mut self, gone: Gone, answer: Option<(Rank, u64)>, out: &mut Vec<Action>) {
        let Gone { handle, layout } = gone;
        let removal = self.number();
        self.removals.insert(removal, Removal { left: u32::from(layout.servers()), answer });
        for part in 0..layout.servers() {
            let server = layout.server(part, self.config.servers);
            let op = self.begin(Op::Part { removal });
            if server == self.me {
                self.in_turn(op, handle, 0..u64::MAX, StoreCall::Remove(handle), out);
            } else {
                out.push(Action::Remove { op, server, handle });
            }
        }
    }

    fn part_removed(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(removal) = self.removals.get_mut(&number) else { return };
        removal.left -= 1;
        if removal.left == 0
            && let Some(Removal { answer: Some((to, id)), .. }) = self.removals.remove(&number)
        {
            out.push(Action::Answer { to, id, answer: Answer::Done });
        }
    }

    fn on_reset(&mut self, client: Rank, out: &mut Vec<Action>) {
        let orphaned = self.jobs.values_mut().filter(|job| job.client == Some(client));
        orphaned.for_each(|job| job.client = None);
        let gone = self.names.as_mut().map_or(Vec::new(), |names| names.forget(client));
        for gone in gone {
            self.remove_objects(gone, None, out);
        }
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
#[path = "machine_tests.rs"]
mod tests;
