//! A queue pair: its attributes, its states, its two work queues (IBA 10.2.4, 10.3.1).

mod attributes;
mod completion;
mod migration;

pub use attributes::NewQp;

use self::migration::Spare;
use super::requester::Requester;
use super::responder::Responder;
use super::wqe::{RecvWqe, SendWqe};
use super::{
    Body, Data, Endpoint, Hardware, Io, Key, MAX_MESSAGE, Op, Packet, PortId, RecvRequest, Route,
    SendRequest, Touch,
};
use crate::NodeId;
use crate::access::{AccessLog, Who};
use crate::fault;
use crate::in_place::clone_in_place;
use crate::log::Kind;
use crate::log::entry::Arrived;
use std::hash::{Hash, Hasher};
use weft_verbs::{
    AccessFlags, Caps, Migration, Nanos, Psn, QpAttr, QpNum, QpState, QpType, Result, ToInit, ToRtr, ToRts,
    VerbsError, WcError, WcOp,
};

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    /// Its number.
    pub num: QpNum,
    pub(super) key: Key,
    pub(super) ctx: u32,
    pub(super) new: NewQp,
    pub(super) state: QpState,
    init: Option<ToInit>,
    rtr: Option<ToRtr>,
    rts: Option<ToRts>,
    /// Itself, as packets name it.
    pub(super) me: Endpoint,
    /// Whom its packets are for. `None` where the path leads nowhere.
    pub(super) peer: Option<Endpoint>,
    /// The way there.
    pub(super) route: Route,
    /// Where path migration stands.
    migration: Migration,
    /// Its other paths, once it was given one.
    spare: Option<Box<Spare>>,
    /// For the caller, who clears it: its packets take another way than those before, and must not wait for them.
    pub moved: bool,
    /// Largest payload of a packet.
    pub(super) mtu: u32,
    pub(super) sq: Requester,
    pub(super) rq: Responder,
    /// When it wants to be called by [`Qp::on_timer`]; `MAX` is never. It may move at any call.
    pub deadline: Nanos,
    /// When it wants to be called by [`Qp::serve`], because it has more to send; `MAX` is never. A time that
    /// has come means: as soon as the port is free.
    pub service_at: Nanos,
    /// For the caller's use: when its next entries in the event queue for these two are, and the flow that its
    /// packets take.
    pub timer_set: Nanos,
    /// See [`Qp::timer_set`].
    pub service_set: Nanos,
    /// See [`Qp::timer_set`].
    pub flow: Option<Key>,
    /// See [`Qp::timer_set`]: how many flows it has had, which tell their names apart.
    pub flows: u8,
    /// Packets that it may still send in this turn.
    pub(super) budget: u32,
}

clone_in_place! { Qp { num, key, ctx, new, state, init, rtr, rts, me, peer, route, migration, spare, moved, mtu, sq, rq, deadline, service_at, timer_set, service_set, flow, flows, budget } }

/// A packet as its queue pair makes it.
pub(super) struct Outgoing {
    pub psn: Psn,
    pub ack_req: bool,
    pub solicited: bool,
    pub body: Body,
    pub data: Data,
    pub op: fault::Op,
}

/// Packets that a queue pair sends in one turn, before others of its adapter get theirs.
const QUANTUM: u32 = 16;

