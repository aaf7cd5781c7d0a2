//! The connection manager (IBA chapter 12): a state machine without I/O.
//!
//! Calls of the application, messages and the passing of time go in; messages, changes of queue pairs and
//! events come out, through [`Surroundings`]. Messages are datagrams: they may be lost, doubled, late and out
//! of order.
//!
//! ```text
//!  active                                 passive
//!  connect    --------- REQ --------->    Request event
//!                                         accept: queue pair to RTR
//!  to RTR, RTS  <------ REP ----------
//!  Established  ------- RTU --------->    to RTS, Established
//! ```
//!
//! - REQ, REP and DREQ are repeated until they are answered, at a fixed interval and so often at most; then
//!   the attempt ends in `Unreachable`.
//! - A lost RTU is made good by whichever comes first: the answer to a repeated REP, or the first packet on
//!   the queue pair ([`Manager::communication_established`]; IBA 12.9.6).
//! - A repeated REQ is recognised by the sender's name for the connection, as long as the connection lives
//!   and for the longest time that repetitions can go on after it.
//! - Names are never used twice. A message that names a connection unknown here is answered so that its
//!   sender ends too: an acceptance is rejected, a disconnection confirmed.
//! - A request from a queue pair that is connected already means that the peer has forgotten that connection
//!   (it crashed): the old one is reported as disconnected (12.9.8.3.1).

mod conn;
mod incoming;
mod message;
mod untimed;

pub use message::{Address, Body, CommId, Message, Offer, WIRE_BYTES};

use crate::explore::AccessKind;
use crate::hca::HcaId;
use crate::profile::Profile;
use conn::{Conn, Mine, Params, State, Untimed};
use message::STALE;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
pub(crate) use untimed::{Asking, Part};
use weft_verbs::{
    CmEvent, CmId, ConnParams, MAX_PRIVATE_ACCEPT, MAX_PRIVATE_REJECT, MAX_PRIVATE_REQUEST, Modify, Mtu,
    Nanos, Psn, QpNum, RejectReason, Result, Service, VerbsError,
};

/// A queue pair, by a name that no later one of its adapter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpRef {
    /// Its number.
    pub num: QpNum,
    /// Which of the queue pairs that had this number.
    pub generation: u32,
}

/// What a manager asks of the world around it.
pub trait Surroundings {
    /// Sends a datagram. False if it is known already that it does not arrive.
    fn send(&mut self, to: Address, message: Message) -> bool;
    /// Changes a queue pair's state.
    fn modify(&mut self, qp: QpRef, change: &Modify) -> Result<()>;
    /// The sequence number that a queue pair begins to send with.
    fn starting_psn(&mut self) -> Psn;
}

/// A manager's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long to wait for an answer before repeating.
    pub response: Nanos,
    /// How often to repeat.
    pub retries: u8,
    /// The port's active packet size.
    pub mtu: Mtu,
    /// Most reads and atomics at a time that the adapter can do, either way.
    pub max_rd_atomic: u8,
}

impl Settings {
    /// As a profile has them.
    pub fn of(profile: &Profile) -> Settings {
        let response = profile.transport.cm_timeout().span().unwrap_or(Nanos::MAX);
        Settings {
            response,
            retries: profile.transport.cm_retries as u8,
            mtu: profile.transport.mtu(),
            max_rd_atomic: profile.adapter.max_rd_atomic as u8,
        }
    }

    /// After which time no copy of a message is sent any more.
    fn lifetime(&self) -> Nanos {
        self.response * (u64::from(self.retries) + 1)
    }
}

/// Which application of the node (an open device) a listener or connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u32);

/// The connection manager of one adapter.
#[derive(Clone, Debug)]
pub struct Manager {
    settings: Settings,
    next: u32,
    listeners: BTreeMap<Service, Owner>,
    conns: BTreeMap<CommId, Conn>,
    /// Passive connections by the peer's name for them.
    by_request: BTreeMap<(HcaId, u8, CommId), CommId>,
    /// Standing connections by the peer's queue pair.
    by_peer_qp: BTreeMap<(HcaId, u8, QpNum), CommId>,
    timers: BTreeSet<(Nanos, CommId)>,
    events: BTreeMap<Owner, VecDeque<CmEvent>>,
    /// What the present call has looked at and changed.
    touched: Vec<(Part, AccessKind)>,
}

/// Names of one incarnation of a node; a node that restarts counts on from the next block.
const NAMES_PER_INCARNATION: u32 = 1 << 20;

impl Manager {
    /// A manager without connections. `incarnation` counts the node's restarts, so that messages to an
    /// earlier incarnation find nobody.
    pub fn new(settings: Settings, incarnation: u32) -> Manager {
        Manager {
            settings,
            next: incarnation.wrapping_mul(NAMES_PER_INCARNATION),
            listeners: BTreeMap::new(),
            conns: BTreeMap::new(),
            by_request: BTreeMap::new(),
            by_peer_qp: BTreeMap::new(),
            timers: BTreeSet::new(),
            events: BTreeMap::new(),
            touched: Vec::new(),
        }
    }

