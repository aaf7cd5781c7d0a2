//! Small worlds of connected nodes whose programs do by a script what programs do.

use weft_sim::choice::First;
use weft_sim::explore::{FaultSet, Policy, Timers};
use weft_sim::profile::Profile;
use weft_sim::{
    Config, Fabric, Keys, NodeId, Order, Sim, SimAh, SimChannel, SimCm, SimContext, SimCq, SimMr, SimPd,
    SimQp, SimSrq,
};
use weft_verbs::*;

/// What a program does, one after the other, each as soon as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Adds to a word of a peer.
    Add { peer: usize, word: usize },
    /// Swaps a word of a peer, guessing that it is zero.
    Swap { peer: usize, word: usize },
    /// Writes a word of a peer, signaled or not.
    Write { peer: usize, word: usize, signaled: bool },
    /// Reads a few words of a peer.
    Read { peer: usize, word: usize },
    /// Sends a message, signaled or not.
    Send { peer: usize, signaled: bool },
    /// Looks at a word of its own.
    Look { word: usize },
    /// Changes a word of its own that peers only read.
    Set { word: usize },
    /// Waits until everything that it asked for has ended.
    Await,
    /// Moves its queue pair to a peer to the error state.
    Fail { peer: usize },
    /// Waits for a time.
    Sleep(u64),
    /// Asks a peer for one more connection, on which each side adds to a word of the other once it stands.
    Dial { peer: usize },
    /// Ends the oldest connection that it asked for or accepted.
    HangUp,
    /// Sends a peer a datagram, for its shared receive queue.
    Tell { peer: usize },
    /// Writes a peer more than a packet holds.
    Long { peer: usize },
    /// Reads from a peer more than a packet holds.
    Fetch { peer: usize },
    /// Registers memory, and gives up what it registered before.
    Register,
    /// Writes a peer from the memory that it registered.
    Lend { peer: usize },
    /// Gives up what it registered, whether a request needs it or not.
    GiveUp,
    /// Ends the registration of it, if no request needs it.
    Deregister,
    /// Goes on in a later step.
    Pause,
    /// Asks how its queue pair to a peer is.
    Ask { peer: usize },
    /// Lets a peer touch none of its memory any more.
    Restrict { peer: usize },
}

/// A node's handles, which stay when its program goes.
#[derive(Clone)]
pub struct Place {
    pub ctx: SimContext,
    pub pd: SimPd,
    pub cm: SimCm,
    /// For datagrams, with its shared receive queue and the peers' addresses.
    pub ud: SimQp,
    pub srq: SimSrq,
    pub peers: Vec<(SimAh, QpNum)>,
    pub channel: SimChannel,
    pub cq: SimCq,
    pub mr: SimMr,
    /// By peer; its own place is empty.
    pub qps: Vec<Option<SimQp>>,
    pub words: Vec<RemoteSlice>,
}

/// Words of a node that peers may touch, from offset 0.
pub const WORDS: usize = 4;
const RESULTS: usize = 256;
const BUFFERS: usize = 1024;
const BUFFER: usize = 64;
const SHARED: usize = 2048;
const LONG: usize = 4096;
const LONG_BYTES: u32 = 2500;
const SERVICE: Service = Service(7);
const QKEY: u32 = 5;
/// Receive requests of a queue pair.
pub const RECEIVES: usize = 2;

pub struct Script {
    me: usize,
    place: Place,
    acts: Vec<Act>,
    next: usize,
    style: Wait,
    armed: bool,
    arming: bool,
    forgets: bool,
    open: u32,
    asleep: Option<Nanos>,
    started: bool,
    calls: Vec<(CmId, SimQp)>,
    extra: Option<SimMr>,
    steps: u64,
    /// The step in which it has paused.
    paused: Option<u64>,
    /// What it saw, in order: the outcome of a run.
    pub seen: std::rc::Rc<std::cell::RefCell<Vec<u64>>>,
}

impl Script {
    fn saw(&self, what: u64) {
        self.seen.borrow_mut().push(what);
    }

    fn receive(&self, peer: usize, n: usize) {
        let at = BUFFERS + (peer * RECEIVES + n) * BUFFER;
        let Some(qp) = &self.place.qps[peer] else { return };
        let data = [Sge { mr: &self.place.mr, at: at as u32, len: BUFFER as u32 }];
        let posted = qp.post_recv(&[RecvWr { wr_id: (1 << 32 | peer << 8 | n) as u64, data: &data }]);
        self.saw(posted.is_ok() as u64);
    }

