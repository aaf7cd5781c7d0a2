//! The service of a node: manager of some minipages, server of those that it has, requestor of those that its threads need.

use super::barrier::{BarrierId, Barriers};
use super::directory::{Asks, Book, Directory, Sends};
use super::free::Frees;
use super::memory::{Called, Memory, Object};
use super::messages::{Access, LONGEST, Message};
use super::pins::Pins;
use super::reading::{Reading, Repaired};
use super::requests::{Progress, Requests, hops};
use super::server::{Order, Server, Verdict};
use super::shared::{Grain, ObjectId, PageId, Placement, Plain, Shared};
use super::{DsmError, DsmStats, Thread};
use crate::rt::sync::{Mailbox, MailboxSender, OneshotSender, mailbox};
use crate::rt::{JoinHandle, Rt};
use crate::transport::{Channel, Inbox, Incoming, Mesh, Message as Received, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use weft_verbs::{Verbs, Work};

/// The channel of shared memory's messages.
pub(super) const CHANNEL: Channel = Channel(5);

/// Shared memory at a node. Clones are the same.
pub struct Dsm<V: Verbs, R: Reading = Repaired>(pub(super) Rc<Service<V, R>>);

impl<V: Verbs, R: Reading> Clone for Dsm<V, R> {
    fn clone(&self) -> Self {
        Dsm(Rc::clone(&self.0))
    }
}

pub(super) struct Service<V: Verbs, R: Reading> {
    pub rt: Rt<V>,
    pub mesh: Mesh<V>,
    pub memory: Called<V>,
    pub config: DsmConfig,
    pub requests: RefCell<Requests>,
    pub directory: RefCell<Directory>,
    pub server: RefCell<Server>,
    /// Minipages that threads have claimed.
    pub pins: RefCell<Pins>,
    barriers: RefCell<Barriers>,
    /// Threads that wait at barriers, each by its number.
    entered: RefCell<BTreeMap<u32, OneshotSender<()>>>,
    next_entry: Cell<u32>,
    next_object: Cell<u32>,
    /// The last granted request's hops, by minipage and until its threads have looked.
    pub hops: RefCell<BTreeMap<PageId, u8>>,
    /// What destructors leave to be done.
    pub given_up: MailboxSender<Gone>,
    pub stats: RefCell<DsmStats>,
    /// Minipages that an adapter still reads to send them: how often.
    pub leaving: RefCell<BTreeMap<PageId, u32>>,
    /// Requests that wait until it does not.
    pub unasked: RefCell<BTreeMap<PageId, Sends>>,
    /// Objects that are being freed, or are.
    pub frees: RefCell<Frees>,
    failed: RefCell<Option<DsmError>>,
    /// Kept for their allocations.
    pub frame: RefCell<Vec<u8>>,
    sends: RefCell<Sends>,
    reading: PhantomData<R>,
}

/// What is gone, and may let an order go on that waited for it.
pub(super) enum Gone {
    /// An access that went away without the minipage that it was granted.
    Access(PageId),
    /// A claim of a minipage.
    Claim(PageId),
}

/// What a node's processor spends on memory: for simulations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charges {
    /// Accesses are calls: nothing.
    #[default]
    Calls,
    /// What mapped memory costs: a fault and a system call for an access that waits, and a change of protection for each grant and
    /// revocation.
    Mapped,
}

/// How shared memory runs at a node. All nodes have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DsmConfig {
    /// What the processor is charged with. Default: nothing.
    pub charges: Charges,
    /// Whether readers take minipages that are read elsewhere by RDMA read, which disturbs no processor there (kernel-dsm.txt, 4.2).
    /// Default: no.
    pub pulls: bool,
}

/// What a node keeps of a minipage, and what a manager's book says of it: for oracles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DsmAudit {
    /// Of the minipages that the node manages and that somebody has asked for: version, owner, and who may access them.
    pub book: Vec<(PageId, u64, Option<Rank>, Vec<Rank>)>,
    /// The minipages that the node may access, with their version.
    pub held: Vec<(PageId, Access, u64)>,
}

