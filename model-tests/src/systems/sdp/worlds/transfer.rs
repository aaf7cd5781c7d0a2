//! One request and its answer, over one stream between two nodes.

use super::super::history::{Event, What};
use super::super::oracles::SdpOracles;
use super::super::workload::{Request, SdpWork};
use super::super::{Service, Sockets};
use super::branches::{self, Branch};
use super::planted;
use super::setting::Setting;
use crate::explore::{Size, Violation};
use crate::harness::{Explored, Member, Model, Recorder, Shape, at_rest};
use crate::history::{ClientId, RequestId};
use crate::oracle::{Conduct, Oracles};
use crate::record::Record;
use crate::system::{Place, System};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::transport::{MeshConfig, Rank};
use weft_sim::explore::{AccessKind, FaultSet};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Who the client is, and how bytes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The shipped one, through private buffers.
    Shipped,
    /// The same, and the server answers while it reads: both ends close at once.
    Closes,
    /// The same without copies: both offer, and both close at once.
    ClosesReads,
    /// The shipped one, which advertises what it sends.
    Reads,
    /// The shipped one, which wants the answer before it has asked for it: the server is surely the one that writes.
    Writes,
    /// The shipped one, which advertises, and the server gives buffers to be written into.
    Crosses,
    /// The shipped one, which advertises and wants its buffers back at once.
    Recalls,
    /// The same of two buffers, and the server gives shorter ones, which take a part of each.
    RecallsAmid,
    /// The same with a server that gives buffers and wants them back, both the first one.
    RecallsWanted,
    /// The same as [`Kind::Crosses`], and the server wants the first buffer back that it gives.
    RecallsSinks,
    /// The same as [`Kind::Crosses`], and the server changes how bytes may come to it: through private buffers, then advertised one at
    /// a time.
    Modes,
    /// The same: advertised one at a time, then several, and wanted ones.
    ModesOn,
    /// The shipped one, which has the peer's private buffers take other numbers of bytes.
    Resizes,
    /// One that uses its memory again when the connection over which it advertised it has broken.
    CancelsUnrevoked,
    /// One that returns no credits once it writes no more.
    KeepsCredits,
    /// One that forgets the stream when it has sent its own end.
    ForgetsEnd,
    /// One that uses its memory again when it has advertised it.
    ReusesSource,
    /// One that writes where the server wanted bytes, whatever it has sent meanwhile.
    UsesVoidSink,
    /// One that uses its memory again when it has cancelled what it advertised.
    RecallsBlindly,
    /// One that uses its memory again when it has cancelled what it wanted.
    RefillsEarly,
    /// One that uses its memory again when it has asked for the end of its registration, and fences afterwards.
    DeregistersFirst,
    /// One that uses its memory again when the write from there has failed.
    ReturnsOnError,
}

/// A transfer: the first node asks, the second one answers.
pub(super) struct Transfer {
    pub kind: Kind,
    pub setting: Setting,
    pub bytes: u32,
    pub reply: u32,
}

/// What an execution keeps.
pub(super) struct State {
    services: Vec<Service<Sim>>,
    /// How often each node has restarted, and whether the server has since its client asked.
    lives: [u32; 2],
    server_restarted: bool,
    /// Of each node, its moves that have not ended.
    moving: [Rc<Cell<u64>>; 2],
    /// When a node crashed, by the other one's clock.
    crashed_at: Option<Nanos>,
}

impl State {
    /// What runs on a node: a client by hand is none of them.
    fn service(&self, node: usize) -> Option<&Service<Sim>> {
        node.checked_sub(2 - self.services.len()).map(|at| &self.services[at])
    }
}

/// What a message of a world carries: the harness's meshes take messages of 64 bytes.
pub(super) const PAYLOAD: u32 = 32;
/// The fewest private buffers: credits run out after two messages.
pub(super) const BUFFERS: u32 = 4;
/// What a call is given where buffers are owned.
pub(super) const CALL: u32 = 64;
/// The same where it is more orders that matter than more bytes: what is sent again is a message each.
const SHORT_CALL: u32 = 32;
/// The same where two are advertised and only a part of each is read at a time.
const AMID_CALL: u32 = 24;
/// That part: no more bytes than the threshold, so that nobody asks for them to be written.
const PART_CALL: u32 = 16;