    fn receive_shared(&self, n: usize) {
        let data = [Sge { mr: &self.place.mr, at: (SHARED + n * 64) as u32, len: 64 }];
        self.saw(
            self.place.srq.post_recv(&[RecvWr { wr_id: (2 << 32 | n) as u64, data: &data }]).is_ok() as u64
        );
    }

    /// None where the system has no memory to give.
    fn fresh_qp(&self) -> Option<SimQp> {
        let (cq, caps) = (&self.place.cq, QpCaps::default());
        let init = QpInit {
            kind: QpType::Rc,
            send_cq: cq,
            recv_cq: cq,
            srq: Some(&self.place.srq),
            caps,
            sq_sig_all: true,
        };
        let Ok(qp) = self.place.pd.create_qp(&init) else {
            self.saw(12);
            return None;
        };
        let to = ToInit { port: 1, pkey_index: 0, access: AccessFlags::all(), qkey: 0 };
        qp.modify(&Modify::Init(to)).unwrap();
        Some(qp)
    }

    fn on_call(&mut self, event: CmEvent) {
        let params = ConnParams {
            private: &[self.me as u8],
            responder_resources: 2,
            initiator_depth: 2,
            timeout: AckTimeout::new(3).unwrap(),
            retry: Retries::new(2).unwrap(),
            rnr_retry: Retries::MOST,
            min_rnr_timer: RnrTimer::new(1).unwrap(),
            mtu: None,
            traffic_class: 0,
        };
        match event {
            CmEvent::Resolved { id } => {
                let Some(qp) = self.fresh_qp() else { return self.place.cm.disconnect(id).unwrap() };
                self.saw(self.place.cm.connect(id, &qp, &params).is_ok() as u64);
                self.calls.push((id, qp));
            }
            CmEvent::Request { id, .. } if self.calls.len() > 2 => {
                self.saw(self.place.cm.reject(id, &[]).is_ok() as u64);
            }
            CmEvent::Request { id, .. } => {
                let Some(qp) = self.fresh_qp() else { return self.place.cm.reject(id, &[]).unwrap() };
                self.saw(self.place.cm.accept(id, &qp, &params).is_ok() as u64);
                self.calls.push((id, qp));
            }
            CmEvent::Established { id, .. } => {
                let Some((_, qp)) = self.calls.iter().find(|call| call.0 == id) else { return };
                let data = [Sge { mr: &self.place.mr, at: 0, len: 16 }];
                let flags = SendFlags::empty();
                let wr = SendWr {
                    wr_id: 3 << 32,
                    op: SendOp::Send { imm: None },
                    data: Payload::Sge(&data),
                    flags,
                };
                self.saw(qp.post_send(&[wr]).is_ok() as u64);
            }
            CmEvent::Rejected { id, .. } | CmEvent::Unreachable { id } | CmEvent::Disconnected { id } => {
                self.calls.retain(|call| call.0 != id);
            }
        }
    }

    fn post(&mut self, peer: usize, op: SendOp<'_, Sim>, len: u32, signaled: bool) {
        let Some(qp) = &self.place.qps[peer] else { return };
        let at = (RESULTS + (self.next % 16) * 32) as u32;
        let data = [Sge { mr: &self.place.mr, at, len }];
        let flags = if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
        let wr = SendWr { wr_id: self.next as u64, op, data: Payload::Sge(&data), flags };
        match qp.post_send(&[wr]) {
            Ok(()) if signaled => self.open += 1,
            Ok(()) => {}
            Err(why) => self.saw(why.posted as u64 + 77),
        }
    }

    /// What is longer than a packet, at a peer.
    fn long(&self, peer: usize) -> RemoteSlice {
        let words = self.place.words[peer];
        RemoteSlice { addr: words.addr + LONG as u64, len: LONG_BYTES, rkey: words.rkey }
    }

    fn post_long(&mut self, peer: usize, op: SendOp<'_, Sim>) {
        let Some(qp) = &self.place.qps[peer] else { return };
        let data = [Sge { mr: &self.place.mr, at: LONG as u32, len: LONG_BYTES }];
        let wr =
            SendWr { wr_id: self.next as u64, op, data: Payload::Sge(&data), flags: SendFlags::SIGNALED };
        match qp.post_send(&[wr]) {
            Ok(()) => self.open += 1,
            Err(_) => self.saw(78),
        }
    }

