//! What a client of files does: one call of the service after the other, each recorded.

use super::Counts;
use super::content;
use super::history::{Call, Cells, Event, What, Why};
use super::requests::{Request, Tile};
use super::workload::{Durable, PfWork};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::pario::{Buffer, Datatype, File, FsError, Group, Metadata, Pario, SetAttributes, View};
use weft_protocols::rt::Rt;
use weft_verbs::Verbs;

/// What a client calls.
pub struct Client<V: Verbs> {
    pub(super) files: Pario<V>,
    /// The service that the node has now, and what those before it had counted.
    pub(super) of_node: Rc<RefCell<Pario<V>>>,
    pub(super) gone: Rc<RefCell<Counts>>,
    pub(super) work: Rc<PfWork>,
    /// The one file of bulk access, which stays open.
    pub(super) open: Option<File<V>>,
    /// How often its node had restarted.
    pub(super) life: u32,
}

impl<V: Verbs> Client<V> {
    /// A request by a number that no other life of the node has, since a cell tells whose it is.
    pub(super) fn in_life(&self, id: RequestId) -> RequestId {
        id.in_life(self.life)
    }
}

/// The path of the file of a number, in its directory if files are spread over some.
pub(super) fn path(file: u32, work: &PfWork) -> String {
    let digits = work.digits;
    let name = format!("f{file:0digits$}");
    match file.checked_rem(work.directories) {
        Some(directory) => format!("{}/{name}", directory_of(directory)),
        None => name,
    }
}

/// The file of a name in its directory; a stranger's is one that no client makes.
pub(super) fn file_of(name: &str) -> u32 {
    name.strip_prefix('f').and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
}

/// What a call that failed is told as.
pub(super) fn told(why: &FsError) -> What {
    match why {
        FsError::Exists => What::Exists,
        FsError::NotFound => What::NotFound,
        FsError::WritesLost => What::Lost,
        FsError::Stale => What::Stale,
        FsError::Unknown => What::Failed(Why::Unknown),
        FsError::Io => What::Failed(Why::Disk),
        FsError::Full => What::Failed(Why::Full),
        FsError::Member => What::Failed(Why::Member),
        FsError::Position { .. } => What::Failed(Why::TooFar),
        other => What::Failed(Why::Other(other.to_string())),
    }
}

/// The path of a directory.
fn directory_of(number: u32) -> String {
    format!("d{number}")
}

/// One request of a client, with what it needs to tell of it.
pub(super) struct Teller<'a, V: Verbs, R> {
    pub rt: &'a Rt<V>,
    pub id: RequestId,
    pub record: &'a R,
}

