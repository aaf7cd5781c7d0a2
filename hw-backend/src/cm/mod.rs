//! Connections by `rdma_cm`, with the caller's own queue pairs.
//!
//! `rdma_cm` opens devices of its own, so a queue pair of ours cannot be its. It resolves addresses and carries the
//! handshake; this module moves the queue pair by the attributes that it found (`rdma_init_qp_attr(3)`).
//!
//! | side | call or event | queue pair |
//! |---|---|---|
//! | active | `connect` | stays in Init, so that receives can be posted |
//! | passive | `accept` | to RTR and RTS, then the answer leaves |
//! | active | answer | to RTR and RTS, then `rdma_establish` |
//! | passive | established | |
//!
//! Where the peer's confirmation is lost the first message over the queue pair stands for it (IBA 12.9.6). The kernel would ask for it
//! again after four seconds.

mod events;
mod header;
mod limit;

use crate::device::{ContextInner, HwContext, NO_ADDRESS};
use crate::ffi::{CmChannel, CmIdentity, ConnectionOffer};
use crate::queue_pair::HwQp;
use crate::reactor::Hint;
use crate::{Hw, convert};
use header::Header;
use limit::Limit;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::{Rc, Weak};
use weft_verbs::{
    CmEvent, CmId, ConnParams, ConnectionManager, Device, MAX_PRIVATE_ACCEPT, MAX_PRIVATE_REJECT,
    MAX_PRIVATE_REQUEST, Migration, Modify, Mtu, Nanos, Psn, QpNum, QpState, QueuePair, Result, Retries,
    RnrTimer, Service, ToRtr, ToRts, VerbsError, WcOp, WorkCompletion,
};

/// How long address and route may take to be found, in milliseconds each. The kernel asks several times within it.
const RESOLVE_MS: i32 = 2_000;
/// How long an answer may take: the kernel would go on asking for a minute and more, at intervals of four seconds.
const ANSWER: Nanos = Nanos::from_secs(20);
/// Requests that may wait for an answer at a listener.
const BACKLOG: i32 = 1_024;

/// The connection manager of a device.
#[derive(Clone)]
pub struct HwCm(Rc<Manager>);

impl fmt::Debug for HwCm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HwCm").finish_non_exhaustive()
    }
}

pub(crate) struct Manager {
    next: Cell<u64>,
    listeners: RefCell<BTreeMap<u64, Listener>>,
    connections: RefCell<BTreeMap<u64, Connection>>,
    events: RefCell<VecDeque<CmEvent>>,
    /// What was accepted, and was not confirmed when somebody looked last.
    unconfirmed: RefCell<Vec<u64>>,
    /// Wakes the node when the first unanswered attempt is to be given up.
    limit: Limit,
    /// Of the channel and the limit.
    hint: Hint,
    context: Rc<ContextInner>,
    /// Last, for identities hold it.
    channel: Rc<CmChannel>,
}

struct Listener {
    service: Service,
    identity: CmIdentity,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Active: its address or route is being looked for.
    Resolving,
    /// Active: ready for `connect`.
    Resolved,
    /// Active: asked, not answered.
    Asked,
    /// Passive: asked, not answered.
    Requested,
    /// Passive: accepted, not confirmed.
    Accepted,
    /// Both.
    Established,
    /// Ended by us, and nobody is to hear of it: kept until the peer has answered.
    Leaving,
}

struct Connection {
    stage: Stage,
    identity: CmIdentity,
    /// Whom it is about, for people.
    peer: String,
    qp: Option<HwQp>,
    terms: Option<Terms>,
    /// What the peer wants, of a request.
    wanted: Option<Wanted>,
    /// When it is given up, if the peer has not answered.
    until: Option<Nanos>,
}

/// What our side brought in.
#[derive(Clone, Copy)]
struct Terms {
    serves: u8,
    depth: u8,
    timeout: weft_verbs::AckTimeout,
    retry: Retries,
    rnr_retry: Retries,
    min_rnr_timer: RnrTimer,
    mtu: Mtu,
    traffic_class: u8,
}

/// What the peer brought in, as seen from our side.
#[derive(Clone, Copy)]
struct Wanted {
    header: Header,
    /// The most that we may have in flight.
    depth: u8,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.context.reactor.forget(self.channel.fd());
        self.limit.forget(&self.context.reactor);
        // Identities first, or their channel would be destroyed under them.
        self.connections.borrow_mut().clear();
        self.listeners.borrow_mut().clear();
    }
}

