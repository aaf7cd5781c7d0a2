//! What a client does with files: linear code, one function a call. Here the calls of bytes.

mod names;
mod sizes;

use super::access::{Access, PIECES, Piece, Pieces, Unit};
use super::buffer::Buffer;
use super::calls::{self, Answered, Held, InUse, Opens};
use super::messages::{Answer, Bytes, HEADER, Memory, PLAIN, Request, Source, Target};
use super::service::{Pario, Shared};
use super::wire::LONGEST;
use super::{Distribution, FsError, Handle, Sync, View, Wire};
use crate::rt::sync::OneshotReceiver;
use crate::transport::Rank;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;
use std::rc::{Rc, Weak};
use weft_verbs::{RemoteSlice, Verbs};

/// The server that has the directory.
const HOME: Rank = Rank::from_index(0);

/// An open file. One that is dropped is closed, as far as its node can tell the home; only [`Pario::close`] says how that went.
pub struct File<V: Verbs> {
    files: Pario<V>,
    open: Open,
    is_closed: bool,
}

/// What is known of an open file.
#[derive(Clone)]
struct Open {
    handle: Handle,
    layout: Distribution,
    /// The life of its home in which it was opened.
    epoch: u64,
    in_use: Rc<InUse>,
}

impl<V: Verbs> File<V> {
    /// One that its home has just opened for this node.
    fn new(files: &Pario<V>, handle: Handle, layout: Distribution, epoch: u64) -> File<V> {
        *files.0.opens.borrow_mut().entry((handle, epoch)).or_default() += 1;
        files.0.holds_home(HOME);
        let open = Open { handle, layout, epoch, in_use: Rc::default() };
        File { files: files.clone(), open, is_closed: false }
    }

    /// Its handle, which no other file ever has.
    pub fn handle(&self) -> Handle {
        self.open.handle
    }

    /// How its bytes are distributed.
    pub fn layout(&self) -> Distribution {
        self.open.layout
    }

    fn in_use(&self) -> &Rc<InUse> {
        &self.open.in_use
    }
}

/// Where a file is from the answer to who opens it, until that one takes it: it is closed if nobody does.
struct Opening<V: Verbs> {
    /// It is part of the call, and so of the service.
    files: Weak<Shared<V>>,
    file: RefCell<Option<File<V>>>,
}

impl<V: Verbs> Opening<V> {
    fn new(files: &Pario<V>) -> Rc<Opening<V>> {
        Rc::new(Opening { files: Rc::downgrade(&files.0), file: RefCell::default() })
    }

    fn held(self: &Rc<Self>) -> Held<V> {
        Held { opening: Some(Rc::clone(self) as Rc<dyn Opens>), ..Held::NOTHING }
    }

    /// One that the cluster has no servers for, as this node knows it, is closed again: its home has counted it.
    fn take(&self) -> Result<File<V>, FsError> {
        let file = self.file.take().ok_or(FsError::Nonsense)?;
        let fits = file.layout().fits(file.files.0.config.servers);
        if fits { Ok(file) } else { Err(FsError::Distribution) }
    }
}

impl<V: Verbs> Opens for Opening<V> {
    fn opened(&self, handle: Handle, layout: Distribution, epoch: u64) {
        if let Some(files) = self.files.upgrade().map(Pario) {
            self.file.replace(Some(File::new(&files, handle, layout, epoch)));
        }
    }
}

impl<V: Verbs> Drop for File<V> {
    fn drop(&mut self) {
        if !self.is_closed {
            let (files, open) = (self.files.clone(), self.open.clone());
            drop(self.files.0.rt.spawn(async move {
                let asked = files.asks_to_close(&open).await;
                drop(files.told_of_close(asked).await);
            }));
        }
    }
}

/// What a server was asked for, and its answer to come.
struct Part {
    number: u16,
    /// Its share of the data, if it was asked for data.
    access: Option<Access>,
    told: OneshotReceiver<Answered>,
}

/// A part, what was asked for, and the answer.
type PartAnswer = (u16, Option<Access>, Answer);

/// What a sync is to cover. What it did not is the next one's matter, also where the call is dropped.
struct Unsynced<'a> {
    file: &'a InUse,
    taken: BTreeMap<u16, u64>,
    /// Parts of which writes are lost. They stay among the others until that is told: a call that is dropped tells nobody.
    lost: Vec<u16>,
}

