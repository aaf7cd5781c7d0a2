//! How shared memory follows the membership: it begins when all nodes of a view have said that they have none, and an epoch begins when
//! members have died.
//!
//! *Freeze, revoke, report, resume.* The dead are expelled from the mesh before a view is told, so nothing of them lands any more. Then
//! each survivor forgets what the epoch before had ordered, waits until nothing of its own can land that it posted before, and
//! reports to the managers what it has and gave up. A manager makes its book of that when all have reported ([`rebuild`]), and serves
//! requests again, which all make anew.
//!
//! [`rebuild`]: super::rebuild

use super::DsmError;
use super::directory::Sends;
use super::memory::{Memory, Object};
use super::messages::{Access, Message};
use super::reach::Epochs;
use super::reading::Decision;
use super::service::{Entered, Service};
use super::shared::{ObjectId, PageId};
use super::views::{Begins, Place, Views};
use crate::members::{Change, Members, View, Watch};
use crate::rt::sync::{Mailbox, Signal};
use crate::transport::{Mesh, Rank, Strike};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_verbs::Verbs;

/// What a node keeps of the membership.
pub(super) struct Following<V: Verbs> {
    epochs: Epochs,
    /// Who asks whether the others live, while this node waits for any of them.
    members: Option<Members<V>>,
    watches: Cell<bool>,
    waits_no_more: Signal,
    /// This node has not reported yet what it has in this epoch.
    reporting: Cell<bool>,
    /// Messages of epochs that this node has not begun.
    early: RefCell<Vec<(Rank, u64, Vec<u8>)>>,
    /// What takes back the writes that the peer may not have got yet.
    strikes: RefCell<BTreeMap<u64, Strike<V>>>,
    next_strike: Cell<u64>,
    /// Reads by RDMA into this node's memory.
    pulls: Cell<u32>,
    landed: Signal,
    /// Minipages that this node was told are lost.
    lost: RefCell<BTreeSet<PageId>>,
}

impl<V: Verbs> Following<V> {
    pub fn new(mesh: &Mesh<V>, members: Option<Members<V>>) -> Following<V> {
        Following {
            epochs: Epochs::new(mesh),
            members,
            watches: Cell::new(false),
            waits_no_more: Signal::new(),
            reporting: Cell::new(false),
            early: RefCell::default(),
            strikes: RefCell::default(),
            next_strike: Cell::new(0),
            pulls: Cell::new(0),
            landed: Signal::new(),
            lost: RefCell::default(),
        }
    }

    /// The memory has begun with a view.
    pub fn begun_with(&self, view: &View) {
        self.epochs.views.borrow_mut().begun_with(view);
    }

    /// What ends a wait for a node.
    pub fn epochs(&self) -> Epochs {
        self.epochs.clone()
    }

    /// From now on an epoch's beginning takes a write back.
    pub fn strike_with(&self, strike: Strike<V>) -> u64 {
        let number = self.next_strike.replace(self.next_strike.get() + 1);
        self.strikes.borrow_mut().insert(number, strike);
        number
    }

    /// A write will not be posted any more.
    pub fn has_ended(&self, strike: u64) {
        self.strikes.borrow_mut().remove(&strike);
        self.landed.notify();
    }

    /// Writes and reads of this node that may still land.
    fn in_flight(&self) -> u64 {
        let writes = self.strikes.borrow().values().filter(|strike| strike.is_in_flight()).count();
        writes as u64 + u64::from(self.pulls.get())
    }
}

/// A read by RDMA that is under way.
pub(super) struct Flight<V: Verbs>(Rc<Service<V>>);

impl<V: Verbs> Drop for Flight<V> {
    fn drop(&mut self) {
        if let Some(following) = &self.0.following {
            following.pulls.set(following.pulls.get() - 1);
            following.landed.notify();
        }
    }
}

// What the rest of the protocol asks.
impl<V: Verbs> Service<V> {
    fn in_views<T>(&self, of: impl FnOnce(&Views) -> T) -> Option<T> {
        self.following.as_ref().map(|following| of(&following.epochs.views.borrow()))
    }

    /// The stamp of the present epoch; always the same where nodes do not agree on who is alive.
    pub fn epoch(&self) -> u64 {
        self.in_views(Views::stamp).unwrap_or_default()
    }