    /// Takes requests for a service from now on.
    pub fn listen(&mut self, owner: Owner, service: Service) -> Result<()> {
        self.touched.push((Part::Everything, AccessKind::Write));
        match self.listeners.insert(service, owner) {
            None => Ok(()),
            Some(before) => {
                self.listeners.insert(service, before);
                Err(VerbsError::Busy("the service"))
            }
        }
    }

    /// Begins an attempt from a port of this adapter toward a peer's, or toward none where the name means nothing.
    pub fn resolve(&mut self, owner: Owner, ways: Option<(Address, Address)>, service: Service) -> CmId {
        let id = self.new_name();
        match ways {
            Some((me, peer)) => {
                self.insert(id, owner, (me, peer), State::Resolved { service });
                self.raise(owner, CmEvent::Resolved { id: public(id) });
            }
            None => self.raise(owner, CmEvent::Unreachable { id: public(id) }),
        }
        public(id)
    }

    /// The port of this adapter by which a connection's peer is reached.
    pub fn port(&mut self, owner: Owner, id: CmId) -> Result<u8> {
        let id = self.find(owner, id)?;
        Ok(self.conns[&id].me.port)
    }

    /// Asks the resolved peer.
    pub fn connect(
        &mut self,
        now: Nanos,
        owner: Owner,
        id: CmId,
        qp: QpRef,
        params: &ConnParams<'_>,
        io: &mut dyn Surroundings,
    ) -> Result<()> {
        let id = self.find(owner, id)?;
        let State::Resolved { service } = self.conns[&id].state else {
            return Err(VerbsError::Invalid("the connection was already asked for"));
        };
        bounded("the private data of a request", params.private, MAX_PRIVATE_REQUEST)?;
        let mine = Mine { qp, psn: io.starting_psn(), params: self.check(params)? };
        let private = params.private.to_vec();
        self.conn(id).state = State::ReqSent { mine };
        self.ask(now, id, Body::Req { service, offer: mine.offer(), private }, io);
        Ok(())
    }

    /// Accepts a request: the queue pair goes from Init to ready-to-receive.
    pub fn accept(
        &mut self,
        now: Nanos,
        owner: Owner,
        id: CmId,
        qp: QpRef,
        params: &ConnParams<'_>,
        io: &mut dyn Surroundings,
    ) -> Result<()> {
        let id = self.find(owner, id)?;
        let State::ReqReceived { theirs } = self.conns[&id].state else {
            return Err(VerbsError::Invalid("there is no request to accept"));
        };
        bounded("the private data of an acceptance", params.private, MAX_PRIVATE_ACCEPT)?;
        let mut params_of_both = self.check(params)?;
        params_of_both.agree(&theirs);
        let mine = Mine { qp, psn: io.starting_psn(), params: params_of_both };
        io.modify(qp, &mine.to_rtr(self.conns[&id].me, self.conns[&id].peer, &theirs))?;
        self.conn(id).state = State::RepSent { mine };
        self.ask(now, id, Body::Rep { offer: mine.offer(), private: params.private.to_vec() }, io);
        Ok(())
    }

    /// Turns a request down.
    pub fn reject(
        &mut self,
        now: Nanos,
        owner: Owner,
        id: CmId,
        private: &[u8],
        io: &mut dyn Surroundings,
    ) -> Result<()> {
        let id = self.find(owner, id)?;
        let State::ReqReceived { .. } = self.conns[&id].state else {
            return Err(VerbsError::Invalid("there is no request to reject"));
        };
        bounded("the private data of a rejection", private, MAX_PRIVATE_REJECT)?;
        self.tell(id, Body::Rej { reason: RejectReason::Consumer, private: private.to_vec() }, io);
        self.bury(now, id, RejectReason::Consumer, private.to_vec());
        Ok(())
    }

    /// Ends a connection or an attempt, and forgets it.
    pub fn disconnect(
        &mut self,
        now: Nanos,
        owner: Owner,
        id: CmId,
        io: &mut dyn Surroundings,
    ) -> Result<()> {
        let id = self.find(owner, id)?;
        match self.conns[&id].state {
            State::Resolved { .. } => self.remove(id),
            State::ReqReceived { .. } => {
                self.tell(id, Body::Rej { reason: RejectReason::Consumer, private: vec![] }, io);
                self.bury(now, id, RejectReason::Consumer, vec![]);
            }
            _ => {
                self.conn(id).state = State::DreqSent;
                self.ask(now, id, Body::Dreq, io);
            }
        }
        Ok(())
    }