impl<'a> Unsynced<'a> {
    /// What is answered from now on is not covered.
    fn of(file: &'a InUse) -> Unsynced<'a> {
        Unsynced { file, taken: file.unsynced.take(), lost: Vec::new() }
    }

    /// A server has synced its part, in this life of it.
    fn covered(&mut self, part: u16, epoch: u64) {
        match self.taken.get(&part) {
            Some(written) if *written != epoch => self.lost.push(part),
            _ => _ = self.taken.remove(&part),
        }
    }

    /// Tells whether writes are lost, once.
    fn tell(mut self) -> bool {
        let lost = std::mem::take(&mut self.lost);
        self.taken.retain(|part, _| !lost.contains(part));
        !lost.is_empty()
    }
}

impl Drop for Unsynced<'_> {
    fn drop(&mut self) {
        // The older epoch is the one of which something may be lost.
        self.file.unsynced.borrow_mut().append(&mut self.taken);
    }
}

impl<V: Verbs> Pario<V> {
    /// Makes durable all that was written to a file before, by any client.
    ///
    /// # Errors
    ///
    /// Writes by this handle are [lost](FsError::WritesLost), which is told once. A disk failed: nobody knows what is durable. Or a
    /// server restarted meanwhile, or cannot be reached.
    pub async fn sync(&self, file: &File<V>) -> Result<(), FsError> {
        let mut unsynced = Unsynced::of(file.in_use());
        let (mut asked, mut synced) = (Vec::new(), Ok(()));
        for part in 0..file.layout().servers() {
            let held = Held { file: Some(Rc::clone(file.in_use())), ..Held::NOTHING };
            let request = Request::Sync { handle: file.handle() };
            match self.0.ask(self.server(file.layout(), part), request, held).await {
                Ok(told) => asked.push((part, told)),
                Err(why) => synced = Err(why),
            }
        }
        for (part, told) in asked {
            match calls::answer(told).await {
                Ok(Answer::At { epoch }) => unsynced.covered(part, epoch),
                Ok(_) => synced = Err(FsError::Nonsense),
                Err(why) => synced = Err(why),
            }
        }
        if unsynced.tell() { Err(FsError::WritesLost) } else { synced }
    }

    /// Reads bytes of a file from a position on, as many as the buffer has or as there are; says how many. The buffer
    /// behind them is zero, unless the file is cut meanwhile. Each unit is read whole: what overlaps a write at the same time is old or
    /// new.
    ///
    /// # Errors
    ///
    /// A server refused its part, restarted meanwhile or cannot be reached. What the buffer has then nobody knows.
    pub async fn read(
        &self,
        file: &File<V>,
        at: u64,
        into: Buffer<V>,
    ) -> (Result<usize, FsError>, Buffer<V>) {
        let read = match contiguous(at, into.len()) {
            Ok((from, all)) => self.read_into(file, &from, &into, &all).await,
            Err(why) => Err(why),
        };
        (read, into)
    }

    /// Writes a buffer to a file from a position on. Each unit is written whole; of those that overlap with another write at
    /// the same time, one is the last.
    ///
    /// # Errors
    ///
    /// A server refused its part, restarted meanwhile or cannot be reached. Other parts are written, or not.
    pub async fn write(&self, file: &File<V>, at: u64, from: Buffer<V>) -> (Result<(), FsError>, Buffer<V>) {
        let written = match contiguous(at, from.len()) {
            Ok((to, all)) => self.write_from(file, &to, &from, &all).await,
            Err(why) => Err(why),
        };
        (written, from)
    }

    /// Reads the bytes of a view of a file into those of a view of a buffer, in the order of their data; says how many of them
    /// lie before the file's end. Those behind it are zero. Servers find their parts by the views, which travel as they are.
    ///
    /// # Errors
    ///
    /// As [`Pario::read`]; or the views are not of as many bytes, the buffer has no such bytes, or a view cannot be said in a
    /// request.
    pub async fn read_list(
        &self,
        file: &File<V>,
        from: &View,
        into: Buffer<V>,
        at: &View,
    ) -> (Result<usize, FsError>, Buffer<V>) {
        let read = self.read_into(file, from, &into, at).await;
        (read, into)
    }

