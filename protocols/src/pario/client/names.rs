//! A client's calls about names. Each is executed at most once, also where the directory's server begins anew before it answers.

use super::super::calls::{self, Answered, Held};
use super::super::messages::{Answer, Request};
use super::super::service::Pario;
use super::super::{DirEntry, Distribution, FsError, Metadata, Name, Path, SetAttributes, Storage};
use super::{File, HOME, Open, Opening};
use crate::rt::sync::OneshotReceiver;
use crate::transport::Rank;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use weft_verbs::Verbs;

/// A close that the home was asked for, and whether it still has what was written.
pub(super) struct Close {
    kept: Result<(), FsError>,
    told: Result<OneshotReceiver<Answered>, FsError>,
}

impl<V: Verbs> Pario<V> {
    /// Makes a file and opens it: over all servers from the next one in turn, unless a distribution says otherwise. It has no object before
    /// its first write.
    ///
    /// # Errors
    ///
    /// The path cannot be, is there or lies in no directory, or the cluster has not that many servers. [`FsError::Stale`] if the directory's
    /// server began anew before it answered, and somebody has removed the file meanwhile: it was made, and is gone.
    pub async fn create(&self, path: &str, layout: Option<Distribution>) -> Result<File<V>, FsError> {
        let layout = layout.unwrap_or_else(|| self.0.config.layout());
        let request = Request::Create { path: Path::checked(path)?, layout };
        let opening = Opening::new(self);
        self.once_holding(request, || opening.held()).await?;
        opening.take()
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// There is none at that path. [`FsError::Distribution`] if it is on more servers than this node's cluster has.
    pub async fn open(&self, path: &str) -> Result<File<V>, FsError> {
        let request = Request::Open { path: Path::checked(path)? };
        let opening = Opening::new(self);
        self.until_answered_holding(HOME, request, || opening.held()).await?;
        opening.take()
    }

    /// Closes a file, once all of its calls have been answered, those included that nobody waits for any more. A file that
    /// has no name ends with its last close. A close goes on if the call is dropped.
    ///
    /// # Errors
    ///
    /// Writes that were not synced are [lost](FsError::WritesLost), which a close tells if no sync has, before all else; the file is
    /// closed. Or the directory's server cannot be reached.
    pub async fn close(&self, mut file: File<V>) -> Result<(), FsError> {
        let asked = self.asks_to_close(&file.open).await;
        file.is_closed = true;
        self.told_of_close(asked).await
    }

    /// Asks the home to close a file. Until then nothing has happened.
    pub(super) async fn asks_to_close(&self, open: &Open) -> Close {
        open.in_use.idle().await;
        let kept = self.kept(open).await;
        let Open { handle, epoch, .. } = *open;
        let told = self.0.ask(HOME, Request::Close { handle, epoch }, Held::NOTHING).await;
        // When it has been sent, and not before: a home that asks what is open counts this close, or is not told of the file.
        {
            let mut opens = self.0.opens.borrow_mut();
            if let Entry::Occupied(mut times) = opens.entry((handle, epoch)) {
                *times.get_mut() -= 1;
                if *times.get() == 0 {
                    times.remove();
                }
            }
        }
        self.0.holds_home(HOME);
        Close { kept, told }
    }

    /// What came of that.
    pub(super) async fn told_of_close(&self, Close { kept, told }: Close) -> Result<(), FsError> {
        let closed = match told {
            Ok(told) => calls::answer(told).await,
            Err(why) => Err(why),
        };
        kept.and(match closed {
            // The next life of a home is not told of what was closed before, and a home that has forgotten its client has nothing open
            // of it.
            Ok(Answer::Done) | Err(FsError::Unknown | FsError::Stale) => Ok(()),
            Ok(_) => Err(FsError::Nonsense),
            Err(why) => Err(why),
        })
    }

    /// Whether the servers still have what was written to a file and not synced.
    async fn kept(&self, open: &Open) -> Result<(), FsError> {
        let unsynced = open.in_use.unsynced.take();
        let mut kept = Ok(());
        for (part, epoch) in unsynced {
            match self.until_answered(self.server(open.layout, part), Request::Epoch).await {
                Ok(Answer::At { epoch: now }) if now == epoch => {}
                Ok(Answer::At { .. }) => kept = Err(FsError::WritesLost),
                Ok(_) => kept = kept.and(Err(FsError::Nonsense)),
                Err(why) => kept = kept.and(Err(why)),
            }
        }
        kept
    }

    /// Removes a file's name. The file lives until it is closed everywhere.
    ///
    /// # Errors
    ///
    /// There is no file of that name.
    pub async fn unlink(&self, path: &str) -> Result<(), FsError> {
        self.done(Request::Unlink { path: Path::checked(path)? }).await
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// The path cannot be, is there, or lies in no directory.
    pub async fn mkdir(&self, path: &str) -> Result<(), FsError> {
        self.done(Request::MakeDirectory { path: Path::checked(path)? }).await
    }

    /// Removes a directory in which nothing is.
    ///
    /// # Errors
    ///
    /// There is none, or something is in it.
    pub async fn rmdir(&self, path: &str) -> Result<(), FsError> {
        self.done(Request::RemoveDirectory { path: Path::checked(path)? }).await
    }

    /// Gives a file or a directory, with all that is in it, another path: at once, or not at all. A file takes the place of the file that
    /// is there, which lives until it is closed everywhere; nobody sees neither of them.
    ///
    /// # Errors
    ///
    /// Nothing is there, the new path lies in no directory, or a directory is to take the place of something or to be moved into itself.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FsError> {
        self.rename_as(from, to, true).await
    }

    /// The same, and it takes no place: what is there stays.
    ///
    /// # Errors
    ///
    /// As [`Pario::rename`], and something is there.
    pub async fn rename_to_new(&self, from: &str, to: &str) -> Result<(), FsError> {
        self.rename_as(from, to, false).await
    }

    pub(in super::super) async fn rename_as(
        &self,
        from: &str,
        to: &str,
        replaces: bool,
    ) -> Result<(), FsError> {
        let (from, to) = (Path::checked(from)?, Path::checked(to)?);
        self.done(Request::Rename { from, to, replaces }).await
    }

    /// What is in a directory, in order; the root's path is empty. What is made or removed meanwhile may be among it or not; all else is,
    /// once.
    ///
    /// # Errors
    ///
    /// There is no such directory, or its server cannot be reached.
    pub async fn readdir(&self, directory: &str) -> Result<Vec<DirEntry>, FsError> {
        self.readdir_behind(directory, None, usize::MAX).await.map(|(all, _)| all)
    }

    /// The same behind a name: so many at least, and whether there are more; or all that there are.
    pub(in super::super) async fn readdir_behind(
        &self,
        directory: &str,
        name: Option<Name>,
        least: usize,
    ) -> Result<(Vec<DirEntry>, bool), FsError> {
        let directory = Path::directory(directory)?;
        let mut all: Vec<DirEntry> = Vec::new();
        loop {
            let after = all.last().map(|entry| &entry.name).or(name.as_ref()).cloned();
            let request = Request::List { directory: directory.clone(), after };
            match self.until_answered(HOME, request).await? {
                Answer::Names { names, more } => {
                    let stuck = more && names.is_empty();
                    all.extend(names);
                    if stuck {
                        return Err(FsError::Nonsense);
                    }
                    if !more || all.len() >= least {
                        return Ok((all, more));
                    }
                }
                _ => return Err(FsError::Nonsense),
            }
        }
    }

    /// What is told of a file or a directory, and a file's size; the root's path is empty.
    ///
    /// # Errors
    ///
    /// There is nothing at that path, or a server cannot be reached.
    pub async fn stat(&self, path: &str) -> Result<Metadata, FsError> {
        let request = Request::Stat { path: Path::directory(path)? };
        loop {
            return match self.until_answered(HOME, request.clone()).await? {
                Answer::Stat { file: None, attributes } => Ok(Metadata { file: None, size: 0, attributes }),
                Answer::Stat { file: Some((_, layout)), .. } if !layout.fits(self.0.config.servers) => {
                    Err(FsError::Distribution)
                }
                Answer::Stat { file: Some((handle, layout)), attributes } => {
                    let size = match self.size_of(handle, layout, None).await {
                        // A server that began anew knows no files that have ended, and has no bytes of them.
                        Ok((size, asked_again)) if size == 0 || asked_again => {
                            self.until_answered(HOME, Request::Lives { handle }).await.map(|_| size)
                        }
                        told => told.map(|(size, _)| size),
                    };
                    let size = match size {
                        // It has ended since: another one may be there.
                        Err(FsError::Stale) => continue,
                        size => size?,
                    };
                    Ok(Metadata { file: Some((handle, layout)), size, attributes })
                }
                _ => Err(FsError::Nonsense),
            };
        }
    }

    /// Says who may do what with a file, whose it is and when it was changed: servers keep it, and whoever mounts the files heeds it.
    ///
    /// # Errors
    ///
    /// There is no file at that path; directories have the [attributes](super::super::Attributes) that all have.
    pub async fn set_attributes(&self, path: &str, set: SetAttributes) -> Result<(), FsError> {
        self.done(Request::SetAttributes { path: Path::checked(path)?, set }).await
    }

    /// Asks a server, and once more if it began anew before it answered: nothing changes by what is asked.
    pub(super) async fn until_answered(&self, server: Rank, request: Request) -> Answered {
        self.until_answered_holding(server, request, || Held::NOTHING).await
    }

    async fn until_answered_holding(
        &self,
        server: Rank,
        request: Request,
        held: impl Fn() -> Held<V>,
    ) -> Answered {
        loop {
            match self.call(server, request.clone(), held()).await {
                Err(FsError::Unknown) => self.0.pause().await,
                told => return told,
            }
        }
    }

    /// Asks the directory's server for a change. One that began anew before it answered is asked again: it knows from its log what it
    /// answered to the call in this slot, and executes nothing twice. In memory it has no log, and nobody knows. Nor does it know a guest
    /// again, whose call ends as unknown.
    pub(super) async fn once(&self, request: Request) -> Answered {
        self.once_holding(request, || Held::NOTHING).await
    }

    async fn once_holding(&self, request: Request, held: impl Fn() -> Held<V>) -> Answered {
        if matches!(self.0.config.storage, Storage::Memory { .. }) || self.0.mesh.is_of_guest() {
            return self.call(HOME, request, held()).await;
        }
        let slot = self.0.slots.take().await;
        let request = Request::Recorded { asked: slot.next(), request: Box::new(request) };
        loop {
            let held = Held { _slot: Some(Rc::clone(&slot)), ..held() };
            match self.call(HOME, request.clone(), held).await {
                Err(FsError::Unknown) => self.0.pause().await,
                told => return told,
            }
        }
    }

    /// Asks the directory's server until it answers: nothing changes by what is asked.
    pub(in super::super) async fn ask_home_until(&self, request: Request) -> Answered {
        self.until_answered(HOME, request).await
    }

    /// The directory's server's life, by how often it has begun anew for all that this node knows.
    pub(in super::super) fn home_life(&self) -> u32 {
        self.0.wire.life_of(HOME)
    }

    /// Asks the directory's server, once, for what only this life of it can answer.
    pub(in super::super) async fn ask_home_in(&self, life: u32, request: Request) -> Answered {
        let told = self.0.ask(HOME, request, Held::NOTHING).await?;
        if self.home_life() == life { calls::answer(told).await } else { Err(FsError::Unknown) }
    }

    async fn done(&self, request: Request) -> Result<(), FsError> {
        match self.once(request).await? {
            Answer::Done => Ok(()),
            _ => Err(FsError::Nonsense),
        }
    }
}