    /// Whether the memory has begun: all nodes have been there together.
    pub fn has_begun(&self) -> bool {
        self.in_views(Views::has_begun).unwrap_or(true)
    }

    /// The name of the memory.
    pub fn name(&self) -> u64 {
        self.in_views(Views::name).unwrap_or_default()
    }

    /// Whether requests are to be kept: they are made once this node has reported.
    pub fn is_reporting(&self) -> bool {
        self.following.as_ref().is_some_and(|following| following.reporting.get()) || !self.has_begun()
    }

    /// Whether requests for an object are to be kept: it was made in an epoch to come. One that has died by then may manage it in this
    /// one, and store in it; those who know that it died take that for zero.
    pub fn is_ahead(&self, object: ObjectId) -> bool {
        self.in_views(|views| views.is_ahead(object)).unwrap_or(false)
    }

    /// Who does what that node did at first.
    pub fn in_place_of(&self, base: Rank) -> Rank {
        self.in_views(|views| views.manager(base)).unwrap_or(base)
    }

    /// Whether the manager in the place of `base` knows all that was ever written of an object.
    pub fn knows(&self, base: Rank, object: ObjectId) -> bool {
        self.in_views(|views| views.knows(base, object)).unwrap_or(true)
    }

    /// The nodes that share the memory.
    pub fn nodes(&self) -> Vec<Rank> {
        let all = || (0..self.mesh.size()).map(Rank::from_index).collect();
        self.in_views(|views| views.members().collect()).filter(|_| self.has_begun()).unwrap_or_else(all)
    }

    /// How many nodes have died.
    pub fn died(&self) -> usize {
        self.in_views(|views| views.died().len()).unwrap_or_default()
    }

    /// Waits until the memory begins, or has ended here; not at all where nodes have no agreement about who is alive.
    pub async fn begins(&self) {
        if let Some(following) = &self.following {
            following.epochs.begun.until(|| self.has_begun() || self.has_failed()).await;
        }
    }

    /// Waits until more than so many have died, or the memory has ended here; not at all where nodes have no agreement about that.
    pub async fn more_died(&self, told: usize) {
        if let Some(following) = &self.following {
            following.epochs.begun.until(|| self.died() > told || self.has_failed()).await;
        }
    }

    /// The first one that died after so many.
    pub fn died_after(&self, told: usize) -> Option<Rank> {
        self.in_views(|views| views.died().get(told).copied()).flatten()
    }

    /// An error if this node was told that it cannot have a minipage: it is lost, or others have it otherwise.
    pub fn check_there(&self, object: &Object<V>, page: PageId) -> Result<(), DsmError> {
        if object.page(page.index).otherwise {
            return Err(DsmError::Otherwise(page.object));
        }
        let is_lost = |following: &Following<V>| following.lost.borrow().contains(&page);
        if !self.following.as_ref().is_some_and(is_lost) {
            return Ok(());
        }
        let range = object.range(page.index);
        Err(DsmError::Lost { object: page.object, start: range.start, end: range.end })
    }

    /// An object is forgotten, and what was lost of it.
    pub fn forget_lost(&self, object: ObjectId) {
        if let Some(following) = &self.following {
            let mut lost = following.lost.borrow_mut();
            let of_it: Vec<PageId> = lost.range(PageId::all_of(object)).copied().collect();
            for page in of_it {
                lost.remove(&page);
            }
        }
    }

    /// A read by RDMA begins.
    pub fn takes_off(self: &Rc<Self>) -> Flight<V> {
        if let Some(following) = &self.following {
            following.pulls.set(following.pulls.get() + 1);
        }
        Flight(Rc::clone(self))
    }

    /// A write has landed, or never will.
    pub fn has_landed(&self) {
        if let Some(following) = &self.following {
            following.landed.notify();
        }
    }

