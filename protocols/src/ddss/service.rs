//! The service of a node: it keeps the segments of which it is the home, and finds those of others.

use super::follow::Following;
use super::going::Going;
use super::home::{Action, Home};
use super::key::Id;
use super::memory::Memory;
use super::messages::Message;
use super::parties::Party;
use super::parts::Waits;
use super::segment::{Open, longest};
use super::{DdssError, DdssStats, Key, Name, Segment, Spec};
use crate::members::{Change, Members};
use crate::rt::sync::{Mailbox, OneshotReceiver, OneshotSender, oneshot};
use crate::rt::{BufferPool, Labelled, Rt, WeakPool};
use crate::transport::{Channel, Inbox, Incoming, Mesh, NotExecuted, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs};

/// The channel of segments' messages.
const CHANNEL: Channel = Channel(2);

/// The service of a node, and what its applications call. Clones are the same service.
pub struct Ddss<V: Verbs>(pub(super) Rc<Shared<V>>);

pub(super) struct Shared<V: Verbs> {
    pub rt: Rt<V>,
    pub mesh: Mesh<V>,
    pub stats: RefCell<DdssStats>,
    /// Blocks for words.
    pub words: BufferPool<V>,
    /// Blocks for values, by their length: segments that are open share them, since each pool registers memory for many.
    values: RefCell<BTreeMap<u32, WeakPool<V>>>,
    pub home: RefCell<Home>,
    /// The memory of the segments kept here.
    pub memory: RefCell<Memory<V>>,
    /// The segments that are open here, until they are let go, or their home has died. Those of one name are others, of which all but one
    /// have been released.
    pub open: RefCell<BTreeMap<Id, Segment<V>>>,
    /// What names stand for here: keys of segments that were opened by them. One that is not open any more has died with its home, however it
    /// was opened: the next who opens its name is told.
    pub named: RefCell<BTreeMap<Name, Key>>,
    /// Segments of which this node knows that they are being released.
    pub going: RefCell<Going>,
    /// Requests that are not answered: whom this node asked, and who waits for that.
    pub asked: RefCell<BTreeMap<u64, (Party, OneshotSender<Message>)>>,
    /// The number of the first request of this incarnation, and of the next one.
    first_id: u64,
    next_id: Cell<u64>,
    /// The node on which this one has allocated last.
    pub next_home: Cell<u32>,
    /// Who has died, where nodes agree on that.
    pub following: Option<Following<V>>,
}

/// A request that was sent.
pub(super) struct Request {
    /// To whom.
    pub of: Party,
    pub told: OneshotReceiver<Message>,
}

impl<V: Verbs> Clone for Ddss<V> {
    fn clone(&self) -> Ddss<V> {
        Ddss(Rc::clone(&self.0))
    }
}

