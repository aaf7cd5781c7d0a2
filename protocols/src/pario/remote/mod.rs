//! Files for those who are no node of the servers' mesh: what `weft fs` asks of a daemon, call by call.
//!
//! No call leaves anything open: each opens the file by its name, does one thing, and closes it. A name may stand for another file
//! by the next call, so that reads and writes say the handle that the first call told, and are refused if it is another one's. Nobody
//! remembers between two calls which writes a restart of a server could lose: a cluster that serves such calls makes each write durable
//! before it is answered ([`Sync::Each`](super::Sync::Each)).

mod language;

pub use crate::bytes::MalformedCall;
pub use language::{Listed, Reply, Request};

use super::{DirEntry, Distribution, File, FsError, Handle, Metadata, Name, Pario, Path};
use crate::bytes::unknown;
use crate::rt::Rt;
use thiserror::Error;
use weft_verbs::{Nanos, Verbs, VerbsError};

/// The most bytes that one call reads or writes.
pub const MOST: u32 = 96 * 1_024;

/// The most names of which one call tells the sizes. Of names alone it tells as many as there is room for, and asks for no fewer.
const NAMES: usize = 256;

/// How long a call may take, and those included that begin anew: servers that restart are back by then.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// The pause between two attempts.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// The name stands for another file by now. That one can be asked for.
    #[error("'{0}' was replaced by another file meanwhile: ask again")]
    Replaced(String),
    /// A call reads or writes too much.
    #[error("one call reads or writes at most {MOST} bytes, not {0}")]
    TooMuch(u64),
    /// No file can be so distributed.
    #[error("a strip has 1 to 2^32 - 1 bytes, and a file 1 to as many servers as there are")]
    Layout,
    /// Servers took too long, or went away.
    #[error("{about}: not all servers answered for {} s{}: are they all up?", PATIENCE.as_secs_f64(), unknown(*.changes))]
    Late {
        /// What the call was about.
        about: String,
        /// Whether it may have changed something.
        changes: bool,
    },
    /// The directory in which something is to be is not there.
    #[error("{path}: there is no directory '{directory}': make it first (weft fs mkdir)")]
    NoDirectory {
        /// What was to be there.
        path: String,
        /// The directory.
        directory: String,
    },
    /// The files say why, and which one it is about.
    #[error("{0}: {1}")]
    Fs(String, FsError),
    /// The adapter refused something.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
}

/// The files of a cluster, for those outside of it. Clones are the same.
pub struct Remote<V: Verbs> {
    rt: Rt<V>,
    files: Pario<V>,
}

impl<V: Verbs> Clone for Remote<V> {
    fn clone(&self) -> Remote<V> {
        Remote { rt: self.rt.clone(), files: self.files.clone() }
    }
}

impl<V: Verbs> Remote<V> {
    /// Those that a node has.
    pub fn new(rt: &Rt<V>, files: &Pario<V>) -> Remote<V> {
        Remote { rt: rt.clone(), files: files.clone() }
    }