    /// The application has closed its device: its listeners end, its connections are disconnected, its
    /// events forgotten.
    pub fn close(&mut self, now: Nanos, owner: Owner, io: &mut dyn Surroundings) {
        self.touched.push((Part::Everything, AccessKind::Write));
        self.listeners.retain(|_, of| *of != owner);
        let known = |c: &Conn| c.owner == owner && c.is_known();
        let ids: Vec<CommId> = self.conns.iter().filter(|(_, c)| known(c)).map(|(id, _)| *id).collect();
        for id in ids {
            // Its own connections of this very list: none is unknown.
            let _ = self.disconnect(now, owner, public(id), io);
        }
        self.events.remove(&owner);
    }

    /// Takes an application's oldest event.
    pub fn event(&mut self, owner: Owner) -> Option<CmEvent> {
        self.events.get_mut(&owner)?.pop_front()
    }

    /// How many events wait to be taken, of all applications.
    pub fn pending_events(&self) -> usize {
        self.events.values().map(VecDeque::len).sum()
    }

    /// When [`Manager::on_timer`] is to be called. It may change at any call.
    pub fn deadline(&self) -> Option<Nanos> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// All that decides what it does next.
    pub(crate) fn digest(&self, to: &mut impl Hasher) {
        (self.next, &self.listeners, &self.conns, &self.events).hash(to);
        (&self.by_request, &self.by_peer_qp, &self.timers).hash(to);
    }

    /// The same where there is no time, without what only names events.
    pub(crate) fn digest_canonical(&self, to: &mut impl Hasher) {
        (self.next, &self.listeners, &self.events, &self.by_request, &self.by_peer_qp).hash(to);
        for (id, conn) in &self.conns {
            let Conn { owner, me, peer, remote, remote_qp, passive, state, unanswered, deadline, untimed } =
                conn;
            (id, owner, me, peer, remote, remote_qp, passive, state, unanswered, untimed.lost).hash(to);
            deadline.hash(to);
        }
    }

    /// Repeats what was not answered, and gives up what was repeated often enough.
    pub fn on_timer(&mut self, now: Nanos, io: &mut dyn Surroundings) {
        while let Some(&(at, id)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            self.run_out(now, id, io);
        }
    }

    fn run_out(&mut self, now: Nanos, id: CommId, io: &mut dyn Surroundings) {
        self.conn(id).deadline = Nanos::MAX;
        match self.conn(id).unanswered.take() {
            Some((body, left @ 1..)) => self.ask_again(now, id, body, left - 1, io),
            _ => self.give_up(now, id, io),
        }
    }

    /// The first packet arrived on a queue pair that is only ready to receive: its connection stands, whether
    /// the confirmation has come or not.
    pub fn communication_established(&mut self, now: Nanos, qp: QpNum, io: &mut dyn Surroundings) {
        let waits = |c: &Conn| matches!(c.state, State::RepSent { mine } if mine.qp.num == qp);
        match self.conns.iter().find(|(_, c)| waits(c)).map(|(id, _)| *id) {
            Some(id) => self.confirmed(now, id, io),
            // It has looked at all of them.
            None => self.touched.push((Part::Everything, AccessKind::Write)),
        }
    }

    fn check(&self, params: &ConnParams<'_>) -> Result<Params> {
        let bound = u64::from(self.settings.max_rd_atomic);
        for (what, value) in [
            ("the number of responder resources", params.responder_resources),
            ("the initiator depth", params.initiator_depth),
        ] {
            if u64::from(value) > bound {
                return Err(VerbsError::TooLarge { what, value: u64::from(value), bound });
            }
        }
        let active = self.settings.mtu;
        Ok(Params {
            responder_resources: params.responder_resources,
            initiator_depth: params.initiator_depth,
            timeout: params.timeout,
            retry: params.retry,
            rnr_retry: params.rnr_retry,
            min_rnr_timer: params.min_rnr_timer,
            mtu: params.mtu.map_or(active, |mtu| mtu.min(active)),
        })
    }

    /// The application's connection of this name.
    fn find(&mut self, owner: Owner, id: CmId) -> Result<CommId> {
        let unknown = VerbsError::Invalid("no such connection, or it is over");
        let name = CommId(u32::try_from(id.0).map_err(|_| unknown)?);
        self.touched.push((Part::Ours(name), AccessKind::Read));
        let known = self.conns.get(&name).is_some_and(|conn| conn.owner == owner && conn.is_known());
        if known { Ok(name) } else { Err(unknown) }
    }

    /// A connection, to change it.
    fn conn(&mut self, id: CommId) -> &mut Conn {
        self.mark(id);
        self.conns.get_mut(&id).expect("a name that was just looked up")
    }

    fn new_name(&mut self) -> CommId {
        self.touched.push((Part::Names, AccessKind::Write));
        let name = CommId(self.next);
        self.next = self.next.wrapping_add(1);
        name
    }