    /// What counts of a message that has arrived: its bytes without the stamp, if it is of this epoch.
    pub fn counts<'a>(self: &Rc<Self>, from: Rank, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let Some(following) = &self.following else { return Some(bytes) };
        if following.epochs.left_out.get() {
            return None;
        }
        let Some((message, stamp)) = bytes.split_last_chunk() else {
            self.stats.borrow_mut().malformed += 1;
            return None;
        };
        let stamp = u64::from_le_bytes(*stamp);
        match Message::of_none(message) {
            None => return self.of_now(following, from, stamp, message),
            Some(Message::Here) => {
                let begins = following.epochs.views.borrow_mut().on_here(from, stamp);
                self.begins_anew(following, begins);
                self.tell_newcomers(following, [from]);
                self.tell_unaware(following, [from]);
            }
            Some(_) if self.has_begun() => self.stats.borrow_mut().out_of_turn += 1,
            Some(_) => self.is_left_out(DsmError::PeerReset(self.mesh.me())),
        }
        None
    }

    /// The message, if it is of this epoch. One of an epoch to come is kept.
    fn of_now<'a>(
        self: &Rc<Self>,
        following: &Following<V>,
        from: Rank,
        stamp: u64,
        message: &'a [u8],
    ) -> Option<&'a [u8]> {
        if !self.has_begun() {
            let begins = following.epochs.views.borrow_mut().on_stamp(stamp);
            self.begins_anew(following, begins);
        }
        let place = following.epochs.views.borrow().place(stamp);
        match place {
            Place::Now => return Some(message),
            Place::Over if !self.decides(Decision::ViewsChecked) => return Some(message),
            Place::Later => following.early.borrow_mut().push((from, stamp, message.to_vec())),
            Place::Over | Place::Elsewhere => self.stats.borrow_mut().stale += 1,
        }
        None
    }
}

// Epochs.
impl<V: Verbs> Service<V> {
    /// Follows the membership for as long as there is one.
    pub async fn follow(self: Rc<Self>, mut changes: Mailbox<Change>) {
        while let Ok(change) = changes.recv().await {
            match change {
                Change::Begins { view, .. } => self.view_begins(&view),
                // The others begin anew with this node, and it has nothing yet that was lost.
                Change::Lost if !self.has_begun() => {
                    self.following.iter().for_each(|following| following.epochs.views.borrow_mut().give_up());
                }
                Change::Lost | Change::Out => self.is_left_out(DsmError::Out),
            }
        }
    }

    /// This node has no part in the memory any more: nobody wants anything of it.
    pub fn is_left_out(&self, why: DsmError) {
        if let Some(following) = &self.following {
            following.epochs.left_out.set(true);
            following.early.take();
        }
        self.directory.take();
        self.barriers.borrow_mut().clear();
        let orders = self.server.borrow_mut().clear();
        self.fail(why);
        orders.into_iter().for_each(|page| self.memory.wake(page));
    }

    fn view_begins(self: &Rc<Self>, view: &View) {
        let Some(following) = self.following.as_ref().filter(|following| !following.epochs.left_out.get())
        else {
            return;
        };
        let had_begun = self.has_begun();
        let begins = following.epochs.views.borrow_mut().begin(view);
        let others = following.epochs.views.borrow().others();
        if had_begun {
            self.tell_newcomers(following, others);
        } else {
            // All others wait for this node's word, even if it waits for none of theirs any more.
            others.into_iter().for_each(|node| self.send(node, &Message::Here));
        }
        self.begins_anew(following, begins);
        // The lineage of a memory that has begun may be the one that this node gave up, and came back to.
        self.take_early(following);
    }

    /// The memory has gone on without those of some nodes who have none.
    fn tell_newcomers(&self, following: &Following<V>, nodes: impl IntoIterator<Item = Rank>) {
        self.tell_those(following, nodes, Views::is_newcomer, &Message::Ended);
    }

    /// The memory has begun with those of some nodes who wait for that in a later view.
    fn tell_unaware(&self, following: &Following<V>, nodes: impl IntoIterator<Item = Rank>) {
        self.tell_those(following, nodes, Views::is_unaware, &Message::Begun);
    }

    fn tell_those(
        &self,
        following: &Following<V>,
        nodes: impl IntoIterator<Item = Rank>,
        are: fn(&Views, Rank) -> bool,
        message: &Message<'_>,
    ) {
        let told = nodes.into_iter().filter(|node| are(&following.epochs.views.borrow(), *node));
        told.for_each(|node| self.send(node, message));
    }

