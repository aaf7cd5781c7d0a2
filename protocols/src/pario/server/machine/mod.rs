//! A server as a state machine without I/O: requests and the ends of disk calls and transfers go in, actions come out.
//!
//! A request for data is cut into **units**: at most [`FsConfig::unit`] bytes of the server's part, in a bounded number of pieces. A
//! unit of a large request needs a place in **staging**, which bounds what a server holds at a time; requests take turns at places, one
//! unit each (pvfs2-quadrics.txt, 5.1: the throttle).
//!
//! | request | way of a unit |
//! |---|---|
//! | write, bytes in the request | turn at the range, disk |
//! | write, bytes in memory | place, **pull** by RDMA read, turn, disk; the place is free |
//! | read, into the answer | turn, disk, answer |
//! | read, into memory | place, turn, disk, **push** by RDMA write; the place is free |
//!
//! Instead of a pull or a push, the place may be **offered** to the client ([`Movers`]), who says when all is moved.
//!
//! What is asked about names is committed in batches before it is answered (`directory`).
//!
//! A unit is pulled whole before any of it is written: a client that dies in the middle leaves it as it was. The answer comes
//! after the last unit, and under [`Sync::Each`] after the disk has made them durable.

mod directory;
mod gather;
mod living;
mod removals;
mod turns;
mod units;

pub(super) use directory::Directory;

use gather::Groups;
use living::Living;

use super::super::access::{Access, Pieces, Run, Unit};
use super::super::error::Refusal;
use super::super::messages::{Answer, Bytes, LISTING, Memory, Request, Source, Target};
use super::super::{FsConfig, Handle, Movers, Sync};
use super::bars::Bars;
use super::log::{Commit, Unwritten};
use super::names::Gone;
use super::ranges::Ranges;
use crate::transport::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::ops::Range;
use turns::Turns;
use weft_verbs::RemoteSlice;

/// A place in staging, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Stage(pub u32);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pario) enum Event {
    /// A client, or a file's home, asks.
    Request { from: Rank, id: u64, request: Request },
    /// A disk call has ended.
    Stored { op: u64, end: Result<Stored, Refusal> },
    /// A transfer has ended: its bytes are where they were to go, or they cannot be moved.
    Moved { op: u64, done: bool },
    /// Another server has removed or cut its object, or cannot.
    Spread { op: u64, end: Result<(), Refusal> },
    /// Another server has not yet removed its object, and may be away for long.
    Late { op: u64 },
    /// A batch of the log is durable, or is not.
    Committed { op: u64, end: Result<(), Unwritten> },
    /// A file's home has said whether it has not ended, and how many handles it has given out by now; or nobody can say.
    Lives { op: u64, end: Result<u64, Refusal> },
    /// How often a client has files open since an earlier life of this server.
    Heard { client: Rank, open: Vec<(Handle, u32)>, more: bool },
    /// A guest came since this server began its life: it is asked what it has open.
    Met { client: Rank },
    /// A client began anew: it knows nothing of what it had asked for.
    Reset { client: Rank },
}

impl Event {
    /// Whether it is that the disk failed at something.
    fn is_disk_error(&self) -> bool {
        match self {
            Event::Stored { end, .. } => *end == Err(Refusal::Io),
            Event::Committed { end, .. } => *end == Err(Unwritten::Failed(Refusal::Io)),
            _ => false,
        }
    }
}

/// What a disk call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pario) enum Stored {
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
    /// Write a batch of the log and make it durable.
    Commit { op: u64, commit: Commit },
    /// Read runs of a client's memory into staging, one behind the other.
    Pull { op: u64, from: Rank, memory: RemoteSlice, runs: Vec<Run>, stage: Stage },
    /// Write what is staged into runs of a client's memory.
    Push { op: u64, to: Rank, memory: RemoteSlice, runs: Vec<Run>, stage: Stage },
    /// Offer a place in staging to a client for runs of its memory, which it is to write, or to read.
    Offer { op: u64, to: Rank, id: u64, stage: Stage, runs: Vec<Run>, writes: bool },
    /// Ask another server to remove its object of a file, or to cut it.
    Spread { op: u64, server: u32, request: Request },
    /// Ask a file's home whether it has not ended.
    Lives { op: u64, handle: Handle },
}

