//! The tasks that carry a member over a mesh: messages, deadlines and expulsion.
//!
//! Nothing is decided here. What happens goes into [`Core`], and what it wants done is done in its order: a view begins for
//! the systems of this node only after those whom it leaves out have been [expelled](Mesh::expel), so that nothing of them
//! can act in it.

use super::backlog::Backlog;
use super::core::Core;
use super::events::{Action, Event};
use super::messages::{Envelope, LONGEST, longest};
use super::view::{Member, View, ViewId};
use super::{MembersConfig, MembersError};
use crate::rt::sync::{Mailbox, MailboxSender, Signal, mailbox};
use crate::rt::{Rt, WaitPoint};
use crate::transport::{Channel, Inbox, Incoming, Mesh, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

/// The channel of the mesh that members use.
pub const CHANNEL: Channel = Channel(254);

/// What a system is told of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A view begins. Those who left the one before have been expelled from the mesh, and will never be back.
    Begins {
        /// The view.
        view: View,
        /// Who left.
        left: Vec<Member>,
    },
    /// The view is lost: a majority of its members has restarted. What was held under it is not held any more.
    Lost,
    /// The others go on without this member, for good. What it held it does not hold any more.
    Out,
}

struct Shared<V: Verbs> {
    rt: Rt<V>,
    mesh: Mesh<V>,
    core: RefCell<Core>,
    /// Something of the core has changed: its deadline, its view, its lease.
    changed: Signal,
    systems: RefCell<Vec<MailboxSender<Change>>>,
    /// How many hold or want something under the lease.
    holds: Cell<u32>,
    /// Messages that the mesh had no room for, by receiver; a task sends them as room comes.
    kept: RefCell<BTreeMap<Rank, Backlog>>,
}

/// A node's part in the membership. Clones are the same one.
pub struct Members<V: Verbs> {
    shared: Rc<Shared<V>>,
}

impl<V: Verbs> Clone for Members<V> {
    fn clone(&self) -> Self {
        Members { shared: Rc::clone(&self.shared) }
    }
}

