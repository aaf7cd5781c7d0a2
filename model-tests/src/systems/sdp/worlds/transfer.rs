//! One request and its answer, over one stream between two nodes.

use super::super::history::{Event, What};
use super::super::oracles::SdpOracles;
use super::super::workload::{Request, SdpWork};
use super::super::{Counts, Service, Sockets};
use super::planted;
use crate::explore::{Coverage, Size, Violation};
use crate::harness::{Explored, Member, Model, Recorder, Shape};
use crate::history::{ClientId, RequestId};
use crate::oracle::{Conduct, Leaks, Leftover};
use crate::record::Record;
use crate::system::{Place, System};
use weft_protocols::transport::{MeshConfig, Planted};
use weft_sim::explore::{AccessKind, FaultSet, Outcome};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Who the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The shipped one, through private buffers.
    Shipped,
    /// The shipped one, and the server answers while it reads: both ends close at once.
    Closes,
    /// The same without copies: both offer, and both close at once.
    ClosesReads,
    /// The shipped one, between nodes of two rails.
    Rails,
    /// The same, and a connection stands by over the other rail when the transfer begins.
    StandsBy,
    /// The same as [`Kind::ReadsOverRails`], and a connection stands by.
    StandsByReads,
    /// The shipped one, which advertises what it sends.
    Reads,
    /// The same between nodes of two rails.
    ReadsOverRails,
    /// The same, and the server gives buffers to be written into.
    Crosses,
    /// The shipped one, which advertises and wants its buffers back at once.
    Recalls,
    /// The same with a server that gives buffers and wants them back.
    RecallsWanted,
    /// The same as [`Kind::Crosses`], and readers change how bytes may come to them.
    Modes,
    /// The shipped one, and either node may crash and begin anew.
    Restarts,
    /// The same as [`Kind::Reads`], and either node may crash and begin anew.
    RestartsReads,
    /// The same as [`Kind::Crosses`], and either node may crash and begin anew.
    RestartsCrosses,
    /// The shipped one, which has the peer's private buffers take other numbers of bytes.
    Resizes,
    /// The shipped one, which advertises, between nodes of two rails, over a transport that uses a key on any rail.
    OtherRailsKey,
    /// The shipped one between nodes of two rails, over a transport that goes on from what it has sent.
    ResumesFromSent,
    /// The shipped one between nodes of two rails, over a transport that lets what is in process end before it goes over.
    SuspendsDeadLink,
    /// The shipped one between nodes of two rails, over a transport that moves one end of a connection at a time.
    MovesOneEnd,
    /// One between nodes of two rails that uses its memory again when the connection over which it advertised it has broken.
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
}

/// A transfer: the first node asks, the second one answers.
pub(super) struct Transfer {
    pub name: &'static str,
    pub kind: Kind,
    pub bytes: u32,
    pub reply: u32,
}

/// What an execution keeps.
pub(super) struct State {
    services: Vec<Service<Sim>>,
    /// How often a node has restarted, and whether the server has.
    lives: u32,
    server_restarted: bool,
}

/// What a message of a world carries: the harness's meshes take messages of 64 bytes.
pub(super) const PAYLOAD: u32 = 32;
/// The fewest private buffers: credits run out after two messages.
pub(super) const BUFFERS: u32 = 4;

impl Transfer {
    fn sized(bytes: u32, reply: u32) -> Size {
        Size::new([("bytes", bytes), ("reply", reply)])
    }

    fn is_shipped(&self) -> bool {
        use Kind::{CancelsUnrevoked, ForgetsEnd, KeepsCredits, RecallsBlindly};
        use Kind::{RefillsEarly, ReusesSource, UsesVoidSink};
        let by_hand = [KeepsCredits, ForgetsEnd, ReusesSource, UsesVoidSink, RecallsBlindly, RefillsEarly];
        !by_hand.contains(&self.kind) && self.kind != CancelsUnrevoked
    }

