//! Groups of clients that call together, as the processes of an MPI program do.
//!
//! Members agree at the files' home: each says that it has come to a round, and is answered when all have. Transfers are each member's own,
//! by lists, and wait for nobody.
//!
//! A round is in memory there, and a group lasts as long as its home's life. Once the home begins anew the group is broken: the call that is under
//! way and all later ones end as [`Unknown`](FsError::Unknown), at every member, and the members make another group, of another number. For a
//! member that has died the others wait until they drop their calls: who starts the members knows of it.

use super::messages::{Answer, BROKEN, Request};
use super::{Buffer, Distribution, File, FsError, Pario, View};
use std::cell::Cell;
use std::rc::Rc;
use weft_verbs::Verbs;

/// One member's part of a group. Members make the same calls of it in the same order, and only so. Who drops a barrier has come to it all the
/// same; for who drops another call before it is through the others wait.
pub struct Group<V: Verbs> {
    files: Pario<V>,
    id: u64,
    member: u32,
    members: u32,
    round: Cell<u64>,
    /// How often the home had begun anew when the member joined, for all that it knew.
    life: u32,
    /// The home began anew.
    broken: Rc<Cell<bool>>,
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
        let (life, round) = (self.home_life(), Cell::new(0));
        Ok(Group { files: self.clone(), id, member, members, round, life, broken: Rc::default() })
    }
}

impl<V: Verbs> Group<V> {
    /// Whether this is the first member, which does for all what is to be done once.
    pub const fn is_first(&self) -> bool {
        self.member == 0
    }

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
    pub async fn open(&self, path: &str) -> Result<File<V>, FsError> {
        let opened = self.files.open(path).await;
        self.all_opened(opened).await
    }

    /// Makes a file at the first member and opens it at the others.
    ///
    /// # Errors
    ///
    /// As [`Group::open`], and as [`Pario::create`]. A file that was made stays.
    pub async fn create(&self, path: &str, layout: Option<Distribution>) -> Result<File<V>, FsError> {
        let made = if self.is_first() { Some(self.files.create(path, layout).await) } else { None };
        let failed = made.as_ref().is_some_and(Result::is_err);
        match (self.agree(failed.into()).await, made) {
            (Ok(0), Some(made)) => self.all_opened(made).await,
            (Ok(0), None) => self.all_opened(self.files.open(path).await).await,
            (_, Some(Err(why))) => Err(why),
            (agreed, made) => self.not_opened(made.and_then(Result::ok), agreed).await,
        }
    }

    async fn all_opened(&self, opened: Result<File<V>, FsError>) -> Result<File<V>, FsError> {
        let agreed = self.agree(opened.is_err().into()).await;
        match (opened, agreed) {
            (Ok(file), Ok(0)) => Ok(file),
            (Ok(file), agreed) => self.not_opened(Some(file), agreed).await,
            (Err(why), _) => Err(why),
        }
    }

    /// What is not open at all members is not open here.
    async fn not_opened(
        &self,
        file: Option<File<V>>,
        agreed: Result<u64, FsError>,
    ) -> Result<File<V>, FsError> {
        if let Some(file) = file {
            self.files.close(file).await?;
        }
        Err(agreed.err().unwrap_or(FsError::Member))
    }

    /// Reads this member's own list and calls no other member, unlike MPI's collective read of that name; see [`Pario::read_list`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read_all(
        &self,
        file: &File<V>,
        from: &View,
        into: Buffer<V>,
        at: &View,
    ) -> (Result<usize, FsError>, Buffer<V>) {
        self.files.read_list(file, from, into, at).await
    }

    /// Writes this member's own list and calls no other member, unlike MPI's collective write of that name; see [`Pario::write_list`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write_all(
        &self,
        file: &File<V>,
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
    pub async fn resize(&self, file: &File<V>, size: u64) -> Result<(), FsError> {
        let resized = if self.is_first() { self.files.truncate(file, size).await } else { Ok(()) };
        match (self.agree(resized.is_err().into()).await?, resized) {
            (0, resized) => resized,
            (_, Err(why)) => Err(why),
            (_, Ok(())) => Err(FsError::Member),
        }
    }

    /// All say a number, and are told the largest. Who drops its call has come all the same: others wait for it.
    async fn agree(&self, word: u64) -> Result<u64, FsError> {
        if self.broken.get() {
            return Err(FsError::Unknown);
        }
        let Group { files, id: group, member, members, round, life, broken } = self;
        let request = {
            let (group, round, member, members) = (*group, round.get(), *member, *members);
            move |word| Request::Gather { group, round, member, members, word }
        };
        round.set(round.get() + 1);
        let (files, life, broken) = (files.clone(), *life, Rc::clone(broken));
        let rt = files.0.rt.clone();
        let agreed = rt.spawn(async move {
            // Others may have ended in another life, and come no more.
            let mut answer = files.ask_home_in(life, request(word)).await;
            if answer == Err(FsError::Unknown) {
                // Others may wait for this member, or come yet, in the home's present life.
                broken.set(true);
                answer = files.ask_home_until(request(BROKEN)).await;
            }
            match answer {
                Ok(Answer::Gathered(BROKEN)) => {
                    broken.set(true);
                    Err(FsError::Unknown)
                }
                Ok(Answer::Gathered(word)) => Ok(word),
                Ok(_) => Err(FsError::Nonsense),
                Err(why) => Err(why),
            }
        });
        agreed.await.unwrap_or(Err(FsError::Closed))
    }
}