impl HwCm {
    pub(crate) fn create(context: &HwContext) -> Result<HwCm> {
        let channel = Rc::new(CmChannel::create()?);
        let hint = context.0.reactor.watch(channel.fd())?;
        let limit = Limit::watched(&context.0.reactor, &hint)?;
        let manager = Rc::new(Manager {
            next: Cell::new(1),
            listeners: RefCell::default(),
            connections: RefCell::default(),
            events: RefCell::default(),
            unconfirmed: RefCell::default(),
            limit,
            hint,
            context: Rc::clone(&context.0),
            channel,
        });
        let mut managers = context.0.managers.borrow_mut();
        managers.retain(|other| other.strong_count() > 0);
        managers.push(Rc::downgrade(&manager));
        Ok(HwCm(manager))
    }
}

impl ContextInner {
    /// Requests have ended while connections were not confirmed: a message may be among them.
    #[cold]
    pub(crate) fn confirm(&self, ended: &[WorkCompletion]) {
        let is_message = |ended: &WorkCompletion| {
            ended.result.is_ok_and(|done| matches!(done.op, WcOp::Recv | WcOp::RecvWriteImm))
        };
        let came = |qp: QpNum| ended.iter().any(|ended| ended.qp == qp && is_message(ended));
        let managers = self.managers.borrow();
        let left = managers.iter().filter_map(Weak::upgrade).filter(|manager| manager.confirm(came)).count();
        self.unconfirmed.set(left > 0);
    }
}

impl Manager {
    fn fresh(&self) -> u64 {
        let key = self.next.get();
        self.next.set(key + 1);
        key
    }

    /// Handles what has arrived; events are kept until the node asks for them.
    #[cfg(feature = "suite")]
    pub(crate) fn make_progress(&self) {
        while let Some(message) = self.channel.event() {
            self.handle(message);
        }
        self.give_up_overdue();
    }

    /// Our own address on a service.
    fn own(&self, service: Service) -> SocketAddr {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        SocketAddr::new(self.context.address().unwrap_or(any), service.0)
    }

    /// Why no connection can be made by an identity that is bound to this device, if it is another one than ours. The kernel goes by
    /// addresses: another device is found where that has the same one, or ours has none.
    fn misled(&self, bound: Option<String>) -> Option<String> {
        let ours = self.context.device.name();
        let through = bound.as_deref().unwrap_or("no RDMA device");
        (through != ours).then(|| format!("the way leads through {through}, not {ours}"))
    }

    fn raise(&self, event: CmEvent) {
        self.events.borrow_mut().push_back(event);
    }

    /// An attempt is over; says why to whoever asks the context.
    fn give_up(&self, key: u64, peer: &str, why: &str) {
        self.context.trouble(cannot_be_reached(peer, why));
        self.raise(CmEvent::Unreachable { id: CmId(key) });
    }

    /// An attempt has failed that was made or answered.
    fn fail(&self, key: u64, over: &Connection, why: &str) {
        match (over.stage, &over.qp) {
            // Whoever ended it hears no more of it.
            (Stage::Leaving, _) => return,
            // The passive side's queue pair is ready already, for a connection that never came to be.
            (Stage::Accepted, Some(qp)) => {
                let _ = qp.modify(&Modify::Err);
            }
            _ => {}
        }
        self.give_up(key, &over.peer, why);
    }

    /// Gives up the attempts whose time is over; whether there were any.
    fn give_up_overdue(&self) -> bool {
        let mut connections = self.connections.borrow_mut();
        let keys = self.limit.overdue(connections.iter().filter_map(|(key, c)| Some((*key, c.until?))));
        let over: Vec<_> = keys.iter().filter_map(|key| Some((*key, connections.remove(key)?))).collect();
        drop(connections);
        over.iter().for_each(|(key, connection)| self.fail(*key, connection, "it does not answer"));
        !over.is_empty()
    }

    /// Messages have come over queue pairs: who sent one has our answer. Says whether there are connections left of which that is not known.
    fn confirm(&self, came: impl Fn(QpNum) -> bool) -> bool {
        let connections = self.connections.borrow();
        let mut unconfirmed = self.unconfirmed.borrow_mut();
        unconfirmed.retain(|key| {
            let Some(accepted) = connections.get(key).filter(|c| c.stage == Stage::Accepted) else { return false };
            let confirms = accepted.qp.as_ref().is_some_and(|qp| came(qp.num()));
            if confirms {
                // Its event comes as if the peer had confirmed it. Refused where the confirmation is there, and its event was not taken.
                let _ = accepted.identity.communicates();
            }
            !confirms
        });
        !unconfirmed.is_empty()
    }