    /// Writes the bytes of a view of a buffer to those of a view of a file, in the order of their data.
    ///
    /// # Errors
    ///
    /// As [`Pario::write`] and [`Pario::read_list`].
    pub async fn write_list(
        &self,
        file: &File<V>,
        to: &View,
        from: Buffer<V>,
        at: &View,
    ) -> (Result<(), FsError>, Buffer<V>) {
        let written = self.write_from(file, to, &from, at).await;
        (written, from)
    }

    async fn read_into(
        &self,
        file: &File<V>,
        from: &View,
        into: &Buffer<V>,
        at: &View,
    ) -> Result<usize, FsError> {
        let all = together(from, into, at)?;
        let slice = into.remote()?;
        let request = |_, eager, access: &Access| Request::Read {
            bytes: bytes_of(file, access),
            into: if eager { Target::Answer } else { Target::Memory(self.memory_of(slice, access)) },
        };
        let mut before = None;
        loop {
            let mut short = false;
            for (part, access, answer) in self.transfer(file, &all, into, &request).await? {
                short |= match (answer, access) {
                    (Answer::Pushed { short }, _) => short,
                    (Answer::Data { bytes, short }, Some(access)) => {
                        self.scatter(file, part, &access, &bytes, into)?;
                        short
                    }
                    _ => return Err(FsError::Nonsense),
                };
            }
            if !short {
                return Ok(all.len as usize);
            }
            // A hole, or the end: the size tells, if it was the same before these bytes were read. Otherwise somebody may have written
            // meanwhile what was read as zeros because it was not there.
            let there = all.below(self.size(file).await?);
            if there == 0 || before == Some(there) {
                return Ok(there as usize);
            }
            before = Some(there);
        }
    }

    async fn write_from(
        &self,
        file: &File<V>,
        to: &View,
        from: &Buffer<V>,
        at: &View,
    ) -> Result<(), FsError> {
        let all = together(to, from, at)?;
        let slice = from.remote()?;
        let request = |part, eager, access: &Access| Request::Write {
            bytes: bytes_of(file, access),
            from: if eager {
                Source::Request(self.gather(file, part, access, from))
            } else {
                Source::Memory(self.memory_of(slice, access))
            },
        };
        for (part, _, answer) in self.transfer(file, &all, from, request).await? {
            let Answer::At { epoch } = answer else { return Err(FsError::Nonsense) };
            if self.0.config.sync == Sync::Asked {
                file.in_use().unsynced.borrow_mut().entry(part).or_insert(epoch);
            }
        }
        Ok(())
    }

    fn memory_of(&self, slice: RemoteSlice, access: &Access) -> Memory {
        let load = u32::try_from(self.0.load.get()).unwrap_or(u32::MAX);
        Memory { slice, view: access.memory.clone(), from: access.memory_from, load }
    }

    /// Asks each server that has a part of an access, and waits until all have answered: before that, the buffer is theirs.
    async fn transfer(
        &self,
        file: &File<V>,
        all: &Access,
        buffer: &Buffer<V>,
        request: impl Fn(u16, bool, &Access) -> Request,
    ) -> Result<Vec<PartAnswer>, FsError> {
        let (mut parts, mut refused) = (Vec::new(), None);
        let _loaded = Loaded::new(&self.0.load, all.len);
        let shares: Vec<_> = (0..file.layout().servers())
            .map(|number| self.shares(file, number, all))
            .collect::<Result<_, _>>()?;
        let turns = shares.iter().map(Vec::len).max().unwrap_or_default();
        for turn in 0..turns {
            // Shares of all servers in turn, or all clients would ask one server after the other.
            for (number, of_part) in (0..).zip(&shares) {
                let Some((access, eager)) = of_part.get(turn) else { continue };
                // What rides in messages touches the buffer only here.
                let buffer = if *eager { None } else { Some(buffer.held()) };
                let held = Held { buffer, file: Some(Rc::clone(file.in_use())), ..Held::NOTHING };
                let request = request(number, *eager, access);
                match self.0.ask(self.server(file.layout(), number), request, held).await {
                    Ok(told) => parts.push(Part { number, access: Some(access.clone()), told }),
                    Err(why) => refused = Some(why),
                }
            }
            if turn + 1 < turns {
                // What was asked goes out while the next is put together.
                self.0.rt.yield_now().await;
            }
        }
        answers_of(parts, refused).await
    }

