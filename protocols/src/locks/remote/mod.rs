//! Locks for programs that are no task of a node: what `weft lock` asks of a daemon, call by call.
//!
//! A program says by a call that it wants a lock, and by the same call, again and again, that it still does: while it waits, and while it
//! holds. So any call may be lost or made twice. Each answer says for how long the program may count on what it holds, from when
//! it *asked*. The wish of a program that has not asked for its patience is given up: what it held is given back, and what it waited for is
//! withdrawn. The patience runs from when the daemon *heard*, which is later, so that the program stops counting before others
//! may have the lock; the same argument as for a node's own lease (docs/members.md).

mod language;

pub use language::{MalformedCall, Reply, Request, Row, Wish, WishId};

use super::{Grant, LockClient, LockError, LockKey, LockService};
use crate::bytes::can_be_shown;
use crate::rt::sync::Signal;
use crate::rt::{Rt, WaitPoint};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::pin::pin;
use std::rc::Rc;
use thiserror::Error;
use weft_verbs::{Nanos, Verbs};

/// The longest name of a lock, and the longest text about who wants it, in bytes.
pub const LONGEST_NAME: usize = 255;

/// The longest that a call waits for news: shorter than the control plane waits for what a node answers.
pub const LONGEST_WAIT: Nanos = Nanos::from_secs(20);

/// The shortest and the longest patience of a wish.
pub const PATIENCE: [Nanos; 2] = [Nanos::from_secs(1), Nanos::from_secs(3_600)];

/// The most wishes of a node's clients.
const MOST: usize = 4_096;

/// The most bytes of the rows with which a node answers what its clients hold, but for the last row.
const PAGE: usize = 32 * 1_024;

/// How often one whose lease has run out looks whether it was renewed.
const LOOK: Nanos = Nanos::from_millis(20);

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// It is empty, too long, or has characters that no terminal should be sent.
    #[error(
        "a lock's name has 1 to {LONGEST_NAME} bytes, who wants it at most as many, and neither has control characters"
    )]
    Name,
    /// No wish can stand for so long.
    #[error("a client's patience is from {least} to {most}, not {of}", least = PATIENCE[0], most = PATIENCE[1])]
    Patience {
        /// What was asked for.
        of: Nanos,
    },
    /// Another wish has the number.
    #[error("another wish has this number: choose it at random")]
    Taken,
    /// There are too many.
    #[error("this node's clients have {MOST} wishes for locks, the most that there can be: ask again")]
    Full,
    /// The locks say why.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// How far a wish has come.
enum State<V: Verbs> {
    Waits,
    Holds(Rc<Grant<V>>),
    /// It has ended without a grant.
    Refused(LockError),
}

/// A client's wish.
struct Stands<V: Verbs> {
    wish: Wish,
    state: RefCell<State<V>>,
    /// Since when its state is what it is.
    since: Cell<Nanos>,
    /// Until when its client is believed to be there.
    until: Cell<Nanos>,
    /// It is to end.
    over: Cell<bool>,
    changed: Signal,
}

impl<V: Verbs> Stands<V> {
    fn becomes(&self, state: State<V>, now: Nanos) {
        drop(self.state.replace(state));
        self.since.set(now);
        self.changed.notify();
    }

    fn end(&self) {
        self.over.set(true);
        self.changed.notify();
    }

    /// The grant, once there is one.
    fn grant(&self) -> Result<Option<Rc<Grant<V>>>, LockError> {
        match &*self.state.borrow() {
            State::Waits => Ok(None),
            State::Holds(grant) => Ok(Some(Rc::clone(grant))),
            State::Refused(why) => Err(why.clone()),
        }
    }
}

/// The locks of a node for programs that are none of its tasks. Clones are the same.
pub struct Remote<V: Verbs> {
    rt: Rt<V>,
    client: LockClient<V>,
    wishes: Rc<RefCell<BTreeMap<WishId, Rc<Stands<V>>>>>,
}

impl<V: Verbs> Clone for Remote<V> {
    fn clone(&self) -> Remote<V> {
        let Remote { rt, client, wishes } = self;
        Remote { rt: rt.clone(), client: client.clone(), wishes: Rc::clone(wishes) }
    }
}

impl<V: Verbs> Remote<V> {
    /// Those of a node's lock service.
    pub fn new(rt: &Rt<V>, service: &LockService<V>) -> Remote<V> {
        Remote { rt: rt.clone(), client: service.client(), wishes: Rc::default() }
    }

