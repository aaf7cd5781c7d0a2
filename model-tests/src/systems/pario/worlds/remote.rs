//! Files by name, as `weft fs` has a daemon do: each call opens what it is about and closes it, and is repeated where a server began anew and
//! nothing else comes of it.

use super::super::client::{file_of, path, told};
use super::super::content;
use super::super::history::{self, Cells, Event, What, Why};
use super::super::workload::PfWork;
use super::InOrder;
use super::calls::Call;
use super::shipped::Called;
use crate::harness::Recorder;
use crate::history::RequestId;
use crate::record::Record;
use weft_protocols::pario::remote::{Remote, RemoteError, Reply, Request};
use weft_protocols::pario::{FsError, Handle, Pario};
use weft_protocols::rt::Rt;
use weft_sim::Sim;

/// Whether each name has the same file from where a client looks at it to where it cuts it.
pub(super) fn cuts_what_it_looked_at(calls: &[Vec<Called>]) -> bool {
    let clients = |does: fn(&Called) -> bool| {
        (0..calls.len()).filter(|client| calls[*client].iter().any(does)).collect::<Vec<usize>>()
    };
    let cut = clients(|(call, _)| *call == Call::Cut);
    let change = clients(|(call, _)| call.changes_names());
    let drop = clients(|(call, quits)| call.changes_names() && *quits);
    cut.is_empty() || (drop.is_empty() && cut.iter().all(|client| change.iter().all(|other| other == client)))
}

/// What asks a daemon, and tells of it.
pub(super) struct Caller {
    remote: Remote<Sim>,
    work: PfWork,
    recorder: Recorder<InOrder>,
}

/// What came of a call whose answer is that to another one.
fn misunderstood() -> What {
    What::Failed(Why::Other("it is no answer to this".to_string()))
}

/// The call failed, or was refused: it has been told.
struct Failed;

impl Caller {
    pub(super) fn new(
        rt: &Rt<Sim>,
        files: &Pario<Sim>,
        work: PfWork,
        recorder: &Recorder<InOrder>,
    ) -> Caller {
        Caller { remote: Remote::new(rt, files), work, recorder: recorder.clone() }
    }

    /// Its name: all files are in the root.
    fn name_of(&self, file: u32) -> String {
        path(file, &self.work)
    }

    /// Makes a call. There is no other one than [these](Call::is_by_name), of which the world has made sure.
    pub(super) async fn call(&self, id: RequestId, call: Call) {
        let done = match call {
            Call::Create => self.create(id, 0).await.map(drop),
            Call::CreateOther => self.create(id, 1).await.map(drop),
            Call::Make => self.make(id, 0).await,
            Call::Look => self.look(id, 0).await,
            Call::Cut => self.cut(id, 0).await,
            Call::Unlink => self.unlink(id, 0).await,
            Call::Rename => self.rename(id, 0, 1).await,
            Call::List => self.list(id).await,
            Call::Stat => self.stat(id, 0).await.map(drop),
            _ => Ok(()),
        };
        // What failed was told.
        drop(done);
    }

    /// Asks, and tells of what came of it.
    async fn asks(
        &self,
        id: RequestId,
        call: history::Call,
        request: Request,
        what: impl FnOnce(&Reply) -> What,
    ) -> Result<Reply, Failed> {
        let happens = |what| self.recorder.record(Event { at_ns: 0, request: id, what });
        happens(What::Calls(call));
        let served = self.remote.serve(request).await;
        happens(match &served {
            Ok(reply) => what(reply),
            // The file has no name, or another one's.
            Err(RemoteError::Fs(_, FsError::NotFound)) if call.is_of_bytes() => What::Failed(Why::Replaced),
            Err(RemoteError::Replaced(_)) => What::Failed(Why::Replaced),
            Err(RemoteError::Fs(_, why)) => told(why),
            // What servers were asked goes on.
            Err(RemoteError::Late { .. }) => What::Dropped,
            Err(why) => What::Failed(Why::Other(why.to_string())),
        });
        served.map_err(|_| Failed)
    }

