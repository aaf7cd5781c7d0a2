//! A queue pair: its attributes, its states, its two work queues (IBA 10.2.4, 10.3.1).

use super::requester::Requester;
use super::responder::Responder;
use super::wqe::{RecvWqe, SendWqe};
use super::{
    Body, Cqe, Data, Endpoint, Hardware, Io, Key, Limits, MAX_MESSAGE, Packet, RecvRequest, SendRequest,
    Touch,
};
use crate::NodeId;
use crate::access::{AccessLog, Who};
use crate::fault;
use crate::log::Kind;
use verbs_trait::{
    AccessFlags, AsyncEvent, Caps, Done, Migration, Modify, Nanos, Psn, QpAttr, QpCaps, QpNum, QpState,
    QpType, Result, SendFlags, ToInit, ToRtr, ToRts, Update, VerbsError, WcError, WcOp,
};

/// A queue pair's making.
#[derive(Clone, Copy, Debug)]
pub struct NewQp {
    /// Its protection domain.
    pub pd: Key,
    /// Where send completions go.
    pub send_cq: Key,
    /// Where receive completions go.
    pub recv_cq: Key,
    /// Its sizes.
    pub caps: QpCaps,
    /// Every send request completes, flagged or not.
    pub sq_sig_all: bool,
}

impl NewQp {
    pub(super) fn check(&self, limits: &Limits) -> Result<()> {
        let within = |what, value: u32, bound: u32| {
            let (value, bound) = (u64::from(value), u64::from(bound));
            if value <= bound { Ok(()) } else { Err(VerbsError::TooLarge { what, value, bound }) }
        };
        let caps = &self.caps;
        within("the number of send requests", caps.max_send_wr, limits.max_wr)?;
        within("the number of receive requests", caps.max_recv_wr, limits.max_wr)?;
        within("the number of gather entries", caps.max_send_sge, limits.max_sge)?;
        within("the number of scatter entries", caps.max_recv_sge, limits.max_sge)?;
        within("the length of inline data", caps.max_inline, limits.max_inline)
    }
}

