//! The service of a node: manager of some minipages, server of those that it has, requestor of those that its threads need.

use super::barrier::{BarrierId, Barriers};
use super::directory::{Directory, Sends};
use super::follow::Following;
use super::free::Frees;
use super::memory::{Called, Object, Page};
use super::messages::{Access, LONGEST, Message};
use super::pins::Pins;
use super::reach::Reach;
use super::reading::{Decision, Reading};
use super::requests::Requests;
use super::server::Server;
use super::shared::{Grain, ObjectId, PageId, Placement, Plain, Shared};
use super::stats::ByObject;
use super::{DsmError, DsmStats, ObjectStats, Thread};
use crate::members::{Change, Members, View};
use crate::rt::sync::{Mailbox, MailboxSender, OneshotSender, Signal, mailbox};
use crate::rt::{JoinHandle, Rt};
use crate::transport::{Channel, Mesh, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;
use weft_verbs::{Verbs, Work};

/// The channel of shared memory's messages.
pub(super) const CHANNEL: Channel = Channel(5);

/// Bytes of an epoch's stamp, behind each message where nodes agree on who is alive.
pub const STAMP: usize = size_of::<u64>();

/// Shared memory at a node. Clones are the same.
pub struct Dsm<V: Verbs>(pub(super) Rc<Service<V>>);

impl<V: Verbs> Clone for Dsm<V> {
    fn clone(&self) -> Self {
        Dsm(Rc::clone(&self.0))
    }
}

pub(super) struct Service<V: Verbs> {
    pub rt: Rt<V>,
    pub mesh: Mesh<V>,
    pub memory: Called<V>,
    pub config: DsmConfig,
    pub requests: RefCell<Requests>,
    pub directory: RefCell<Directory>,
    pub server: RefCell<Server>,
    /// Minipages that threads have claimed.
    pub pins: RefCell<Pins>,
    pub barriers: RefCell<Barriers>,
    /// Threads that wait at barriers, each by its number.
    pub entered: RefCell<BTreeMap<u32, Entered>>,
    pub reach: Reach<V>,
    /// If the nodes agree on who is alive.
    pub following: Option<Following<V>>,
    next_entry: Cell<u32>,
    next_object: Cell<u32>,
    /// The last granted request's hops, by minipage and until its threads have looked.
    pub hops: RefCell<BTreeMap<PageId, u8>>,
    /// What destructors leave to be done.
    pub given_up: MailboxSender<Gone>,
    pub stats: RefCell<DsmStats>,
    pub by_object: RefCell<ByObject>,
    /// Minipages that an adapter still reads to send them: how often.
    pub leaving: RefCell<BTreeMap<PageId, u32>>,
    /// Requests that wait until it does not.
    pub unasked: RefCell<BTreeMap<PageId, Sends>>,
    /// Objects that are being freed, or are.
    pub frees: RefCell<Frees>,
    failed: RefCell<Option<DsmError>>,
    /// Who has restarted, where nodes do not agree on who is alive: the memory has ended for all.
    pub restarted: Cell<Option<Rank>>,
    ends: Signal,
    /// Kept for their allocations.
    pub frame: RefCell<Vec<u8>>,
    pub sends: RefCell<Sends>,
    /// How what the paper leaves open is decided.
    reading: Reading,
}

/// A thread that waits at a barrier.
pub(super) struct Entered {
    pub barrier: BarrierId,
    pub parties: u32,
    pub leave: OneshotSender<Result<(), DsmError>>,
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
    /// The objects that are freed, or are being.
    pub freed: Vec<ObjectId>,
    /// Of the freed ones those that there is memory for still.
    pub unfreed: Vec<ObjectId>,
}

/// How shared memory at a node learns who is alive.
pub enum Alive<'a, V: Verbs> {
    /// It does not: nodes have no agreement about it. A node that restarts ends the memory.
    Unasked,
    /// By the views of these members.
    Members(&'a Members<V>),
    /// By views that come from elsewhere, behind the one with which the memory has begun. Who leaves one is to be expelled from the mesh
    /// before it is told.
    Told(&'a View, Mailbox<Change>),
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

    /// Starts shared memory at a node in a given way.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start_as(rt: &Rt<V>, mesh: &Mesh<V>, config: DsmConfig) -> Result<Dsm<V>, DsmError> {
        Dsm::start_under(rt, mesh, config, Alive::Unasked, Reading::Repaired)
    }

    /// Starts shared memory at a node whose cluster agrees on who is alive: it begins when all nodes are in the view, and goes on
    /// without those that die.
    ///
    /// # Errors
    ///
    /// As [`Dsm::start_as`].
    pub fn start_among(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: DsmConfig,
        members: &Members<V>,
    ) -> Result<Dsm<V>, DsmError> {
        Dsm::start_under(rt, mesh, config, Alive::Members(members), Reading::Repaired)
    }

    /// Starts shared memory at a node under a reading of the paper.
    ///
    /// # Errors
    ///
    /// As [`Dsm::start_as`].
    pub fn start_under(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: DsmConfig,
        alive: Alive<'_, V>,
        reading: Reading,
    ) -> Result<Dsm<V>, DsmError> {
        let (following, changes) = match alive {
            Alive::Unasked => (None, None),
            Alive::Members(members) => {
                (Some(Following::new(mesh, Some(members.clone()))), Some(members.changes()))
            }
            Alive::Told(begun, changes) => {
                let following = Following::new(mesh, None);
                following.begun_with(begun);
                (Some(following), Some(changes))
            }
        };
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
            reach: Reach::new(mesh, &inbox, following.as_ref().map(Following::epochs)),
            following,
            next_entry: Cell::new(0),
            next_object: Cell::new(0),
            hops: RefCell::default(),
            given_up,
            stats: RefCell::default(),
            by_object: RefCell::default(),
            leaving: RefCell::default(),
            unasked: RefCell::default(),
            frees: RefCell::default(),
            failed: RefCell::default(),
            restarted: Cell::default(),
            ends: Signal::new(),
            frame: RefCell::default(),
            sends: RefCell::default(),
            reading,
        });
        drop(rt.spawn(Rc::clone(&service).listen(inbox)));
        drop(rt.spawn(Rc::clone(&service).clean_up(gone)));
        if let Some(changes) = changes {
            drop(rt.spawn(Rc::clone(&service).follow(changes)));
        }
        Ok(Dsm(service))
    }

    /// Memory for `len` elements that all nodes share, all zero.
    ///
    /// # Errors
    ///
    /// It has no element or too many bytes; the grain cannot be; it is placed at a node that is not there; the mesh's messages are too
    /// short for a minipage; this node has used up its numbers for objects.
    pub fn alloc<T: Plain>(
        &self,
        len: usize,
        grain: Grain,
        placement: Placement,
    ) -> Result<Shared<[T]>, DsmError> {
        let number = self.0.next_object.get();
        self.0.next_object.set(number.checked_add(1).ok_or(DsmError::UsedUp)?);
        let object = ObjectId::of(self.0.mesh.me(), number, self.0.died());
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
    pub fn thread(&self) -> Thread<V> {
        Thread::new(self.clone())
    }

    /// Starts an application thread on this node. The thread is its body's own: what it claims ends with it.
    ///
    /// ```compile_fail,E0597
    /// # use weft_protocols::dsm::{Dsm, Shared};
    /// # use weft_verbs::{Nanos, Verbs};
    /// fn hands_out<V: Verbs>(dsm: &Dsm<V>, of: Shared<[u64]>) {
    ///     dsm.spawn(|mut thread| async move { thread.claim(of, 0..8, Nanos::MAX).await });
    /// }
    /// ```
    ///
    /// It outlives its caller, and borrows nothing of it:
    ///
    /// ```compile_fail,E0597
    /// # use weft_protocols::dsm::Dsm;
    /// # use weft_verbs::Verbs;
    /// fn borrows<V: Verbs>(dsm: &Dsm<V>) {
    ///     let mine = [0; 8];
    ///     let words = &mine;
    ///     dsm.spawn(move |_| async move { words.len() });
    /// }
    /// ```
    pub fn spawn<F: Future<Output: 'static> + 'static>(
        &self,
        body: impl FnOnce(Thread<V>) -> F,
    ) -> JoinHandle<F::Output> {
        self.0.rt.spawn(body(self.thread()))
    }

    /// Waits until the memory begins: until all nodes are there together, where they agree on who is alive. Gives its name, which no
    /// other memory of the cluster has; zero where nodes have no such agreement.
    ///
    /// # Errors
    ///
    /// The memory has ended for this node before it has begun.
    pub async fn begun(&self) -> Result<u64, DsmError> {
        self.0.begins().await;
        if self.0.has_begun() { Ok(self.0.name()) } else { Err(self.ended().await) }
    }

    /// Waits until the memory has ended for this node: why.
    pub async fn ended(&self) -> DsmError {
        loop {
            if let Err(why) = self.0.check() {
                return why;
            }
            self.0.ends.changed().await;
        }
    }

    /// Waits for a node that dies after so many others: who it is. All nodes that go on without it name the dead in one order, but for one
    /// that missed a view: it names those who died between two of its own in the order of their ranks. Where nodes have no agreement
    /// about who is alive it waits for the end of the memory.
    ///
    /// It asks nobody whether they live: a death is noticed while somebody waits for the dead. Who wants to be told of a node that
    /// nobody may need holds [`Members::watch`] of it meanwhile.
    ///
    /// # Errors
    ///
    /// The memory has ended for this node, and it was told of no more who died.
    pub async fn next_death(&self, after: usize) -> Result<Rank, DsmError> {
        self.0.more_died(after).await;
        match self.0.died_after(after) {
            Some(died) => Ok(died),
            None => Err(self.ended().await),
        }
    }

    /// What it has done so far.
    pub fn stats(&self) -> DsmStats {
        *self.0.stats.borrow()
    }

    /// Why accesses waited at this node, by object; and of what it manages the minipages that were written by turns most often. Those that
    /// were freed are [counted together](Dsm::freed_objects).
    pub fn by_object(&self) -> Vec<(ObjectId, ObjectStats)> {
        let book = self.0.directory.borrow();
        let book = book.book().map(|(page, version, ..)| (page, version));
        self.0.by_object.borrow().with_book(book)
    }

    /// Why accesses to objects waited that have been freed, in one sum.
    pub fn freed_objects(&self) -> ObjectStats {
        self.0.by_object.borrow().freed()
    }

    /// What is open, by name: nothing, at rest.
    pub fn unfinished(&self) -> [(&'static str, u64); 10] {
        let service = &*self.0;
        [
            ("requests for minipages", service.requests.borrow().len()),
            ("requests that a manager has not served", service.directory.borrow().unserved()),
            ("orders that wait", service.server.borrow().waiting()),
            ("minipages that an adapter still sends", service.leaving.borrow().len() as u64),
            ("reports that are awaited", u64::from(service.directory.borrow().is_rebuilding())),
            ("objects that are being freed", service.frees.borrow().open()),
            ("minipages that are claimed", service.pins.borrow().len()),
            ("threads that wait for minipages", service.memory.waiters()),
            (
                "grants whose accesses are not executed",
                service.memory.objects().iter().map(|object| object.owed()).sum(),
            ),
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
        let frees = self.0.frees.borrow();
        let there = self.0.memory.objects().into_iter().map(|object| object.cut.object);
        let unfreed = there.filter(|object| frees.has_forgotten(*object)).collect();
        DsmAudit { book: book.collect(), held, freed: frees.all(), unfreed }
    }
}

impl<V: Verbs> Service<V> {
    /// Whether a decision is taken as shipped.
    pub fn decides(&self, decision: Decision) -> bool {
        self.reading.decides(decision)
    }

    /// Memory that this cluster can have: a name may have been made for another one.
    fn fitting<T: Plain>(&self, shared: Shared<[T]>) -> Result<Shared<[T]>, DsmError> {
        let nodes = self.mesh.size();
        if let Placement::Node(rank) = shared.cut.placement
            && rank.get() > nodes
        {
            return Err(DsmError::Placement { rank, nodes });
        }
        let (grain, most) = (shared.cut.grain, self.longest_carried());
        if grain > most && !self.mesh.always_places() {
            Err(DsmError::Message { grain, most })
        } else {
            Ok(shared)
        }
    }

    /// The longest minipage that a message carries.
    pub fn longest_carried(&self) -> u32 {
        let stamp = if self.following.is_some() { STAMP } else { 0 };
        self.mesh.max_message().saturating_sub((LONGEST + stamp) as u32)
    }

    /// An object as this node has it.
    pub fn touch<T: Plain>(&self, shared: Shared<[T]>) -> Result<Rc<Object<V>>, DsmError> {
        self.check()?;
        if self.frees.borrow().has(shared.cut.object) {
            return Err(DsmError::Freed(shared.cut.object));
        }
        match self.memory.object(shared.cut.object) {
            Some(object) if object.is_cut(shared.cut, shared.len() * size_of::<T>()) => Ok(object),
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

    /// Whether shared memory has ended.
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
        self.ends.notify();
        self.requests.borrow_mut().clear();
        self.unasked.borrow_mut().clear();
        self.entered.borrow_mut().clear();
        self.frees.borrow_mut().fail();
        self.memory.wake_all();
        let behind = self.pins.borrow_mut().wakers();
        behind.into_iter().for_each(Waker::wake);
        self.nothing_more();
    }

    /// Asks a minipage's manager for it, for so many threads.
    pub fn request(self: &Rc<Self>, object: &Object<V>, page: PageId, need: Access, joined: u32) -> u32 {
        let id = self.requests.borrow_mut().make(page, need, joined);
        {
            let mut stats = self.stats.borrow_mut();
            match need {
                Access::Write => stats.write_faults += 1,
                _ => stats.read_faults += 1,
            }
            let Page { access, given, .. } = object.page(page.index);
            let mut by_object = self.by_object.borrow_mut();
            let why = by_object.of(page.object);
            match access {
                Access::Read => why.copies += 1,
                _ if given.is_some() => why.taken += 1,
                _ => why.first += 1,
            }
        }
        self.watch();
        // Otherwise it is made with all others when this node has reported, in this epoch or in that of the object.
        if !self.is_reporting() && !self.is_ahead(page.object) {
            self.ask(object, page, need, id);
        }
        id
    }

    /// Sends a request: once no adapter reads any more what the answer would change.
    pub fn ask(&self, object: &Object<V>, page: PageId, need: Access, id: u32) {
        let (manager, request) = self.asking(object, page, need, id);
        if self.leaving.borrow().contains_key(&page) {
            self.unasked.borrow_mut().entry(page).or_default().push((manager, request));
        } else {
            self.send(manager, &request);
        }
    }

    /// A request, and whom it goes to.
    fn asking(&self, object: &Object<V>, page: PageId, need: Access, id: u32) -> (Rank, Message<'static>) {
        let base = object.cut.manager(page, self.mesh.size());
        let (has, at) = (object.page(page.index).access, object.remote(page.index));
        let heir_of = (!self.knows(base, page.object)).then_some(base);
        (self.in_place_of(base), Message::Request { page, id, need, has, at, heir_of })
    }

    /// Who manages a minipage.
    pub fn manager(&self, object: &Object<V>, page: PageId) -> Rank {
        self.in_place_of(object.cut.manager(page, self.mesh.size()))
    }

    /// A thread enters a barrier: it may leave when the sender is used.
    pub fn enter(
        self: &Rc<Self>,
        barrier: BarrierId,
        parties: u32,
        leave: OneshotSender<Result<(), DsmError>>,
    ) {
        let id = self.next_entry.replace(self.next_entry.get().wrapping_add(1));
        self.entered.borrow_mut().insert(id, Entered { barrier, parties, leave });
        self.watch();
        if self.has_begun() {
            self.say_entered(barrier, parties, id);
        }
    }

    /// Tells a barrier's home that a thread has come.
    pub fn say_entered(&self, BarrierId(barrier): BarrierId, parties: u32, id: u32) {
        let home = self.in_place_of(BarrierId(barrier).home(self.mesh.size()));
        self.send(home, &Message::Enter { barrier, id, parties });
    }
}