    /// The memory begins, or an epoch of it, or neither.
    fn begins_anew(self: &Rc<Self>, following: &Following<V>, begins: Begins) {
        match begins {
            Begins::Nothing => return,
            Begins::First => {
                following.epochs.begun.notify();
                self.ask_again();
            }
            Begins::Epoch => self.epoch_begins(following),
        }
        self.enter_again();
        self.free_again();
        let others = following.epochs.views.borrow().others();
        self.tell_unaware(following, others);
        self.take_early(following);
    }

    /// Takes in what came too early, as far as it does not still.
    fn take_early(self: &Rc<Self>, following: &Following<V>) {
        for (from, stamp, bytes) in following.early.take() {
            if let Some(bytes) = self.of_now(following, from, stamp, &bytes) {
                self.receive(from, bytes);
            }
        }
    }

    /// Members have died: what the epoch before had ordered counts no more.
    fn epoch_begins(self: &Rc<Self>, following: &Following<V>) {
        self.stats.borrow_mut().epochs += 1;
        following.epochs.begun.notify();
        following.reporting.set(true);
        let orders = self.server.borrow_mut().clear();
        self.directory.borrow_mut().begin(self.nodes());
        self.barriers.borrow_mut().clear();
        self.unasked.borrow_mut().clear();
        let unfinished = following.strikes.borrow().len() as u64 + u64::from(following.pulls.get());
        self.stats.borrow_mut().fenced += unfinished;
        if self.decides(Decision::ReportsWhenFenced) {
            following.strikes.borrow().values().for_each(Strike::strike);
        }
        let died = self.died_after(self.died() - 1).unwrap_or(self.mesh.me());
        for Entered { leave, .. } in self.entered.take().into_values() {
            // The call may have been dropped.
            drop(leave.send(Err(DsmError::Died(died))));
        }
        // A report of the epoch before ends.
        following.landed.notify();
        let service = Rc::clone(self);
        // Of this epoch, whichever the task begins in: two reports of one would be counted for one of all that the node has.
        let epoch = self.epoch();
        drop(self.rt.spawn(async move { service.report(epoch).await }));
        orders.into_iter().for_each(|page| self.memory.wake(page));
        self.watch();
    }

    /// Reports to the managers what this node has and gave up, once nothing can land that it posted before; then asks again.
    async fn report(self: Rc<Self>, epoch: u64) {
        let Some(following) = &self.following else { return };
        if self.decides(Decision::ReportsWhenFenced) {
            following.landed.until(|| following.in_flight() == 0 || self.epoch() != epoch).await;
        }
        let mut reported: BTreeMap<Rank, u32> = self.nodes().into_iter().map(|node| (node, 0)).collect();
        for object in self.memory.objects() {
            for (index, page) in (0..).zip(object.pages()) {
                if page.access == Access::Invalid && page.given.is_none() {
                    continue;
                }
                let id = PageId { object: object.cut.object, index };
                let (access, version, given) = (page.access, page.version, page.given.filter(|_| !page.told));
                let (manager, len) = (self.manager(&object, id), object.range(index).len() as u32);
                let report = Message::Report { page: id, access, version, len, given };
                if !self.deliver(manager, &report, epoch).await {
                    return;
                }
                *reported.entry(manager).or_default() += 1;
            }
        }
        self.memory.objects().iter().for_each(|object| object.told());
        for (manager, reports) in reported {
            if !self.deliver(manager, &Message::Reported { reports }, epoch).await {
                return;
            }
        }
        following.reporting.set(false);
        self.ask_again();
    }

    /// Sends a message as soon as there is room and memory for it. False if the epoch is over. A node whose threads were told that the
    /// memory has ended says what it has all the same: others wait for that.
    async fn deliver(&self, to: Rank, message: &Message<'_>, epoch: u64) -> bool {
        if self.epoch() != epoch {
            return false;
        }
        self.try_send(to, message)
            || self.reach.say(&self.rt, to, &self.framed(message), self.reach.now(to)).await
    }

    /// Makes all requests anew, but those for objects of an epoch to come.
    fn ask_again(&self) {
        let requests = self.requests.borrow_mut().again();
        for (page, need, id) in requests.into_iter().filter(|(page, ..)| !self.is_ahead(page.object)) {
            if let Some(object) = self.memory.object(page.object) {
                self.ask(&object, page, need, id);
            }
        }
    }