/// A queue pair.
#[derive(Clone, Debug)]
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
    /// Largest payload of a packet.
    pub(super) mtu: u32,
    pub(super) sq: Requester,
    pub(super) rq: Responder,
    /// When it wants to be called by [`Qp::on_timer`]; `MAX` is never. It may move at any call.
    pub deadline: Nanos,
    /// When it wants to be called by [`Qp::attend`], because it has more to send; `MAX` is never. A time that
    /// has come means: as soon as the port is free.
    pub attend_at: Nanos,
    /// For the caller's use: when its next entries in the event queue for these two are, and the flow that its
    /// packets take.
    pub timer_set: Nanos,
    /// See [`Qp::timer_set`].
    pub attend_set: Nanos,
    /// See [`Qp::timer_set`].
    pub flow: Option<Key>,
    /// Packets that it may still send in this turn.
    pub(super) budget: u32,
}

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
const TURN: u32 = 16;

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
            mtu: 256,
            sq: Requester::default(),
            rq: Responder::default(),
            deadline: Nanos::MAX,
            attend_at: Nanos::MAX,
            timer_set: Nanos::MAX,
            attend_set: Nanos::MAX,
            flow: None,
            budget: 0,
        }
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Whether it reports to a completion queue.
    pub fn uses(&self, cq: Key) -> bool {
        self.new.send_cq == cq || self.new.recv_cq == cq
    }

    /// Everything about it.
    pub fn attr(&self) -> QpAttr {
        QpAttr {
            state: self.state,
            kind: QpType::Rc,
            caps: self.new.caps,
            init: self.init,
            rtr: self.rtr,
            rts: self.rts,
            migration: Migration::Migrated,
            draining: self.state == QpState::Sqd && self.sq.is_busy(),
        }
    }

    /// The path that it was given at ready-to-receive.
    pub fn to_rtr(&self) -> Option<&ToRtr> {
        self.rtr.as_ref()
    }

    /// Where its packets go.
    pub fn peer(&self) -> Option<Endpoint> {
        self.peer
    }

    /// Whether requests of its own are on their way.
    pub fn is_in_flight(&self) -> bool {
        self.sq.is_busy()
    }

    /// Changes its state or attributes. `ends` are itself and whom its path leads to, where that is ready-to-receive;
    /// `stretch` is by how much this adapter's timer stretches the time-out of acknowledgements, in percent.
    pub fn modify(
        &mut self,
        change: &Modify,
        hw: &mut Hardware,
        ends: Option<(Endpoint, Option<Endpoint>)>,
        stretch: u64,
        io: &mut Io<'_>,
    ) -> Result<()> {
        let to = change.check(self.state, QpType::Rc)?;
        check_attributes(change, &hw.limits)?;
        let from = self.state;
        match change {
            Modify::Reset => self.reset(hw, io),
            Modify::Init(init) => (self.init, self.state) = (Some(*init), to),
            Modify::Rtr(rtr) => {
                (self.me, self.peer) = ends.unwrap_or((self.me, None));
                self.mtu = rtr.mtu.bytes();
                self.rq.start(rtr);
                (self.rtr, self.state) = (Some(*rtr), to);
            }
            Modify::Rts(rts) => {
                self.sq.start(rts, stretch);
                (self.rts, self.state) = (Some(*rts), to);
            }
            Modify::Update(update) => self.update(update),
            Modify::Sqd { notify } => {
                self.state = to;
                self.sq.notify_drained = *notify;
                self.note_drained(hw, io);
            }
            Modify::Resume => {
                self.state = to;
                self.attend(hw, io);
            }
            Modify::Err => self.enter_error(hw, io),
        }
        if self.state != from {
            io.log.line(io.now, hw.node, Kind::State, format_args!("{} {from} -> {}", self.num, self.state));
        }
        Ok(())
    }

    fn update(&mut self, update: &Update) {
        if let (Some(access), Some(init)) = (update.access, &mut self.init) {
            init.access = access;
        }
        if let (Some(timer), Some(rtr)) = (update.min_rnr_timer, &mut self.rtr) {
            rtr.min_rnr_timer = timer;
            self.rq.rnr_timer = Some(timer);
        }
    }

    /// What peers may do through it.
    pub(super) fn access(&self) -> AccessFlags {
        self.init.map_or(AccessFlags::empty(), |init| init.access)
    }

    /// Queues a send request at the processor's time `at`.
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
        let depth = self.new.caps.max_send_wr;
        if self.sq.slots >= depth {
            return Err(VerbsError::QueueFull { queue: "send", depth });
        }
        let len = request.data.len() + inline.len() as u64;
        // Reads and atomics write their answers to local memory.
        let mut wrong = hw.memory.check_local(&request.data, self.new.pd, request.op.is_fetch()).err();
        if len > u64::from(MAX_MESSAGE) {
            wrong = Some(WcError::LocLen);
        }
        self.watch_send(at, &request, len, hw, io);
        self.sq.slots += 1;
        hw.outstanding += 1;
        hw.memory.lease(&request.data);
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
        if self.state == QpState::Err {
            self.flush(hw, io);
        } else {
            self.attend_at = self.attend_at.min(at + hw.fetch);
        }
        Ok(())
    }

    /// Queues a receive request at the processor's time `at`.
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
        let depth = self.new.caps.max_recv_wr;
        if self.rq.queue.len() >= depth as usize {
            return Err(VerbsError::QueueFull { queue: "receive", depth });
        }
        self.watch_recv(at, &request, hw, io);
        hw.outstanding += 1;
        hw.memory.lease(&request.data);
        self.rq.queue.push_back(RecvWqe {
            wr_id: request.wr_id,
            len: request.data.len(),
            wrong: hw.memory.check_local(&request.data, self.new.pd, true).err(),
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
        // A packet names the queue pair it is for, not the one it is from: only the path can be checked
        // (IBA 9.6.1.5), and one of an earlier connection between the same ports passes.
        let known = self.peer.is_some_and(|peer| peer.hca == packet.from.hca);
        let request = packet.body.is_request();
        let listens = match self.state {
            QpState::Rts | QpState::Sqd => true,
            QpState::Rtr => request,
            _ => false,
        };
        if !known || !listens {
            return self.ignore(packet, "not connected", hw, io);
        }
        io.stats.delivered += 1;
        if io.log.is_on() {
            log_packet(Kind::Rx, hw, packet, io);
        }
        self.budget = TURN;
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
    pub fn attend(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.budget = TURN;
        self.send_more(hw, io);
    }

    /// Sends what may be sent: answers first, then requests.
    #[inline]
    fn send_more(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.attend_at = Nanos::MAX;
        if self.rq.has_answers() {
            self.send_answers(hw, io);
        }
        self.send_requests(hw, io);
    }

    /// Sends a packet to the peer. A path that leads nowhere swallows it.
    #[inline]
    pub(super) fn emit(&mut self, packet: Outgoing, io: &mut Io<'_>) {
        self.budget = self.budget.saturating_sub(1);
        let Outgoing { psn, ack_req, solicited, body, data, op } = packet;
        match self.peer {
            Some(to) => io.out.put(Packet { from: self.me, to, psn, ack_req, solicited, body, data, op }),
            None => data.release(io.buffers),
        }
    }

    /// Completes the send request at the head of its queue.
    pub(super) fn complete_send(
        &mut self,
        outcome: std::result::Result<Done, WcError>,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) {
        let Some(wqe) = self.sq.pop() else { return };
        hw.memory.release(&wqe.data, io.brought);
        if let Some(buffer) = wqe.inline {
            io.buffers.give_back(buffer);
        }
        self.sq.unsignaled += 1;
        let signaled = self.new.sq_sig_all || wqe.flags.contains(SendFlags::SIGNALED) || outcome.is_err();
        if !signaled {
            hw.outstanding -= 1;
            return;
        }
        let frees = std::mem::take(&mut self.sq.unsignaled);
        let cqe = Cqe { wr_id: wqe.wr_id, qp: self.num, owner: self.key, frees, result: outcome };
        hw.complete(self.new.send_cq, cqe, false, io);
    }

    /// Completes the receive request at the head of its queue.
    pub(super) fn complete_recv(
        &mut self,
        outcome: std::result::Result<Done, WcError>,
        solicited: bool,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) {
        let Some(wqe) = self.rq.queue.pop_front() else { return };
        hw.memory.release(&wqe.data, io.brought);
        let cqe = Cqe { wr_id: wqe.wr_id, qp: self.num, owner: self.key, frees: 0, result: outcome };
        hw.complete(self.new.recv_cq, cqe, solicited, io);
    }

    /// Raises the event that the send queue has drained, if that was asked for.
    pub(super) fn note_drained(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        if self.state == QpState::Sqd && self.sq.notify_drained && !self.sq.is_busy() {
            self.sq.notify_drained = false;
            hw.completions.raise(hw.node, self.ctx, AsyncEvent::SqDrained(self.num), io);
        }
    }

    /// The send request at the head of the queue failed: it says why, and everything else is flushed.
    pub(super) fn fail(&mut self, why: WcError, hw: &mut Hardware, io: &mut Io<'_>) {
        self.complete_send(Err(why), hw, io);
        self.enter_error(hw, io);
    }

    /// Moves it to the error state.
    pub fn enter_error(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        let from = std::mem::replace(&mut self.state, QpState::Err);
        if from != QpState::Err {
            io.log.line(io.now, hw.node, Kind::State, format_args!("{} {from} -> ERR", self.num));
        }
        self.deadline = Nanos::MAX;
        self.attend_at = Nanos::MAX;
        self.sq.stop();
        self.rq.stop();
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.failed(hw.id, self.key);
        }
        self.flush(hw, io);
    }

    /// Flushes both queues, each in order (IBA 10.3.1.7).
    fn flush(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while !self.sq.queue.is_empty() {
            self.complete_send(Err(WcError::Flush), hw, io);
        }
        while !self.rq.queue.is_empty() {
            self.complete_recv(Err(WcError::Flush), false, hw, io);
        }
    }

    /// Everything posted, and every completion not yet polled, vanishes.
    pub(super) fn vanish(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        while let Some(wqe) = self.sq.pop() {
            hw.memory.release(&wqe.data, io.brought);
            if let Some(buffer) = wqe.inline {
                io.buffers.give_back(buffer);
            }
            hw.outstanding -= 1;
        }
        while let Some(wqe) = self.rq.queue.pop_front() {
            hw.memory.release(&wqe.data, io.brought);
            hw.outstanding -= 1;
        }
        hw.completions.forget(self.new.send_cq, self.key);
        hw.completions.forget(self.new.recv_cq, self.key);
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.ended(hw.id, self.key);
        }
    }

    fn reset(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.vanish(hw, io);
        *self = Qp::new(self.key, self.num, self.ctx, self.new);
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
    let (name, psn, len) = (packet.body.name(), packet.psn.get(), packet.data.len());
    io.log.line(io.now, hw.node, kind, format_args!("{} {name} psn={psn} len={len}", packet.to.qp));
}

