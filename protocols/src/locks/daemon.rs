//! A node's lock daemon: three kinds of tasks around the protocols' state machines.
//!
//! - One takes what applications say (the paper's IPC thread, 3.1) and queues it by lock.
//! - One takes what other nodes say (its communication thread) and hands it to the seat or home it is for.
//! - One for each lock that the node has used asks the network for what is queued, and gives it back.

use super::client::Command;
use super::local::{Left, LocalQueue, Wanted};
use super::ncosed::{self, Sharing};
use super::net::Net;
use super::stats::{Counters, bump};
use super::words::Words;
use super::{Audit, LockConfig, LockError, LockKey, Mode, Scheme, Token, client::Patience};
use super::{dqnl, srsl};
use crate::rt::Rt;
use crate::rt::sync::{Mailbox, Signal};
use crate::transport::{Inbox, Incoming, Mesh, Rank};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use verbs_trait::{Verbs, Work};

/// A node's requests for one lock, and its place among the other nodes.
struct Lock<V: Verbs> {
    queue: RefCell<LocalQueue>,
    queue_changed: Signal,
    seat: Seat<V>,
}

/// The node's place, by scheme.
enum Seat<V: Verbs> {
    Srsl(srsl::Seat<Net<V>>),
    /// N-CoSED's, or DQNL's.
    Ncosed(ncosed::Seat<Net<V>>),
}

/// A lock of which this node is the home, by scheme.
enum Home {
    Srsl(srsl::Home),
    /// N-CoSED's, or DQNL's.
    Ncosed(ncosed::Home),
}

/// Why the network granted nothing.
enum NoGrant {
    Busy,
    HomeFull,
}

/// The daemon's state, shared by its tasks.
pub(crate) struct Daemon<V: Verbs> {
    rt: Rt<V>,
    net: Rc<Net<V>>,
    config: LockConfig,
    counters: Rc<Counters>,
    locks: RefCell<BTreeMap<LockKey, Rc<Lock<V>>>>,
    homes: RefCell<BTreeMap<LockKey, Home>>,
    words: Words<V>,
}

impl<V: Verbs> Daemon<V> {
    pub(crate) fn start(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: LockConfig,
        counters: &Rc<Counters>,
        commands: Mailbox<Command>,
        inbox: Inbox,
    ) -> Rc<Daemon<V>> {
        let net = Rc::new(Net::new(rt, mesh, &config, counters));
        let daemon = Rc::new(Daemon {
            rt: rt.clone(),
            words: Words::new(&net),
            net,
            config,
            counters: Rc::clone(counters),
            locks: RefCell::default(),
            homes: RefCell::default(),
        });
        rt.spawn(Rc::clone(&daemon).hear_applications(commands));
        rt.spawn(Rc::clone(&daemon).hear_nodes(inbox));
        daemon
    }

    // What applications say.

    async fn hear_applications(self: Rc<Self>, mut commands: Mailbox<Command>) {
        while let Ok(command) = commands.recv().await {
            self.rt.spend(Work::IpcReceive);
            match command {
                Command::Enter { ticket, key, mode, patience, reply } => {
                    // The paper's "book keeping" (4.2): once for each request, at the daemon that takes it.
                    self.rt.spend(Work::Bookkeeping);
                    let lock = self.lock(key);
                    lock.queue.borrow_mut().enter(ticket, mode, patience, reply);
                    lock.queue_changed.notify();
                }
                Command::Leave { ticket, key } => {
                    let lock = self.lock(key);
                    let left = lock.queue.borrow_mut().leave(ticket);
                    if left != Left::Holder {
                        bump(&self.counters.abandoned);
                    }
                    lock.queue_changed.notify();
                }
            }
        }
    }

    /// This node's side of a lock, made when it is first wanted.
    fn lock(self: &Rc<Self>, key: LockKey) -> Rc<Lock<V>> {
        if let Some(lock) = self.locks.borrow().get(&key) {
            return Rc::clone(lock);
        }
        let home = key.home(self.config.members);
        let wire = Rc::clone(&self.net);
        let seat = match self.config.scheme {
            Scheme::Srsl => Seat::Srsl(srsl::Seat::new(wire, key, home)),
            Scheme::Dqnl => Seat::Ncosed(dqnl::seat(wire, key, home)),
            Scheme::Ncosed => {
                let sharing = Sharing::UpTo(self.config.shared_limit);
                Seat::Ncosed(ncosed::Seat::new(wire, key, home, sharing))
            }
        };
        let lock = Rc::new(Lock { queue: RefCell::default(), queue_changed: Signal::new(), seat });
        self.locks.borrow_mut().insert(key, Rc::clone(&lock));
        self.rt.spawn(Rc::clone(self).serve(Rc::clone(&lock)));
        lock
    }