    fn enter_again(&self) {
        let said = |(id, entered): (&u32, &Entered)| (entered.barrier, entered.parties, *id);
        // A mesh that is closed ends the memory at the first word, and all who have entered with it.
        let entered: Vec<_> = self.entered.borrow().iter().map(said).collect();
        for (barrier, parties, id) in entered {
            self.say_entered(barrier, parties, id);
        }
    }

    /// A report came in. If it was the last, the book is what was reported.
    pub fn after_report(&self, awaited: bool, sends: &mut Sends) {
        self.stats.borrow_mut().out_of_turn += u64::from(!awaited);
        if !self.directory.borrow().has_all_reports() {
            return;
        }
        let nodes = self.nodes();
        let book = self.book();
        let survives = |node| nodes.contains(&node);
        let forgotten = |object| self.frees.borrow().has_forgotten(object);
        let lost = self.directory.borrow_mut().rebuilt(survives, forgotten, book, sends);
        self.are_lost(lost);
    }

    /// This node, as their manager, has found these minipages lost.
    pub fn are_lost(&self, pages: impl IntoIterator<Item = PageId>) {
        let frees = self.frees.borrow();
        // Of what is being freed those may have had it that report nothing of it any more.
        let lost = pages.into_iter().filter(|page| !frees.has(page.object)).count();
        self.stats.borrow_mut().lost += lost as u64;
    }

    /// A minipage that this node gave up did not get to the one that it was for. If it has been freed, it is forgotten here, and by its
    /// manager soon: those who have forgotten it before had reported nothing of it.
    pub fn on_restore(&self, from: Rank, page: PageId, version: u64) {
        if self.frees.borrow().has_forgotten(page.object) {
            return;
        }
        let object = self.memory.object(page.object);
        let gave = object.map(|object| object.page(page.index));
        if gave.is_some_and(|gave| gave.access == Access::Invalid && gave.version == version) {
            self.memory.grant(page, Access::Read, version);
            self.send(from, &Message::Done { page, id: 0 });
        } else {
            self.stats.borrow_mut().out_of_turn += 1;
        }
    }

    /// What this node asked for is lost: all who wait for it are told.
    pub fn on_lost(&self, page: PageId, id: u32) {
        let Some(following) = &self.following else {
            self.stats.borrow_mut().out_of_turn += 1;
            return;
        };
        if self.requests.borrow_mut().ends_without(page, id) {
            following.lost.borrow_mut().insert(page);
            self.memory.wake(page);
        } else {
            self.stats.borrow_mut().out_of_turn += 1;
        }
    }
}

// Who asks whether the others live.
impl<V: Verbs> Service<V> {
    /// This node waits for others: they are asked whether they live, until it does not any more.
    pub fn watch(self: &Rc<Self>) {
        let Some(following) = &self.following else { return };
        let Some(members) = &following.members else { return };
        if following.watches.replace(true) {
            return;
        }
        let (members, service) = (members.clone(), Rc::clone(self));
        drop(self.rt.spawn(async move {
            let Some(following) = &service.following else { return };
            let me = service.mesh.me();
            let others = service.nodes().into_iter().filter(|node| *node != me);
            let watches: Vec<Watch<V>> = others.map(|node| members.watch(node)).collect();
            following.waits_no_more.until(|| !service.waits()).await;
            drop(watches);
            following.watches.set(false);
        }));
    }

    fn waits(&self) -> bool {
        let open = self.requests.borrow().len() > 0 || !self.entered.borrow().is_empty();
        let open = open || self.frees.borrow().waits() || self.directory.borrow().is_rebuilding();
        open && !self.has_failed()
    }

    /// Something that this node waited for has come.
    pub fn watch_no_more(&self) {
        if let Some(following) = self.following.as_ref().filter(|following| following.watches.get())
            && !self.waits()
        {
            following.waits_no_more.notify();
        }
    }

    /// The memory has failed: nobody waits for anything.
    pub fn nothing_more(&self) {
        if let Some(following) = &self.following {
            following.epochs.begun.notify();
            following.waits_no_more.notify();
            following.landed.notify();
        }
    }
}