impl<V: Verbs> Ddss<V> {
    /// Starts the service of a node.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start(rt: &Rt<V>, mesh: &Mesh<V>) -> Result<Ddss<V>, DdssError> {
        let inbox = mesh.open(CHANNEL)?;
        Ok(Ddss::begin(rt, mesh, inbox, None))
    }

    /// Starts it at a node whose cluster agrees on who is alive: calls to a node that died end with [`DdssError::Gone`], its locks are
    /// freed once its lease has run out, and nobody waits for it.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start_among(rt: &Rt<V>, mesh: &Mesh<V>, members: &Members<V>) -> Result<Ddss<V>, DdssError> {
        let inbox = mesh.open(CHANNEL)?;
        let following = Following::new(mesh, &inbox, Some(members.clone()));
        let ddss = Ddss::begin(rt, mesh, inbox, Some(following));
        rt.spawn(ddss.clone().follow(members.changes()));
        rt.spawn(ddss.clone().watch());
        Ok(ddss)
    }

    /// The same at a node that is told by others who is alive. Who leaves a view is to be [expelled](Mesh::expel) before it is told. There are
    /// no leases then: a lock counts until its node is left out.
    ///
    /// # Errors
    ///
    /// Another service has the channel.
    pub fn start_told(rt: &Rt<V>, mesh: &Mesh<V>, changes: Mailbox<Change>) -> Result<Ddss<V>, DdssError> {
        let inbox = mesh.open(CHANNEL)?;
        let following = Following::new(mesh, &inbox, None);
        let ddss = Ddss::begin(rt, mesh, inbox, Some(following));
        rt.spawn(ddss.clone().follow(changes));
        Ok(ddss)
    }

    fn begin(rt: &Rt<V>, mesh: &Mesh<V>, inbox: Inbox, following: Option<Following<V>>) -> Ddss<V> {
        // Among members a home may answer an earlier incarnation when this one has connected.
        let first_id = if following.is_some() { mesh.incarnation() } else { 0 };
        let me = Party { rank: mesh.me(), incarnation: mesh.incarnation() };
        let ddss = Ddss(Rc::new(Shared {
            rt: rt.clone(),
            mesh: mesh.clone(),
            stats: RefCell::default(),
            words: mesh.pool(8),
            values: RefCell::default(),
            home: RefCell::new(Home::new(me)),
            memory: RefCell::new(Memory::new(mesh)),
            open: RefCell::default(),
            named: RefCell::default(),
            going: RefCell::default(),
            asked: RefCell::default(),
            first_id,
            next_id: Cell::new(first_id),
            next_home: Cell::new(mesh.me().index() as u32),
            following,
        }));
        if ddss.0.following.is_some() {
            rt.spawn(ddss.clone().hear_refusals(mesh.refusals()));
        }
        rt.spawn(ddss.clone().listen(inbox));
        ddss
    }

    /// What it has done so far.
    pub fn stats(&self) -> DdssStats {
        DdssStats { out_of_turn: self.0.home.borrow().out_of_turn(), ..*self.0.stats.borrow() }
    }

    /// What logs call the word at an address, if it is the header of a segment that this node keeps.
    pub fn header_at(&self, address: u64) -> Option<Labelled> {
        let is_there = self.0.memory.borrow().has_header_at(address);
        self.0.rt.label_at(address).filter(|_| is_there)
    }

    /// Requests to homes that have not been answered.
    pub fn unanswered(&self) -> u64 {
        self.0.asked.borrow().len() as u64
    }

    /// Segments that are released, and that stand among those that are open here all the same. None is counted where nodes agree on who is
    /// alive: one that is left out is not asked to let a segment go.
    pub fn released(&self) -> u64 {
        let is_released = |segment: &&Segment<V>| segment.0.is_there().is_err();
        let released = self.0.open.borrow().values().filter(is_released).count();
        if self.0.following.is_some() { 0 } else { released as u64 }
    }

    /// Segments that are kept here no more, and whose memory is not free all the same; none is counted once keys could not be revoked.
    pub fn unfreed(&self) -> u64 {
        let held = self.0.memory.borrow().holdings().segments;
        let kept = self.0.home.borrow().keys().count() as u64;
        if self.0.stats.borrow().unrevoked > 0 { 0 } else { held.abs_diff(kept) }
    }

    /// Bytes of this node's memory for segments that are neither free nor a segment's, or both.
    pub fn astray(&self) -> u64 {
        self.0.memory.borrow().astray()
    }

    /// Calls that wait for a turn at segments that this node keeps.
    pub fn waiting(&self) -> u64 {
        self.0.home.borrow().waiting() as u64
    }

    /// Opens a segment; its home makes it if it is not there, all zero. Waits for the home as long as it takes.
    ///
    /// # Errors
    ///
    /// The segment cannot be, is there and is otherwise, or is released at this moment. [`DdssError::Bound`] if the name was
    /// [bound](Ddss::bind) to a key. [`DdssError::Gone`] if it was open here and its home
    /// has died: nobody loses a value in silence. After that, it is made anew once its home is back.
    pub async fn open(&self, name: Name, spec: Spec) -> Result<Segment<V>, DdssError> {
        if !name.is_given() {
            return Err(DdssError::Name);
        }
        spec.check(self.0.mesh.size())?;
        if let Some(known) = self.known(name)? {
            return agreed(known.spec(), spec).map(|()| known.clone());
        }
        let home = name.home(self.0.mesh.size());
        let asked_before = self.0.going.borrow().asked();
        match self.request(home, |id| Message::Open { id, name, spec }).await? {
            Message::Here { at, incarnation, again, .. } => {
                let key = Key { home, incarnation, name, spec, at };
                // It may be on its way out again.
                if self.is_leaving(key) {
                    return Err(DdssError::Released);
                }
                // Or its home has died since it answered.
                self.check_party(key.party())?;
                // Or one of its name has died since it was asked.
                self.known(name)?;
                let segment = self.opened(key);
                // The answer may have waited for this call while the segment went: then the home is asked before the first use.
                if self.0.going.borrow().asked() == asked_before {
                    segment.0.takes_part(again);
                }
                self.0.named.borrow_mut().insert(name, key);
                Ok(segment)
            }
            Message::Released { .. } => Err(DdssError::Released),
            Message::Otherwise { spec: there, .. } => agreed(there, spec).and(Err(DdssError::Memory)),
            Message::Key { .. } => Err(DdssError::Bound),
            _ => Err(DdssError::Memory),
        }
    }

    /// The segment that was opened by this name. One that died with its home is told of, and forgotten.
    fn known(&self, name: Name) -> Result<Option<Segment<V>>, DdssError> {
        let Some(key) = self.0.named.borrow().get(&name).copied() else { return Ok(None) };
        let known = self.0.open.borrow().get(&key.id()).cloned();
        match known.filter(|segment| !matches!(self.check(&segment.0), Err(DdssError::Gone(_)))) {
            None => {
                self.0.named.borrow_mut().remove(&name);
                // Or its home's new life would be told of it once more.
                self.0.open.borrow_mut().remove(&key.id());
                Err(DdssError::Gone(key.home))
            }
            known => Ok(known),
        }
    }

    /// The name by which a segment was opened does not stand for it any more.
    pub(super) fn unname(&self, key: Key) {
        let mut named = self.0.named.borrow_mut();
        if named.get(&key.name) == Some(&key) {
            named.remove(&key.name);
        }
    }

    /// Whether a segment is being released, as far as this node knows.
    pub(super) fn is_leaving(&self, key: Key) -> bool {
        self.0.going.borrow().contains(key)
    }

    /// Another task of the node may have opened it meanwhile: a node has one view of a segment.
    pub(super) fn opened(&self, key: Key) -> Segment<V> {
        let new = || Segment(Rc::new(Open::new(self.0.mesh.me(), key, self.blocks(longest(key.spec)))));
        self.0.open.borrow_mut().entry(key.id()).or_insert_with(new).clone()
    }

    /// Blocks of a length, as long as a segment has them.
    fn blocks(&self, len: u32) -> BufferPool<V> {
        let mut pools = self.0.values.borrow_mut();
        let there = pools.get(&len).and_then(WeakPool::upgrade);
        there.unwrap_or_else(|| {
            // Of lengths that no segment has any more nothing is kept.
            pools.retain(|_, pool| pool.upgrade().is_some());
            let pool = self.0.mesh.pool(len);
            pools.insert(len, pool.downgrade());
            pool
        })
    }

    /// Asks something of a node, which answers by the request's number.
    pub(super) async fn request(
        &self,
        of: Rank,
        message: impl FnOnce(u64) -> Message,
    ) -> Result<Message, DdssError> {
        let of = self.until_it_is_a_member(of).await?;
        let mut request = self.ask(of, message).await?;
        self.answer(&mut request).await
    }

    /// The same of one incarnation of a node; its answer [comes](Ddss::answer).
    pub(super) async fn ask(
        &self,
        of: Party,
        message: impl FnOnce(u64) -> Message,
    ) -> Result<Request, DdssError> {
        let id = self.0.next_id.replace(self.0.next_id.get().wrapping_add(1));
        let (tell, told) = oneshot();
        self.0.asked.borrow_mut().insert(id, (of, tell));
        self.waits();
        let mut asking = Asking { ddss: self, id, is_said: false };
        self.send(of, message(id)).await?;
        asking.is_said = true;
        Ok(Request { of, told })
    }

    /// Waits for the answer to a request.
    pub(super) async fn answer(&self, Request { of, told }: &mut Request) -> Result<Message, DdssError> {
        match told.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.no_answer(*of).await),
        }
    }

    /// Sends a message from a task of its own: a peer that takes no messages now must not hold up the others'.
    pub(super) fn send_later(&self, to: Rank, message: Message) {
        self.say_later(self.party(to), message);
    }

    /// The same, to one incarnation of a node.
    pub(super) fn say_later(&self, to: Party, message: Message) {
        let ddss = self.clone();
        drop(self.0.rt.spawn(async move { drop(ddss.say(to, message).await) }));
    }

    /// At the home: answers who opens a segment. That it is here is said only while that is so: what is said of its end comes behind then,
    /// also where the answer has to wait.
    pub(super) fn answer_later(&self, to: Rank, name: Name, answer: Message) {
        let (ddss, to) = (self.clone(), self.party(to));
        drop(self.0.rt.spawn(async move {
            let now = || match answer {
                Message::Here { id, at, .. } if !ddss.0.home.borrow().is_kept(name, at) => {
                    Message::Released { id }
                }
                answer => answer,
            };
            drop(ddss.say_what_is(to, now).await);
        }));
    }

    /// Asks something of a node that is to be answered to a call of this one, as soon as the transport has room for it.
    pub(super) async fn send(&self, to: Party, message: Message) -> Result<(), DdssError> {
        match self.unless_out(self.say(to, message)).await? {
            Err(DdssError::Gone(node)) => Err(self.who_is_out(to, NotExecuted::PeerGone(node)).await),
            done => done,
        }
    }

    /// Sends a message as soon as the transport has room for it: also where the others go on without this node, since they may wait for
    /// what it answers, or gives back.
    /// What waited for room until the node began anew was not meant for it.
    pub(super) async fn say(&self, to: Party, message: Message) -> Result<(), DdssError> {
        self.say_what_is(to, || message).await
    }

    /// The same, of a message that says how things are when it is sent.
    async fn say_what_is(&self, to: Party, now: impl Fn() -> Message) -> Result<(), DdssError> {
        let resets = self.0.mesh.resets_of(to.rank);
        loop {
            self.until_it_has_connected(to).await;
            self.0.mesh.room(to.rank).await?;
            let is_it = if to.incarnation == 0 {
                self.0.mesh.resets_of(to.rank) == resets
            } else {
                self.may_be_told(to)
            };
            if !is_it {
                return Err(DdssError::Gone(to.rank));
            }
            match self.0.mesh.send(to.rank, CHANNEL, &now().encode()) {
                // Another task took the place.
                Err(SendError::Full { .. }) => {}
                Err(why) if why.lacks_memory() => self.until_there_may_be_memory().await,
                done => return Ok(done?),
            }
        }
    }

    async fn listen(self, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            let message = match incoming {
                Incoming::Message(message) => message,
                Incoming::PeerReset { peer, .. } => {
                    self.begins_anew(peer);
                    continue;
                }
            };
            match Message::decode(message.bytes()) {
                Some(said) => self.hear(message.from(), said),
                None => self.0.stats.borrow_mut().malformed += 1,
            }
        }
        // The mesh is closed.
        self.waits();
    }

    /// What a node says counts while the view has it, and if it has not died since.
    pub(super) fn hear(&self, from: Rank, said: Message) {
        if !self.is_of_the_dead(from) && !self.keeps(from, said) {
            self.heed(from, said);
        }
    }

    pub(super) fn heed(&self, from: Rank, said: Message) {
        match said {
            Message::Open { id, name, spec } => self.serve(from, id, name, spec),
            Message::Allocate { id, spec } => {
                let key = self.allocated(spec);
                self.send_later(from, Message::Allocated { id, key });
            }
            Message::Bind { id, name, key, instead } => {
                let key = self.0.home.borrow_mut().bind(name, key, instead);
                self.send_later(from, Message::Key { id, key });
            }
            Message::Find { id, name } => {
                let key = self.0.home.borrow().find(name);
                self.send_later(from, Message::Key { id, key });
            }
            Message::Join { id, key } => self.on_join(from, id, key),
            Message::Enter { id, name, at } => {
                let step = self.0.home.borrow_mut().on_enter(name, at, from, id);
                self.step(name, at, step, 0);
            }
            Message::Leave { name, at, header } => {
                let step = self.0.home.borrow_mut().on_leave(name, at, from);
                self.step(name, at, step, header);
            }
            Message::Release { id, key } => self.on_release(from, id, key),
            Message::Drain { key } => self.on_drain(from, key),
            Message::Drained { name, at } => self.on_drained(from, name, at),
            Message::Revoked { key } => self.0.going.borrow_mut().ends(key),
            Message::Count { id } => {
                let holdings = self.0.memory.borrow().holdings();
                self.send_later(from, Message::Holds { id, holdings });
            }
            Message::Parted { name, at } => self.on_parted(from, name, at),
            answer => self.answered(from, answer),
        }
    }

    pub(super) fn serve(&self, from: Rank, id: u64, name: Name, spec: Spec) {
        let action = self.0.home.borrow_mut().on_open(from, id, name, spec);
        let answer = match action {
            Action::Answer(answer) => Some(answer),
            Action::Later => None,
            Action::Found => self.here(from, id, name),
            // Somebody has told this node of what no node may ask for.
            Action::Make if !spec.is_possible(self.0.mesh.size()) => Some(Message::NoMemory { id }),
            Action::Make => match self.make(name, spec) {
                Some(memory) => {
                    self.0.home.borrow_mut().made(name, spec, memory);
                    self.here(from, id, name)
                }
                None => Some(Message::NoMemory { id }),
            },
        };
        if let Some(answer) = answer {
            self.answer_later(from, name, answer);
        }
    }

    /// The answer to who opens a segment that is kept here: nothing yet, if it [waits](Ddss::takes_part).
    fn here(&self, from: Rank, id: u64, name: Name) -> Option<Message> {
        let again = self.takes_part(name, from, Waits::Opens(id))?;
        let (at, incarnation) = (self.0.home.borrow().place_of(name)?, self.0.mesh.incarnation());
        Some(Message::Here { id, at, incarnation, again })
    }

    /// A node is to have a part in a segment that is kept here. Says whether an earlier incarnation of it had one; none if that has left
    /// something yet. Where nodes do not agree on who is alive, nobody asks who has one.
    fn takes_part(&self, name: Name, node: Rank, waits: Waits) -> Option<bool> {
        if self.asks_first() { self.0.home.borrow_mut().takes_part(name, node, waits) } else { Some(false) }
    }

    /// Somebody has a segment's key, and is to have a part in it.
    fn on_join(&self, from: Rank, id: u64, key: Key) {
        let answer = if key.incarnation != self.0.mesh.incarnation() {
            Some(Message::Gone { id })
        } else if !self.0.home.borrow().keeps(key) {
            Some(Message::Released { id })
        } else {
            self.takes_part(key.name, from, Waits::Joins(id)).map(|again| Message::Joined { id, again })
        };
        if let Some(answer) = answer {
            self.send_later(from, answer);
        }
    }

    /// Makes a segment that has no name of a user's.
    fn allocated(&self, spec: Spec) -> Option<Key> {
        let name = spec.is_possible(self.0.mesh.size()).then(|| self.0.home.borrow_mut().new_name())?;
        let memory = self.make(name, spec)?;
        let mut home = self.0.home.borrow_mut();
        home.made(name, spec, memory);
        home.find(name)
    }

    /// Memory for a segment, with a remote key of its own.
    fn make(&self, name: Name, spec: Spec) -> Option<RemoteSlice> {
        let len = u32::try_from(spec.footprint(self.0.mesh.size())).ok()?;
        let at = self.0.memory.borrow_mut().make(name, len, spec.stride()).ok()?;
        self.0.stats.borrow_mut().segments += 1;
        Some(at)
    }

    fn answered(&self, from: Rank, answer: Message) {
        let id = match answer {
            Message::Here { id, .. }
            | Message::Otherwise { id, .. }
            | Message::NoMemory { id }
            | Message::Granted { id, .. }
            | Message::Key { id, .. }
            | Message::Allocated { id, .. }
            | Message::Joined { id, .. }
            | Message::Gone { id }
            | Message::Done { id }
            | Message::Released { id }
            | Message::Holds { id, .. } => id,
            // Those are served.
            Message::Open { .. }
            | Message::Enter { .. }
            | Message::Leave { .. }
            | Message::Allocate { .. }
            | Message::Bind { .. }
            | Message::Find { .. }
            | Message::Release { .. }
            | Message::Drain { .. }
            | Message::Drained { .. }
            | Message::Revoked { .. }
            | Message::Count { .. }
            | Message::Join { .. }
            | Message::Parted { .. } => return,
        };
        let waiting = self.0.asked.borrow_mut().remove(&id);
        let Some((_, waiting)) = waiting else {
            // Among members it may be to an earlier incarnation, or to a call that has ended since this node is out or who was asked has
            // died. What was granted is given back when the node parts from the segment, or taken from it once it has died.
            let is_own =
                id.wrapping_sub(self.0.first_id) < self.0.next_id.get().wrapping_sub(self.0.first_id);
            let is_excused = self.asks_first() && (self.is_out() || !is_own || self.has_ever_died(from));
            return self.0.stats.borrow_mut().malformed += u64::from(!is_excused);
        };
        if waiting.send(answer).is_err() {
            self.goes_back(self.party(from), answer);
        }
    }

    /// Nobody waits for an answer any more, since its call was dropped. A turn that nobody wants goes to the next, and a segment of which
    /// nobody will ever know is released.
    pub(super) fn goes_back(&self, to: Party, answer: Message) {
        match answer {
            Message::Granted { name, at, header, .. } => {
                self.say_later(to, Message::Leave { name, at, header })
            }
            Message::Allocated { key: Some(key), .. } => {
                let ddss = self.clone();
                drop(self.0.rt.spawn(async move { drop(ddss.release(key).await) }));
            }
            _ => {}
        }
    }
}