/// The node that answers.
const SERVER: u32 = 1;

impl Transfer {
    fn sized(bytes: u32, reply: u32) -> Size {
        Size::new([("bytes", bytes), ("reply", reply)])
    }

    /// A client by hand is one that makes a mistake.
    fn is_shipped(&self) -> bool {
        use Kind::{CancelsUnrevoked, DeregistersFirst, ForgetsEnd, KeepsCredits, RecallsBlindly};
        use Kind::{RefillsEarly, ReturnsOnError, ReusesSource, UsesVoidSink};
        let by_hand = matches!(
            self.kind,
            CancelsUnrevoked
                | DeregistersFirst
                | ForgetsEnd
                | KeepsCredits
                | RecallsBlindly
                | RefillsEarly
                | ReturnsOnError
                | ReusesSource
                | UsesVoidSink
        );
        !by_hand
    }

    /// The branches that a node may reach.
    fn interesting(&self) -> Vec<Branch> {
        use Kind::{Crosses, Reads, Recalls, RecallsAmid, RecallsWanted, Writes};
        let Setting { restarts, crashes, movers, .. } = self.setting;
        let mut all = branches::OF_LINKS.to_vec();
        all.push(branches::CAME_TWICE);
        all.extend(restarts.then_some(branches::PEER_IS_NEW));
        all.extend(crashes.then_some([branches::ASKED, branches::GIVEN_UP]).into_iter().flatten());
        all.extend((self.rails() > 1).then_some(branches::OTHER_RAIL));
        all.extend((movers > 0).then_some(branches::MOVED));
        // Nobody counts the buffers that a reader has back.
        let recalls = matches!(self.kind, Recalls | RecallsAmid | RecallsWanted);
        all.extend(recalls.then_some(branches::GIVEN_BACK));
        // The answer is written wherever the client's wish has come: always, but where it went over to another rail.
        all.extend((self.kind == Writes).then_some(branches::WRITTEN));
        all.extend(matches!(self.kind, Reads | Writes | Crosses).then_some(branches::REPEATED));
        all.extend((self.kind == Crosses).then_some(branches::CROSSED));
        all
    }

    /// What the user of a node does.
    fn work(&self, node: u32) -> SdpWork {
        use Kind::{Closes, ClosesReads, Crosses, ForgetsEnd};
        use Kind::{
            KeepsCredits, Modes, ModesOn, Recalls, RecallsAmid, RecallsSinks, RecallsWanted, Resizes,
            ReturnsOnError,
        };
        use Kind::{Shipped, UsesVoidSink, Writes};
        let recalls = match self.kind {
            Recalls | RecallsWanted => true,
            RecallsSinks => node == SERVER,
            RecallsAmid => node != SERVER,
            _ => false,
        };
        let work = SdpWork::of(1);
        let (bytes, reply) = (self.bytes, self.reply);
        let failover = self.setting.failover();
        let work = SdpWork { bytes, reply, buffers: BUFFERS, buffer_bytes: PAYLOAD, failover, ..work };
        match self.kind {
            Shipped | KeepsCredits | ForgetsEnd => work,
            Closes => SdpWork { duplex: true, ..work },
            Resizes => SdpWork { call: 40, resize: 16, ..work },
            kind => SdpWork {
                call: match kind {
                    Modes | ModesOn | Recalls | RecallsSinks | RecallsWanted => SHORT_CALL,
                    RecallsAmid if node == SERVER => PART_CALL,
                    RecallsAmid => AMID_CALL,
                    _ => CALL,
                },
                zcopy_threshold: 16,
                // Through private buffers, then one at a time: never are two advertised.
                zcopy_depth: if kind == Modes { 1 } else { 2 },
                owned_reads: matches!(
                    kind,
                    Crosses
                        | Modes
                        | ModesOn
                        | UsesVoidSink
                        | RecallsAmid
                        | RecallsWanted
                        | RecallsSinks
                        | ReturnsOnError
                        | Writes
                ),
                wants_first: kind == Writes,
                recall: if recalls { 2 } else { 0 },
                given_before: u32::from(matches!(kind, RecallsSinks | RecallsWanted)),
                modes: matches!(kind, Modes | ModesOn) && node == SERVER,
                modes_from: usize::from(kind == ModesOn),
                duplex: kind == ClosesReads,
                ..work
            },
        }
    }
}