impl Action {
    /// The client that it is for.
    pub(super) fn client(&self) -> Option<Rank> {
        match self {
            Action::Answer { to, .. } | Action::Push { to, .. } | Action::Offer { to, .. } => Some(*to),
            Action::Pull { from, .. } => Some(*from),
            Action::Store { .. } | Action::Commit { .. } => None,
            Action::Spread { .. } | Action::Lives { .. } => None,
        }
    }
}

/// Regions that one request may be about, at most: how long a server looks for its part of them.
const MOST_REGIONS: u64 = 1 << 20;

/// All bytes of an object.
const WHOLE: Range<u64> = 0..u64::MAX;

/// A disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreCall {
    /// Read runs of the object, one behind the other; what is not there is zero.
    Read {
        handle: Handle,
        runs: Vec<Run>,
        into: Place,
    },
    /// Write them.
    Write {
        handle: Handle,
        runs: Vec<Run>,
        from: Place,
    },
    Size(Handle),
    Sync(Handle),
    Remove(Handle),
    /// The object ends here, durably. One that ended before is made longer only if it is to grow.
    Cut {
        handle: Handle,
        size: u64,
        grows: bool,
    },
}

/// Memory of a disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Stage { stage: Stage, len: u32 },
    Bytes(Vec<u8>),
}

impl Place {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        match self {
            Place::Stage { len, .. } => *len as usize,
            Place::Bytes(bytes) => bytes.len(),
        }
    }
}

/// A request for data that is under way.
#[derive(Clone, Debug)]
struct Job {
    /// Whom to answer, unless it began anew meanwhile.
    client: Option<Rank>,
    id: u64,
    handle: Handle,
    /// The client's memory, if the data do not ride in messages.
    memory: Option<RemoteSlice>,
    writes: bool,
    /// The client's load when it asked, and what this request adds to the server's, in bytes.
    loads: (u64, u64),
    /// Units that have not begun.
    left: Option<Peekable<Pieces>>,
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
    Pull { job: u64, unit: Unit, stage: Stage },
    /// A staged unit is written to the disk.
    Write { job: u64, stage: Stage },
    /// A unit is read from the disk into staging.
    Read { job: u64, unit: Unit, stage: Stage },
    /// A staged unit is pushed.
    Push { job: u64, stage: Stage },
    /// All of a request whose data ride in messages, and how many bytes these are.
    Eager { job: u64, len: u32 },
    /// Writes to an object are made durable.
    Durable { handle: Handle },
    /// A call of the disk that is the request.
    Plain { from: Rank, id: u64, handle: Handle },
    /// A part of a removal, or of a cut. Of one that is among a server's [`Removals`], that server; `late`: nobody waits for it.
    Part { spread: u64, at: Option<u32>, late: bool },
    /// A batch of the log is written.
    Commit,
    /// Whether a file lives.
    Lives { handle: Handle },
}

/// An object is being made durable. One call of the disk serves all whose writes had ended before it began.
#[derive(Clone, Debug, Default)]
struct Syncing {
    /// Requests that it serves.
    covered: Vec<u64>,
    /// Requests whose writes ended later: the next one serves them.
    next: Vec<u64>,
}

/// A file's objects are being removed, or cut.
#[derive(Clone, Debug)]
struct Spread {
    handle: Handle,
    /// It is the end of the file.
    removes: bool,
    left: u32,
    /// Parts among those that nobody waits for.
    late: u32,
    failed: Option<Refusal>,
    answer: Option<(Rank, u64)>,
}