    fn work(&self) -> SdpWork {
        let work = SdpWork::of(1);
        let work =
            SdpWork { bytes: self.bytes, reply: self.reply, buffers: BUFFERS, buffer_bytes: PAYLOAD, ..work };
        match self.kind {
            Kind::Shipped
            | Kind::Restarts
            | Kind::Rails
            | Kind::StandsBy
            | Kind::ResumesFromSent
            | Kind::SuspendsDeadLink
            | Kind::MovesOneEnd => work,
            Kind::KeepsCredits | Kind::ForgetsEnd => work,
            Kind::Closes => SdpWork { duplex: true, ..work },
            Kind::Resizes => SdpWork { call: 40, resize: 16, ..work },
            kind => {
                use Kind::{Crosses, Modes, RecallsWanted, RestartsCrosses, UsesVoidSink};
                let wanting = [Crosses, RestartsCrosses, Modes, UsesVoidSink, RecallsWanted];
                let owned_reads = wanting.contains(&kind);
                let modes = kind == Modes;
                let duplex = kind == Kind::ClosesReads;
                let recall = if matches!(kind, Kind::Recalls | Kind::RecallsWanted) { 2 } else { 0 };
                SdpWork {
                    call: 64,
                    zcopy_threshold: 16,
                    zcopy_depth: 2,
                    owned_reads,
                    recall,
                    modes,
                    duplex,
                    ..work
                }
            }
        }
    }
}

impl Model for Transfer {
    type State = State;
    type Oracles = SdpOracles;