    fn insert(&mut self, id: CommId, owner: Owner, (me, peer): (Address, Address), state: State) {
        let (remote, remote_qp, unanswered) = (None, None, None);
        let (passive, deadline, untimed) = (false, Nanos::MAX, Untimed::default());
        let conn = Conn { owner, me, peer, remote, remote_qp, passive, state, unanswered, deadline, untimed };
        self.conns.insert(id, conn);
        self.mark(id);
    }

    fn remove(&mut self, id: CommId) {
        self.unlink(id);
        if let Some(conn) = self.conns.remove(&id)
            && let (true, Some(remote)) = (conn.passive, conn.remote)
        {
            self.by_request.remove(&(conn.peer.hca, conn.peer.port, remote));
        }
    }

    /// A passive connection is over; copies of its request may still come. An active one is forgotten.
    fn bury(&mut self, now: Nanos, id: CommId, reason: RejectReason, private: Vec<u8>) {
        self.unlink(id);
        if !self.conns[&id].passive {
            return self.remove(id);
        }
        let until = now + self.settings.lifetime();
        self.conn(id).state = State::Over { reason, private };
        self.set_timer(id, until);
    }

    /// It stands: a request from the same queue pair of the peer will mean that the peer has forgotten it.
    fn link(&mut self, id: CommId) {
        let conn = &self.conns[&id];
        if let Some(qp) = conn.remote_qp {
            self.touched.push((Part::Standing(conn.peer.hca, qp), AccessKind::Write));
            self.by_peer_qp.insert((conn.peer.hca, conn.peer.port, qp), id);
        }
    }

    /// It is over: nothing is repeated, and its queue pairs may connect anew.
    fn unlink(&mut self, id: CommId) {
        self.quiet(id);
        let conn = &self.conns[&id];
        if let Some(qp) = conn.remote_qp {
            let key = (conn.peer.hca, conn.peer.port, qp);
            self.touched.push((Part::Standing(conn.peer.hca, qp), AccessKind::Write));
            if self.by_peer_qp.get(&key) == Some(&id) {
                self.by_peer_qp.remove(&key);
            }
        }
    }

    fn raise(&mut self, owner: Owner, event: CmEvent) {
        self.events.entry(owner).or_default().push_back(event);
    }

    /// Sends a message that nobody waits for.
    fn tell(&mut self, id: CommId, body: Body, io: &mut dyn Surroundings) {
        self.mark(id);
        let conn = &self.conns[&id];
        if !io.send(conn.peer, Message { from: conn.me, local: id, remote: conn.remote, body }) {
            self.miss(id);
        }
    }

    /// Sends a message that is repeated until it is answered.
    fn ask(&mut self, now: Nanos, id: CommId, body: Body, io: &mut dyn Surroundings) {
        self.quiet(id);
        let retries = self.settings.retries;
        self.ask_again(now, id, body, retries, io);
    }

    fn ask_again(&mut self, now: Nanos, id: CommId, body: Body, left: u8, io: &mut dyn Surroundings) {
        self.conn(id).unanswered = Some((body.clone(), left));
        let at = now + self.settings.response;
        self.set_timer(id, at);
        self.tell(id, body, io);
    }

    fn set_timer(&mut self, id: CommId, at: Nanos) {
        self.conn(id).deadline = at;
        self.timers.insert((at, id));
    }

    /// Nothing is repeated and nothing waited for any more.
    fn quiet(&mut self, id: CommId) {
        let conn = self.conn(id);
        conn.unanswered = None;
        conn.untimed.lost = false;
        let at = std::mem::replace(&mut conn.deadline, Nanos::MAX);
        self.timers.remove(&(at, id));
    }

    /// A time has run out: of the last repetition, or of a connection that was over.
    fn give_up(&mut self, now: Nanos, id: CommId, io: &mut dyn Surroundings) {
        let owner = self.conns[&id].owner;
        match self.conns[&id].state {
            State::ReqSent { .. } | State::RepSent { .. } => {
                // Once, in case that only the answers are lost: the peer need not wait for its own time-out.
                self.tell(id, Body::Rej { reason: RejectReason::Timeout, private: vec![] }, io);
                self.bury(now, id, STALE, vec![]);
                self.raise(owner, CmEvent::Unreachable { id: public(id) });
            }
            State::DreqSent => self.bury(now, id, STALE, vec![]),
            _ => self.remove(id),
        }
    }
}

fn public(id: CommId) -> CmId {
    CmId(u64::from(id.0))
}

fn bounded(what: &'static str, private: &[u8], bound: usize) -> Result<()> {
    if private.len() <= bound {
        Ok(())
    } else {
        Err(VerbsError::TooLarge { what, value: private.len() as u64, bound: bound as u64 })
    }
}

#[cfg(test)]
mod tests;