impl<V: Verbs> Dsm<V> {
    /// Starts shared memory at a node.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>) -> Result<Dsm<V>, DsmError> {
        Dsm::start_as(rt, mesh, DsmConfig::default())
    }
}

impl<V: Verbs, R: Reading> Dsm<V, R> {
    /// Starts shared memory at a node in a given way, under a reading of the paper.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start_as(rt: &Rt<V>, mesh: &Mesh<V>, config: DsmConfig) -> Result<Dsm<V, R>, DsmError> {
        let inbox = mesh.open(CHANNEL)?;
        let (given_up, gone) = mailbox();
        let service = Rc::new(Service {
            rt: rt.clone(),
            mesh: mesh.clone(),
            memory: Called::new(mesh),
            config,
            requests: RefCell::default(),
            directory: RefCell::default(),
            server: RefCell::default(),
            pins: RefCell::default(),
            barriers: RefCell::default(),
            entered: RefCell::default(),
            next_entry: Cell::new(0),
            next_object: Cell::new(0),
            hops: RefCell::default(),
            given_up,
            stats: RefCell::default(),
            leaving: RefCell::default(),
            unasked: RefCell::default(),
            frees: RefCell::default(),
            failed: RefCell::default(),
            frame: RefCell::default(),
            sends: RefCell::default(),
            reading: PhantomData,
        });
        drop(rt.spawn(Rc::clone(&service).listen(inbox)));
        drop(rt.spawn(Rc::clone(&service).clean_up(gone)));
        Ok(Dsm(service))
    }

    /// Memory for `len` elements that all nodes share, all zero.
    ///
    /// # Errors
    ///
    /// It has no element or too many bytes; the grain cannot be; the mesh's messages are too short for a minipage.
    pub fn alloc<T: Plain>(
        &self,
        len: usize,
        grain: Grain,
        placement: Placement,
    ) -> Result<Shared<[T]>, DsmError> {
        let number = self.0.next_object.replace(self.0.next_object.get() + 1);
        let object = ObjectId::of(self.0.mesh.me(), number);
        self.0.fitting(Shared::new(object, len, grain, placement)?)
    }

    /// The memory of that name, for programs whose nodes agree on names: all make it alike, and it is one.
    ///
    /// # Errors
    ///
    /// As [`Dsm::alloc`].
    pub fn named<T: Plain>(
        &self,
        name: u32,
        len: usize,
        grain: Grain,
        placement: Placement,
    ) -> Result<Shared<[T]>, DsmError> {
        // No node has rank 0.
        self.0.fitting(Shared::new(ObjectId(name.into()), len, grain, placement)?)
    }

    /// A thread of this node: what an application accesses memory by. It runs wherever its future is polled.
    pub fn thread(&self) -> Thread<V, R> {
        Thread::new(self.clone())
    }

    /// Starts an application thread on this node.
    pub fn spawn<F: Future<Output: 'static> + 'static>(
        &self,
        body: impl FnOnce(Thread<V, R>) -> F,
    ) -> JoinHandle<F::Output> {
        self.0.rt.spawn(body(self.thread()))
    }

    /// What it has done so far.
    pub fn stats(&self) -> DsmStats {
        *self.0.stats.borrow()
    }

    /// What is open, by name: nothing, at rest.
    pub fn unfinished(&self) -> [(&'static str, u64); 9] {
        let service = &*self.0;
        let owed =
            |object: &Rc<Object<V>>| object.pages().iter().map(|page| u64::from(page.owed)).sum::<u64>();
        [
            ("requests for minipages", service.requests.borrow().len()),
            ("requests that a manager has not served", service.directory.borrow().unserved()),
            ("orders that wait", service.server.borrow().waiting()),
            ("minipages that an adapter still sends", service.leaving.borrow().len() as u64),
            ("objects that are being freed", service.frees.borrow().open()),
            ("minipages that are claimed", service.pins.borrow().len()),
            ("threads that wait for minipages", service.memory.waiters()),
            ("grants whose accesses are not executed", service.memory.objects().iter().map(owed).sum()),
            (
                "threads at barriers",
                service.barriers.borrow().waiting() + service.entered.borrow().len() as u64,
            ),
        ]
    }

    /// An element as this node has it, if its threads may load it: for oracles, which wait for nothing.
    pub fn copy<T: Plain>(&self, of: Shared<[T]>, index: usize) -> Option<T> {
        let spot = of.spot(index).ok()?;
        let object = self.0.memory.object(spot.page.object)?;
        (object.page(spot.page.index).access != Access::Invalid).then(|| object.value(spot.at))
    }

    /// What the node keeps.
    pub fn audit(&self) -> DsmAudit {
        let book = self.0.directory.borrow();
        let book = book.book().map(|(page, version, owner, copies)| (page, version, owner, copies.to_vec()));
        let mut held = Vec::new();
        for object in self.0.memory.objects() {
            for (index, page) in (0..).zip(object.pages()) {
                if page.access != Access::Invalid {
                    let id = PageId { object: object.cut.object, index };
                    held.push((id, page.access, page.version));
                }
            }
        }
        DsmAudit { book: book.collect(), held }
    }
}