    fn poll(&mut self) -> bool {
        let mut out = vec![];
        if self.place.cq.poll(&mut out, 16).is_err() {
            self.saw(404);
            return false;
        }
        for done in &out {
            self.saw(done.wr_id);
            if done.wr_id >> 32 >= 2 {
                self.saw(done.result.is_ok() as u64);
                if done.wr_id >> 32 == 2 && done.result.is_ok() {
                    self.receive_shared((done.wr_id & 0xff) as usize);
                }
                continue;
            }
            let received = done.wr_id >> 32 == 1;
            let (wr_id, peer) = (done.wr_id, (done.wr_id >> 8 & 0xff) as usize);
            match done.result {
                Ok(done) if received => {
                    let at = BUFFERS + (peer * RECEIVES + (wr_id & 0xff) as usize) * BUFFER;
                    self.saw(u64::from(done.len) + self.place.mr.load(at).unwrap());
                }
                Ok(_) => {
                    let at = RESULTS + (done.wr_id as usize % 16) * 32;
                    self.saw(self.place.mr.load(at).unwrap());
                    self.open = self.open.saturating_sub(1);
                }
                Err(why) => {
                    self.saw(1000 + why as u64);
                    self.open = if received { self.open } else { self.open.saturating_sub(1) };
                }
            }
            if received && done.result.is_ok() {
                self.receive(peer, (done.wr_id & 0xff) as usize);
            }
        }
        !out.is_empty()
    }

    /// Whether it did something.
    fn act(&mut self) -> bool {
        let Some(&act) = self.acts.get(self.next) else { return false };
        let word = |place: &Place, word: usize| -> RemoteSlice { place.words[word] };
        let at = |peer: usize, w: usize| {
            let all = word(&self.place, peer);
            RemoteSlice { addr: all.addr + 8 * w as u64, len: 8, rkey: all.rkey }
        };
        match act {
            Act::Add { peer, word } => {
                self.post(peer, SendOp::FetchAdd { at: at(peer, word), add: 1 + self.me as u64 }, 8, true)
            }
            Act::Swap { peer, word } => {
                let op = SendOp::CompareSwap { at: at(peer, word), compare: 0, swap: 100 + self.me as u64 };
                self.post(peer, op, 8, true);
            }
            Act::Write { peer, word, signaled } => {
                self.post(peer, SendOp::Write { to: at(peer, word), imm: None }, 8, signaled)
            }
            Act::Read { peer, word } => {
                let from = RemoteSlice { len: 16, ..at(peer, word) };
                self.post(peer, SendOp::Read { from }, 16, true);
            }
            Act::Send { peer, signaled } => self.post(peer, SendOp::Send { imm: None }, 16, signaled),
            Act::Look { word } => self.saw(self.place.mr.load(8 * word).unwrap()),
            Act::Set { word } => self.place.mr.store(8 * word, 7).unwrap(),
            Act::Await if self.open > 0 => return false,
            Act::Await => {}
            Act::Fail { peer } => {
                if let Some(qp) = &self.place.qps[peer] {
                    qp.modify(&Modify::Err).unwrap();
                }
            }
            Act::Dial { peer } => {
                self.saw(self.place.cm.resolve(&NodeId(peer as u32).to_string(), SERVICE).is_ok() as u64);
            }
            Act::HangUp if self.calls.is_empty() => {}
            Act::HangUp => {
                let (id, _) = self.calls.remove(0);
                self.saw(self.place.cm.disconnect(id).is_ok() as u64);
            }
            Act::Tell { peer } => {
                let (ah, qp) = &self.place.peers[peer];
                let op = SendOp::SendTo { imm: None, ah, qp: *qp, qkey: QKEY };
                let wr = SendWr { wr_id: 4 << 32, op, data: Payload::None, flags: SendFlags::SIGNALED };
                self.saw(self.place.ud.post_send(&[wr]).is_ok() as u64);
            }
            Act::Long { peer } => {
                let to = self.long(peer);
                self.post_long(peer, SendOp::Write { to, imm: None });
            }
            Act::Fetch { peer } => {
                let from = self.long(peer);
                self.post_long(peer, SendOp::Read { from });
            }
            Act::Register => {
                let mr = self.place.pd.alloc_mr(64, AccessFlags::all()).ok();
                self.saw(mr.as_ref().map_or(12, |mr| mr.rkey().into()));
                self.extra = mr;
            }
            Act::Lend { peer } => {
                let (Some(qp), Some(mr)) = (&self.place.qps[peer], &self.extra) else { return false };
                let (op, data) = (SendOp::Write { to: at(peer, 0), imm: None }, [Sge { mr, at: 0, len: 8 }]);
                let data = Payload::Sge(&data);
                let wr = SendWr { wr_id: self.next as u64, op, data, flags: SendFlags::empty() };
                self.saw(qp.post_send(&[wr]).is_ok() as u64);
            }
            Act::GiveUp => self.extra = None,
            Act::Deregister => self.saw(self.extra.as_ref().is_some_and(|mr| mr.deregister().is_ok()) as u64),
            Act::Pause if self.paused.is_none_or(|step| step == self.steps) => {
                self.paused = Some(self.steps);
                return false;
            }
            Act::Pause => self.paused = None,
            Act::Ask { peer } => {
                let state = self.place.qps[peer].as_ref().map(|qp| qp.state());
                self.saw(state.map_or(99, |state| state as u64));
            }
            Act::Restrict { peer } => {
                let none = Update { access: Some(AccessFlags::empty()), ..Update::default() };
                let update = |qp: &SimQp| qp.modify(&Modify::Update(none)).is_ok();
                self.saw(self.place.qps[peer].as_ref().is_some_and(update) as u64);
            }
            Act::Sleep(ns) => match self.asleep {
                None => {
                    self.asleep = Some(self.place.ctx.host().now() + Nanos(ns));
                    return false;
                }
                Some(until) if until > self.place.ctx.host().now() => return false,
                Some(_) => self.asleep = None,
            },
        }
        self.next += 1;
        true
    }
}