    /// How many wishes hold a lock, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        let wishes = self.wishes.borrow();
        let holds =
            wishes.values().filter(|stands| matches!(*stands.state.borrow(), State::Holds(_))).count();
        (holds, wishes.len() - holds)
    }

    /// Does what is asked. A call that is dropped ends nothing: its wish stands until its client's patience is over.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub async fn serve(&self, request: Request) -> Result<Reply, RemoteError> {
        match request {
            Request::Hold { wish, holds, wait } => {
                check(&wish)?;
                self.hold(wish, holds, wait.min(LONGEST_WAIT)).at(()).await
            }
            Request::Give { id } => {
                self.forget(id);
                Ok(Reply::Given)
            }
            Request::Show { after } => Ok(self.show(after)),
        }
    }

    /// Waits for news of a wish, which stands for as long and for its patience. Of a hold that its client knows of it is news that it is lost.
    async fn hold(&self, wish: Wish, holds: bool, wait: Nanos) -> Result<Reply, RemoteError> {
        let now = self.rt.now();
        let (id, patience, end) = (wish.id, wish.patience, now + wait);
        let Some(stands) = self.find(wish, holds)? else { return Ok(Reply::Lost) };
        stands.until.set(stands.until.get().max(end + patience));
        loop {
            let changed = stands.changed.changed();
            if stands.over.get() {
                return Ok(Reply::Lost);
            }
            let grant = match stands.grant() {
                Ok(grant) => grant,
                Err(why) => {
                    self.forget(id);
                    return if why == LockError::WouldBlock { Ok(Reply::Busy) } else { Err(why.into()) };
                }
            };
            let now = self.rt.now();
            let counts_for = grant.as_deref().map(|grant| counts_for(grant, now).min(patience));
            let look = match counts_for {
                // Its lease has run out, and may be renewed yet.
                Some(Nanos::ZERO) => end.min(now + LOOK),
                Some(_) if !holds => now,
                Some(_) | None => end,
            };
            if now >= look {
                let token = grant.and_then(|grant| grant.token());
                return Ok(counts_for.map_or(Reply::Waits, |counts_for| Reply::Holds { token, counts_for }));
            }
            // At its end it looks once more.
            let _ = self.rt.deadline(look, changed).at((id, holds, patience, end)).await;
        }
    }

    /// A wish is none any more.
    fn forget(&self, id: WishId) {
        let stands = self.wishes.borrow_mut().remove(&id);
        stands.inspect(|stands| stands.end());
    }

    /// The wish that is asked about. Unless its client holds, it may be a new one; if it does, and there is none, it has lost what it held.
    fn find(&self, wish: Wish, holds: bool) -> Result<Option<Rc<Stands<V>>>, RemoteError> {
        let mut wishes = self.wishes.borrow_mut();
        if let Some(stands) = wishes.get(&wish.id) {
            let is_it = stands.wish.name == wish.name && stands.wish.mode == wish.mode;
            return is_it.then(|| Some(Rc::clone(stands))).ok_or(RemoteError::Taken);
        }
        if holds {
            return Ok(None);
        }
        if wishes.len() >= MOST {
            return Err(RemoteError::Full);
        }
        let (id, now) = (wish.id, self.rt.now());
        let stands = Rc::new(Stands {
            wish,
            state: RefCell::new(State::Waits),
            since: Cell::new(now),
            until: Cell::new(now),
            over: Cell::new(false),
            changed: Signal::new(),
        });
        wishes.insert(id, Rc::clone(&stands));
        drop(self.rt.spawn(self.clone().live(Rc::clone(&stands))));
        Ok(Some(stands))
    }

    /// Takes a lock and holds it, for as long as its client asks for that.
    async fn live(self, stands: Rc<Stands<V>>) {
        if self.take(&stands).at(stands.wish.id).await.is_some() {
            return;
        }
        stands.end();
        // Dropping the last share of the grant gives it back.
        stands.becomes(State::Waits, self.rt.now());
        self.wishes.borrow_mut().retain(|_, other| !Rc::ptr_eq(other, &stands));
    }

    /// Returns once the wish is over; with something if it was refused, which its client is to be told.
    async fn take(&self, stands: &Stands<V>) -> Option<()> {
        let Wish { name, mode, tries, .. } = &stands.wish;
        let key = LockKey::named(name);
        let granted = async {
            match tries {
                true => self.client.try_lock(key, *mode).at(()).await,
                false => self.client.lock(key, *mode).at(()).await,
            }
        };
        match self.while_it_stands(stands, granted).at("asks").await? {
            Ok(grant) => {
                let grant = Rc::new(grant);
                stands.becomes(State::Holds(Rc::clone(&grant)), self.rt.now());
                self.while_it_stands(stands, grant.lost()).at("holds").await?;
                None
            }
            Err(why) => {
                stands.becomes(State::Refused(why), self.rt.now());
                let told = stands.changed.until(|| false);
                self.while_it_stands(stands, told).at("refused").await
            }
        }
    }

    /// Waits for something as long as a wish stands: then there is nothing.
    async fn while_it_stands<F: Future>(&self, stands: &Stands<V>, comes: F) -> Option<F::Output> {
        let mut comes = pin!(stands.changed.unless(|| stands.over.get(), comes));
        loop {
            match self.rt.deadline(stands.until.get(), comes.as_mut()).at(()).await {
                Ok(came) => return came,
                Err(_) if self.rt.now() >= stands.until.get() => return None,
                // Its client has asked since.
                Err(_) => {}
            }
        }
    }

    fn show(&self, after: Option<WishId>) -> Reply {
        let wishes = self.wishes.borrow();
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let (mut rows, mut bytes, mut last) = (Vec::new(), 0, None);
        for (id, stands) in wishes.range(behind) {
            if bytes >= PAGE {
                return Reply::Shown { rows, more: last };
            }
            let Wish { name, mode, by, .. } = stands.wish.clone();
            let grant = stands.grant().ok().flatten();
            let since = self.rt.now() - stands.since.get();
            let token = grant.as_ref().and_then(|grant| grant.token());
            let row = Row { name, mode, holds: grant.is_some(), token, since, by };
            bytes += row.len_in_bytes();
            last = Some(*id);
            rows.push(row);
        }
        Reply::Shown { rows, more: None }
    }
}

/// For how long a grant counts.
fn counts_for<V: Verbs>(grant: &Grant<V>, now: Nanos) -> Nanos {
    grant.counts_until() - now
}

fn check(wish: &Wish) -> Result<(), RemoteError> {
    let Wish { name, by, patience, .. } = wish;
    if name.is_empty() || [name, by].iter().any(|text| !can_be_shown(text, LONGEST_NAME)) {
        return Err(RemoteError::Name);
    }
    match (PATIENCE[0]..=PATIENCE[1]).contains(patience) {
        true => Ok(()),
        false => Err(RemoteError::Patience { of: *patience }),
    }
}