    // One lock's requests.

    /// Asks for what is wanted, lets it be used, gives it back.
    async fn serve(self: Rc<Self>, lock: Rc<Lock<V>>) {
        loop {
            lock.queue_changed.until(|| lock.queue.borrow().wanted().is_some()).await;
            let Some(wanted) = lock.queue.borrow().wanted() else { continue };
            match lock.seat.take(wanted).await {
                Ok((mode, token)) => {
                    self.use_up(&lock, mode, token).await;
                    lock.seat.give_back().await;
                }
                Err(NoGrant::Busy) => {
                    self.answered(1);
                    lock.queue.borrow_mut().refuse(wanted.ticket, LockError::WouldBlock);
                }
                Err(NoGrant::HomeFull) => {
                    self.answered(lock.queue.borrow().waiting());
                    lock.queue.borrow_mut().refuse_all(&LockError::HomeFull);
                }
            }
        }
    }

    /// Lets the node's applications use what the network granted, until it is theirs no more.
    async fn use_up(&self, lock: &Lock<V>, mode: Mode, token: Option<Token>) {
        let admitted = lock.queue.borrow_mut().granted(mode, token, self.config.hand_overs);
        self.count_grants(admitted, admitted.saturating_sub(1));
        if admitted == 0 {
            bump(&self.counters.late_grants);
        }
        loop {
            lock.queue_changed.until(|| lock.queue.borrow().is_spent()).await;
            let admitted = lock.queue.borrow_mut().hand_over();
            self.count_grants(admitted, admitted);
            if admitted == 0 {
                break;
            }
        }
        lock.queue.borrow_mut().give_back();
    }

    fn count_grants(&self, all: usize, local: usize) {
        self.answered(all);
        self.counters.grants.set(self.counters.grants.get() + all as u64);
        self.counters.local_grants.set(self.counters.local_grants.get() + local as u64);
    }

    /// Answers go to applications through IPC.
    fn answered(&self, answers: usize) {
        for _ in 0..answers {
            self.rt.spend(Work::IpcSend);
        }
    }

    // What other nodes say.