impl Node for Script {
    fn step(&mut self) -> Park {
        self.steps += 1;
        if !self.started {
            self.started = true;
            for peer in 0..self.place.qps.len() {
                (0..RECEIVES).for_each(|n| self.receive(peer, n));
            }
            (0..2).for_each(|n| self.receive_shared(n));
            self.saw(self.place.cm.listen(SERVICE).is_ok() as u64);
        }
        while self.place.channel.event().is_some() {
            self.armed = false;
        }
        while let Some(event) = self.place.ctx.async_event() {
            self.saw(2000 + matches!(event, AsyncEvent::PortError(_)) as u64);
        }
        while let Some(event) = self.place.cm.event() {
            self.on_call(event);
        }
        if std::mem::take(&mut self.arming) {
            self.armed = true;
            self.place.cq.arm(Arm::Next).unwrap();
            if self.forgets {
                return Park::Until { style: self.style, deadline: self.asleep };
            }
        }
        while self.poll() | self.act() {}
        if self.style == Wait::Notify && !self.armed {
            self.arming = true;
            return Park::Again;
        }
        Park::Until { style: self.style, deadline: self.asleep }
    }
}

/// What every node does, and how it waits.
#[derive(Clone, Debug)]
pub struct Plan {
    pub acts: Vec<Vec<Act>>,
    pub style: Wait,
    pub timers: Timers,
    pub faults: FaultSet,
    pub sanitize: bool,
    /// Completions and events are seen in the one order in which they came.
    pub in_order: bool,
    /// By how much clocks differ at most.
    pub drift: Option<Nanos>,
    /// It does not poll after arming, as it must.
    pub forgets: bool,
}

pub struct World {
    pub fabric: Fabric,
    pub places: Vec<Place>,
    pub root: weft_sim::explore::Snapshot,
    pub plan: Plan,
    pub seen: Vec<std::rc::Rc<std::cell::RefCell<Vec<u64>>>>,
}

fn to_rtr(dest_qp: QpNum, gid: Gid) -> ToRtr {
    ToRtr {
        dest_qp,
        rq_psn: Psn::new(0),
        path: Path::to(gid, 1),
        mtu: Mtu::B1024,
        min_rnr_timer: RnrTimer::new(1).unwrap(),
        max_dest_rd_atomic: 2,
        alt: None,
    }
}

fn to_rts() -> ToRts {
    ToRts {
        sq_psn: Psn::new(0),
        timeout: AckTimeout::new(3).unwrap(),
        retry: Retries::new(2).unwrap(),
        rnr_retry: Retries::MOST,
        max_rd_atomic: 2,
        alt: None,
        migration: Migration::Migrated,
    }
}