impl<V: Verbs, R: Reading> Service<V, R> {
    fn fitting<T: Plain>(&self, shared: Shared<[T]>) -> Result<Shared<[T]>, DsmError> {
        let most = self.mesh.max_message().saturating_sub(LONGEST as u32);
        let grain = shared.cut.grain;
        if grain > most && !self.mesh.places() { Err(DsmError::Message { grain, most }) } else { Ok(shared) }
    }

    /// An object as this node has it.
    pub fn touch<T: Plain>(&self, shared: Shared<[T]>) -> Result<Rc<Object<V>>, DsmError> {
        self.check()?;
        if self.frees.borrow().has(shared.cut.object) {
            return Err(DsmError::Freed(shared.cut.object));
        }
        match self.memory.object(shared.cut.object) {
            Some(object) if object.cut == shared.cut => Ok(object),
            _ => {
                let shared = self.fitting(shared)?;
                self.memory.touch(shared.cut, shared.len() * size_of::<T>(), shared.pages())
            }
        }
    }

    /// Charges the processor with what mapped memory would cost.
    pub fn charge(&self, work: Work) {
        if self.config.charges == Charges::Mapped {
            self.rt.spend(work);
        }
    }

    /// Whether it is not.
    pub fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// Whether shared memory is still there.
    pub fn check(&self) -> Result<(), DsmError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Nobody will answer any more: all who wait are told.
    pub fn fail(&self, why: DsmError) {
        self.failed.borrow_mut().get_or_insert(why);
        self.requests.borrow_mut().clear();
        self.unasked.borrow_mut().clear();
        self.entered.borrow_mut().clear();
        self.frees.borrow_mut().fail();
        self.memory.wake_all();
    }

    /// Asks a minipage's manager for it, for so many threads.
    pub fn request(&self, object: &Object<V>, page: PageId, need: Access, joined: u32) -> u32 {
        let id = self.requests.borrow_mut().make(page, need, joined);
        {
            let mut stats = self.stats.borrow_mut();
            match need {
                Access::Write => stats.write_faults += 1,
                _ => stats.read_faults += 1,
            }
        }
        let manager = object.cut.manager(page, self.mesh.size());
        let (has, at) = (object.page(page.index).access, object.remote(page.index));
        let request = Message::Request { page, id, need, has, at };
        if self.leaving.borrow().contains_key(&page) {
            // The adapter may still read what the answer would change.
            self.unasked.borrow_mut().entry(page).or_default().push((manager, request));
        } else {
            self.send(manager, &request);
        }
        id
    }

    /// A thread enters a barrier: it may leave when the sender is used.
    pub fn enter(&self, barrier: BarrierId, parties: u32, leave: OneshotSender<()>) {
        let id = self.next_entry.replace(self.next_entry.get().wrapping_add(1));
        self.entered.borrow_mut().insert(id, leave);
        self.send(barrier.home(self.mesh.size()), &Message::Enter { barrier: barrier.0, id, parties });
    }