/// A request for something that is given back if the call is dropped between the answer and its next step.
pub(super) struct Asked<V: Verbs> {
    ddss: Ddss<V>,
    request: Request,
}

impl<V: Verbs> Asked<V> {
    pub fn new(ddss: &Ddss<V>, request: Request) -> Asked<V> {
        Asked { ddss: ddss.clone(), request }
    }

    /// Waits for the answer.
    pub async fn answer(&mut self) -> Result<Message, DdssError> {
        self.ddss.answer(&mut self.request).await
    }
}

impl<V: Verbs> Drop for Asked<V> {
    fn drop(&mut self) {
        if let Some(answer) = self.request.told.try_recv() {
            self.ddss.goes_back(self.request.of, answer);
        }
    }
}

/// A request that is not said yet: nothing answers one of which the call failed, or was dropped, before that.
struct Asking<'a, V: Verbs> {
    ddss: &'a Ddss<V>,
    id: u64,
    is_said: bool,
}

impl<V: Verbs> Drop for Asking<'_, V> {
    fn drop(&mut self) {
        if !self.is_said {
            self.ddss.0.asked.borrow_mut().remove(&self.id);
        }
    }
}

fn agreed(there: Spec, wanted: Spec) -> Result<(), DdssError> {
    let Spec { size, model } = there;
    if there == wanted { Ok(()) } else { Err(DdssError::Otherwise { size, model }) }
}