impl<V: Verbs, R: Record<Event>> Teller<'_, V, R> {
    async fn happens(&self, what: What) {
        self.record.record(Event { at_ns: self.rt.now().0, request: self.id, what });
        self.record.written().await;
    }

    /// Makes a call and tells of it.
    async fn calls<T>(
        &self,
        call: Call,
        made: impl Future<Output = Result<T, FsError>>,
        what: impl FnOnce(&T) -> What,
    ) -> Result<T, FsError> {
        self.happens(What::Calls(call)).await;
        let made = made.await;
        self.happens(match &made {
            Ok(done) => what(done),
            Err(why) => told(why),
        })
        .await;
        made
    }

    pub async fn create(&self, client: &Client<V>, file: u32) -> Result<File<V>, FsError> {
        let (path, layout) = (path(file, &client.work), client.work.layout(file));
        let create = async || {
            let made = client.files.create(&path, layout);
            self.calls(Call::Create(file), made, |file| What::Opened(file.handle().0)).await
        };
        match (create().await, file.checked_rem(client.work.directories)) {
            (Err(FsError::NotFound), Some(directory)) => {
                self.make_directory(client, directory).await?;
                create().await
            }
            (made, _) => made,
        }
    }

    /// Makes a directory, unless it is there.
    async fn make_directory(&self, client: &Client<V>, number: u32) -> Result<(), FsError> {
        let path = directory_of(number);
        match self.calls(Call::MakeDirectory(number), client.files.mkdir(&path), |()| What::Done).await {
            Err(FsError::Exists) => Ok(()),
            made => made,
        }
    }

    async fn rename(&self, client: &Client<V>, from: u32, to: u32) -> Result<(), FsError> {
        let [old, new] = [from, to].map(|file| path(file, &client.work));
        self.calls(Call::Rename(from, to), client.files.rename(&old, &new), |()| What::Done).await
    }

    pub async fn open(&self, client: &Client<V>, file: u32) -> Result<File<V>, FsError> {
        let text = path(file, &client.work);
        self.calls(Call::Open(file), client.files.open(&text), |file| What::Opened(file.handle().0)).await
    }

    /// Asks what is told of a file.
    pub async fn stat(&self, client: &Client<V>, file: u32) -> Result<(), FsError> {
        let text = path(file, &client.work);
        let told = |told: &Metadata| match told.file {
            Some((handle, _)) => {
                let said = Some(content::stamped(told.attributes.modified));
                What::Told { file: handle.0, size: told.size, said }
            }
            None => What::Failed(Why::Other("it is a directory".to_string())),
        };
        self.calls(Call::Stat(file), client.files.stat(&text), told).await.map(drop)
    }

    /// Says what is to be told of a file.
    pub async fn say(&self, client: &Client<V>, file: u32) -> Result<(), FsError> {
        let text = path(file, &client.work);
        let set = SetAttributes { modified: Some(content::stamp(self.id)), ..SetAttributes::default() };
        self.calls(Call::Say(file), client.files.set_attributes(&text, set), |()| What::Done).await
    }

    /// Opens a file, which is made if it is not there.
    async fn open_or_create(&self, client: &Client<V>, file: u32) -> Result<File<V>, FsError> {
        loop {
            match self.open(client, file).await {
                Err(FsError::NotFound) => {}
                other => return other,
            }
            match self.create(client, file).await {
                // Somebody else has made it, and may have removed it again.
                Err(FsError::Exists) => {}
                other => return other,
            }
        }
    }

    pub async fn close(&self, client: &Client<V>, file: File<V>) -> Result<(), FsError> {
        self.calls(Call::Close(file.handle().0), client.files.close(file), |()| What::Done).await
    }

    pub async fn sync(&self, client: &Client<V>, file: &File<V>) -> Result<(), FsError> {
        self.calls(Call::Sync(file.handle().0), client.files.sync(file), |()| What::Done).await
    }

    /// Fills a buffer and writes it.
    pub async fn write(&self, client: &Client<V>, file: &File<V>, tile: Tile) -> Result<(), FsError> {
        let (of, Views { there, here, pitch }) = (cells(client, file, tile), views(client, tile)?);
        let row = of.cells as usize * of.bytes as usize;
        let buffer = client.files.buffer(here.end() as usize)?;
        for (nth, first) in of.rows().enumerate() {
            let mut bytes = vec![0; row];
            for (at, bytes) in (first..).zip(bytes.chunks_mut(of.bytes as usize)) {
                content::fill(self.id, of.file, at, bytes);
            }
            buffer.write(nth * pitch, &bytes)?;
        }
        let written = async {
            match tile.rows {
                1 => client.files.write(file, tile.first * u64::from(of.bytes), buffer).await.0,
                _ => client.files.write_list(file, &there, buffer, &here).await.0,
            }
        };
        self.calls(Call::Write(of), written, |()| What::Done).await?;
        // Where nobody asks, nothing is durable.
        match client.work.sync {
            Durable::Asked if client.work.syncs > 0 && self.id.number.is_multiple_of(client.work.syncs) => {
                self.sync(client, file).await
            }
            _ => Ok(()),
        }
    }

    /// Writes a cell where no file has bytes.
    pub async fn write_beyond(&self, client: &Client<V>, file: &File<V>) -> Result<(), FsError> {
        let (at, bytes) = (1 << 63, client.work.cell);
        let first = at / u64::from(bytes);
        let of = Cells { file: file.handle().0, first, cells: 1, rows: 1, stride: 0, bytes };
        let buffer = client.files.buffer(bytes as usize)?;
        let written = async { client.files.write(file, at, buffer).await.0 };
        self.calls(Call::Write(of), written, |()| What::Done).await
    }

    /// Fills a buffer and appends it.
    async fn append(&self, client: &Client<V>, file: &File<V>, cells: u32) -> Result<(), FsError> {
        let (of, cell) = (file.handle().0, client.work.cell);
        let mut bytes = vec![0; cells as usize * cell as usize];
        for (nth, bytes) in (content::APPENDED..).zip(bytes.chunks_mut(cell as usize)) {
            content::fill(self.id, of, nth, bytes);
        }
        let buffer = client.files.buffer(bytes.len())?;
        buffer.write(0, &bytes)?;
        let appended = async { client.files.append(file, buffer).await.0 };
        self.calls(Call::Append(of, cells, cell), appended, |at| What::At(*at)).await.map(drop)
    }

    async fn truncate(&self, client: &Client<V>, file: &File<V>, cells: u64) -> Result<(), FsError> {
        let size = cells * u64::from(client.work.cell);
        let call = Call::Truncate(file.handle().0, cells, client.work.cell);
        self.calls(call, client.files.truncate(file, size), |()| What::Done).await
    }

    /// Reads into a buffer and looks at it.
    pub async fn read(&self, client: &Client<V>, file: &File<V>, tile: Tile) -> Result<(), FsError> {
        let (of, Views { there, here, pitch }) = (cells(client, file, tile), views(client, tile)?);
        let row = of.cells as usize * of.bytes as usize;
        let buffer = client.files.buffer(here.end() as usize)?;
        let read = async {
            let (read, buffer): (_, Buffer<V>) = match tile.rows {
                1 => client.files.read(file, tile.first * u64::from(of.bytes), buffer).await,
                _ => client.files.read_list(file, &there, buffer, &here).await,
            };
            let mut bytes = vec![0; row * tile.rows as usize];
            for (nth, bytes) in bytes.chunks_mut(row).enumerate() {
                buffer.read(nth * pitch, bytes)?;
            }
            bytes.truncate(read?);
            Ok(bytes)
        };
        let has = |bytes: &Vec<u8>| {
            let rows = of.rows().zip(bytes.chunks(row));
            let runs = rows.flat_map(|(first, row)| content::runs(of.file, first, row, of.bytes as usize));
            What::Has(runs.collect())
        };
        self.calls(Call::Read(of), read, has).await.map(drop)
    }

    async fn list(&self, client: &Client<V>) -> Result<(), FsError> {
        let names = async {
            let directories = client.work.directories;
            let paths = match directories {
                0 => vec![String::new()],
                _ => (0..directories).map(directory_of).collect(),
            };
            let mut numbers: Vec<u32> = Vec::new();
            for path in paths {
                match client.files.readdir(&path).await {
                    Ok(entries) => numbers.extend(entries.iter().map(|entry| file_of(entry.name.as_str()))),
                    // Nobody has made it yet, so that nothing is in it.
                    Err(FsError::NotFound) if directories > 0 => {}
                    Err(why) => return Err(why),
                }
            }
            Ok(numbers)
        };
        self.calls(Call::List, names, |names| What::Names(names.clone())).await.map(drop)
    }

    /// Carries out a transfer of a file that is opened, or made, if it is not open.
    async fn transfer(
        &self,
        client: &mut Client<V>,
        file: u32,
        tile: Tile,
        writes: bool,
    ) -> Result<(), FsError> {
        let open = match client.open.take() {
            Some(open) => open,
            None => self.open_or_create(client, file).await?,
        };
        let done = match writes {
            true => self.write(client, &open, tile).await,
            false => self.read(client, &open, tile).await,
        };
        if client.work.access.keeps_open() {
            client.open = Some(open);
            return done;
        }
        self.close(client, open).await.and(done)
    }

    /// Another guest comes to this node.
    fn come(&self, client: &mut Client<V>) -> Result<(), FsError> {
        *client.gone.borrow_mut() += client.files.stats().into();
        let files = client.files.another()?;
        client.files = files.clone();
        *client.of_node.borrow_mut() = files;
        Ok(())
    }

    /// Makes a file as a member of a group: the first one does, and the others open it.
    pub async fn create_together(
        &self,
        client: &Client<V>,
        group: &Group<V>,
        file: u32,
    ) -> Result<File<V>, FsError> {
        let (text, layout) = (path(file, &client.work), client.work.layout(file));
        let call = if group.is_first() { Call::Create(file) } else { Call::Open(file) };
        self.calls(call, group.create(&text, layout), |file| What::Opened(file.handle().0)).await
    }

    /// Cuts a file to nothing as a member of a group: the first one does, and the others know it when their call ends.
    pub async fn cut_together(
        &self,
        group: &Group<V>,
        first: ClientId,
        file: &File<V>,
    ) -> Result<(), FsError> {
        let handle = file.handle().0;
        let call = if group.is_first() { Call::Truncate(handle, 0, 0) } else { Call::CutBy(first, handle) };
        self.calls(call, group.resize(file, 0), |()| What::Done).await
    }

    /// Comes to a barrier.
    pub async fn meet(&self, group: &Group<V>, meets: Call) -> Result<(), FsError> {
        self.calls(meets, group.barrier(), |()| What::Done).await
    }

    /// Carries out a request.
    pub async fn perform(&self, client: &mut Client<V>, request: Request) -> Result<(), FsError> {
        match request {
            Request::Write { file, first, cells } => {
                self.transfer(client, file, Tile::row(first, cells), true).await
            }
            Request::Read { file, first, cells } => {
                self.transfer(client, file, Tile::row(first, cells), false).await
            }
            Request::WriteTile(tile) => self.transfer(client, 0, tile, true).await,
            Request::ReadTile(tile) => self.transfer(client, 0, tile, false).await,
            Request::Make { file, cells } => {
                let open = match self.create(client, file).await {
                    Err(FsError::Exists) => self.open(client, file).await?,
                    made => made?,
                };
                let written = self.write(client, &open, Tile::row(0, cells)).await;
                self.close(client, open).await.and(written)
            }
            Request::Look { file } => {
                let open = self.open(client, file).await?;
                let read = self.read(client, &open, Tile::row(0, client.work.cells)).await;
                self.close(client, open).await.and(read)
            }
            Request::Append { file, cells } => {
                let open = self.open_or_create(client, file).await?;
                let appended = self.append(client, &open, cells).await;
                self.close(client, open).await.and(appended)
            }
            Request::Truncate { file, cells } => {
                let open = self.open_or_create(client, file).await?;
                let cut = self.truncate(client, &open, cells).await;
                self.close(client, open).await.and(cut)
            }
            Request::Unlink { file } => {
                let text = path(file, &client.work);
                self.calls(Call::Unlink(file), client.files.unlink(&text), |()| What::Done).await
            }
            Request::Rename { from, to } => self.rename(client, from, to).await,
            Request::Stat { file } => self.stat(client, file).await,
            Request::Say { file } => self.say(client, file).await,
            Request::List => self.list(client).await,
            Request::Leave => {
                client.files.leave().await;
                client.open = None;
                self.come(client)
            }
            Request::Die { file, after } => {
                let at = self.rt.now() + after;
                let make = Box::pin(self.perform(client, Request::Make { file, cells: 1 }));
                drop(self.rt.deadline(at, make).await);
                client.files.vanish();
                client.open = None;
                // What it had asked for has nobody who is told.
                let request = RequestId::of_node(self.id.client.node);
                self.record.record(Event { at_ns: self.rt.now().0, request, what: What::Restarted });
                self.come(client)
            }
        }
    }
}