/// Attribute values that no adapter takes, whatever the state.
fn check_attributes(change: &Modify, limits: &Limits) -> Result<()> {
    let within = |what, value: u8, bound: u8| {
        let (value, bound) = (u64::from(value), u64::from(bound));
        if value <= bound { Ok(()) } else { Err(VerbsError::TooLarge { what, value, bound }) }
    };
    let port = |port: u8| if port == 1 { Ok(()) } else { Err(VerbsError::Invalid("there is no such port")) };
    let lone = |alt: bool| if alt { Err(VerbsError::Unsupported(Caps::APM)) } else { Ok(()) };
    match change {
        Modify::Init(init) => port(init.port),
        Modify::Rtr(rtr) => {
            lone(rtr.alt.is_some())?;
            port(rtr.path.port)?;
            within("the index of the GID to send from", rtr.path.sgid_index, 0)?;
            within("the number of reads and atomics served", rtr.max_dest_rd_atomic, limits.max_rd_atomic)
        }
        Modify::Rts(rts) => {
            lone(rts.alt.is_some() || rts.migration != Migration::Migrated)?;
            within("the number of reads and atomics in flight", rts.max_rd_atomic, limits.max_rd_atomic)
        }
        Modify::Update(update) => lone(update.alt.is_some() || update.migration.is_some()),
        _ => Ok(()),
    }
}