impl Model for Transfer {
    type State = State;
    type Oracles = SdpOracles;

    fn size(&self) -> Size {
        Transfer::sized(self.bytes, self.reply)
    }

    /// With a message less.
    fn smaller(&self) -> Vec<Size> {
        let less = |bytes: u32| bytes.checked_sub(PAYLOAD);
        let bytes = less(self.bytes).map(|bytes| Transfer::sized(bytes, self.reply));
        let reply = less(self.reply).map(|reply| Transfer::sized(self.bytes, reply));
        bytes.into_iter().chain(reply).collect()
    }

    fn rails(&self) -> u8 {
        self.setting.rails
    }

    fn mesh(&self, config: &mut MeshConfig) {
        self.setting.mesh(config);
    }

    /// Where a connection stands by, it does so before the transfer begins.
    fn warms_up(&self) -> bool {
        self.setting.standby
    }

    fn breaks_for_good(&self) -> bool {
        self.setting.breaks_for_good()
    }

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> SdpOracles {
        SdpOracles::of(self.setting.failover(), self.setting.movers > 0, false)
    }

    fn usual_faults(&self) -> FaultSet {
        self.setting.faults()
    }

    fn drift(&self) -> Option<Nanos> {
        self.setting.drift()
    }

    /// A client's request has not ended, or a server's connection: until they must have.
    fn waits(&self, state: &State, crashed: &[NodeId], recorder: &Recorder<SdpOracles>) -> bool {
        let left = |service: &&Service<Sim>| !crashed.iter().any(|node| node.0 == service.node);
        let mut living = state.services.iter().filter(left);
        let over =
            |service: &Service<Sim>| state.crashed_at.is_none_or(|at| service.rt.now() > at + Setting::BOUND);
        let waits = |service: &Service<Sim>| {
            let left = living_leftovers(service).into_iter().any(|(_, count)| count > 0);
            left || recorder.oracles(|oracles| oracles.unended() > 0)
        };
        living.any(|service| waits(service) && !over(service))
    }

    /// Who asks a dead node is told so in time, and who serves one.
    fn needs(&self, _: &State, _: NodeId, _: &Recorder<SdpOracles>) -> bool {
        !self.setting.crashes
    }

    fn is_memoisable(&self) -> bool {
        true
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<SdpOracles>) -> State {
        let place = |(node, member): (usize, &Member)| member.place(node, 2, 0);
        let places: Vec<Place<Sim>> = members.iter().enumerate().map(place).collect();
        // A client of another kind speaks for its node by itself.
        let shipped = self.is_shipped();
        let start = |place: &Place<Sim>| {
            let work = self.work(place.node);
            let options = self.setting.options(work.options());
            Service::start(place, &work, options, recorder).expect("nobody else has the channel")
        };
        let services: Vec<Service<Sim>> = places[usize::from(!shipped)..].iter().map(start).collect();
        let moving = Default::default();
        let mut state = State { services, lives: [0; 2], server_restarted: false, moving, crashed_at: None };
        if !self.warms_up() {
            self.begin(0, &mut state, members, recorder);
        }
        state
    }

    /// The client makes its request.
    fn begin(&self, _: usize, state: &mut State, members: &[Member], recorder: &Recorder<SdpOracles>) {
        let id = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let request = Request { to: 1, bytes: self.bytes, reply: self.reply };
        let (rt, recorder) = (members[0].rt.clone(), recorder.clone());
        if self.is_shipped() {
            let mut client = Sockets::client(&state.services[0], id.client);
            members[0].rt.spawn(async move {
                Sockets::perform(&rt, &mut client, id, request, &recorder).await;
            });
        } else {
            let mesh = members[0].mesh.clone();
            members[0].rt.spawn(planted::client(self.kind, rt, mesh, id, request, recorder));
        }
        // Connections stand on the first rail: the client's goes to the other one, the server's stays.
        for (node, rail) in [(0, 1), (1, 0)].into_iter().take(self.setting.movers as usize) {
            let (sdp, moving) = (state.services[node].sdp.clone(), Rc::clone(&state.moving[node]));
            moving.update(|moves| moves + 1);
            drop(members[node].rt.spawn(async move {
                // A rail that does not answer is left alone.
                let _ = sdp.move_to(Rank::from_index(1 - node as u32), rail).await;
                moving.update(|moves| moves - 1);
            }));
        }
    }