/// Removals that a server makes: another one, or this one where nobody waits for them.
#[derive(Clone, Debug, Default)]
struct Removals {
    /// How many it was asked for, and has not answered.
    asked: usize,
    /// One of those was late, and none has ended since: the server may be away.
    is_away: bool,
    /// What it is asked for as those end.
    unasked: VecDeque<(u64, Request)>,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub requests: u64,
    pub pulls: u64,
    pub pushes: u64,
    pub eager: u64,
    pub offered: u64,
    /// Requests that found no place in staging.
    pub staging_waits: u64,
    /// Batches of the log.
    pub commits: u64,
    /// Places for appends.
    pub places: u64,
    /// Answers that were given once more.
    pub known_again: u64,
    /// Calls of the disk that failed, but for want of room.
    pub disk_errors: u64,
}

/// A server.
#[derive(Debug)]
pub(super) struct Machine {
    me: u32,
    config: FsConfig,
    /// Which life of the server this is: a number that no other one has.
    epoch: u64,
    /// The directory, at its home.
    directory: Option<Directory>,
    /// Bytes of names in an answer.
    names_room: usize,
    ranges: Ranges,
    free: Vec<Stage>,
    jobs: BTreeMap<u64, Job>,
    /// Requests with units that wait for a place in staging, in turn.
    waiting: Turns,
    ops: BTreeMap<u64, Op>,
    /// Disk calls that wait for their turn.
    held: BTreeMap<u64, StoreCall>,
    spread: BTreeMap<u64, Spread>,
    /// By server.
    removals: BTreeMap<u32, Removals>,
    /// Files that are gone.
    barred: Bars,
    /// Files that are not, where clients may ask for files that are.
    living: Option<Living>,
    /// Groups that wait for members.
    groups: Groups,
    syncing: BTreeMap<Handle, Syncing>,
    /// Places that were offered, by operation: to whom, and for which call.
    offered: BTreeMap<u64, (Rank, u64)>,
    /// Bytes of all requests that are under way.
    load: u64,
    next: u64,
    pub counts: Counts,
}

impl Machine {
    /// Server `me` of a cluster in one of its lives, whose answers have at most so many bytes. The first has a directory. The configuration
    /// says how many places a client has.
    pub(super) fn new(
        (me, epoch): (u32, u64),
        config: FsConfig,
        max_message: u32,
        directory: Option<Directory>,
    ) -> Machine {
        Machine {
            me,
            epoch,
            names_room: max_message.saturating_sub(LISTING) as usize,
            directory,
            ranges: Ranges::default(),
            free: (0..config.stages).rev().map(Stage).collect(),
            jobs: BTreeMap::new(),
            waiting: Turns::new(config.unit, config.places),
            ops: BTreeMap::new(),
            held: BTreeMap::new(),
            spread: BTreeMap::new(),
            removals: BTreeMap::new(),
            barred: Bars::default(),
            living: None,
            groups: Groups::default(),
            syncing: BTreeMap::new(),
            offered: BTreeMap::new(),
            load: 0,
            next: 0,
            counts: Counts::default(),
            config,
        }
    }

    /// Why nothing is told of the directory any more.
    pub(super) fn failed(&self) -> Option<Refusal> {
        self.directory.as_ref()?.failed
    }

    /// Nodes that may have files open: none ends before each of them has said what it has.
    pub(super) fn unheard(&self) -> Vec<Rank> {
        self.directory.iter().flat_map(|directory| directory.names.unheard()).collect()
    }

