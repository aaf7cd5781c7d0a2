//! What a client does with files: linear code, one function a call.

use super::buffer::Buffer;
use super::calls::{self, Answered, Held, InUse};
use super::messages::{Answer, Bytes, Request, Source, Target};
use super::service::Pario;
use super::{Distribution, FsError, Handle, Name, Wire};
use crate::rt::sync::OneshotReceiver;
use crate::transport::Rank;
use std::ops::Range;
use std::rc::Rc;
use weft_verbs::Verbs;

/// The server that has the directory.
const HOME: Rank = Rank::from_index(0);

/// An open file. Whoever opened it closes it; one that is dropped stays open until its client restarts.
pub struct File {
    handle: Handle,
    layout: Distribution,
    in_use: Rc<InUse>,
}

impl File {
    /// Its handle, which no other file ever has.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// How its bytes are distributed.
    pub fn layout(&self) -> Distribution {
        self.layout
    }
}

/// What a server's answer to its part of a transfer is to be.
struct Part {
    number: u16,
    /// The bytes of the file that it was asked about.
    range: Range<u64>,
    told: OneshotReceiver<Answered>,
}

/// A part, the bytes that were asked about, and the answer.
type PartAnswer = (u16, Range<u64>, Answer);

impl<V: Verbs> Pario<V> {
    /// Makes a file and opens it: over all servers, unless a distribution says otherwise. It has no object before its first
    /// write.
    ///
    /// # Errors
    ///
    /// The name cannot be or is there, or the cluster has not that many servers.
    pub async fn create(&self, name: &str, layout: Option<Distribution>) -> Result<File, FsError> {
        let layout = layout.unwrap_or_else(|| self.0.config.layout());
        self.opened(Request::Create { name: Name::checked(name)?, layout }).await
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub async fn open(&self, name: &str) -> Result<File, FsError> {
        self.opened(Request::Open { name: Name::checked(name)? }).await
    }

    async fn opened(&self, request: Request) -> Result<File, FsError> {
        match self.call(HOME, request, Held::NOTHING).await? {
            Answer::Opened { handle, layout } if layout.fits(self.0.config.servers) => {
                Ok(File { handle, layout, in_use: Rc::default() })
            }
            _ => Err(FsError::Nonsense),
        }
    }

    /// Closes a file, once all of its calls have been answered, those included that nobody waits for any more. A file that
    /// has no name ends with its last close.
    ///
    /// # Errors
    ///
    /// The directory's server restarted meanwhile, or cannot be reached.
    pub async fn close(&self, file: File) -> Result<(), FsError> {
        file.in_use.idle().await;
        self.done(HOME, Request::Close { handle: file.handle }).await
    }

    /// Removes a name. The file lives until it is closed everywhere.
    ///
    /// # Errors
    ///
    /// There is no file of that name.
    pub async fn unlink(&self, name: &str) -> Result<(), FsError> {
        self.done(HOME, Request::Unlink { name: Name::checked(name)? }).await
    }

    /// All names, in order. A name that is made or removed meanwhile may be among them or not; all others are, once.
    ///
    /// # Errors
    ///
    /// The directory's server restarted meanwhile, or cannot be reached.
    pub async fn readdir(&self) -> Result<Vec<Name>, FsError> {
        let mut all: Vec<Name> = Vec::new();
        loop {
            let after = all.last().cloned();
            match self.call(HOME, Request::List { after }, Held::NOTHING).await? {
                Answer::Names { names, more } => {
                    let stuck = more && names.is_empty();
                    all.extend(names);
                    if stuck || !more {
                        return if stuck { Err(FsError::Nonsense) } else { Ok(all) };
                    }
                }
                _ => return Err(FsError::Nonsense),
            }
        }
    }

    /// A file's size: exact while nobody writes, and else between its sizes at the call's begin and its end.
    ///
    /// # Errors
    ///
    /// A server restarted meanwhile, or cannot be reached.
    pub async fn size(&self, file: &File) -> Result<u64, FsError> {
        let request = Request::Size { handle: file.handle };
        let mut size = 0;
        for (part, _, answer) in self.every_part(file, &request).await? {
            match answer {
                Answer::Size(object) => size = file.layout.size(part, object).max(size),
                _ => return Err(FsError::Nonsense),
            }
        }
        Ok(size)
    }

    /// Makes durable all that was written to a file before, by whomever.
    ///
    /// # Errors
    ///
    /// A disk failed: nobody knows what is durable. Or a server restarted meanwhile, or cannot be reached.
    pub async fn sync(&self, file: &File) -> Result<(), FsError> {
        let answers = self.every_part(file, &Request::Sync { handle: file.handle }).await?;
        if answers.iter().all(|(.., answer)| *answer == Answer::Done) {
            Ok(())
        } else {
            Err(FsError::Nonsense)
        }
    }

    /// Reads bytes of a file from a position on, as many as the buffer has or as there are; says how many. The buffer
    /// behind them is zero. Each unit is read whole: what overlaps a write at the same time is old or new.
    ///
    /// # Errors
    ///
    /// A server refused its part, restarted meanwhile or cannot be reached. What the buffer has then nobody knows.
    pub async fn read(&self, file: &File, at: u64, into: Buffer<V>) -> (Result<usize, FsError>, Buffer<V>) {
        let read = self.read_into(file, at, &into).await;
        (read, into)
    }

    /// Writes a buffer to a file from a position on. Each unit is written whole; of those that overlap with another write at
    /// the same time, one is the last.
    ///
    /// # Errors
    ///
    /// A server refused its part, restarted meanwhile or cannot be reached. Other parts are written, or not.
    pub async fn write(&self, file: &File, at: u64, from: Buffer<V>) -> (Result<(), FsError>, Buffer<V>) {
        let written = self.write_from(file, at, &from).await;
        (written, from)
    }

    async fn read_into(&self, file: &File, at: u64, into: &Buffer<V>) -> Result<usize, FsError> {
        let range = checked(at, into.len())?;
        let memory = into.remote()?;
        let request = |_, eager, of: &Range<u64>| Request::Read {
            bytes: bytes_of(file, of),
            into: if eager { Target::Answer } else { Target::Memory(memory) },
        };
        let mut short = false;
        for (part, of, answer) in self.transfer(file, &range, into, request).await? {
            short |= match answer {
                Answer::Pushed { short } => short,
                Answer::Data { bytes, short } => {
                    self.scatter(file, part, (&of, at), &bytes, into)?;
                    short
                }
                _ => return Err(FsError::Nonsense),
            };
        }
        if !short {
            return Ok(into.len());
        }
        // A hole, or the end: the size tells.
        let size = self.size(file).await?;
        Ok(size.saturating_sub(at).min(into.len() as u64) as usize)
    }

    async fn write_from(&self, file: &File, at: u64, from: &Buffer<V>) -> Result<(), FsError> {
        let range = checked(at, from.len())?;
        let memory = from.remote()?;
        let request = |part, eager, of: &Range<u64>| Request::Write {
            bytes: bytes_of(file, of),
            from: if eager {
                Source::Request(self.gather(file, part, (of, at), from))
            } else {
                Source::Memory(memory)
            },
        };
        let answers = self.transfer(file, &range, from, request).await?;
        if answers.iter().all(|(.., answer)| *answer == Answer::Done) {
            Ok(())
        } else {
            Err(FsError::Nonsense)
        }
    }

    /// Asks each server that has a part of a range, and waits until all have answered: before that, the buffer is theirs.
    async fn transfer(
        &self,
        file: &File,
        range: &Range<u64>,
        buffer: &Buffer<V>,
        request: impl Fn(u16, bool, &Range<u64>) -> Request,
    ) -> Result<Vec<PartAnswer>, FsError> {
        let (mut parts, mut refused) = (Vec::new(), None);
        let fragments: Vec<_> =
            (0..file.layout.servers()).map(|number| self.fragments(file, number, range)).collect();
        let turns = fragments.iter().map(Vec::len).max().unwrap_or_default();
        for turn in 0..turns {
            // Fragments of all servers in turn, or all clients would ask one server after the other.
            for (number, of_part) in (0..).zip(&fragments) {
                let Some((of, len)) = of_part.get(turn) else { continue };
                let eager = *len <= u64::from(self.0.config.most_eager());
                // What rides in messages touches the buffer only here.
                let buffer = if eager { None } else { Some(buffer.held()) };
                let held = Held { _buffer: buffer, file: Some(Rc::clone(&file.in_use)) };
                let request = request(number, eager, of);
                match self.0.ask(self.server(file, number), request, held).await {
                    Ok(told) => parts.push(Part { number, range: of.clone(), told }),
                    Err(why) => refused = Some(why),
                }
            }
            if turn + 1 < turns {
                // What was asked goes out while the next is put together.
                self.0.rt.yield_now().await;
            }
        }
        let answers = answers_of(parts).await;
        refused.map_or(answers, Err)
    }

    /// The ranges for which a server is asked one by one, and how many bytes it has of each: all at once by verbs; by byte
    /// streams, what a message carries.
    fn fragments(&self, file: &File, part: u16, range: &Range<u64>) -> Vec<(Range<u64>, u64)> {
        let (layout, extent) = (file.layout, file.layout.extent(part, range));
        let len = extent.end.saturating_sub(extent.start);
        if self.0.config.wire == Wire::Verbs {
            return if len > 0 { vec![(range.clone(), len)] } else { Vec::new() };
        }
        let most = u64::from(self.0.config.most_eager());
        let starts = (extent.start..extent.end).step_by(most as usize);
        let fragment = |start: u64| {
            let end = (start + most).min(extent.end);
            (layout.logical(part, start)..layout.logical(part, end - 1) + 1, end - start)
        };
        starts.map(fragment).collect()
    }

    /// A part's bytes among those of a range, one piece behind the other, from a buffer that begins at a byte of the file.
    fn gather(
        &self,
        file: &File,
        part: u16,
        (range, begin): (&Range<u64>, u64),
        from: &Buffer<V>,
    ) -> Vec<u8> {
        let extent = file.layout.extent(part, range);
        let mut bytes = vec![0; (extent.end - extent.start) as usize];
        for piece in file.layout.pieces(part, range, u32::MAX) {
            let to = (piece.physical - extent.start) as usize;
            let into = &mut bytes[to..to + piece.len as usize];
            from.read((piece.logical - begin) as usize, into).expect("a piece lies in its range");
        }
        self.0.copied(bytes.len() as u64);
        bytes
    }

    /// The other way round.
    fn scatter(
        &self,
        file: &File,
        part: u16,
        (range, begin): (&Range<u64>, u64),
        bytes: &[u8],
        into: &Buffer<V>,
    ) -> Result<(), FsError> {
        let extent = file.layout.extent(part, range);
        if bytes.len() as u64 != extent.end - extent.start {
            return Err(FsError::Nonsense);
        }
        for piece in file.layout.pieces(part, range, u32::MAX) {
            let from = (piece.physical - extent.start) as usize;
            into.write((piece.logical - begin) as usize, &bytes[from..from + piece.len as usize])?;
        }
        self.0.copied(bytes.len() as u64);
        Ok(())
    }

    /// Asks every server of a file the same.
    async fn every_part(&self, file: &File, request: &Request) -> Result<Vec<PartAnswer>, FsError> {
        let mut parts = Vec::new();
        for number in 0..file.layout.servers() {
            let held = Held { _buffer: None, file: Some(Rc::clone(&file.in_use)) };
            let told = self.0.ask(self.server(file, number), request.clone(), held).await?;
            parts.push(Part { number, range: 0..0, told });
        }
        answers_of(parts).await
    }

    fn server(&self, file: &File, part: u16) -> Rank {
        Rank::from_index(file.layout.server(part, self.0.config.servers))
    }

    async fn call(&self, server: Rank, request: Request, held: Held<V>) -> Answered {
        calls::answer(self.0.ask(server, request, held).await?).await
    }

    async fn done(&self, server: Rank, request: Request) -> Result<(), FsError> {
        match self.call(server, request, Held::NOTHING).await? {
            Answer::Done => Ok(()),
            _ => Err(FsError::Nonsense),
        }
    }
}

/// All answers; the first error once all have come.
async fn answers_of(parts: Vec<Part>) -> Result<Vec<PartAnswer>, FsError> {
    let (mut answers, mut failed) = (Vec::with_capacity(parts.len()), None);
    for Part { number, range, told } in parts {
        match calls::answer(told).await {
            Ok(answer) => answers.push((number, range, answer)),
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    failed.map_or(Ok(answers), Err)
}

fn bytes_of(file: &File, range: &Range<u64>) -> Bytes {
    let len = (range.end - range.start) as u32;
    Bytes { handle: file.handle, layout: file.layout, at: range.start, len }
}

/// The range of so many bytes from a position on.
fn checked(at: u64, len: usize) -> Result<Range<u64>, FsError> {
    let len = len as u64;
    match at.checked_add(len) {
        Some(end) if end <= 1 << 63 => Ok(at..end),
        _ => Err(FsError::Position { at, len }),
    }
}
