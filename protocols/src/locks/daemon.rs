//! A node's lock daemon: three kinds of tasks around the protocols' state machines.
//!
//! - One takes what applications say (the paper's IPC thread, 3.1) and queues it by lock.
//! - One takes what other nodes say (its communication thread) and hands it to the requester or home it is for.
//! - One for each lock that is wanted at the moment asks the network for what is queued, and gives it back.

use super::client::{Admission, Command, Losses, WaitPolicy};
use super::homes::Homes;
use super::local::{Left, LocalQueue, Wanted};
use super::ncosed::{self, Sharing};
use super::net::Net;
use super::pool::Pool;
use super::stats::{Counters, bump};
use super::views::{GivenUp, Stamp};
use super::{Audit, LockConfig, LockError, LockKey, Mode, Scheme, Token};
use super::{dqnl, srsl};
use crate::members::{Hold, Members};
use crate::rt::sync::{Mailbox, Signal};
use crate::rt::{Rt, WaitPoint};
use crate::transport::{Inbox, Incoming, Mesh, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use weft_verbs::{Verbs, Work};

/// The requests of a node's applications for one lock, and the node's own in the network.
pub(super) struct Lock<V: Verbs> {
    key: LockKey,
    queue: RefCell<LocalQueue>,
    pub(super) queue_changed: Signal,
    /// A task serves it.
    served: Cell<bool>,
    /// What the network granted is void: this node was left out of the membership, or the view is lost.
    pub(super) revoked: Cell<bool>,
    pub(super) requester: Requester<V>,
}

/// The node's requester, by scheme.
pub(super) enum Requester<V: Verbs> {
    Srsl(srsl::Requester<Net<V>>),
    /// N-CoSED's, or DQNL's.
    Ncosed(ncosed::Requester<Net<V>>),
}

/// Why the network granted nothing.
enum NoGrant {
    Busy,
    HomeFull,
    /// Nothing will be granted to this node any more.
    Over,
}

/// The daemon's state, shared by its tasks.
pub(crate) struct Daemon<V: Verbs> {
    pub(super) rt: Rt<V>,
    pub(super) net: Rc<Net<V>>,
    pub(super) config: LockConfig,
    pub(super) counters: Rc<Counters>,
    pub(super) locks: RefCell<BTreeMap<LockKey, Rc<Lock<V>>>>,
    /// Serve locks.
    pool: Rc<Pool<Rc<Lock<V>>>>,
    pub(super) homes: Rc<Homes<V>>,
    pub(super) members: Option<Members<V>>,
    pub(super) losses: Rc<Losses>,
    /// This node was left out of the membership.
    pub(super) out: Cell<bool>,
    /// What was said in views that this node has not begun: by whom, in which one.
    pub(super) early: RefCell<Vec<(Rank, Stamp, Vec<u8>)>>,
    pub(super) given_up: RefCell<GivenUp>,
    /// A member has reported, or a view has begun or is lost.
    pub(super) reported: Signal,
    /// How many locks are wanted or held here, and the lease that is kept while any is.
    wanted: Cell<usize>,
    lease: RefCell<Option<Hold<V>>>,
}

/// Where a daemon belongs.
pub(crate) struct Belongs<V: Verbs> {
    pub(crate) members: Option<Members<V>>,
    pub(crate) losses: Rc<Losses>,
}

impl<V: Verbs> Daemon<V> {
    pub(crate) fn start(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: LockConfig,
        counters: &Rc<Counters>,
        commands: Mailbox<Command>,
        inbox: Inbox,
        belongs: Belongs<V>,
    ) -> Rc<Daemon<V>> {
        let Belongs { members, losses } = belongs;
        let in_views = members.is_some();
        let net = Rc::new(Net::new(rt, mesh, &config, counters, in_views));
        let daemon = Rc::new(Daemon {
            rt: rt.clone(),
            homes: Homes::new(rt, &net, &config, counters, in_views),
            net,
            config,
            counters: Rc::clone(counters),
            locks: RefCell::default(),
            pool: Pool::new(),
            given_up: RefCell::default(),
            reported: Signal::new(),
            members,
            losses,
            out: Cell::new(false),
            early: RefCell::default(),
            wanted: Cell::new(0),
            lease: RefCell::default(),
        });
        if let Some(members) = &daemon.members {
            rt.spawn(Rc::clone(&daemon).follow(members.changes()));
        }
        rt.spawn(Rc::clone(&daemon).take_commands(commands));
        rt.spawn(Rc::clone(&daemon).take_messages(inbox));
        daemon
    }

    // What applications say.

    async fn take_commands(self: Rc<Self>, mut commands: Mailbox<Command>) {
        while let Ok(command) = commands.recv().at(()).await {
            self.rt.spend(Work::IpcReceive);
            match command {
                Command::Enter { ticket, key, mode, policy, reply } => {
                    // The paper's "book keeping" (4.2): once for each request, at the daemon that takes it.
                    self.rt.spend(Work::Bookkeeping);
                    let lock = self.lock(key);
                    lock.queue.borrow_mut().enter(ticket, mode, policy, reply);
                    self.see_to(&lock);
                }
                Command::Downgrade { ticket, key } => {
                    let lock = self.lock(key);
                    lock.queue.borrow_mut().downgrade(ticket);
                    if self.is_leased(&lock) {
                        self.let_in(&lock);
                    }
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
        let home = self.homes.home_of(key);
        let wire = Rc::clone(&self.net);
        let requester = match self.config.scheme {
            Scheme::Srsl => Requester::Srsl(srsl::Requester::new(wire, key, home)),
            Scheme::Dqnl => Requester::Ncosed(dqnl::requester(wire, key, home)),
            Scheme::Ncosed => {
                let sharing = Sharing::UpTo(self.config.shared_limit);
                Requester::Ncosed(ncosed::Requester::new(wire, key, home, sharing))
            }
        };
        let (queue, queue_changed) = (RefCell::default(), Signal::new());
        let (served, revoked) = (Cell::new(false), Cell::new(false));
        let lock = Rc::new(Lock { key, queue, queue_changed, served, revoked, requester });
        self.locks.borrow_mut().insert(key, Rc::clone(&lock));
        lock
    }

    /// Has a lock served to which a request has come.
    fn see_to(self: &Rc<Self>, lock: &Rc<Lock<V>>) {
        if lock.served.replace(true) {
            return lock.queue_changed.notify();
        }
        self.want();
        let daemon = Rc::clone(self);
        self.pool.give(&self.rt, Rc::clone(lock), move |lock| Rc::clone(&daemon).serve(lock));
    }

    // One lock's requests.

    /// Asks for what is wanted, lets it be used, gives it back; as long as something is wanted.
    async fn serve(self: Rc<Self>, lock: Rc<Lock<V>>) {
        while let Some(wanted) = lock.wanted() {
            if let Some(why) = self.over() {
                self.refuse_all(&lock, &why);
                break;
            }
            match lock.take(wanted).at((lock.key, wanted)).await {
                Ok((mode, token)) => {
                    // A grant of a view that was lost before this task's turn is not this one.
                    lock.revoked.set(false);
                    let is_awaited = || lock.queue.borrow().waiting() > 0;
                    if self.leased(&lock, is_awaited).at((lock.key, mode, token)).await {
                        self.use_up(&lock, mode, token).at((lock.key, "used")).await;
                    } else if !lock.revoked.get() {
                        bump(&self.counters.late_grants);
                    }
                    lock.requester.give_back().at((lock.key, "given back")).await;
                }
                Err(NoGrant::Busy) => {
                    self.answered(1);
                    lock.queue.borrow_mut().refuse(wanted.ticket, LockError::WouldBlock);
                }
                Err(NoGrant::HomeFull) => self.refuse_all(&lock, &LockError::HomeFull),
                Err(NoGrant::Over) => {
                    self.refuse_all(&lock, &self.over().unwrap_or(LockError::LeftOut));
                }
            }
        }
        lock.served.set(false);
        self.want_no_more();
    }

    /// Why this node is granted nothing any more, if so.
    fn over(&self) -> Option<LockError> {
        match self.net.mesh().is_closed() {
            true => Some(LockError::Closed),
            false => self.out.get().then_some(LockError::LeftOut),
        }
    }

    fn refuse_all(&self, lock: &Lock<V>, why: &LockError) {
        self.answered(lock.queue.borrow().waiting());
        lock.queue.borrow_mut().refuse_all(why);
    }

    /// Something is wanted or held: the node's lease is kept.
    fn want(&self) {
        self.wanted.set(self.wanted.get() + 1);
        if self.wanted.get() == 1 {
            *self.lease.borrow_mut() = self.members.as_ref().map(Members::hold);
        }
    }

    fn want_no_more(&self) {
        self.wanted.set(self.wanted.get() - 1);
        if self.wanted.get() == 0 {
            self.lease.take();
        }
    }

    /// Whether what the network granted counts now.
    fn is_leased(&self, lock: &Lock<V>) -> bool {
        !lock.revoked.get() && self.members.as_ref().is_none_or(Members::has_lease)
    }

    /// Waits until what the network granted counts. False if it is revoked before, or of no use to anybody here any more.
    async fn leased(&self, lock: &Lock<V>, is_of_use: impl Fn() -> bool) -> bool {
        let Some(members) = &self.members else { return true };
        let is_over = || lock.revoked.get() || !is_of_use();
        if self.is_leased(lock) {
            return true;
        }
        match lock.queue_changed.unless(is_over, members.leased()).at(lock.key).await {
            Some(true) => return true,
            // This node was left out, which its locks hear a little later: asking again at once would never let them.
            Some(false) => lock.queue_changed.until(is_over).at("left out").await,
            None => {}
        }
        false
    }

    /// Lets the node's applications use what the network granted, until it is theirs no more.
    async fn use_up(&self, lock: &Lock<V>, mode: Mode, token: Option<Token>) {
        let grant = Admission { token, losses: self.losses.count.get() };
        let admitted = lock.queue.borrow_mut().granted(mode, grant, self.config.local_hand_offs);
        self.count_grants(admitted, admitted.saturating_sub(1));
        if admitted == 0 {
            bump(&self.counters.late_grants);
        }
        loop {
            let is_for_home = || lock.queue.borrow().is_downgraded() || lock.queue.borrow().is_spent();
            if lock.queue.borrow().lets_in() {
                self.leased(lock, || !is_for_home()).at("lets in").await;
            } else {
                lock.queue_changed.until(|| is_for_home() || lock.revoked.get()).at(()).await;
            }
            if lock.revoked.get() {
                return lock.queue.borrow_mut().revoke();
            }
            // To tell applications of what is theirs takes a lease. To tell the lock's home of what is theirs no more takes none: others
            // wait for that, and the lease may not come back.
            let is_leased = self.is_leased(lock);
            if is_leased {
                // Those whom there was no lease to tell as the downgrade came.
                self.let_in(lock);
            }
            if lock.queue.borrow_mut().take_downgrade() {
                lock.requester.downgrade().at("downgraded").await;
                continue;
            }
            if !lock.queue.borrow().is_spent() {
                continue;
            }
            let admitted = if is_leased { lock.queue.borrow_mut().hand_off() } else { 0 };
            self.count_grants(admitted, admitted);
            if admitted == 0 {
                break;
            }
        }
        lock.queue.borrow_mut().give_back();
    }

    /// Tells those who share with one that has downgraded.
    fn let_in(&self, lock: &Lock<V>) {
        let admitted = lock.queue.borrow_mut().let_in();
        self.count_grants(admitted, admitted);
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

    async fn take_messages(self: Rc<Self>, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().at(()).await {
            match incoming {
                Incoming::Message(message) => {
                    bump(&self.counters.messages_received);
                    match self.members {
                        Some(_) => self.in_a_view(message.from(), message.bytes()),
                        None => self.on_message(message.from(), message.bytes()),
                    }
                }
                // A peer that restarted has forgotten what it held and wanted. Without members no scheme here survives
                // that (the paper leaves it out of its scope, 3.1): what it holds stays held.
                Incoming::PeerReset { .. } => self.net.peer_began(),
            }
        }
        self.end();
    }

    /// The mesh is closed: who waits is told so, and no task goes on.
    fn end(&self) {
        self.lose_for_good();
        self.homes.end_for_good();
        self.pool.end();
    }

    pub(super) fn on_message(self: &Rc<Self>, from: Rank, bytes: &[u8]) {
        match self.config.scheme {
            Scheme::Srsl => match srsl::Message::decode(bytes) {
                Ok((_, srsl::Message::Reported { remaining })) => self.on_reported(from, remaining),
                Ok((key, message)) if message.is_for_the_home() => self.homes.tell_srsl(key, from, message),
                Ok((key, message)) => match self.known(key).as_deref() {
                    Some(Lock { requester: Requester::Srsl(requester), .. }) => {
                        requester.on_message(from, message)
                    }
                    _ => bump(&self.counters.out_of_turn),
                },
                Err(_) => bump(&self.counters.malformed),
            },
            scheme => match ncosed::Message::decode(scheme, bytes) {
                Ok((_, ncosed::Message::Reported { remaining })) => self.on_reported(from, remaining),
                Ok((key, message)) if message.is_for_the_home() => {
                    self.homes.tell_ncosed(key, from, message);
                }
                Ok((key, message)) => match self.known(key).as_deref() {
                    Some(Lock { requester: Requester::Ncosed(requester), .. }) => {
                        requester.on_message(from, message)
                    }
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

    /// Tells of each lock that this node has used: whether a task serves it, who waits for it here, and its place among
    /// the nodes.
    pub(super) fn each_lock(&self, mut tell: impl FnMut(LockKey, bool, &LocalQueue, &Requester<V>)) {
        for (key, lock) in self.locks.borrow().iter() {
            tell(*key, lock.served.get(), &lock.queue.borrow(), &lock.requester);
        }
    }

    pub(super) fn homes(&self) -> &Homes<V> {
        &self.homes
    }

    pub(super) fn keeps_nothing_back(&self) -> bool {
        self.net.kept() == 0
    }

    /// What the daemon holds.
    pub(crate) fn audit(&self) -> Audit {
        let mut audit = Audit { messages_kept: self.net.kept() as u64, ..Audit::default() };
        self.homes.audit(&mut audit);
        audit.locks_known = self.locks.borrow().len() as u64;
        for lock in self.locks.borrow().values() {
            let queue = lock.queue.borrow();
            audit.grants_held += queue.holding() as u64;
            audit.requests_waiting += queue.waiting() as u64;
            audit.requesters_active += u64::from(lock.requester.is_taken());
        }
        audit
    }
}

impl<V: Verbs> Lock<V> {
    fn wanted(&self) -> Option<Wanted> {
        self.queue.borrow().wanted()
    }

    /// Takes the lock from the network: in which mode, and with which token.
    async fn take(&self, wanted: Wanted) -> Result<(Mode, Option<Token>), NoGrant> {
        self.queue.borrow_mut().set_asked(Some(wanted.policy));
        let taken = self.requester.take(wanted).at(()).await;
        self.queue.borrow_mut().set_asked(None);
        taken
    }
}

impl<V: Verbs> Requester<V> {
    /// Takes the lock from the network: in which mode, and with which token.
    async fn take(&self, wanted: Wanted) -> Result<(Mode, Option<Token>), NoGrant> {
        let refused = |why| match why {
            ncosed::Refused::HomeFull => NoGrant::HomeFull,
            ncosed::Refused::Busy => NoGrant::Busy,
            ncosed::Refused::Over => NoGrant::Over,
        };
        match (self, wanted.policy) {
            (Requester::Srsl(requester), policy) => {
                let taken = requester.lock(wanted.mode, policy).at(()).await;
                let token = taken.map_err(|why| match why {
                    srsl::Refused::Busy => NoGrant::Busy,
                    srsl::Refused::Over => NoGrant::Over,
                })?;
                Ok((wanted.mode, Some(token)))
            }
            (Requester::Ncosed(requester), WaitPolicy::Queue) => {
                let mode = requester.lock(wanted.mode).at(()).await.map_err(refused)?;
                Ok((mode, requester.token()))
            }
            (Requester::Ncosed(requester), WaitPolicy::Try) => {
                let taken = requester.try_lock(wanted.mode).at(()).await.map_err(refused)?;
                Ok((taken.ok_or(NoGrant::Busy)?, requester.token()))
            }
        }
    }

    /// Shares what was held exclusively.
    async fn downgrade(&self) {
        match self {
            Requester::Srsl(requester) => requester.downgrade(),
            Requester::Ncosed(requester) => requester.downgrade().at(()).await,
        }
    }

    /// Gives it back; returns when the next request may be made.
    async fn give_back(&self) {
        match self {
            Requester::Srsl(requester) => requester.unlock(),
            Requester::Ncosed(requester) => requester.unlock().at(()).await,
        }
    }

    // Views of the membership.

    /// A view begins, in which `home` keeps the lock: it is told what this node has or wants.
    pub(super) fn view_begins(&self, home: Rank) {
        match self {
            Requester::Srsl(requester) => requester.view_begins(home),
            Requester::Ncosed(requester) => requester.view_begins(home),
        }
    }

    /// The view is lost. What was held is not held any more; whether something was.
    pub(super) fn view_lost(&self) -> bool {
        match self {
            Requester::Srsl(requester) => requester.view_lost(),
            Requester::Ncosed(requester) => requester.view_lost(),
        }
    }

    /// Nothing will be granted to this node any more: nothing is waited for.
    pub(super) fn give_up(&self) {
        match self {
            Requester::Srsl(requester) => requester.give_up(),
            Requester::Ncosed(requester) => requester.give_up(),
        }
    }

    /// Adds what it knows to a hash, for explorers; where its request stands is said by the task that makes it.
    pub(super) fn hash_state(&self, to: &mut impl Hasher) {
        match self {
            Requester::Srsl(requester) => requester.state().hash(to),
            Requester::Ncosed(requester) => requester.state().hash(to),
        }
    }

    /// Whether the node has anything to do with the lock.
    fn is_taken(&self) -> bool {
        match self {
            Requester::Srsl(requester) => requester.is_taken(),
            Requester::Ncosed(requester) => requester.is_taken(),
        }
    }
}