    /// The accesses for which a server is asked one by one, and whether their data ride in messages. By verbs that is one; a list
    /// of many regions is several, and by byte streams what a message carries is one.
    fn shares(&self, file: &File<V>, part: u16, all: &Access) -> Result<Vec<(Access, bool)>, FsError> {
        let config = &self.0.config;
        let most = config.most_eager();
        let mut shares = Vec::new();
        for window in all.windows(self.list_room()) {
            let access = all.window(&window);
            let mut pieces = access.pieces(file.layout(), part, config.unit).peekable();
            if pieces.peek().is_none() {
                continue;
            }
            if config.wire == Wire::Tcp {
                if encoded(&access.file) + HEADER as usize > LONGEST as usize {
                    return Err(FsError::TooLong);
                }
                while let Some(data) = next_share(&mut pieces, most) {
                    shares.push((access.window(&data), true));
                }
                continue;
            }
            let more = (encoded(&access.file) + encoded(&access.memory)).saturating_sub(2 * PLAIN as usize);
            let room = self.0.mesh.max_message().saturating_sub(HEADER) as usize;
            if more > room {
                return Err(FsError::TooLong);
            }
            let eager = Unit::all(access.pieces(file.layout(), part, config.unit), most);
            let eager = eager.is_some_and(|unit| unit.len as usize + more <= room);
            shares.push((access, eager));
        }
        Ok(shares)
    }

    /// How many regions of a list go into one request.
    fn list_room(&self) -> usize {
        let room = match self.0.config.wire {
            Wire::Verbs => self.0.mesh.max_message().saturating_sub(HEADER) as usize / REGION / 2,
            Wire::Tcp => LONGEST.saturating_sub(HEADER) as usize / REGION / 2,
        };
        room.min(self.0.config.regions as usize).max(1)
    }

    /// A part's bytes of an access, one piece behind the other, from a buffer.
    fn gather(&self, file: &File<V>, part: u16, access: &Access, from: &Buffer<V>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Piece { memory, len, .. } in access.pieces(file.layout(), part, self.0.config.unit) {
            let at = bytes.len();
            bytes.resize(at + len as usize, 0);
            from.read(memory as usize, &mut bytes[at..]).expect("the view was held against the buffer");
        }
        self.0.copied(bytes.len() as u64);
        bytes
    }

    /// The other way round.
    fn scatter(
        &self,
        file: &File<V>,
        part: u16,
        access: &Access,
        bytes: &[u8],
        into: &Buffer<V>,
    ) -> Result<(), FsError> {
        let mut rest = bytes;
        for Piece { memory, len, .. } in access.pieces(file.layout(), part, self.0.config.unit) {
            let (here, behind) = rest.split_at_checked(len as usize).ok_or(FsError::Nonsense)?;
            into.write(memory as usize, here)?;
            rest = behind;
        }
        self.0.copied(bytes.len() as u64);
        if rest.is_empty() { Ok(()) } else { Err(FsError::Nonsense) }
    }

    fn server(&self, layout: Distribution, part: u16) -> Rank {
        Rank::from_index(layout.server(part, self.0.config.servers))
    }

    async fn call(&self, server: Rank, request: Request, held: Held<V>) -> Answered {
        calls::answer(self.0.ask(server, request, held).await?).await
    }
}