impl<V: Verbs> Members<V> {
    /// Starts the node's member. It asks the others to take it in at once.
    ///
    /// # Errors
    ///
    /// The settings are of no use, the mesh's messages are too short for a view of so many nodes, or members were started on
    /// this mesh before.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>, config: MembersConfig) -> Result<Members<V>, MembersError> {
        let wrong = |field, value: u64, must| Err(MembersError::Config { field, value, must });
        if config.nodes != mesh.size() {
            return wrong("nodes", config.nodes.into(), "as many as the mesh has");
        }
        if config.lease.0 == 0 || config.patience.0 == 0 {
            return wrong("lease or patience", 0, "more than zero");
        }
        if mesh.max_message() < longest(config.nodes) {
            return wrong("the mesh's max_message", mesh.max_message().into(), LONGEST);
        }
        let inbox = mesh.open(CHANNEL)?;
        let me = Member { rank: mesh.me(), incarnation: mesh.incarnation() };
        let shared = Rc::new(Shared {
            rt: rt.clone(),
            mesh: mesh.clone(),
            core: RefCell::new(Core::new(config, me)),
            changed: Signal::new(),
            systems: RefCell::default(),
            holds: Cell::new(0),
            kept: RefCell::default(),
        });
        rt.spawn(Rc::clone(&shared).take_messages(inbox));
        rt.spawn(Rc::clone(&shared).keep_deadlines());
        rt.spawn(Rc::clone(&shared).hear_of_expulsion());
        // One that has nothing to say is told that it is out all the same.
        mesh.listen();
        shared.event(Event::Begin);
        Ok(Members { shared })
    }

    /// This node's incarnation.
    pub fn me(&self) -> Member {
        self.shared.core.borrow().me()
    }

    /// The view that it acts in, if it does.
    pub fn view(&self) -> Option<View> {
        self.shared.core.borrow().view().cloned()
    }

    /// Whether it was left out, for good.
    pub fn is_out(&self) -> bool {
        self.shared.core.borrow().is_out()
    }

    /// Until when, by this node's clock, what was granted to it counts. In the past if its lease has run out.
    pub fn lease_until(&self) -> Nanos {
        self.shared.core.borrow().lease_until()
    }

    /// Whether what was granted counts now.
    pub fn has_lease(&self) -> bool {
        self.shared.rt.now() < self.lease_until()
    }

    /// From when on, by this node's clock, it may grant anew what members that are gone may have held.
    pub fn grants_from(&self) -> Nanos {
        self.shared.core.borrow().grants_from()
    }

    /// How long a lease runs.
    pub fn lease(&self) -> Nanos {
        self.shared.core.borrow().lease()
    }

    /// By how much two clocks may differ over one lease.
    pub fn drift(&self) -> Nanos {
        self.shared.core.borrow().drift()
    }

    /// How long a member that is asked may be silent.
    pub fn patience(&self) -> Nanos {
        self.shared.core.borrow().patience()
    }

    /// What happens to the membership from now on. The present view, if there is one, comes first, with nobody who left; or that this
    /// member is out, if it is.
    pub fn changes(&self) -> Mailbox<Change> {
        let (sender, changes) = mailbox();
        if let Some(view) = self.view() {
            drop(sender.send(Change::Begins { view, left: Vec::new() }));
        } else if self.is_out() {
            drop(sender.send(Change::Out));
        }
        self.shared.systems.borrow_mut().push(sender);
        changes
    }

    /// Keeps the lease for as long as the guard is there.
    pub fn hold(&self) -> Hold<V> {
        let holds = &self.shared.holds;
        holds.set(holds.get() + 1);
        if holds.get() == 1 {
            self.shared.event(Event::Hold(true));
        }
        Hold { shared: Rc::clone(&self.shared) }
    }

    /// Waits until a lease runs, or this member is left out. Only while something is [held](Members::hold) is one asked for.
    pub async fn leased(&self) -> bool {
        self.shared.changed.until(|| self.has_lease() || self.is_out()).at(()).await;
        !self.is_out()
    }

    /// Waits until the lease runs until another time than this.
    pub async fn lease_changed(&self, from: Nanos) {
        self.shared.changed.until(|| self.lease_until() != from).at(()).await;
    }

    /// Something here waits for that node for as long as the guard is there: it is asked whether it lives.
    pub fn watch(&self, rank: Rank) -> Watch<V> {
        self.shared.event(Event::Watch(rank, true));
        Watch { shared: Rc::clone(&self.shared), rank }
    }

    /// Leaves: the next view is without this member, unless it would be too small.
    pub fn leave(&self) {
        self.shared.event(Event::Leave);
    }
}

/// As long as it is there, the node's lease is renewed.
pub struct Hold<V: Verbs> {
    shared: Rc<Shared<V>>,
}

impl<V: Verbs> Drop for Hold<V> {
    fn drop(&mut self) {
        let holds = &self.shared.holds;
        holds.set(holds.get() - 1);
        if holds.get() == 0 {
            self.shared.core.borrow_mut().let_go();
            self.shared.changed.notify();
        }
    }
}

/// As long as it is there, a node is asked whether it lives.
pub struct Watch<V: Verbs> {
    shared: Rc<Shared<V>>,
    rank: Rank,
}

impl<V: Verbs> Drop for Watch<V> {
    fn drop(&mut self) {
        self.shared.core.borrow_mut().unwatch(self.rank);
        self.shared.changed.notify();
    }
}

impl<V: Verbs> Shared<V> {
    /// Lets the member take an event in, and does what it wants, in its order.
    fn event(self: &Rc<Self>, event: Event) {
        let mut actions = Vec::new();
        self.core.borrow_mut().on_event(self.rt.now(), event, &mut actions);
        for action in actions {
            match action {
                Action::Send(to, envelope) => self.send(to, envelope),
                Action::Install { view, left } => {
                    for member in view.gone(&left) {
                        self.mesh.expel_on(member.rank, member.incarnation, view.id.grounds());
                    }
                    for member in &view.members {
                        self.mesh.admit(member.rank, member.incarnation);
                    }
                    self.tell(&Change::Begins { view, left });
                }
                Action::Leased => {}
                Action::Lost => self.tell(&Change::Lost),
                Action::Out => {
                    self.tell(&Change::Out);
                    self.rt.spawn(Rc::clone(self).retire());
                }
            }
        }
        self.changed.notify();
    }

    fn tell(&self, change: &Change) {
        self.systems.borrow_mut().retain(|system| system.send(change.clone()).is_ok());
    }

