//! What a client of files does: one call of the service after the other, each recorded.

use super::content;
use super::history::{Call, Cells, Event, What};
use super::workload::{Access, PfWork, Request};
use crate::history::RequestId;
use crate::record::Record;
use std::rc::Rc;
use weft_protocols::pario::{Buffer, File, FsError, Pario};
use weft_protocols::rt::Rt;
use weft_verbs::Verbs;

/// What a client calls.
pub struct Client<V: Verbs> {
    pub(super) files: Pario<V>,
    pub(super) work: Rc<PfWork>,
    /// The one file of bulk access, which stays open.
    pub(super) open: Option<File>,
}

/// The name of a file of that number.
fn name(file: u32) -> String {
    format!("f{file}")
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
            Err(FsError::Exists) => What::Exists,
            Err(FsError::NotFound) => What::NotFound,
            Err(_) => What::Failed,
        })
        .await;
        made
    }

    pub async fn create(&self, client: &Client<V>, file: u32) -> Result<File, FsError> {
        let (text, layout) = (name(file), client.work.layout(file));
        let made = client.files.create(&text, layout);
        self.calls(Call::Create(file), made, |file| What::Opened(file.handle().0)).await
    }

    async fn open(&self, client: &Client<V>, file: u32) -> Result<File, FsError> {
        let text = name(file);
        self.calls(Call::Open(file), client.files.open(&text), |file| What::Opened(file.handle().0)).await
    }

    /// Opens a file, which is made if it is not there.
    async fn open_or_create(&self, client: &Client<V>, file: u32) -> Result<File, FsError> {
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

    pub async fn close(&self, client: &Client<V>, file: File) -> Result<(), FsError> {
        self.calls(Call::Close(file.handle().0), client.files.close(file), |()| What::Done).await
    }

    /// Fills a buffer and writes it.
    pub async fn write(
        &self,
        client: &Client<V>,
        file: &File,
        (first, cells): (u64, u32),
    ) -> Result<(), FsError> {
        let PfWork { cell, .. } = *client.work;
        let of = Cells { file: file.handle().0, first, cells, bytes: cell };
        let mut bytes = vec![0; of.len() as usize];
        for (at, bytes) in (first..).zip(bytes.chunks_mut(cell as usize)) {
            content::fill(self.id, of.file, at, bytes);
        }
        let buffer = client.files.buffer(bytes.len())?;
        buffer.write(0, &bytes)?;
        let written = async { client.files.write(file, first * u64::from(cell), buffer).await.0 };
        self.calls(Call::Write(of), written, |()| What::Done).await
    }

    /// Reads into a buffer and looks at it.
    pub async fn read(
        &self,
        client: &Client<V>,
        file: &File,
        (first, cells): (u64, u32),
    ) -> Result<(), FsError> {
        let PfWork { cell, .. } = *client.work;
        let of = Cells { file: file.handle().0, first, cells, bytes: cell };
        let buffer = client.files.buffer(of.len() as usize)?;
        let read = async {
            let (read, buffer): (_, Buffer<V>) =
                client.files.read(file, first * u64::from(cell), buffer).await;
            let mut bytes = vec![0; read?];
            buffer.read(0, &mut bytes)?;
            Ok(bytes)
        };
        let has = |bytes: &Vec<u8>| What::Has(content::runs(of.file, first, bytes, cell as usize));
        self.calls(Call::Read(of), read, has).await.map(drop)
    }

    async fn list(&self, client: &Client<V>) -> Result<(), FsError> {
        let number =
            |name: &str| name.strip_prefix('f').and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
        let names = async {
            let names = client.files.readdir().await?;
            Ok(names.iter().map(|name| number(name.as_str())).collect::<Vec<u32>>())
        };
        self.calls(Call::List, names, |names| What::Names(names.clone())).await.map(drop)
    }

    /// Carries out a request.
    pub async fn perform(&self, client: &mut Client<V>, request: Request) -> Result<(), FsError> {
        match request {
            Request::Write { file, .. } | Request::Read { file, .. } => {
                let kept = client.open.take();
                let open = match kept {
                    Some(open) => open,
                    None => self.open_or_create(client, file).await?,
                };
                let done = match request {
                    Request::Write { first, cells, .. } => self.write(client, &open, (first, cells)).await,
                    Request::Read { first, cells, .. } => self.read(client, &open, (first, cells)).await,
                    _ => Ok(()),
                };
                if client.work.access == Access::Bulk {
                    client.open = Some(open);
                    return done;
                }
                self.close(client, open).await.and(done)
            }
            Request::Make { file, cells } => {
                let open = match self.create(client, file).await {
                    Err(FsError::Exists) => self.open(client, file).await?,
                    made => made?,
                };
                let written = self.write(client, &open, (0, cells)).await;
                self.close(client, open).await.and(written)
            }
            Request::Look { file } => {
                let open = self.open(client, file).await?;
                let read = self.read(client, &open, (0, client.work.cells)).await;
                self.close(client, open).await.and(read)
            }
            Request::Unlink { file } => {
                let text = name(file);
                self.calls(Call::Unlink(file), client.files.unlink(&text), |()| What::Done).await
            }
            Request::List => self.list(client).await,
        }
    }
}