    async fn listen(self: Rc<Self>, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(message) => self.receive(&message),
                Incoming::PeerReset { peer, .. } => self.fail(DsmError::PeerReset(peer)),
            }
        }
        self.fail(DsmError::Closed);
    }

    /// The asynchronous entry points (kernel-dsm.txt, 4.1): one message, handled without waiting.
    fn receive(self: &Rc<Self>, received: &Received) {
        let from = received.from();
        let book = Book {
            decides_when_served: R::DECIDES_WHEN_SERVED,
            keeps_server: R::KEEPS_SERVER,
            pulls: self.config.pulls,
            pulls_from_done: R::PULLS_FROM_DONE,
            pulls_are_open: R::PULLS_ARE_OPEN,
            me: self.mesh.me(),
        };
        let mut sends = self.sends.take();
        match Message::decode(received.bytes()) {
            Some(Message::Request { page, id, need, has, at }) => {
                let asks = Asks { from, id, need, at, had: has };
                self.directory.borrow_mut().on_request(page, asks, book, &mut sends);
            }
            Some(Message::Done { page, id }) => {
                let mut directory = self.directory.borrow_mut();
                let open = directory.on_done(page, from, id, book, &mut sends);
                // The last word about an object that is freed may be overtaken.
                let known = open || !R::PULLS_ARE_OPEN || self.frees.borrow().has(page.object);
                self.stats.borrow_mut().out_of_turn += u64::from(!known);
            }
            Some(Message::Forward { page, id, to, at, need, notices, version }) => {
                let keep = if need == Access::Read { Access::Read } else { Access::Invalid };
                self.on_order(Order { page, to, id, keep, transfer: Some(at), notices, version });
            }
            Some(Message::Invalidate { page, id, to, notices, version }) => {
                self.on_order(Order {
                    page,
                    to,
                    id,
                    keep: Access::Invalid,
                    transfer: None,
                    notices,
                    version,
                });
            }
            Some(Message::Notice { page, id, notices, version, data }) => {
                self.on_notice(from, page, id, notices, version, data);
            }
            Some(Message::Pull { page, id, from: source, at, version }) => {
                self.on_pull(page, id, (source, at), version);
            }
            Some(Message::Free { object, id, step }) => self.on_free(object, (from, id), step),
            Some(Message::Freed { object, id, step }) => self.on_freed(object, (from, id), step),
            Some(Message::Enter { barrier, id, parties }) => {
                let parties = if R::BARRIERS_COUNT_ONCE { parties } else { parties.div_ceil(2) };
                let come = self.barriers.borrow_mut().on_enter(BarrierId(barrier), from, id, parties);
                sends.extend(come.into_iter().map(|(node, id)| (node, Message::Leave { barrier, id })));
            }
            Some(Message::Leave { id, .. }) => match self.entered.borrow_mut().remove(&id) {
                // The call may have been dropped.
                Some(thread) => drop(thread.send(())),
                None => self.stats.borrow_mut().out_of_turn += 1,
            },
            None => self.stats.borrow_mut().malformed += 1,
        }
        for (to, message) in sends.drain(..) {
            self.send(to, &message);
        }
        self.sends.replace(sends);
        self.close_freed();
    }

    /// A manager orders something of this node.
    fn on_order(self: &Rc<Self>, order: Order) {
        let Some(object) = self.memory.object(order.page.object) else {
            self.stats.borrow_mut().out_of_turn += 1;
            return;
        };
        let has = object.page(order.page.index);
        let verdict = self.server.borrow_mut().on_order(order, has, self.pinned(order.page), R::GRANTS_STAY);
        match verdict {
            Verdict::Now => self.carry_out(&object, order),
            Verdict::Later => self.stats.borrow_mut().orders_waited += 1,
            Verdict::OutOfTurn => self.stats.borrow_mut().out_of_turn += 1,
        }
    }

    /// Takes access away, transfers, and gives notice, in this order: a store after the transfer would be lost.
    fn carry_out(self: &Rc<Self>, object: &Rc<Object<V>>, order: Order) {
        if R::PROTECTS_FIRST {
            self.revoke(order);
            self.hand_over(object, order);
        } else {
            self.hand_over(object, order);
            let service = Rc::clone(self);
            drop(self.rt.spawn(async move {
                service.rt.yield_now().await;
                service.revoke(order);
            }));
        }
    }

    fn revoke(&self, Order { page, keep, .. }: Order) {
        self.charge(Work::Protect { pages: 1 });
        if keep == Access::Invalid {
            self.memory.take_away(page);
            self.stats.borrow_mut().invalidations += 1;
        } else if R::SHARING_DOWNGRADES {
            self.memory.downgrade(page);
        }
    }

    /// A holder, or the manager itself, has done what this node's request takes. With the last of them access is granted.
    fn on_notice(&self, from: Rank, page: PageId, id: u32, notices: u16, version: u64, data: Option<&[u8]>) {
        let Some(object) = self.memory.object(page.object).filter(|object| object.has(page.index)) else {
            self.stats.borrow_mut().out_of_turn += 1;
            return;
        };
        let manager = object.cut.manager(page, self.mesh.size());
        let ordered = if R::COUNTS_NOTICES { notices } else { 1 };
        let hops = hops(self.mesh.me(), manager, from);
        let progress = self.requests.borrow_mut().on_notice(page, id, ordered, hops);
        if progress == Progress::Unknown {
            // Of a request that is done already: of a reading that does not count.
            self.stats.borrow_mut().out_of_turn += u64::from(R::COUNTS_NOTICES);
            return;
        }
        if let Some(data) = data {
            // Data in a notice, where no adapter has put them.
            let range = object.range(page.index);
            if data.len() != range.len() {
                self.stats.borrow_mut().malformed += 1;
                return;
            }
            object.write(range.start, data);
        }
        let done = match progress {
            Progress::More { first } => first && !R::DONE_WHEN_SET,
            Progress::Granted { need, joined, hops } => {
                self.grant(&object, page, need, version, joined, hops);
                R::DONE_WHEN_SET || ordered == 1
            }
            Progress::Unknown => false,
        };
        if done {
            self.send(manager, &Message::Done { page, id });
        }
    }

    /// All who had to act have. The threads that wait may go on, and the grant stays until they have.
    pub fn grant(&self, object: &Object<V>, page: PageId, need: Access, version: u64, joined: u32, hops: u8) {
        let has = object.page(page.index).access;
        self.stats.borrow_mut().upgrades += u64::from(has == Access::Read && need == Access::Write);
        self.charge(Work::Protect { pages: 1 });
        self.memory.grant(page, need, version);
        object.change(page.index, |page| page.owed += joined);
        if joined > 0 {
            self.hops.borrow_mut().insert(page, hops);
        }
        self.memory.wake(page);
    }

    /// An access that waited for a grant is executed, or was given up.
    pub fn executed(self: &Rc<Self>, object: &Rc<Object<V>>, page: PageId) {
        let mut owed = 0;
        object.change(page.index, |page| {
            page.owed -= 1;
            owed = page.owed;
        });
        if owed == 0 {
            self.hops.borrow_mut().remove(&page);
            self.go_on(object, page);
            self.close_freed();
        }
    }

    /// Carries out the orders that nothing holds up any more, and lets those go on who let them go first.
    fn go_on(self: &Rc<Self>, object: &Rc<Object<V>>, page: PageId) {
        let pinned = self.pinned(page);
        let orders = self.server.borrow_mut().on_free(page, object.page(page.index), pinned, R::GRANTS_STAY);
        if !orders.is_empty() {
            orders.into_iter().for_each(|order| self.carry_out(object, order));
            self.memory.wake(page);
        }
    }

    /// Threads that were dropped owe nothing any more; their destructors post nothing.
    async fn clean_up(self: Rc<Self>, mut gone: Mailbox<Gone>) {
        while let Ok(gone) = gone.recv().await {
            let (Gone::Access(page) | Gone::Claim(page)) = gone;
            let Some(object) = self.memory.object(page.object) else { continue };
            match gone {
                Gone::Access(_) => self.executed(&object, page),
                Gone::Claim(_) => {
                    self.go_on(&object, page);
                    self.close_freed();
                }
            }
        }
    }
}