    async fn take_messages(self: Rc<Self>, mut inbox: Inbox) {
        let nodes = self.mesh.size();
        while let Some(incoming) = inbox.recv().at(()).await {
            match incoming {
                Incoming::Message(message) => {
                    // Another version's bytes are no message, nor are those that name a node which is not configured here: a member that
                    // says nothing that is understood is silent.
                    if let Some(envelope) = Envelope::decode(message.bytes(), nodes) {
                        self.event(Event::Message(message.from(), envelope));
                    }
                }
                Incoming::PeerReset { peer, .. } => self.event(Event::PeerReset(peer)),
            }
        }
        // The mesh is closed, and nobody is told anything any more.
        self.systems.take();
        self.changed.notify();
    }

    /// Wakes the member at its deadlines. While it has none, no timer runs.
    async fn keep_deadlines(self: Rc<Self>) {
        while !self.mesh.is_closed() {
            let deadline = || self.core.borrow().deadline();
            let due = deadline();
            let moved = self.changed.until(|| deadline() != due || self.mesh.is_closed());
            match due {
                None => moved.at(()).await,
                Some(at) if at <= self.rt.now() => self.event(Event::Time),
                Some(at) => {
                    if self.rt.deadline(at, moved).at(at).await.is_err() {
                        self.event(Event::Time);
                    }
                }
            }
        }
    }

    /// One who expelled this incarnation begins a view without it, and refuses what it says: it learns that by the refusal, which says
    /// what that view is.
    async fn hear_of_expulsion(self: Rc<Self>) {
        let mut heard = 0;
        while !self.core.borrow().is_out() {
            let Some(grounds) = self.mesh.expelled_on(heard).at(heard).await else { break };
            heard += 1;
            self.event(Event::Expelled(ViewId::of_grounds(grounds)));
        }
    }

    /// Nobody heeds it any more, and what it would wait for may never come. But the view without it may have been its own to tell: what
    /// it has said arrives first, if it can, or those who stay might lack one whom they need to find out.
    async fn retire(self: Rc<Self>) {
        let patience = self.rt.now() + self.core.borrow().patience();
        let told = self.rt.deadline(patience, self.mesh.all_received());
        let _ = told.at(patience).await;
        self.mesh.retire();
    }

    fn send(self: &Rc<Self>, to: Rank, envelope: Envelope) {
        if let Some(kept) = self.kept.borrow_mut().get_mut(&to) {
            return kept.push(envelope);
        }
        let sent = self.mesh.send(to, CHANNEL, &envelope.encode());
        // To one who was expelled nothing is said: it learns it when it asks. Its next incarnation has asked, or will; but that may have been
        // in vain, and have been its last word.
        if let Err(SendError::PeerGone(_)) = sent {
            return self.mesh.call(to, envelope.to);
        }
        if let Err(SendError::Full { .. } | SendError::Memory(_)) = sent {
            self.kept.borrow_mut().entry(to).or_default().push(envelope);
            let shared = Rc::clone(self);
            self.rt.spawn(async move { shared.send_kept(to).at(to).await });
        }
    }

    /// Sends what is kept for a node, in order, as room comes.
    async fn send_kept(self: Rc<Self>, to: Rank) {
        loop {
            // What there was no room for may be for one who was not expelled: to send it tells.
            let _ = self.mesh.room(to).at(()).await;
            let Some(envelope) = self.kept.borrow().get(&to).and_then(|kept| kept.first().cloned()) else {
                break;
            };
            match self.mesh.send(to, CHANNEL, &envelope.encode()) {
                Ok(()) => drop(self.kept.borrow_mut().get_mut(&to).map(Backlog::sent)),
                Err(SendError::Memory(_)) => self.rt.sleep(PAUSE).at(()).await,
                Err(SendError::Full { .. }) => {}
                Err(_) => break,
            }
        }
        // Of what cannot be said to one who was expelled, some may have been for its next incarnation.
        for envelope in self.kept.borrow_mut().remove(&to).into_iter().flat_map(Backlog::into_iter) {
            self.mesh.call(to, envelope.to);
        }
    }
}

/// Before memory is asked for again that there was not.
const PAUSE: Nanos = Nanos::from_micros(100);