    async fn hear_nodes(self: Rc<Self>, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(message) => {
                    bump(&self.counters.messages_received);
                    self.hear(message.from(), message.bytes());
                }
                // A peer that restarted has forgotten what it held and wanted. No scheme here survives
                // that (the paper leaves it out of its scope, 3.1); what it holds stays held.
                Incoming::PeerReset { .. } => {}
            }
        }
    }

    fn hear(self: &Rc<Self>, from: Rank, bytes: &[u8]) {
        match self.config.scheme {
            Scheme::Srsl => match srsl::Message::decode(bytes) {
                Ok((key, message)) if message.is_for_the_home() => self.srsl_home(key, from, message),
                Ok((key, message)) => match self.known(key).as_deref() {
                    Some(Lock { seat: Seat::Srsl(seat), .. }) => seat.on_message(from, message),
                    _ => bump(&self.counters.out_of_turn),
                },
                Err(_) => bump(&self.counters.malformed),
            },
            scheme => match ncosed::Message::decode(scheme, bytes) {
                Ok((key, message)) if message.is_for_the_home() => {
                    self.ncosed_home(key, ncosed::Event::Message(from, message));
                }
                Ok((key, message)) => match self.known(key).as_deref() {
                    Some(Lock { seat: Seat::Ncosed(seat), .. }) => seat.on_message(from, message),
                    _ => bump(&self.counters.out_of_turn),
                },
                Err(_) => bump(&self.counters.malformed),
            },
        }
    }

    /// A lock that this node has used: nobody else has reason to write to it about others.
    fn known(&self, key: LockKey) -> Option<Rc<Lock<V>>> {
        self.locks.borrow().get(&key).map(Rc::clone)
    }

    fn is_home_of(&self, key: LockKey) -> bool {
        key.home(self.config.members) == self.net.mesh().me()
    }

    fn srsl_home(&self, key: LockKey, from: Rank, message: srsl::Message) {
        let mut out = Vec::new();
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
        for (to, message) in out {
            srsl::Wire::send(&*self.net, to, key, message);
        }
    }

    fn ncosed_home(self: &Rc<Self>, key: LockKey, event: ncosed::Event) {
        if !self.is_home_of(key) {
            return bump(&self.counters.out_of_turn);
        }
        let mut out = Vec::new();
        {
            let mut homes = self.homes.borrow_mut();
            match homes.entry(key).or_insert_with(|| Home::Ncosed(ncosed::Home::new())) {
                Home::Ncosed(home) => home.on_event(event, &mut out),
                Home::Srsl(_) => out.push(ncosed::Action::OutOfTurn),
            }
        }
        for action in out {
            self.act(key, action);
        }
    }

    /// Does what a home wants done. What takes time becomes a task that comes back with an event.
    fn act(self: &Rc<Self>, key: LockKey, action: ncosed::Action) {
        match action {
            ncosed::Action::Send(to, message) => ncosed::Wire::send(&*self.net, to, key, message),
            ncosed::Action::Swap { at, compare, swap } => {
                let daemon = Rc::clone(self);
                self.rt.spawn(async move {
                    let me = daemon.net.mesh().me();
                    let fate = daemon.net.swap(me, at, compare, swap).await;
                    daemon.ncosed_home(key, ncosed::Event::Swapped(fate));
                });
            }
            ncosed::Action::FreshWord { retired } => {
                let daemon = Rc::clone(self);
                self.rt.spawn(async move {
                    let word = daemon.words.fresh(retired).await;
                    daemon.ncosed_home(key, ncosed::Event::Word(word));
                });
            }
            ncosed::Action::Rebuilding => bump(&self.counters.rebuilds),
            ncosed::Action::Stale => bump(&self.counters.stale_messages),
            ncosed::Action::OutOfTurn => bump(&self.counters.out_of_turn),
        }
    }

    /// What the daemon holds.
    pub(crate) fn audit(&self) -> Audit {
        let (words_in_use, words_retired) = self.words.counts();
        let messages_kept = self.net.kept() as u64;
        let mut audit = Audit { words_in_use, words_retired, messages_kept, ..Audit::default() };
        for lock in self.locks.borrow().values() {
            let queue = lock.queue.borrow();
            audit.grants_held += queue.holding() as u64;
            audit.requests_waiting += queue.waiting() as u64;
            audit.seats_taken += u64::from(lock.seat.is_taken());
        }
        for home in self.homes.borrow().values() {
            match home {
                Home::Srsl(home) => audit.home_entries += home.entries() as u64,
                Home::Ncosed(home) => {
                    audit.home_entries += home.entries() as u64;
                    audit.releases_unspent += u64::from(home.unspent());
                    audit.rebuilding += u64::from(home.is_rebuilding());
                    let value = home.word().and_then(|at| self.words.look(at));
                    audit.words_not_free += u64::from(value.is_some_and(|value| value != 0));
                }
            }
        }
        audit
    }
}

impl<V: Verbs> Seat<V> {
    /// Takes the lock from the network: in which mode, and with which token.
    async fn take(&self, wanted: Wanted) -> Result<(Mode, Option<Token>), NoGrant> {
        let full = |ncosed::Refused| NoGrant::HomeFull;
        match (self, wanted.patience) {
            (Seat::Srsl(seat), patience) => {
                let token = seat.lock(wanted.mode, patience).await.ok_or(NoGrant::Busy)?;
                Ok((wanted.mode, Some(token)))
            }
            (Seat::Ncosed(seat), Patience::Queue) => {
                let mode = seat.lock(wanted.mode).await.map_err(full)?;
                Ok((mode, None))
            }
            (Seat::Ncosed(seat), Patience::Try) => {
                let mode = seat.try_lock(wanted.mode).await.map_err(full)?.ok_or(NoGrant::Busy)?;
                Ok((mode, None))
            }
        }
    }

    /// Gives it back; returns when the next request may be made.
    async fn give_back(&self) {
        match self {
            Seat::Srsl(seat) => seat.unlock(),
            Seat::Ncosed(seat) => seat.unlock().await,
        }
    }

    /// Whether the node has anything to do with the lock.
    fn is_taken(&self) -> bool {
        match self {
            Seat::Srsl(seat) => seat.is_taken(),
            Seat::Ncosed(seat) => seat.is_taken(),
        }
    }
}