/// All answers once all have come; or why one was not asked, or else the first error. But that a server may yet do its part counts before
/// all else: who is told that a call has failed takes it to be over.
async fn answers_of(parts: Vec<Part>, refused: Option<FsError>) -> Result<Vec<PartAnswer>, FsError> {
    let (mut answers, mut failed) = (Vec::with_capacity(parts.len()), refused);
    for Part { number, access, told } in parts {
        match calls::answer(told).await {
            Ok(answer) => answers.push((number, access, answer)),
            Err(FsError::Unknown) => failed = Some(FsError::Unknown),
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    failed.map_or(Ok(answers), Err)
}

/// Bytes of a region in a list.
const REGION: usize = 12;

fn encoded(view: &View) -> usize {
    let mut bytes = Vec::new();
    view.encode(&mut bytes);
    bytes.len()
}

/// The data of the next pieces that one message carries.
fn next_share(pieces: &mut Peekable<Pieces>, most: u32) -> Option<Range<u64>> {
    let first = pieces.next()?;
    let (mut end, mut len, mut count) = (first.data + u64::from(first.len), first.len, 1);
    while let Some(piece) = pieces.next_if(|piece| count < PIECES && piece.len <= most - len) {
        end = piece.data + u64::from(piece.len);
        len += piece.len;
        count += 1;
    }
    Some(first.data..end)
}

fn bytes_of<V: Verbs>(file: &File<V>, access: &Access) -> Bytes {
    let Access { file: view, file_from: from, len, .. } = access;
    Bytes { handle: file.handle(), layout: file.layout(), file: view.clone(), from: *from, len: *len as u32 }
}

/// Views of as many bytes from a position of a file on as a buffer has, and of the buffer.
fn contiguous(at: u64, len: usize) -> Result<(View, View), FsError> {
    let len = len as u64;
    let file = at.checked_add(len).and_then(|end| View::of(at..end));
    file.zip(View::of(0..len)).ok_or(FsError::Position { at, len })
}

/// The bytes of a file and those of a buffer that go together.
fn together<V: Verbs>(file: &View, buffer: &Buffer<V>, memory: &View) -> Result<Access, FsError> {
    if file.len() != memory.len() {
        return Err(FsError::Lengths { file: file.len(), memory: memory.len() });
    }
    let (end, len) = (memory.end(), buffer.len() as u64);
    if end > len {
        return Err(FsError::Buffer { end, len });
    }
    // Memory that is meant more than once may have more data than a buffer.
    if u32::try_from(file.len()).is_err() {
        return Err(FsError::TooLong);
    }
    Ok(Access::whole(file, memory))
}

/// Bytes that a node moves or waits for, as long as a call does.
struct Loaded<'a>(&'a Cell<u64>, u64);

impl<'a> Loaded<'a> {
    fn new(load: &'a Cell<u64>, bytes: u64) -> Loaded<'a> {
        load.set(load.get() + bytes);
        Loaded(load, bytes)
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Refusal;
    use super::*;
    use crate::rt::sync::oneshot;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// What servers have answered, by their parts.
    fn answered<const N: usize>(answers: [Answered; N]) -> Vec<Part> {
        let part = |(number, answer): (u16, Answered)| {
            let (tell, told) = oneshot();
            assert!(tell.send(answer).is_ok());
            Part { number, access: None, told }
        };
        (0..).zip(answers).map(part).collect()
    }

    /// By a byte stream that broke, a server may yet read what it was asked.
    #[test]
    fn a_call_of_which_a_server_may_yet_do_its_part_does_not_end_as_one_that_failed() {
        let full = || Ok(Answer::Refused(Refusal::Full));
        for (answers, refused) in [
            ([full(), Err(FsError::Unknown)], None),
            ([Err(FsError::Unknown), full()], None),
            ([Ok(Answer::Done), Err(FsError::Unknown)], Some(FsError::Closed)),
        ] {
            let ended = pin!(answers_of(answered(answers), refused));
            let ended = ended.poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(ended.map_ok(drop), Poll::Ready(Err(FsError::Unknown)));
        }
        let ended = pin!(answers_of(answered([full(), Ok(Answer::Done)]), None));
        let ended = ended.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(ended.map_ok(drop), Poll::Ready(Err(FsError::Full)));
    }

    #[test]
    fn what_a_dropped_sync_did_not_cover_is_the_next_ones_matter() {
        let file = InUse::default();
        file.unsynced.borrow_mut().extend([(0, 7), (1, 7)]);
        let mut sync = Unsynced::of(&file);
        // One server has answered; meanwhile writes were answered in a later life of both.
        sync.covered(1, 7);
        file.unsynced.borrow_mut().extend([(0, 8), (1, 8)]);
        drop(sync);
        assert_eq!(*file.unsynced.borrow(), BTreeMap::from([(0, 7), (1, 8)]));
    }

    #[test]
    fn lost_writes_of_which_a_dropped_sync_has_heard_are_told_by_the_next_one_and_once() {
        let file = InUse::default();
        file.unsynced.borrow_mut().extend([(0, 7), (1, 7)]);
        let mut sync = Unsynced::of(&file);
        // One server began anew; the call is dropped before the other one answers.
        sync.covered(0, 8);
        drop(sync);
        for told in [true, false] {
            let mut sync = Unsynced::of(&file);
            [(0, 8), (1, 7)].into_iter().for_each(|(part, epoch)| sync.covered(part, epoch));
            assert_eq!(sync.tell(), told);
        }
        assert_eq!(*file.unsynced.borrow(), BTreeMap::new());
    }
}
