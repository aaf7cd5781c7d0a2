//! The locks of which this node is the home: their state machines, and what those want done.

use super::net::Net;
use super::pool::Pool;
use super::stats::{Counters, bump};
use super::words::Words;
use super::{Audit, LockConfig, LockKey};
use super::{ncosed, srsl};
use crate::rt::{Rt, WaitPoint};
use crate::transport::Rank;
use ncosed::{Action, Event, Word};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs};

/// A lock that is kept here, by scheme.
enum Home {
    Srsl(srsl::Home),
    /// N-CoSED's, or DQNL's.
    Ncosed(Rc<HomeEntry>),
}

/// The entry of a lock that has a word.
struct HomeEntry {
    key: LockKey,
    home: RefCell<ncosed::Home>,
    /// Empty between events; kept for its allocation.
    out: RefCell<ncosed::Actions>,
}

/// An operation that takes time. A home has one pending at a time.
#[derive(Clone, Copy, Hash)]
enum PendingOp {
    Swap { at: RemoteSlice, compare: Word, swap: Word },
    FreshWord { retired: Option<RemoteSlice> },
}

/// All locks of this home.
pub(crate) struct Homes<V: Verbs> {
    rt: Rt<V>,
    net: Rc<Net<V>>,
    members: u32,
    counters: Rc<Counters>,
    words: Words<V>,
    homes: RefCell<BTreeMap<LockKey, Home>>,
    /// Do the pending operations.
    pool: Rc<Pool<(Rc<HomeEntry>, PendingOp)>>,
    /// Empty between messages; kept for its allocation.
    srsl_out: RefCell<Vec<(Rank, srsl::Message)>>,
}

impl<V: Verbs> Homes<V> {
    pub(crate) fn new(
        rt: &Rt<V>,
        net: &Rc<Net<V>>,
        config: &LockConfig,
        counters: &Rc<Counters>,
    ) -> Rc<Homes<V>> {
        Rc::new(Homes {
            rt: rt.clone(),
            net: Rc::clone(net),
            members: config.members,
            counters: Rc::clone(counters),
            words: Words::new(net),
            homes: RefCell::default(),
            pool: Pool::new(),
            srsl_out: RefCell::default(),
        })
    }

    fn is_home_of(&self, key: LockKey) -> bool {
        key.home(self.members) == self.net.mesh().me()
    }

    /// A message for the home of a lock comes, in SRSL.
    pub(crate) fn tell_srsl(&self, key: LockKey, from: Rank, message: srsl::Message) {
        let mut out = self.srsl_out.take();
        let taken = self.is_home_of(key) && {
            let mut homes = self.homes.borrow_mut();
            match homes.entry(key).or_insert_with(|| Home::Srsl(srsl::Home::default())) {
                Home::Srsl(home) => home.on_message(from, message, &mut out).is_ok(),
                Home::Ncosed(_) => false,
            }
        };
        if !taken {
            bump(&self.counters.out_of_turn);
        }
        for (to, message) in out.drain(..) {
            srsl::Wire::send(&*self.net, to, key, message);
        }
        self.srsl_out.replace(out);
    }

    /// A message for the home of a lock comes, in N-CoSED or DQNL.
    pub(crate) fn tell_ncosed(self: &Rc<Self>, key: LockKey, from: Rank, message: ncosed::Message) {
        match self.is_home_of(key).then(|| self.entry(key)).flatten() {
            Some(entry) => self.tell(&entry, Event::Message(from, message)),
            None => bump(&self.counters.out_of_turn),
        }
    }

    /// The entry of a lock, made when the lock is first heard of.
    fn entry(&self, key: LockKey) -> Option<Rc<HomeEntry>> {
        match self.homes.borrow().get(&key) {
            Some(Home::Ncosed(entry)) => return Some(Rc::clone(entry)),
            Some(Home::Srsl(_)) => return None,
            None => {}
        }
        let home = RefCell::new(ncosed::Home::new());
        let entry = Rc::new(HomeEntry { key, home, out: RefCell::default() });
        self.homes.borrow_mut().insert(key, Home::Ncosed(Rc::clone(&entry)));
        Some(entry)
    }

    /// Does a pending operation, and comes back with an event.
    async fn perform(self: Rc<Self>, entry: Rc<HomeEntry>, op: PendingOp) {
        let knows = (entry.key, op);
        let event = match op {
            PendingOp::Swap { at, compare, swap } => {
                let me = self.net.mesh().me();
                Event::Swapped(self.net.swap(me, at, compare, swap).at(knows).await)
            }
            PendingOp::FreshWord { retired } => Event::Word(self.words.fresh(retired).at(knows).await),
        };
        self.tell(&entry, event);
    }

    fn tell(self: &Rc<Self>, entry: &Rc<HomeEntry>, event: Event) {
        let mut out = entry.out.take();
        entry.home.borrow_mut().on_event(event, &mut out);
        for action in out.drain(..) {
            self.act(entry, action);
        }
        entry.out.replace(out);
    }

    fn act(self: &Rc<Self>, entry: &Rc<HomeEntry>, action: Action) {
        let op = match action {
            Action::Send(to, message) => {
                return ncosed::Wire::send(&*self.net, to, entry.key, message);
            }
            Action::Rebuilding => return bump(&self.counters.rebuilds),
            Action::Stale => return bump(&self.counters.stale_messages),
            Action::OutOfTurn => return bump(&self.counters.out_of_turn),
            Action::Swap { at, compare, swap } => PendingOp::Swap { at, compare, swap },
            Action::FreshWord { retired } => PendingOp::FreshWord { retired },
        };
        let homes = Rc::clone(self);
        let work = move |(entry, op)| Rc::clone(&homes).perform(entry, op);
        self.pool.give(&self.rt, (Rc::clone(entry), op), work);
    }

    /// The lock whose word is at an address of this node.
    pub(super) fn lock_at(&self, address: u64) -> Option<LockKey> {
        let is_there = |home: &Home| match home {
            Home::Srsl(_) => false,
            Home::Ncosed(entry) => entry.home.borrow().word().is_some_and(|word| word.addr == address),
        };
        self.homes.borrow().iter().find(|(_, home)| is_there(home)).map(|(key, _)| *key)
    }

    /// Adds what the homes know to a hash, for explorers.
    pub(super) fn hash_state(&self, to: &mut impl Hasher) {
        self.words.numbers().hash(to);
        for (key, home) in self.homes.borrow().iter() {
            match home {
                Home::Srsl(home) => (key, home).hash(to),
                Home::Ncosed(entry) => (key, &*entry.home.borrow()).hash(to),
            }
        }
    }

    /// What the homes hold.
    pub(crate) fn audit(&self, audit: &mut Audit) {
        (audit.words_in_use, audit.words_retired) = self.words.counts();
        let homes = self.homes.borrow();
        audit.locks_kept = homes.len() as u64;
        for home in homes.values() {
            match home {
                Home::Srsl(home) => audit.home_entries += home.entries() as u64,
                Home::Ncosed(entry) => {
                    let home = entry.home.borrow();
                    audit.home_entries += home.entries() as u64;
                    audit.releases_unspent += u64::from(home.unspent());
                    audit.rebuilding += u64::from(home.is_rebuilding());
                    let value = home.word().and_then(|at| self.words.look(at));
                    audit.words_not_free += u64::from(value.is_some_and(|value| value != 0));
                }
            }
        }
    }
}
