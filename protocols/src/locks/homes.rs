//! The locks of which this node is the home: their state machines, and what those want done.

use super::net::Net;
use super::pool::Pool;
use super::stats::{Counters, bump};
use super::views::Stamp;
use super::words::Words;
use super::{Audit, LockConfig, LockKey};
use super::{ncosed, srsl};
use crate::members::View;
use crate::rt::sync::Signal;
use crate::rt::{Rt, WaitPoint};
use crate::transport::Rank;
use ncosed::{Action, Event, Word};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use weft_verbs::{Nanos, RemoteSlice, Verbs};

/// The entry of a lock that has a word.
struct HomeEntry {
    key: LockKey,
    /// The view in which it was made, and in which alone it counts; zero for none.
    view: Stamp,
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
    counters: Rc<Counters>,
    words: Words<V>,
    /// SRSL's locks; and who keeps which lock in the present view, of all schemes.
    srsl: RefCell<srsl::Keeper>,
    /// N-CoSED's, or DQNL's.
    homes: RefCell<BTreeMap<LockKey, Rc<HomeEntry>>>,
    /// Words of views that are over, to which a member may have an atomic under way.
    abandoned: RefCell<Vec<RemoteSlice>>,
    /// Do the pending operations.
    pool: Rc<Pool<(Rc<HomeEntry>, PendingOp)>>,
    /// Empty between messages; kept for its allocation.
    srsl_out: RefCell<Vec<(Rank, srsl::Message)>>,
    /// The mesh was closed.
    closed: Signal,
}

impl<V: Verbs> Homes<V> {
    pub(crate) fn new(
        rt: &Rt<V>,
        net: &Rc<Net<V>>,
        config: &LockConfig,
        counters: &Rc<Counters>,
        in_views: bool,
    ) -> Rc<Homes<V>> {
        Rc::new(Homes {
            rt: rt.clone(),
            net: Rc::clone(net),
            srsl: RefCell::new(srsl::Keeper::new(net.mesh().me(), config.members, in_views)),
            counters: Rc::clone(counters),
            words: Words::new(net),
            homes: RefCell::default(),
            abandoned: RefCell::default(),
            pool: Pool::new(),
            srsl_out: RefCell::default(),
            closed: Signal::new(),
        })
    }

    /// Who keeps a lock; nobody while this node is in no view of the membership.
    pub(crate) fn home_of(&self, key: LockKey) -> Option<Rank> {
        self.srsl.borrow().home_of(key)
    }

    fn is_home_of(&self, key: LockKey) -> bool {
        self.home_of(key) == Some(self.net.mesh().me())
    }

    /// A message for the home of a lock comes, in SRSL.
    pub(crate) fn tell_srsl(&self, key: LockKey, from: Rank, message: srsl::Message) {
        let mut out = self.srsl_out.take();
        let taken = self.srsl.borrow_mut().on_message(self.rt.now(), from, key, message, &mut out);
        if taken.is_err() {
            bump(&self.counters.out_of_turn);
        }
        for (to, message) in out.drain(..) {
            srsl::Wire::send(&*self.net, to, key, message);
        }
        self.srsl_out.replace(out);
    }

    /// A message for the home of a lock comes, in N-CoSED or DQNL.
    pub(crate) fn tell_ncosed(self: &Rc<Self>, key: LockKey, from: Rank, message: ncosed::Message) {
        match self.is_home_of(key).then(|| self.entry(key)) {
            Some(entry) => self.tell(&entry, Event::Message(from, message)),
            None => bump(&self.counters.out_of_turn),
        }
    }

    /// The entry of a lock, made when the lock is first heard of.
    fn entry(&self, key: LockKey) -> Rc<HomeEntry> {
        if let Some(entry) = self.homes.borrow().get(&key) {
            return Rc::clone(entry);
        }
        let now = self.rt.now();
        let is_settled = self.srsl.borrow().term().is_none_or(|term| term.is_settled(now));
        let home = if is_settled { ncosed::Home::new() } else { ncosed::Home::of_a_view() };
        let (home, view) = (RefCell::new(home), self.net.view());
        let entry = Rc::new(HomeEntry { key, view, home, out: RefCell::default() });
        self.homes.borrow_mut().insert(key, Rc::clone(&entry));
        entry
    }

    /// Does a pending operation, unless the mesh is closed before that has an end.
    async fn perform_while_open(self: Rc<Self>, entry: Rc<HomeEntry>, op: PendingOp) {
        let is_closed = || self.net.mesh().is_closed();
        self.closed.unless(is_closed, Rc::clone(&self).perform(entry, op)).at(()).await;
    }