    fn begin_resolve(&self, key: u64, node: &str, service: Service) -> std::result::Result<Connection, String> {
        let to = SocketAddr::new(self.context.lookup(node).ok_or(NO_ADDRESS)?, service.0);
        let from = self.context.own_address().map(|own| SocketAddr::new(own, 0));
        let identity = CmIdentity::create(&self.channel, key).map_err(|e| e.to_string())?;
        // It is bound to our address first, which may have changed.
        let begun = identity.resolve_addr(from, to, RESOLVE_MS);
        begun.inspect_err(|why| self.context.found_address.failed(why)).map_err(|why| match (why, from) {
            (VerbsError::Os { errno: libc::ENODEV, .. }, Some(from)) => {
                format!("this machine's address {} is on no RDMA device", from.ip())
            }
            _ => why.to_string(),
        })?;
        let (stage, peer) = (Stage::Resolving, format!("{node} ({to})"));
        Ok(Connection { stage, identity, peer, qp: None, terms: None, wanted: None, until: None })
    }

    /// What both sides need of a queue pair before it may be connected.
    fn check(&self, call: &'static str, qp: &HwQp, private: usize, most: usize) -> Result<()> {
        if !qp.is_in(&self.context) {
            return Err(VerbsError::Foreign("the queue pair"));
        }
        let state = qp.state();
        if state != QpState::Init {
            return Err(VerbsError::WrongState { call, state });
        }
        check_private(private, most)
    }

    /// Our side's terms for a queue pair's connection.
    fn terms(&self, qp: &HwQp, params: &ConnParams<'_>) -> Result<Terms> {
        let limits = &self.context.limits;
        let port = qp.given_init().map_or(1, |init| init.port);
        let active = convert::mtu_of(self.context.raw.port(port)?.active_mtu);
        let within = |n: u8, most: u32| n.min(u8::try_from(most).unwrap_or(u8::MAX));
        Ok(Terms {
            serves: within(params.responder_resources, limits.max_dest_rd_atomic),
            depth: within(params.initiator_depth, limits.max_rd_atomic),
            timeout: params.timeout,
            retry: params.retry,
            rnr_retry: params.rnr_retry,
            min_rnr_timer: params.min_rnr_timer,
            mtu: params.mtu.map_or(active, |mtu| mtu.min(active)),
            traffic_class: params.traffic_class,
        })
    }

    /// Brings a connection's queue pair from Init to ready-to-send, by both sides' terms.
    fn ready(&self, identity: &CmIdentity, qp: &HwQp, terms: &Terms, peer: &Wanted) -> Result<()> {
        let found = identity.path(convert::qp_state(QpState::Rtr))?;
        qp.modify(&Modify::Rtr(ToRtr {
            dest_qp: QpNum(found.dest_qp),
            rq_psn: Psn::new(found.rq_psn),
            path: convert::of_class(convert::path(&found.to), terms.traffic_class),
            mtu: terms.mtu.min(peer.header.mtu).min(convert::mtu_of(found.mtu)),
            min_rnr_timer: terms.min_rnr_timer,
            max_dest_rd_atomic: terms.serves,
            alt: None,
        }))?;
        let numbers = identity.path(convert::qp_state(QpState::Rts))?;
        qp.modify(&Modify::Rts(ToRts {
            sq_psn: Psn::new(numbers.sq_psn),
            timeout: terms.timeout,
            retry: terms.retry,
            rnr_retry: terms.rnr_retry,
            max_rd_atomic: terms.depth.min(peer.depth),
            alt: None,
            migration: Migration::Migrated,
        }))
    }
}

/// What an attempt came to, for people.
fn cannot_be_reached(peer: &str, why: &str) -> String {
    format!("{peer} cannot be reached: {why}")
}

fn check_private(len: usize, most: usize) -> Result<()> {
    if len > most {
        let (value, bound) = (len as u64, most as u64);
        return Err(VerbsError::TooLarge { what: "the length of the private data", value, bound });
    }
    Ok(())
}

fn offer<'a>(terms: &Terms, qp: &HwQp, private: &'a [u8]) -> ConnectionOffer<'a> {
    ConnectionOffer {
        private,
        responder_resources: terms.serves,
        initiator_depth: terms.depth,
        retry: terms.retry.count(),
        rnr_retry: terms.rnr_retry.count(),
        qp: qp.num().0,
    }
}

const UNKNOWN: VerbsError = VerbsError::Invalid("no connection has this identity, or it is not at that stage");

impl ConnectionManager<Hw> for HwCm {
    fn listen(&self, service: Service) -> Result<()> {
        let this = &*self.0;
        if this.listeners.borrow().values().any(|listener| listener.service == service) {
            return Err(VerbsError::Busy("the service"));
        }
        let key = this.fresh();
        let identity = CmIdentity::create(&this.channel, key)?;
        identity.bind(this.own(service)).map_err(|why| match why {
            VerbsError::Os { errno: libc::ENODEV, .. } => VerbsError::Invalid("this machine's address is on no RDMA device"),
            other => other,
        })?;
        // One that has no address of its own is bound to none, and takes what comes by any.
        if identity.device().is_some_and(|bound| this.misled(Some(bound)).is_some()) {
            return Err(VerbsError::Invalid("another RDMA device has this device's address"));
        }
        identity.listen(BACKLOG)?;
        this.listeners.borrow_mut().insert(key, Listener { service, identity });
        Ok(())
    }