fn place(fabric: &Fabric, node: u32, nodes: u32, entries: u32) -> Place {
    let ctx = fabric.devices(NodeId(node))[0].open().unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let channel = ctx.create_channel().unwrap();
    let cq = ctx.create_cq(entries, Some(&channel)).unwrap();
    let mr = pd.alloc_mr(8192, AccessFlags::all()).unwrap();
    let srq = pd.create_srq(4, 1).unwrap();
    let (caps, kind, cm) = (QpCaps::default(), QpType::Ud, ctx.connection_manager().unwrap());
    let init = QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: Some(&srq), caps, sq_sig_all: false };
    let ud = pd.create_qp(&init).unwrap();
    let init = ToInit { port: 1, pkey_index: 0, access: AccessFlags::all(), qkey: QKEY };
    ud.modify(&Modify::Init(init)).unwrap();
    let qp = |peer| {
        let caps = QpCaps { max_send_wr: 16, max_recv_wr: RECEIVES as u32, ..QpCaps::default() };
        let init =
            QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: false };
        (peer != node).then(|| pd.create_qp(&init).unwrap())
    };
    let qps = (0..nodes).map(qp).collect();
    Place { ctx, pd, cm, ud, srq, peers: vec![], channel, cq, mr, qps, words: vec![] }
}

impl World {
    pub fn new(plan: Plan) -> World {
        World::with(plan, 64, Keys::Rest)
    }

    /// One whose completion queues hold so many.
    pub fn with_queues(plan: Plan, entries: u32) -> World {
        World::with(plan, entries, Keys::Rest)
    }

    /// Of adapters whose keys come again as soon as they can.
    pub fn with_a_stack_of_keys(plan: Plan) -> World {
        World::with(plan, 64, Keys::Stack)
    }

    fn with(plan: Plan, entries: u32, keys: Keys) -> World {
        let nodes = plan.acts.len() as u32;
        let mut config = Config::new(nodes, Profile::builtin("ncosed-2007").unwrap());
        config.order = Order::Untimed;
        config.keys = keys;
        config.sanitize = plan.sanitize;
        let fabric = Fabric::new(config, Box::new(First)).unwrap();
        let mut places: Vec<Place> = (0..nodes).map(|n| place(&fabric, n, nodes, entries)).collect();
        let words: Vec<RemoteSlice> = places.iter().map(|p| p.mr.remote(0..8 * WORDS).unwrap()).collect();
        for a in 0..places.len() {
            places[a].words = words.clone();
            let address = |peer: &Place| {
                let path = Path::to(peer.ctx.gid(1, 0).unwrap(), 1);
                (places[a].pd.create_ah(&path).unwrap(), peer.ud.num())
            };
            places[a].peers = places.iter().map(address).collect();
            let ud = places[a].ud.clone();
            let (gid, num) = (places[a].ctx.gid(1, 0).unwrap(), ud.num());
            for change in [Modify::Rtr(to_rtr(num, gid)), Modify::Rts(to_rts())] {
                ud.modify(&change).unwrap();
            }
            for b in 0..places.len() {
                let (Some(qp), Some(peer)) = (&places[a].qps[b], &places[b].qps[a]) else { continue };
                let init = ToInit { port: 1, pkey_index: 0, access: AccessFlags::all(), qkey: 0 };
                let rtr = to_rtr(peer.num(), places[b].ctx.gid(1, 0).unwrap());
                let rts = to_rts();
                for change in [Modify::Init(init), Modify::Rtr(rtr), Modify::Rts(rts)] {
                    qp.modify(&change).unwrap();
                }
            }
        }
        fabric.set_policy(Policy {
            timers: plan.timers,
            repairs: Timers::Any,
            faults: plan.faults,
            in_order: plan.in_order,
            drift: plan.drift,
            mortal: None,
        });
        let root = fabric.snapshot();
        let mut world = World { fabric, places, root, plan, seen: vec![] };
        world.begin();
        world
    }

    /// Back to the root.
    pub fn begin(&mut self) {
        self.fabric.reset_to(&self.root);
        self.seen = self.plan.acts.iter().map(|_| Default::default()).collect();
        for (me, place) in self.places.iter().enumerate() {
            let script = Script {
                me,
                place: place.clone(),
                acts: self.plan.acts[me].clone(),
                next: 0,
                style: self.plan.style,
                armed: false,
                arming: false,
                forgets: self.plan.forgets,
                open: 0,
                asleep: None,
                started: false,
                calls: Vec::new(),
                extra: None,
                steps: 0,
                paused: None,
                seen: self.seen[me].clone(),
            };
            self.fabric.mount(NodeId(me as u32), Box::new(script));
        }
    }
}