    /// Clients to which places in staging are offered.
    pub(in super::super) fn offered_to(&self) -> impl Iterator<Item = Rank> + '_ {
        self.offered.values().map(|(client, _)| *client)
    }

    /// What it holds although nobody asks for anything, by name.
    pub(super) fn leftovers(&self) -> Vec<(&'static str, u64)> {
        let staged = u64::from(self.config.stages) - self.free.len() as u64;
        // A directory that has failed takes no close.
        let directory = self.directory.as_ref().filter(|directory| directory.failed.is_none());
        let open = directory.map_or(0, |directory| directory.names.open_files()) as u64;
        let unsettled = self.directory.as_ref().map_or(0, Directory::unsettled) as u64;
        vec![
            ("places in staging", staged),
            ("requests under way at a server", self.jobs.len() as u64),
            ("operations of a server", self.ops.len() as u64),
            ("places offered to clients", self.offered.len() as u64),
            ("turns at objects", self.ranges.len() as u64),
            ("clients with turns at staging", self.waiting.len() as u64),
            ("removals and cuts under way", self.spread.len() as u64),
            ("files of which the home is asked", self.living.as_ref().map_or(0, Living::asked) as u64),
            ("rounds of groups", self.groups.waiting()),
            ("requests about names", unsettled),
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
        self.counts.disk_errors += u64::from(event.is_disk_error());
        match event {
            Event::Request { from, id, request } => {
                self.counts.requests += 1;
                if let Err(refusal) = self.on_request(from, id, request, out) {
                    out.push(Action::Answer { to: from, id, answer: Answer::Refused(refusal) });
                }
            }
            Event::Stored { op, end } => self.on_stored(op, end, out),
            Event::Moved { op, done } => self.on_moved(op, done, out),
            Event::Spread { op, end } => {
                if let Some(Op::Part { spread, at, late }) = self.ops.remove(&op) {
                    at.into_iter().for_each(|server| self.has_removed(server, out));
                    self.part_ended(spread, late, end, out);
                }
            }
            Event::Late { op } => self.is_late(op, out),
            Event::Committed { op, end } => self.on_committed(op, end, out),
            Event::Lives { op, end } => self.on_lives(op, end, out),
            Event::Heard { client, open, more } => self.on_heard(client, &open, more, out),
            Event::Met { client } => {
                if let Some(directory) = &mut self.directory {
                    directory.names.ask(std::iter::once(client));
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
        match request {
            request if request.is_of_names() => self.on_name(from, id, request, out)?,
            request if self.waits_for_home(&request)? => self.ask_home((from, id), request, out),
            Request::Lives { handle } => {
                let given = self.lives_at_home(handle)?;
                out.push(Action::Answer { to: from, id, answer: Answer::Lives { given } });
            }
            Request::Gather { group, round, member, members, word } => {
                self.on_gather((from, id), (group, round), (member, members), word, out)?;
            }
            Request::Epoch => {
                let answer = Answer::At { epoch: self.epoch };
                out.push(Action::Answer { to: from, id, answer });
            }
            // A node is asked that as a client, and not its server.
            Request::Opens { .. } => return Err(Refusal::Stale),
            Request::Size { handle } => {
                // One that has ended has no size: who asks by a name may find another file there.
                self.lives(handle)?;
                let op = self.begin(Op::Plain { from, id, handle });
                out.push(Action::Store { op, call: StoreCall::Size(handle) });
            }
            Request::Sync { handle } => {
                self.lives(handle)?;
                let op = self.begin(Op::Plain { from, id, handle });
                out.push(Action::Store { op, call: StoreCall::Sync(handle) });
            }
            Request::Moved { op, done } => {
                // What was offered by an earlier life of this server has another call's number.
                if self.offered.get(&op) == Some(&(from, id)) {
                    self.offered.remove(&op);
                    self.on_moved(op, done, out);
                }
            }
            Request::Remove { handle, first } => {
                self.barred.add_from(first, handle);
                let op = self.begin(Op::Plain { from, id, handle });
                self.in_turn(op, handle, vec![WHOLE], StoreCall::Remove(handle), out);
            }
            Request::Cut { handle, size, grows } => {
                self.lives(handle)?;
                let op = self.begin(Op::Plain { from, id, handle });
                self.in_turn(op, handle, vec![WHOLE], StoreCall::Cut { handle, size, grows }, out);
            }
            Request::Read { bytes, into: Target::Answer } => {
                let unit = self.eager_unit(&bytes)?;
                self.lives(bytes.handle)?;
                let (handle, into) = (bytes.handle, Place::Bytes(vec![0; unit.len as usize]));
                let call = StoreCall::Read { handle, runs: unit.object.clone(), into };
                self.eager((from, id), handle, unit, call, out);
            }
            Request::Write { bytes, from: Source::Request(data) } => {
                let unit = self.eager_unit(&bytes)?;
                if data.len() != unit.len as usize {
                    return Err(Refusal::Position);
                }
                self.lives(bytes.handle)?;
                let (handle, data) = (bytes.handle, Place::Bytes(data));
                let call = StoreCall::Write { handle, runs: unit.object.clone(), from: data };
                self.eager((from, id), handle, unit, call, out);
            }
            Request::Read { bytes, into: Target::Memory(memory) } => {
                let left = self.checked(&bytes, Some(&memory))?;
                self.lives(bytes.handle)?;
                self.staged((from, id), &bytes, left, (&memory, false));
            }
            Request::Write { bytes, from: Source::Memory(memory) } => {
                let left = self.checked(&bytes, Some(&memory))?;
                self.lives(bytes.handle)?;
                self.staged((from, id), &bytes, left, (&memory, true));
            }
            // About names, and of these that was all.
            _ => return Err(Refusal::Stale),
        }
        Ok(())
    }

    /// Whether a file is not gone: it may have an object here, and one that it has not is nothing but zeros.
    fn lives(&self, handle: Handle) -> Result<(), Refusal> {
        if self.barred.has(handle) { Err(Refusal::Stale) } else { Ok(()) }
    }

    /// The server's pieces among bytes.
    fn checked(&self, bytes: &Bytes, memory: Option<&Memory>) -> Result<Peekable<Pieces>, Refusal> {
        let Bytes { layout, file, from, len, .. } = bytes;
        let (servers, len) = (self.config.servers, u64::from(*len));
        let part = layout.fits(servers).then(|| layout.part(self.me, servers)).flatten();
        let part = part.ok_or(Refusal::Distribution)?;
        from.checked_add(len).filter(|end| *end <= file.len()).ok_or(Refusal::Position)?;
        let regions = file.most_regions(len) + memory.map_or(0, |memory| memory.view.most_regions(len));
        if regions > MOST_REGIONS {
            return Err(Refusal::TooLong);
        }
        let mut access = Access::packed(file.clone(), *from, len).ok_or(Refusal::Position)?;
        if let Some(Memory { slice, view, from, .. }) = memory {
            let whole = from.checked_add(len).is_some_and(|end| end <= view.len());
            if !whole || view.end() > u64::from(slice.len) {
                return Err(Refusal::Memory);
            }
            (access.memory, access.memory_from) = (view.clone(), *from);
        }
        let mut pieces = access.pieces(*layout, part, self.config.unit).peekable();
        pieces.peek().is_some().then_some(pieces).ok_or(Refusal::Position)
    }

    /// All of the server's bytes as one unit, which rides in a message.
    fn eager_unit(&self, bytes: &Bytes) -> Result<Unit, Refusal> {
        let mut pieces = self.checked(bytes, None)?;
        let unit = Unit::take(&mut pieces, self.config.most_eager()).filter(|_| pieces.peek().is_none());
        unit.ok_or(Refusal::Memory)
    }
}

fn plain_answer(end: Result<Stored, Refusal>, epoch: u64) -> Answer {
    match end {
        Ok(Stored::Size(size)) => Answer::Size(size),
        Ok(_) => Answer::At { epoch },
        Err(refusal) => Answer::Refused(refusal),
    }
}

#[cfg(test)]
mod tests;
