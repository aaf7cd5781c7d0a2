//! Groups of clients that call together, as the processes of an MPI program do.
//!
//! Members agree at the files' home: each says that it has come to a round, and is answered when all have. A round is in memory there:
//! one whose home begins anew ends as [`Unknown`](FsError::Unknown). Transfers are each member's own, by lists, and wait for nobody.

use super::messages::{Answer, Request};
use super::{Buffer, Distribution, File, FsError, Pario, View};
use std::cell::Cell;
use weft_verbs::Verbs;

/// One member's part of a group. Members make the same calls of it in the same order, and only so.
pub struct Group<V: Verbs> {
    files: Pario<V>,
    id: u64,
    member: u32,
    members: u32,
    round: Cell<u64>,
}

impl<V: Verbs> Pario<V> {
    /// Joins a group of so many members as one of them, from 0. All say the same `id`, which no other group has that lives at the same
    /// time.
    ///
    /// # Errors
    ///
    /// A member's number is below that of all.
    pub fn group(&self, id: u64, member: u32, members: u32) -> Result<Group<V>, FsError> {
        if member >= members {
            let (field, value, must) = ("member", u64::from(member), "below the number of members");
            return Err(FsError::Config { field, value, must });
        }
        Ok(Group { files: self.clone(), id, member, members, round: Cell::new(0) })
    }
}

impl<V: Verbs> Group<V> {
    /// Returns when all members have called it.
    ///
    /// # Errors
    ///
    /// The files' home began anew, or cannot be reached.
    pub async fn barrier(&self) -> Result<(), FsError> {
        self.agree(0).await.map(drop)
    }

    /// Opens a file at every member.
    ///
    /// # Errors
    ///
    /// Here it could not be opened, or [at another member](FsError::Member): then it is open at none.
    pub async fn open(&self, path: &str) -> Result<File, FsError> {
        let opened = self.files.open(path).await;
        self.all_opened(opened).await
    }

    /// Makes a file at the first member and opens it at the others.
    ///
    /// # Errors
    ///
    /// As [`Group::open`], and as [`Pario::create`]. A file that was made stays.
    pub async fn create(&self, path: &str, layout: Option<Distribution>) -> Result<File, FsError> {
        let made = if self.member == 0 { Some(self.files.create(path, layout).await) } else { None };
        let failed = made.as_ref().is_some_and(Result::is_err);
        if self.agree(failed.into()).await? > 0 {
            return made.unwrap_or(Err(FsError::Member));
        }
        let opened = match made {
            Some(made) => made,
            None => self.files.open(path).await,
        };
        self.all_opened(opened).await
    }

    async fn all_opened(&self, opened: Result<File, FsError>) -> Result<File, FsError> {
        let agreed = self.agree(opened.is_err().into()).await;
        match (opened, agreed) {
            (Ok(file), Ok(0)) => Ok(file),
            (Ok(file), agreed) => {
                self.files.close(file).await?;
                Err(agreed.err().unwrap_or(FsError::Member))
            }
            (Err(why), _) => Err(why),
        }
    }

    /// Reads this member's part; see [`Pario::read_list`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read_all(
        &self,
        file: &File,
        from: &View,
        into: Buffer<V>,
        at: &View,
    ) -> (Result<usize, FsError>, Buffer<V>) {
        self.files.read_list(file, from, into, at).await
    }

    /// Writes this member's part; see [`Pario::write_list`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write_all(
        &self,
        file: &File,
        to: &View,
        from: Buffer<V>,
        at: &View,
    ) -> (Result<(), FsError>, Buffer<V>) {
        self.files.write_list(file, to, from, at).await
    }

    /// Gives a file another size, once for all members: it has it when this returns.
    ///
    /// # Errors
    ///
    /// As [`Pario::truncate`], at the first member; at the others it [failed there](FsError::Member).
    pub async fn resize(&self, file: &File, size: u64) -> Result<(), FsError> {
        let resized = if self.member == 0 { self.files.truncate(file, size).await } else { Ok(()) };
        match (self.agree(resized.is_err().into()).await?, resized) {
            (0, resized) => resized,
            (_, Err(why)) => Err(why),
            (_, Ok(())) => Err(FsError::Member),
        }
    }

    /// All say a number, and are told the largest.
    async fn agree(&self, word: u64) -> Result<u64, FsError> {
        let Group { files, id, member, members, round } = self;
        let (member, members) = (*member, *members);
        let request = Request::Gather { group: *id, round: round.get(), member, members, word };
        round.set(round.get() + 1);
        match files.ask_home(request).await? {
            Answer::Gathered(word) => Ok(word),
            _ => Err(FsError::Nonsense),
        }
    }
}