    /// Makes a file.
    async fn create(&self, id: RequestId, file: u32) -> Result<Handle, Failed> {
        let request = Request::Create { name: self.name_of(file), strip: None, servers: None };
        self.told(id, history::Call::Create(file), request, |handle, _| What::Opened(handle.0)).await
    }

    async fn stat(&self, id: RequestId, file: u32) -> Result<Handle, Failed> {
        let told = |handle: Handle, size| What::Told { file: handle.0, size, said: None };
        self.told(id, history::Call::Stat(file), Request::Stat { name: self.name_of(file) }, told).await
    }

    /// Asks what is answered by what a file is.
    async fn told(
        &self,
        id: RequestId,
        call: history::Call,
        request: Request,
        what: impl FnOnce(Handle, u64) -> What,
    ) -> Result<Handle, Failed> {
        let mut opened = None;
        let tells = |reply: &Reply| match reply {
            Reply::Stat { handle, size, .. } => {
                opened = Some(*handle);
                what(*handle, *size)
            }
            _ => misunderstood(),
        };
        self.asks(id, call, request, tells).await?;
        opened.ok_or(Failed)
    }

    fn cells(&self, handle: Handle) -> Cells {
        let PfWork { cells, cell: bytes, .. } = self.work;
        Cells { file: handle.0, first: 0, cells, rows: 1, stride: 0, bytes }
    }

    /// Makes a file, or looks for it, and writes it.
    async fn make(&self, id: RequestId, file: u32) -> Result<(), Failed> {
        let handle = match self.create(id, file).await {
            Ok(handle) => handle,
            Err(Failed) => self.stat(id, file).await?,
        };
        let of = self.cells(handle);
        let mut bytes = vec![0; of.len() as usize];
        for (cell, bytes) in of.all().zip(bytes.chunks_mut(of.bytes as usize)) {
            content::fill(id, of.file, cell, bytes);
        }
        let request = Request::Write { name: self.name_of(file), handle, at: 0, bytes };
        self.done(id, history::Call::Write(of), request).await
    }

    /// Looks for a file and reads it.
    async fn look(&self, id: RequestId, file: u32) -> Result<(), Failed> {
        let handle = self.stat(id, file).await?;
        let of = self.cells(handle);
        let request = Request::Read { name: self.name_of(file), handle, at: 0, len: of.len() as u32 };
        let has = |reply: &Reply| match reply {
            Reply::Bytes(bytes) => What::Has(content::runs(of.file, of.first, bytes, of.bytes as usize)),
            _ => misunderstood(),
        };
        self.asks(id, history::Call::Read(of), request, has).await.map(drop)
    }

    /// Looks for a file and cuts it to nothing.
    async fn cut(&self, id: RequestId, file: u32) -> Result<(), Failed> {
        let handle = self.stat(id, file).await?;
        let request = Request::Truncate { name: self.name_of(file), size: 0 };
        self.done(id, history::Call::Truncate(handle.0, 0, 0), request).await
    }

    /// Removes a name.
    async fn unlink(&self, id: RequestId, file: u32) -> Result<(), Failed> {
        self.done(id, history::Call::Unlink(file), Request::Remove { name: self.name_of(file) }).await
    }

    /// Gives a file another one's name.
    async fn rename(&self, id: RequestId, from: u32, to: u32) -> Result<(), Failed> {
        let request = Request::Rename { from: self.name_of(from), to: self.name_of(to), replaces: true };
        self.done(id, history::Call::Rename(from, to), request).await
    }

    /// Asks for all names, with the sizes of their files.
    async fn list(&self, id: RequestId) -> Result<(), Failed> {
        let request = Request::List { directory: String::new(), after: String::new(), sizes: true };
        let names = |reply: &Reply| match reply {
            Reply::Names { entries, .. } => {
                What::Names(entries.iter().map(|entry| file_of(&entry.name)).collect())
            }
            _ => misunderstood(),
        };
        self.asks(id, history::Call::List, request, names).await.map(drop)
    }

    async fn done(&self, id: RequestId, call: history::Call, request: Request) -> Result<(), Failed> {
        self.asks(id, call, request, |_| What::Done).await.map(drop)
    }
}