    /// Does what is asked. What can be repeated without harm is repeated where a server restarted meanwhile, until the call's time is over:
    /// then nothing of it goes on but what servers were asked, and the closing of what it opened. A change of a name is repeated below, by
    /// its number: it is done once.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub async fn serve(&self, request: Request) -> Result<Reply, RemoteError> {
        let served = self.rt.deadline(self.rt.now() + PATIENCE, self.repeated(&request)).await;
        let (about, changes) = (shown(request.about()).to_string(), request.changes());
        served.unwrap_or(Err(RemoteError::Late { about, changes }))
    }

    async fn repeated(&self, request: &Request) -> Result<Reply, RemoteError> {
        loop {
            match self.once(request).await {
                Err(RemoteError::Fs(_, FsError::Unknown)) if request.may_repeat() => {}
                served => return served,
            }
            self.rt.sleep(PAUSE).await;
        }
    }

    async fn once(&self, request: &Request) -> Result<Reply, RemoteError> {
        match request {
            Request::List { directory, after, sizes } => self.list(directory, after, *sizes).await,
            Request::Stat { name } => self.with(name, None, async |file| self.stat(file).await).await,
            Request::Create { name, strip, servers } => self.create(name, *strip, *servers).await,
            Request::Write { name, handle, at, bytes } => {
                if bytes.len() as u64 > u64::from(MOST) {
                    return Err(RemoteError::TooMuch(bytes.len() as u64));
                }
                let buffer = self.files.buffer(bytes.len()).map_err(of(name))?;
                buffer.write(0, bytes)?;
                let write =
                    async |file: &File<V>| self.files.write(file, *at, buffer).await.0.map(|()| Reply::Done);
                self.with(name, Some(*handle), write).await
            }
            Request::Read { name, handle, at, len } => self.read(name, *handle, *at, *len).await,
            Request::Truncate { name, size } => {
                let cut = async |file: &File<V>| self.files.truncate(file, *size).await.map(|()| Reply::Done);
                self.with(name, None, cut).await
            }
            Request::Remove { name } => done(name, self.files.unlink(name).await),
            Request::MakeDirectory { path } => {
                self.files.mkdir(path).await.map(|()| Reply::Done).map_err(new(path))
            }
            Request::RemoveDirectory { path } => done(path, self.files.rmdir(path).await),
            Request::Rename { from, to, replaces } => {
                done(&format!("{from} to {to}"), self.files.rename_as(from, to, *replaces).await)
            }
        }
    }

    /// Opens a file, which has that handle if one is said, does something with it, and closes it.
    async fn with(
        &self,
        name: &str,
        handle: Option<Handle>,
        does: impl AsyncFnOnce(&File<V>) -> Result<Reply, FsError>,
    ) -> Result<Reply, RemoteError> {
        let file = self.files.open(name).await.map_err(of(name))?;
        let it_is = handle.is_none_or(|handle| handle == file.handle());
        let done = if it_is { Some(does(&file).await) } else { None };
        let closed = self.files.close(file).await;
        let done = done.ok_or_else(|| RemoteError::Replaced(name.to_string()))?.map_err(of(name))?;
        closed.map_err(of(name))?;
        Ok(done)
    }

    async fn list(&self, directory: &str, after: &str, sizes: bool) -> Result<Reply, RemoteError> {
        let after = match after {
            "" => None,
            name => Some(Name::new(name).ok_or_else(|| of(name)(FsError::Path(name.to_string())))?),
        };
        let names = self.files.readdir_behind(directory, after, NAMES).await;
        let (mut names, mut more) = names.map_err(of(directory))?;
        // By byte streams the directory's server tells thousands at once.
        let told = if sizes { NAMES.min(names.len()) } else { language::fitting(&names, MOST as usize) };
        more |= told < names.len();
        names.truncate(told);
        let mut entries = Vec::with_capacity(told);
        for DirEntry { name, is_directory } in names {
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            let size = if sizes && !is_directory { self.size(&path).await? } else { None };
            entries.push(Listed { name: name.to_string(), is_directory, size });
        }
        Ok(Reply::Names { entries, more })
    }

    /// A file's size; none if it was removed meanwhile. A directory may be there by now, or its own directory be gone.
    async fn size(&self, path: &str) -> Result<Option<u64>, RemoteError> {
        match self.files.stat(path).await {
            Ok(Metadata { file, size, .. }) => Ok(file.map(|_| size)),
            Err(FsError::NotFound | FsError::NotDirectory) => Ok(None),
            Err(why) => Err(of(path)(why)),
        }
    }

    async fn stat(&self, file: &File<V>) -> Result<Reply, FsError> {
        let (handle, layout) = (file.handle(), file.layout());
        Ok(Reply::Stat { handle, size: self.files.size(file).await?, layout })
    }

    async fn create(
        &self,
        name: &str,
        strip: Option<u32>,
        servers: Option<u16>,
    ) -> Result<Reply, RemoteError> {
        let usual = self.files.0.config.layout();
        let (strip, servers) = (strip.unwrap_or(usual.strip()), servers.unwrap_or(usual.servers()));
        let layout = Distribution::stripe(strip, servers, usual.first()).ok_or(RemoteError::Layout)?;
        let file = self.files.create(name, Some(layout)).await.map_err(new(name))?;
        let (handle, layout) = (file.handle(), file.layout());
        self.files.close(file).await.map_err(of(name))?;
        Ok(Reply::Stat { handle, size: 0, layout })
    }

    async fn read(&self, name: &str, handle: Handle, at: u64, len: u32) -> Result<Reply, RemoteError> {
        if len > MOST {
            return Err(RemoteError::TooMuch(len.into()));
        }
        let buffer = self.files.buffer(len as usize).map_err(of(name))?;
        let mut bytes = vec![0; len as usize];
        let into = &mut bytes;
        let read = async move |file: &File<V>| {
            let (read, buffer) = self.files.read(file, at, buffer).await;
            let read = read?;
            buffer.read(0, &mut into[..read]).map_err(FsError::from)?;
            into.truncate(read);
            Ok(Reply::Done)
        };
        self.with(name, Some(handle), read).await?;
        Ok(Reply::Bytes(bytes))
    }
}

fn done(path: &str, end: Result<(), FsError>) -> Result<Reply, RemoteError> {
    end.map(|()| Reply::Done).map_err(of(path))
}

fn of(path: &str) -> impl Fn(FsError) -> RemoteError {
    move |why| RemoteError::Fs(shown(path).to_string(), why)
}

/// A path in a sentence: the root's is empty.
fn shown(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// Of what is to be made: what is not there is the directory in which it is to be.
fn new(name: &str) -> impl Fn(FsError) -> RemoteError {
    move |why| match (why, Path::new(name).map(|path| path.parent())) {
        (FsError::NotFound, Some(directory)) if !directory.is_root() => {
            RemoteError::NoDirectory { path: name.to_string(), directory: directory.to_string() }
        }
        (why, _) => RemoteError::Fs(name.to_string(), why),
    }
}
