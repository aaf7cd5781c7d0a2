//! The service of a node: manager of some minipages, server of those that it has, requestor of those that its threads need.

use super::barrier::{BarrierId, Barriers};
use super::directory::{Asks, Book, Directory, Sends};
use super::memory::{Called, Memory, Object};
use super::messages::{Access, LONGEST, Message};
use super::reading::{Reading, Repaired};
use super::requests::{Progress, Requests, hops};
use super::server::{Order, Server, Verdict};
use super::shared::{Grain, ObjectId, PageId, Placement, Plain, Shared};
use super::{DsmError, DsmStats, Thread};
use crate::rt::sync::{Mailbox, MailboxSender, OneshotSender, mailbox};
use crate::rt::{BufferGuard, JoinHandle, Rt};
use crate::transport::{Channel, Inbox, Incoming, Mesh, Message as Received, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs, Work};

/// The channel of shared memory's messages.
const CHANNEL: Channel = Channel(5);

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
    pub charges: Charges,
    pub requests: RefCell<Requests>,
    directory: RefCell<Directory>,
    server: RefCell<Server>,
    barriers: RefCell<Barriers>,
    /// Threads that wait at barriers, each by its number.
    entered: RefCell<BTreeMap<u32, OneshotSender<()>>>,
    next_entry: Cell<u32>,
    next_object: Cell<u32>,
    /// The last granted request's hops, by minipage and until its threads have looked.
    pub hops: RefCell<BTreeMap<PageId, u8>>,
    /// Minipages whose threads went away without the access that they were granted.
    pub given_up: MailboxSender<PageId>,
    pub stats: RefCell<DsmStats>,
    /// Minipages that an adapter still reads to send them: how often.
    leaving: RefCell<BTreeMap<PageId, u32>>,
    /// Requests that wait until it does not.
    unasked: RefCell<BTreeMap<PageId, Sends>>,
    failed: RefCell<Option<DsmError>>,
    /// Kept for their allocations.
    frame: RefCell<Vec<u8>>,
    sends: RefCell<Sends>,
    reading: PhantomData<R>,
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
        Dsm::start_as(rt, mesh, Charges::Calls)
    }
}