impl Qp {
    pub(super) fn new(key: Key, num: QpNum, ctx: u32, new: NewQp) -> Qp {
        Qp {
            num,
            key,
            ctx,
            new,
            state: QpState::Reset,
            init: None,
            rtr: None,
            rts: None,
            me: Endpoint { hca: super::HcaId(0), qp: num },
            peer: None,
            route: Route::default(),
            migration: Migration::Migrated,
            spare: None,
            moved: false,
            mtu: 256,
            sq: Requester::default(),
            rq: Responder::default(),
            deadline: Nanos::MAX,
            service_at: Nanos::MAX,
            timer_set: Nanos::MAX,
            service_set: Nanos::MAX,
            flow: None,
            flows: 0,
            budget: 0,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> QpType {
        self.new.kind
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Whether it reports to a completion queue.
    pub fn uses(&self, cq: Key) -> bool {
        self.new.send_cq == cq || self.new.recv_cq == cq
    }

    /// Its attributes, for comparing states.
    pub(super) fn digest_attributes(&self, to: &mut impl Hasher) {
        (self.init, self.rtr, self.rts, self.mtu).hash(to);
        (self.migration, &self.spare, self.moved).hash(to);
    }

    /// Everything about it.
    pub fn attr(&self) -> QpAttr {
        QpAttr {
            state: self.state,
            kind: self.new.kind,
            caps: self.new.caps,
            init: self.init,
            rtr: self.rtr,
            rts: self.rts,
            migration: self.migration,
            draining: self.state == QpState::Sqd && self.sq.is_busy(),
        }
    }

    /// The path that it was given at ready-to-receive.
    pub fn to_rtr(&self) -> Option<&ToRtr> {
        self.rtr.as_ref()
    }

    /// The port that it sends from.
    pub fn port(&self) -> PortId {
        self.route.from
    }

    /// The way that its packets take.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Where its packets go.
    pub fn peer(&self) -> Option<Endpoint> {
        self.peer
    }

    /// Whether requests of its own are on their way.
    pub fn is_in_flight(&self) -> bool {
        self.sq.is_busy()
    }

    /// What peers may do through it.
    pub(super) fn access(&self) -> AccessFlags {
        self.init.map_or(AccessFlags::empty(), |init| init.access)
    }

    /// The queue key of its datagrams.
    pub(super) fn qkey(&self) -> u32 {
        self.init.map_or(0, |init| init.qkey)
    }

    fn is_ud(&self) -> bool {
        self.new.kind == QpType::Ud
    }

    /// Queues a send request at the processor's time `at`.
    #[inline(always)]
    pub fn post_send(
        &mut self,
        at: Nanos,
        request: SendRequest,
        inline: &[u8],
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) -> Result<()> {
        if !self.state.accepts_sends() {
            return Err(VerbsError::WrongState { call: "posting a send request", state: self.state });
        }
        if self.is_ud() != matches!(request.op, Op::Datagram { .. }) {
            return Err(VerbsError::Invalid("datagrams, and nothing else, go by datagram queue pairs"));
        }
        if !hw.limits.atomics && matches!(request.op, Op::Atomic { .. }) {
            return Err(VerbsError::Unsupported(Caps::ATOMICS));
        }
        let depth = self.new.caps.max_send_wr;
        if self.sq.slots >= depth {
            return Err(VerbsError::QueueFull { queue: "send", depth });
        }
        let len = request.data.len() + inline.len() as u64;
        // Reads and atomics write their answers to local memory.
        let mut wrong = hw.memory.take_hold(&request.data, self.new.pd, request.op.is_fetch());
        if len > u64::from(MAX_MESSAGE) && !self.is_ud() {
            wrong = Some(WcError::LocLen);
        }
        self.watch_send(at, &request, len, hw, io);
        self.sq.slots += 1;
        hw.outstanding += 1;
        let inline = (!inline.is_empty()).then(|| io.buffers.keep(inline));
        self.sq.queue.push_back(SendWqe {
            wr_id: request.wr_id,
            op: request.op,
            data: request.data,
            inline,
            flags: request.flags,
            len: len.min(u64::from(u32::MAX)) as u32,
            posted_at: at + hw.fetch,
            wrong,
            begun: false,
            psn: Psn::new(0),
            packets: 0,
        });
        if matches!(self.state, QpState::Err | QpState::Sqe) {
            self.flush_sends(hw, io);
        } else {
            self.service_at = self.service_at.min(at + hw.fetch);
        }
        Ok(())
    }

    /// Queues a receive request at the processor's time `at`.
    #[inline(always)]
    pub fn post_recv(
        &mut self,
        at: Nanos,
        request: RecvRequest,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) -> Result<()> {
        if !self.state.accepts_receives() {
            return Err(VerbsError::WrongState { call: "posting a receive request", state: self.state });
        }
        if self.new.srq.is_some() {
            return Err(VerbsError::Invalid("a queue pair with a shared receive queue has none of its own"));
        }
        let depth = self.new.caps.max_recv_wr;
        if self.rq.queue.len() >= depth as usize {
            return Err(VerbsError::QueueFull { queue: "receive", depth });
        }
        self.watch_recv(at, &request, hw, io);
        hw.outstanding += 1;
        self.rq.queue.push_back(RecvWqe {
            wr_id: request.wr_id,
            len: request.data.len(),
            wrong: hw.memory.take_hold(&request.data, self.new.pd, true),
            data: request.data,
        });
        if self.state == QpState::Err {
            self.flush(hw, io);
        }
        Ok(())
    }

    /// Completions were polled: send-queue slots are free again.
    #[inline]
    pub fn free_slots(&mut self, n: u32) {
        self.sq.slots -= n;
    }

    /// A packet has arrived for it.
    #[inline]
    pub fn on_packet(&mut self, packet: &Packet, hw: &mut Hardware, io: &mut Io<'_>) {
        if self.is_ud() {
            return self.on_datagram(packet, hw, io);
        }
        let request = packet.body.is_request();
        let accepting = match self.state {
            QpState::Rts | QpState::Sqd => true,
            QpState::Rtr => request,
            _ => false,
        };
        // A packet names the queue pair it is for, not the one it is from: only the path can be checked
        // (IBA 9.6.1.5), and one of an earlier connection between the same ports passes.
        let on_path = self.peer.is_some() && packet.route.back() == self.route;
        let plain = on_path && self.migration == Migration::Migrated;
        if !accepting || !(plain || self.admit(packet, on_path, hw, io)) {
            return self.ignore(packet, "not connected", hw, io);
        }
        io.stats.delivered += 1;
        if io.log.is_on() {
            log_packet(Kind::Rx, hw, packet, io);
        }
        self.budget = QUANTUM;
        if request {
            self.on_request(packet, hw, io);
        } else {
            self.on_response(packet, hw, io);
        }
        self.send_more(hw, io);
    }

    #[cold]
    pub(super) fn ignore(&self, packet: &Packet, why: &str, hw: &Hardware, io: &mut Io<'_>) {
        let (name, psn) = (packet.body.name(), packet.psn.get());
        io.log.line(io.now, hw.node, Kind::Ignore, format_args!("{} {name} psn={psn}: {why}", self.num));
    }

    /// Its turn to send has come.
    pub fn serve(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.budget = QUANTUM;
        self.send_more(hw, io);
    }

    /// Whether it wants to be called at another time than its entries in the event queue are for. (What it wants at a
    /// time is never scheduled before that time, so one look tells.)
    #[inline]
    pub fn is_to_be_scheduled(&self) -> bool {
        (self.deadline < self.timer_set) | (self.service_at < self.service_set)
    }

    /// Sends what may be sent: answers first, then requests.
    #[inline]
    fn send_more(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.service_at = Nanos::MAX;
        if self.is_ud() {
            return self.send_datagrams(hw, io);
        }
        if self.rq.has_answers() {
            self.send_answers(hw, io);
        }
        if self.sq.has_more() {
            self.send_requests(hw, io);
        }
    }

    /// Sends a packet to the peer. A path that leads nowhere swallows it.
    ///
    /// Inlined, as is what it calls: a packet is put together where it stays and is copied nowhere else.
    #[inline(always)]
    pub(super) fn emit(&mut self, packet: Outgoing, io: &mut Io<'_>) {
        self.budget = self.budget.saturating_sub(1);
        let Outgoing { psn, ack_req, solicited, body, data, op } = packet;
        match self.peer {
            Some(to) => {
                let (from, route) = (self.me, self.route);
                let migrated = self.migration == Migration::Migrated;
                io.out.put(Packet { from, to, route, psn, ack_req, solicited, migrated, body, data, op });
            }
            None => data.release(io.buffers),
        }
    }

    pub(super) fn touch(now: Nanos, log: &mut AccessLog) -> Touch<'_> {
        Touch { now, log }
    }

    /// This adapter serving a peer's request, in the access log.
    pub(super) fn as_server(&self, node: NodeId, from: Endpoint, op: WcOp) -> Who {
        Who::Peer { node, qp: self.num, from, op }
    }
}

#[cold]
pub(super) fn log_packet(kind: Kind, hw: &Hardware, packet: &Packet, io: &mut Io<'_>) {
    io.log.entry(io.now, hw.node, kind, &Arrived::new(packet));
}