    fn resolve(&self, node: &str, service: Service) -> Result<CmId> {
        let this = &*self.0;
        let key = this.fresh();
        match this.begin_resolve(key, node, service) {
            Ok(connection) => drop(this.connections.borrow_mut().insert(key, connection)),
            Err(why) => this.give_up(key, node, &why),
        }
        Ok(CmId(key))
    }

    fn port(&self, id: CmId) -> Result<u8> {
        let connections = self.0.connections.borrow();
        let connection = connections.get(&id.0).filter(|c| c.stage != Stage::Resolving).ok_or(UNKNOWN)?;
        Ok(connection.identity.port())
    }

    fn connect(&self, id: CmId, qp: &HwQp, params: &ConnParams<'_>) -> Result<()> {
        let this = &*self.0;
        let mut connections = this.connections.borrow_mut();
        let connection = connections.get_mut(&id.0).filter(|c| c.stage == Stage::Resolved).ok_or(UNKNOWN)?;
        this.check("connect", qp, params.private.len(), MAX_PRIVATE_REQUEST)?;
        let terms = this.terms(qp, params)?;
        let private = header::encode(Header { mtu: terms.mtu }, params.private);
        connection.identity.connect(&offer(&terms, qp, &private))?;
        connection.stage = Stage::Asked;
        connection.until = Some(this.limit.after(ANSWER));
        (connection.qp, connection.terms) = (Some(qp.clone()), Some(terms));
        Ok(())
    }

    fn accept(&self, id: CmId, qp: &HwQp, params: &ConnParams<'_>) -> Result<()> {
        let this = &*self.0;
        let mut connections = this.connections.borrow_mut();
        let connection = connections.get_mut(&id.0).filter(|c| c.stage == Stage::Requested).ok_or(UNKNOWN)?;
        let wanted = connection.wanted.ok_or(UNKNOWN)?;
        this.check("accept", qp, params.private.len(), MAX_PRIVATE_ACCEPT)?;
        let terms = this.terms(qp, params)?;
        // What is granted is what both can: the active side takes it from the answer.
        let depth = terms.depth.min(wanted.depth);
        let terms = Terms { depth, ..terms };
        let private = header::encode(Header { mtu: terms.mtu.min(wanted.header.mtu) }, params.private);
        let made = this
            .ready(&connection.identity, qp, &terms, &wanted)
            .and_then(|()| connection.identity.accept(&offer(&terms, qp, &private)));
        if made.is_err() {
            // Half-way to ready is no state for a queue pair whose attempt failed.
            let _ = qp.modify(&Modify::Err);
            return made;
        }
        connection.stage = Stage::Accepted;
        this.unconfirmed.borrow_mut().push(id.0);
        this.context.unconfirmed.set(true);
        connection.until = Some(this.limit.after(ANSWER));
        (connection.qp, connection.terms) = (Some(qp.clone()), Some(terms));
        Ok(())
    }

    fn reject(&self, id: CmId, private: &[u8]) -> Result<()> {
        check_private(private.len(), MAX_PRIVATE_REJECT)?;
        let mut connections = self.0.connections.borrow_mut();
        if connections.get(&id.0).is_none_or(|c| c.stage != Stage::Requested) {
            return Err(UNKNOWN);
        }
        let Some(connection) = connections.remove(&id.0) else { return Err(UNKNOWN) };
        connection.identity.reject(&header::encode(Header { mtu: Mtu::B256 }, private))
    }

    fn disconnect(&self, id: CmId) -> Result<()> {
        let mut connections = self.0.connections.borrow_mut();
        let connection = connections.get_mut(&id.0).filter(|c| c.stage != Stage::Leaving).ok_or(UNKNOWN)?;
        connection.qp = None;
        let stands = matches!(connection.stage, Stage::Established | Stage::Accepted);
        if stands && connection.identity.disconnect().is_ok() {
            // Destroyed at once, the kernel would not repeat the message if it were lost.
            connection.stage = Stage::Leaving;
        } else {
            drop(connections.remove(&id.0));
        }
        Ok(())
    }

    fn event(&self) -> Option<CmEvent> {
        loop {
            if let Some(event) = self.0.events.borrow_mut().pop_front() {
                return Some(event);
            }
            self.0.hint.ask(|| {
                let handled = self.0.channel.event().map(|message| self.0.handle(message));
                handled.or_else(|| self.0.give_up_overdue().then_some(()))
            })?;
        }
    }
}