    fn name(&self) -> &str {
        self.name
    }

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
        use Kind::{CancelsUnrevoked, MovesOneEnd, OtherRailsKey, Rails, ReadsOverRails};
        use Kind::{ResumesFromSent, StandsBy, StandsByReads, SuspendsDeadLink};
        match self.kind {
            Rails | ReadsOverRails | StandsBy | StandsByReads => 2,
            OtherRailsKey | ResumesFromSent | SuspendsDeadLink | CancelsUnrevoked | MovesOneEnd => 2,
            _ => 1,
        }
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.planted = match self.kind {
            Kind::OtherRailsKey => Some(Planted::OtherRailsKey),
            Kind::ResumesFromSent => Some(Planted::ResumesFromSent),
            Kind::SuspendsDeadLink => Some(Planted::SuspendsDeadLink),
            Kind::MovesOneEnd => Some(Planted::MovesOneEnd),
            _ => None,
        };
        config.standby = self.warms_up();
    }

    /// Where a connection stands by, it does so before the transfer begins.
    fn warms_up(&self) -> bool {
        matches!(self.kind, Kind::StandsBy | Kind::StandsByReads)
    }

    /// What is refuted there is that it goes on without the rail that both ends have lost.
    fn breaks_for_good(&self) -> bool {
        self.kind == Kind::MovesOneEnd
    }

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> SdpOracles {
        SdpOracles::default()
    }

    /// Restarts, too, where the client and the server are both the shipped ones: what was under way is reset.
    fn usual_faults(&self) -> FaultSet {
        let survived = FaultSet::TIMELESS.without(Outcome::Crash);
        let restarts = [Kind::Restarts, Kind::RestartsReads, Kind::RestartsCrosses];
        if restarts.contains(&self.kind) { survived } else { survived.without(Outcome::Restart) }
    }

    fn is_memoisable(&self) -> bool {
        true
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<SdpOracles>) -> State {
        let work = self.work();
        let options = work.options().without_timeouts();
        let place = |(node, Member { rt, mesh }): (u32, &Member)| Place {
            rt: rt.clone(),
            mesh: mesh.clone(),
            node,
            nodes: 2,
            incarnation: 0,
            members: None,
        };
        let places: Vec<Place<Sim>> = (0..).zip(members).map(place).collect();
        // A client of another kind speaks for its node by itself.
        let shipped = self.is_shipped();
        let start =
            |place| Service::start(place, &work, options, recorder).expect("nobody else has the channel");
        let services: Vec<Service<Sim>> = places[usize::from(!shipped)..].iter().map(start).collect();
        let mut state = State { services, lives: 0, server_restarted: false };
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
    }

    fn restart(&self, state: &mut State, node: NodeId, member: &Member, recorder: &Recorder<SdpOracles>) {
        let client = ClientId { node: 0, index: 0 };
        let what = What::Restarts;
        let request = RequestId { client: ClientId { node: node.0, index: 0 }, number: 0 };
        recorder.record(Event { at_ns: 0, node: node.0, request, what });
        state.lives += 1;
        let (work, place) = (self.work(), member.place(node.index(), 2, state.lives));
        let options = work.options().without_timeouts();
        let service = Service::start(&place, &work, options, recorder).expect("nobody else has the channel");
        if node.0 == client.node {
            let mut calls = Sockets::client(&service, client);
            // Its requests are other ones than those of its last life.
            let id = RequestId { client, number: state.lives };
            let request = Request { to: 1, bytes: self.bytes, reply: self.reply };
            let (rt, recorder) = (member.rt.clone(), recorder.clone());
            member.rt.spawn(async move {
                Sockets::perform(&rt, &mut calls, id, request, &recorder).await;
            });
        }
        state.server_restarted |= node.0 != client.node;
        state.services[node.index()] = service;
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let without = 2 - state.services.len();
        let service = node.checked_sub(without).map(|at| &state.services[at]);
        let conduct: Conduct =
            service.map(|service| Sockets::conduct(&Sockets::counts(service))).unwrap_or_default();
        let mut broken = conduct.finish(Nanos::ZERO, node as u32);
        // A client that waits for nothing but an answer does not learn that its server has restarted.
        let waits = state.server_restarted && node == 0;
        let streams = service.filter(|_| !waits).map(Sockets::leftovers).unwrap_or_default();
        let left = streams.into_iter().chain(member.leftovers());
        broken.extend(Leaks::finish(Nanos::ZERO, &Leftover::named(node as u32, left)));
        broken.into_iter().next().map(Violation::from)
    }

    fn coverage(&self, state: &State, members: &[Member], sink: &mut Coverage) {
        let any = |of: fn(&Member) -> u64| members.iter().any(|member| of(member) > 0);
        sink.sometimes("a connection was made again", any(|member| member.mesh.stats().reconnects));
        sink.sometimes("a message was sent again", any(|member| member.mesh.stats().messages_repeated));
        sink.sometimes("a message came twice", any(|member| member.mesh.stats().duplicates));
        if self.kind == Kind::Restarts {
            sink.sometimes("a peer was found to be new", any(|member| member.mesh.stats().peer_resets));
        }
        if self.rails() > 1 {
            sink.sometimes(
                "a connection went over to the other rail",
                any(|member| member.mesh.stats().failovers),
            );
        }
        if matches!(self.kind, Kind::Recalls | Kind::RecallsWanted) {
            let recalled = |service: &Service<Sim>| Sockets::counts(service).recalled > 0;
            sink.sometimes("something was given back unread", state.services.iter().any(recalled));
        }
        if matches!(self.kind, Kind::Reads | Kind::ReadsOverRails | Kind::Crosses) {
            let any = |of: fn(&Counts) -> u64| {
                state.services.iter().any(|service| of(&Sockets::counts(service)) > 0)
            };
            sink.sometimes("a read or write was repeated", any(|counts| counts.repeated));
            if self.kind == Kind::Crosses {
                sink.sometimes("advertisements crossed", any(|counts| counts.crossed));
            }
        }
    }
}

impl Explored for SdpOracles {
    /// What is judged of a request happens in the order of causes: no verdict depends on the place of an event.
    fn access(_: &Event) -> Option<AccessKind> {
        None
    }
}