    /// Does a pending operation, and comes back with an event.
    async fn perform(self: Rc<Self>, entry: Rc<HomeEntry>, op: PendingOp) {
        let knows = (entry.key, entry.view, op);
        let event = match op {
            // Its word may be another lock's by now.
            PendingOp::Swap { .. } if entry.view != self.net.view() => return,
            PendingOp::Swap { at, compare, swap } => {
                let me = self.net.mesh().me();
                Event::Swapped(self.net.swap(me, at, compare, swap).at(knows).await)
            }
            PendingOp::FreshWord { retired } => Event::Word(self.words.fresh(retired).at(knows).await),
        };
        match event {
            _ if entry.view == self.net.view() => self.tell(&entry, event),
            // Nobody has been told of it.
            Event::Word(Some(word)) => self.words.retire([word]),
            _ => {}
        }
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
        let work = move |(entry, op)| Rc::clone(&homes).perform_while_open(entry, op);
        self.pool.give(&self.rt, (Rc::clone(entry), op), work);
    }

    /// The lock whose word is at an address of this node.
    pub(super) fn lock_at(&self, address: u64) -> Option<LockKey> {
        let is_there =
            |entry: &HomeEntry| entry.home.borrow().word().is_some_and(|word| word.addr == address);
        self.homes.borrow().iter().find(|(_, entry)| is_there(entry)).map(|(key, _)| *key)
    }

    /// Adds what the homes know to a hash, for explorers.
    pub(super) fn hash_state(&self, to: &mut impl Hasher) {
        self.words.numbers().hash(to);
        self.srsl.borrow().hash(to);
        self.abandoned.borrow().hash(to);
        for (key, entry) in self.homes.borrow().iter() {
            (key, &*entry.home.borrow()).hash(to);
        }
    }

    /// What the homes hold.
    pub(crate) fn audit(&self, audit: &mut Audit) {
        (audit.words_in_use, audit.words_retired) = self.words.counts();
        let homes = self.homes.borrow();
        (audit.locks_kept, audit.home_entries) = self.srsl.borrow().counts();
        audit.locks_kept += homes.len() as u64;
        for entry in homes.values() {
            let home = entry.home.borrow();
            audit.home_entries += home.entries() as u64;
            audit.releases_unspent += u64::from(home.unspent());
            audit.rebuilding += u64::from(home.is_rebuilding());
            let value = home.word().and_then(|at| self.words.look(at));
            audit.words_not_free += u64::from(value.is_some_and(|value| value != 0));
        }
    }
}

// Views of the membership.
impl<V: Verbs> Homes<V> {
    /// A view begins, which these left. Until `fence` they may hold what they held.
    pub(super) fn begin(&self, view: View, left: Vec<Rank>, fence: Nanos) {
        self.srsl.borrow_mut().begin(view, left, fence, self.rt.now());
        let over = self.homes.take();
        let words = over.values().filter_map(|entry| entry.home.borrow().last_word());
        self.abandoned.borrow_mut().extend(words);
    }

    /// There is no view. Whoever acted in it may reach its words for as long as nobody expels it.
    pub(super) fn end(&self) {
        self.srsl.borrow_mut().end();
        let over = self.homes.take();
        let words = over.values().filter_map(|entry| entry.home.borrow().last_word()).count();
        self.words.forget(words + self.abandoned.take().len());
    }

    /// The mesh is closed: no operation goes on.
    pub(super) fn end_for_good(&self) {
        self.closed.notify();
        self.pool.end();
    }

    /// Once all have reported, none of them has an atomic under way to a word of an earlier view here; and where nobody who left holds
    /// anything any more, what was reported is granted.
    fn go_on(self: &Rc<Self>) {
        let is_settled = match self.srsl.borrow().term() {
            Some(term) if term.is_complete() => term.is_settled(self.rt.now()),
            _ => return,
        };
        self.words.retire(self.abandoned.take());
        if is_settled {
            let all: Vec<_> = self.homes.borrow().values().map(Rc::clone).collect();
            all.iter().for_each(|entry| self.tell(entry, Event::MayGrant));
        }
    }

    /// The members of the view.
    pub(super) fn members(&self) -> Vec<Rank> {
        self.srsl.borrow().members()
    }

    /// For whose reports the locks of this home wait.
    pub(super) fn awaited(&self) -> Vec<Rank> {
        let me = self.net.mesh().me();
        let srsl = self.srsl.borrow();
        srsl.term().filter(|term| term.is_home(me)).map_or_else(Vec::new, |term| term.awaited().to_vec())
    }

    /// A member has reported. If it was the last: until when locks are not granted that may be held by those who left.
    pub(super) fn reported(self: &Rc<Self>, from: Rank, over: Nanos) -> Option<Nanos> {
        let mut out = Vec::new();
        let fence = self.srsl.borrow_mut().reported(self.rt.now(), from, over, &mut out);
        self.send_all(out);
        self.go_on();
        fence
    }

    /// Nobody who left holds anything any more.
    pub(super) fn lift(self: &Rc<Self>) {
        let mut out = Vec::new();
        self.srsl.borrow_mut().lift(self.rt.now(), &mut out);
        self.send_all(out);
        self.go_on();
    }

    fn send_all(&self, out: srsl::Out) {
        for (to, key, message) in out {
            srsl::Wire::send(&*self.net, to, key, message);
        }
    }
}