/// The cells of a tile.
fn cells<V: Verbs>(client: &Client<V>, file: &File<V>, tile: Tile) -> Cells {
    let Tile { first, cells, rows, stride, .. } = tile;
    Cells { file: file.handle().0, first, cells, rows, stride, bytes: client.work.cell }
}

/// The bytes of a tile in its file, and in a buffer where a gap of a cell is behind each row.
struct Views {
    there: View,
    here: View,
    /// From a row to the next in the buffer.
    pitch: usize,
}

fn views<V: Verbs>(client: &Client<V>, tile: Tile) -> Result<Views, FsError> {
    let cell = u64::from(client.work.cell);
    let Tile { first, cells, rows, stride, list } = tile;
    let (len, rows) = (u64::from(cells) * cell, u64::from(rows));
    let pitch = if rows == 1 { len } else { len + cell };
    let of = |at, stride| View::new(at, Datatype::vector(rows, stride, Datatype::bytes(len)?)?);
    let row = |nth| Some(((first + nth * stride) * cell, u32::try_from(len).ok()?));
    let listed = || View::new(0, Datatype::regions((0..rows).map(row).collect::<Option<Vec<_>>>()?)?);
    let there = if list { listed() } else { of(first * cell, stride * cell) };
    let views = there.zip(of(0, pitch)).ok_or(FsError::TooLong)?;
    Ok(Views { there: views.0, here: views.1, pitch: pitch as usize })
}