    fn crashed(&self, state: &mut State, node: NodeId, recorder: &Recorder<SdpOracles>) {
        let request = RequestId { client: ClientId { node: node.0, index: 0 }, number: 0 };
        recorder.record(Event { at_ns: 0, node: node.0, request, what: What::Crashes });
        let other = state.services.iter().find(|service| service.node != node.0);
        state.crashed_at = other.map(|service| service.rt.now());
    }

    fn restart(&self, state: &mut State, node: NodeId, member: &Member, recorder: &Recorder<SdpOracles>) {
        let client = ClientId { node: 0, index: 0 };
        let what = What::Restarts;
        let request = RequestId { client: ClientId { node: node.0, index: 0 }, number: 0 };
        recorder.record(Event { at_ns: 0, node: node.0, request, what });
        state.lives[node.index()] += 1;
        let (work, place) = (self.work(node.0), member.place(node.index(), 2, state.lives[node.index()]));
        let options = self.setting.options(work.options());
        let service = Service::start(&place, &work, options, recorder).expect("nobody else has the channel");
        if node.0 == client.node {
            let mut calls = Sockets::client(&service, client);
            let id = RequestId { client, number: 0 };
            let request = Request { to: 1, bytes: self.bytes, reply: self.reply };
            let (rt, recorder) = (member.rt.clone(), recorder.clone());
            member.rt.spawn(async move {
                Sockets::perform(&rt, &mut calls, id, request, &recorder).await;
            });
        }
        // What the client asks in its next life it asks the server's present one.
        state.server_restarted = node.0 != client.node;
        let without = 2 - state.services.len();
        state.services[node.index() - without] = service;
    }

    fn finish_without(&self, state: &State, crashed: &[NodeId], _: &[Member]) -> Result<(), Violation> {
        let lives = |service: &&Service<Sim>| !crashed.iter().any(|node| node.0 == service.node);
        state.services.iter().filter(lives).try_for_each(|service| {
            let conduct = Sockets::conduct(&Sockets::counts(service));
            at_rest(service.node as usize, conduct, living_leftovers(service)).map_or(Ok(()), Err)
        })
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let service = state.service(node);
        let conduct: Conduct =
            service.map(|service| Sockets::conduct(&Sockets::counts(service))).unwrap_or_default();
        // A client that waits for nothing but an answer does not learn that its server has restarted.
        let waits = state.server_restarted && node == 0;
        let streams = service.filter(|_| !waits).map(Sockets::leftovers).unwrap_or_default();
        let moves = ("moves that did not end", state.moving[node].get());
        at_rest(node, conduct, streams.into_iter().chain([moves]).chain(member.leftovers()))
    }

    fn branches(&self) -> Vec<&'static str> {
        branches::names(&self.interesting())
    }

    fn reached_at(&self, state: &State, node: usize, member: &Member) -> u32 {
        let sdp = state.service(node).map(|service| service.sdp.stats()).unwrap_or_default();
        branches::reached(&self.interesting(), &member.mesh.stats(), &sdp)
    }
}

/// What a node has not done with whose peer is dead, though it must be.
fn living_leftovers(service: &Service<Sim>) -> Vec<(&'static str, u64)> {
    let served = ("connections that are served still", service.serving.get());
    // A stream whose memory the peer was offered is kept as long as the peer may reach it: as long as nobody knows that it is dead.
    let copies = service.work.zcopy_threshold == 0;
    let streams = Sockets::leftovers(service).into_iter().filter(|_| copies);
    streams.chain([served]).collect()
}

impl Explored for SdpOracles {
    /// What is judged of a request happens in the order of causes, but for one thing: a request that was asked before its server restarted
    /// need not end, and one that is asked afterwards must.
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Asks { .. } => Some(AccessKind::Read),
            What::Restarts => Some(AccessKind::Write),
            _ => None,
        }
    }
}