impl<V: Verbs, R: Reading> Dsm<V, R> {
    /// Starts shared memory at a node under a reading of the paper, whose processor spends what is charged. For tests and
    /// simulations; [`Dsm::start`] is what is meant to be used.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start_as(rt: &Rt<V>, mesh: &Mesh<V>, charges: Charges) -> Result<Dsm<V, R>, DsmError> {
        let inbox = mesh.open(CHANNEL)?;
        let (given_up, gone) = mailbox();
        let service = Rc::new(Service {
            rt: rt.clone(),
            mesh: mesh.clone(),
            memory: Called::new(mesh),
            charges,
            requests: RefCell::default(),
            directory: RefCell::default(),
            server: RefCell::default(),
            barriers: RefCell::default(),
            entered: RefCell::default(),
            next_entry: Cell::new(0),
            next_object: Cell::new(0),
            hops: RefCell::default(),
            given_up,
            stats: RefCell::default(),
            leaving: RefCell::default(),
            unasked: RefCell::default(),
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
        let object = ObjectId(u64::from(self.0.mesh.me().get()) << 32 | u64::from(number));
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
    pub fn unfinished(&self) -> [(&'static str, u64); 7] {
        let service = &*self.0;
        let owed =
            |object: &Rc<Object<V>>| object.pages().iter().map(|page| u64::from(page.owed)).sum::<u64>();
        [
            ("requests for minipages", service.requests.borrow().len()),
            ("requests that a manager has not served", service.directory.borrow().unserved()),
            ("orders that wait", service.server.borrow().waiting()),
            ("minipages that an adapter still sends", service.leaving.borrow().len() as u64),
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
        if self.charges == Charges::Mapped {
            self.rt.spend(work);
        }
    }

    /// Whether shared memory is still there.
    pub fn check(&self) -> Result<(), DsmError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Nobody will answer any more: all who wait are told.
    fn fail(&self, why: DsmError) {
        self.failed.borrow_mut().get_or_insert(why);
        self.requests.borrow_mut().clear();
        self.unasked.borrow_mut().clear();
        self.entered.borrow_mut().clear();
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

    /// Sends a message now, or as soon as the transport has room for it. Messages may overtake each other then: no two of them
    /// depend on their order, since whatever a message follows from has been received.
    fn send(&self, to: Rank, message: &Message<'_>) {
        let mut frame = self.frame.take();
        message.encode(&mut frame);
        match self.mesh.send(to, CHANNEL, &frame) {
            Ok(()) => {}
            Err(SendError::Full { .. }) => {
                self.stats.borrow_mut().stalls += 1;
                let (mesh, frame) = (self.mesh.clone(), frame.clone());
                drop(self.rt.spawn(async move {
                    while mesh.room(to).await.is_ok()
                        && matches!(mesh.send(to, CHANNEL, &frame), Err(SendError::Full { .. }))
                    {
                    }
                }));
            }
            Err(SendError::Closed) => self.fail(DsmError::Closed),
            Err(_) => self.stats.borrow_mut().out_of_turn += 1,
        }
        self.frame.replace(frame);
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
        let book = Book { decides_when_served: R::DECIDES_WHEN_SERVED, keeps_server: R::KEEPS_SERVER };
        let mut sends = self.sends.take();
        match Message::decode(received.bytes()) {
            Some(Message::Request { page, id, need, has, at }) => {
                let asks = Asks { from, id, need, at, had: has };
                self.directory.borrow_mut().on_request(page, asks, book, &mut sends);
            }
            Some(Message::Done { page, id }) => {
                let mut directory = self.directory.borrow_mut();
                let open = directory.on_done(page, from, id, book, &mut sends);
                self.stats.borrow_mut().out_of_turn += u64::from(!open);
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
            Some(Message::Enter { barrier, id, parties }) => {
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
    }

    /// A manager orders something of this node.
    fn on_order(self: &Rc<Self>, order: Order) {
        let Some(object) = self.memory.object(order.page.object) else {
            self.stats.borrow_mut().out_of_turn += 1;
            return;
        };
        let has = object.page(order.page.index);
        let verdict = self.server.borrow_mut().on_order(order, has, R::GRANTS_STAY);
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

    /// Gives notice, behind the data if the requestor needs them.
    fn hand_over(self: &Rc<Self>, object: &Object<V>, order: Order) {
        let Order { page, to, id, transfer, notices, version, .. } = order;
        let notice = |data| Message::Notice { page, id, notices, version, data };
        let Some(at) = transfer else { return self.send(to, &notice(None)) };
        self.stats.borrow_mut().transfers += 1;
        if !self.mesh.places() {
            return self.send(to, &notice(Some(&object.copied(page.index))));
        }
        // The data may come back before the adapter has let go of them, if this node has asked for them already. Then it sends a
        // copy. Otherwise it asks when the adapter has let go: see `request`.
        let asked = self.requests.borrow().any(page);
        let from = match asked.then(|| self.mesh.copied(&object.copied(page.index))) {
            None => object.bytes(page.index),
            Some(Ok(copy)) => copy,
            Some(Err(why)) => return self.fail(DsmError::Memory(why)),
        };
        if !asked {
            *self.leaving.borrow_mut().entry(page).or_default() += 1;
        }
        let mut frame = Vec::with_capacity(LONGEST);
        notice(None).encode(&mut frame);
        self.place(page, from, (to, at), frame, !asked);
    }

    /// Writes a minipage straight from this node's memory to the requestor's, and gives notice behind it: now, or as soon as the
    /// transport has room. `leaves`: what it is written from is the minipage itself.
    fn place(
        self: &Rc<Self>,
        page: PageId,
        from: BufferGuard<V>,
        (to, at): (Rank, RemoteSlice),
        frame: Vec<u8>,
        leaves: bool,
    ) {
        let service = Rc::clone(self);
        match self.mesh.place(to, from.share(), at, CHANNEL, &frame) {
            Ok(placed) if leaves => drop(self.rt.spawn(async move {
                placed.ended().await;
                service.has_left(page);
            })),
            Ok(placed) => drop(placed),
            Err(SendError::Full { .. }) => {
                self.stats.borrow_mut().stalls += 1;
                drop(self.rt.spawn(async move {
                    while service.mesh.room(to).await.is_ok() {
                        match service.mesh.place(to, from.share(), at, CHANNEL, &frame) {
                            Err(SendError::Full { .. }) => {}
                            Ok(placed) => {
                                placed.ended().await;
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    if leaves {
                        service.has_left(page);
                    }
                }));
            }
            Err(SendError::Closed) => self.fail(DsmError::Closed),
            Err(_) => self.stats.borrow_mut().out_of_turn += 1,
        }
    }

    /// The adapter does not read a minipage any more that this node has sent. What was to be asked for it is asked now.
    fn has_left(&self, page: PageId) {
        let mut leaving = self.leaving.borrow_mut();
        if let Some(left) = leaving.get_mut(&page) {
            *left -= 1;
            if *left > 0 {
                return;
            }
            leaving.remove(&page);
        }
        drop(leaving);
        let unasked = self.unasked.borrow_mut().remove(&page);
        for (manager, request) in unasked.into_iter().flatten() {
            self.send(manager, &request);
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
    fn grant(&self, object: &Object<V>, page: PageId, need: Access, version: u64, joined: u32, hops: u8) {
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
            let orders = self.server.borrow_mut().on_executed(page);
            orders.into_iter().for_each(|order| self.carry_out(object, order));
        }
    }

    /// Threads that were dropped owe nothing any more; their destructors post nothing.
    async fn clean_up(self: Rc<Self>, mut gone: Mailbox<PageId>) {
        while let Ok(page) = gone.recv().await {
            if let Some(object) = self.memory.object(page.object) {
                self.executed(&object, page);
            }
        }
    }
}
