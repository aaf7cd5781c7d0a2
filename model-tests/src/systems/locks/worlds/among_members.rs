//! Locks among members: the shipped service, membership and transport on the fabric, of which a node crashes, is slow, or
//! loses a connection, or whose lock's home leaves.
//!
//! Mutual exclusion is judged by the nodes' clocks: what is held counts while the lease of its node runs, and of a node that has
//! crashed for as long as no clock of those that live can have passed its end. Every request of a node that lives ends: it is granted
//! and given back, or refused for good because its node was left out.

use super::modes::{self, Requests};
use super::{WorldOracles, once_there_is_room};
use crate::explore::{Coverage, Size, TraceEvent, Violation};
use crate::harness::{self, Explored, Member, Model, Shape, at_rest};
use crate::history::{ClientId, RequestId};
use crate::oracle::Oracles as _;
use crate::record::Record;
use crate::system::System;
use crate::systems::locks::Locks;
use crate::systems::locks::history::{Event, What, Why};
use crate::systems::locks::oracles::BesideExclusion;
use std::cell::{Cell, RefCell};
use std::hash::Hash;
use std::rc::Rc;
use weft_protocols::locks::{Grant, LockClient, LockConfig, LockKey, LockService, Mode, Scheme};
use weft_protocols::members::{self, Members, MembersConfig, View, ViewId};
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::rt::{Rt, WaitPoint};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::explore::{AccessKind, FaultSet, Outcome};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

type Recorder = harness::Recorder<BesideExclusion>;

/// The promises that this model judges itself.
const EXCLUSION: &str = "mutual exclusion";
const KNOWS: &str = "who is left out knows it";
const TOLD: &str = "who is told to be left out is";

/// By how much clocks differ: more than what a node's own work moves its clock in an execution.
const DRIFT: Nanos = Nanos::from_millis(3);
const LEASE: Nanos = Nanos::from_millis(30);
const PATIENCE: Nanos = Nanos::from_millis(8);

/// One lock, at home on the first node, and what each node asks of it.
pub(super) struct AmongMembers {
    pub(super) scheme: Scheme,
    pub(super) requests: Requests,
    /// What is unusual about it.
    pub(super) course: Course,
}

/// What happens beside the requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Nothing.
    Stays,
    /// The lock's home leaves.
    Leaves,
    /// Connections have room for one message; who asks watches the lock's home meanwhile.
    Narrow,
    /// Who holds alone goes on sharing.
    Downgrades,
    /// The last node says to the members what is no message, and speaks of views that nobody has.
    Strangers,
}

/// What a stranger says on the members' channel: bytes that are no message, and messages of views that nobody has. `from` and `to` are
/// the incarnations.
fn nonsense(from: u64, to: u64) -> Vec<Vec<u8>> {
    let says =
        |kind: u8, rest: &[u8]| [&[3, kind, 0, 0][..], &from.to_le_bytes(), &to.to_le_bytes(), rest].concat();
    let view = [7; 20];
    let of_a_view = [&view[..], &[9; 12]].concat();
    // A member twice in one list.
    let twice =
        [&view[..], &2_u32.to_le_bytes(), &[[1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]; 2].concat(), &[0; 4]]
            .concat();
    vec![
        vec![],
        [&[9][..], &says(1, &[])[1..]].concat(),
        says(99, &[]),
        says(7, &twice),
        says(14, &view),
        says(15, &of_a_view),
        says(16, &of_a_view),
        says(10, &view),
        says(11, &view),
    ]
}

/// What a node has of the lock, as one who looks from outside finds it.
type Held = Rc<RefCell<Option<Grant<Sim>>>>;

/// What an execution keeps.
pub(super) struct State {
    services: Vec<LockService<Sim>>,
    members: Vec<Members<Sim>>,
    meshes: Vec<Mesh<Sim>>,
    held: Vec<Held>,
    /// By node: whether its client was told that the others go on without it, or that what it held is gone.
    told: Vec<Rc<Cell<bool>>>,
    /// Nodes that have crashed, by whose clocks their leases ran until then.
    dead: Vec<(usize, Nanos)>,
    /// The view in which all begin.
    first: ViewId,
    /// Something was granted in a later one.
    granted_later: Rc<Cell<bool>>,
}

impl State {
    fn is_dead(&self, node: usize) -> bool {
        self.dead.iter().any(|(dead, _)| *dead == node)
    }

    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|node| !self.is_dead(*node))
    }

    /// The last view that any of those who live has.
    fn last(&self) -> Option<View> {
        self.living().filter_map(|node| self.members[node].view()).max_by_key(|view| view.id.number)
    }

    /// Whether those who live are a majority of the last view. Who has none may yet get one.
    fn has_majority(&self) -> bool {
        self.last().is_none_or(|view| {
            view.members.iter().filter(|member| !self.is_dead(member.rank.index())).count() >= view.quorum()
        })
    }

    /// The nodes that live, are not in the last view, and have not heard so.
    fn unaware(&self) -> impl Iterator<Item = usize> {
        let last = self.last();
        self.living().filter(move |node| {
            let member = &self.members[*node];
            last.as_ref().is_some_and(|last| !last.contains(member.me())) && !member.is_out()
        })
    }

    /// Whether nothing is under way, and all members of the last view act in it: then what lock services keep is of that view.
    fn is_settled(&self) -> bool {
        let Some(last) = self.last() else { return false };
        let is_still = |mesh: &Mesh<Sim>| {
            let audit = mesh.audit();
            audit.outstanding + audit.waiting == 0
        };
        let acts_in_it = |member: &members::Member| {
            let view = self.members[member.rank.index()].view();
            view.is_some_and(|view| view.id == last.id)
        };
        self.meshes.iter().all(is_still) && last.members.iter().all(acts_in_it)
    }

    /// What a node keeps of the locks that has its part in them, once all is settled.
    fn leftovers(&self, node: usize) -> Vec<(&'static str, u64)> {
        let is_member = self.last().is_some_and(|last| last.contains(self.members[node].me()));
        let judges = is_member && !self.has_lost_its_part(node) && self.is_settled();
        if judges { Locks::leftovers(&self.services[node]) } else { Vec::new() }
    }

    /// Whether nothing can tell a node what became of it: all who live and have left it out have ended its connections at their ends,
    /// and at its own they stand, since it has sent nothing over them from then on. They were adopted, so that nobody ends them there;
    /// and these worlds' nodes do not ask after what is not acknowledged, as nodes do otherwise (`MeshConfig::probe_after`).
    fn hears_nothing(&self, node: usize) -> bool {
        let last = self.last();
        let members = last.iter().flat_map(|view| &view.members).map(|member| member.rank);
        let mut living = members.filter(|rank| !self.is_dead(rank.index()));
        let me = Rank::from_index(node as u32);
        living.all(|rank| self.meshes[rank.index()].is_gone(me) && self.meshes[node].rail(rank).is_some())
    }

    /// Whether a node has no part any more in what its client has asked for: it is out, or its membership has begun anew.
    fn has_lost_its_part(&self, node: usize) -> bool {
        let members = &self.members[node];
        members.is_out() || members.view().is_none_or(|view| view.id.lineage != self.first.lineage)
    }

    /// Who is left out knows it, and nobody else is told so.
    fn all_know(&self) -> Result<(), Violation> {
        if let Some(node) = self.unaware().find(|node| !self.hears_nothing(*node)) {
            return Err(Violation::new(KNOWS, format!("n{node} is left out and does not know it")));
        }
        match self.living().find(|node| self.told[*node].get() && !self.has_lost_its_part(*node)) {
            Some(node) => Err(Violation::new(TOLD, format!("n{node} is told that it is, and has its part"))),
            None => Ok(()),
        }
    }
}

impl AmongMembers {
    /// The first key whose home is the first node.
    fn key(&self) -> LockKey {
        (0..).map(LockKey).find(|key| key.home(self.nodes()).index() == 0).expect("every node is a home")
    }

    fn nodes(&self) -> u32 {
        self.requests.nodes()
    }

    /// Whether a node's hold counts. A dead one's does until no clock can be behind the end of its lease.
    fn counts(&self, state: &State, members: &[Member], node: usize, grant: &Grant<Sim>) -> bool {
        match state.dead.iter().find(|(dead, _)| *dead == node) {
            None => grant.counts(),
            Some((_, until)) => {
                state.living().map(|node| members[node].rt.now()).min().is_some_and(|now| now < *until)
            }
        }
    }
}

/// Whether of all holders, node by node, no two exclude each other.
fn alone(holders: &[(usize, Mode)]) -> Result<(), Violation> {
    for (place, (a, of_a)) in holders.iter().enumerate() {
        let mut later = holders[place + 1..].iter();
        if let Some((b, of_b)) = later.find(|(_, of_b)| !of_a.goes_with(*of_b)) {
            return Err(Violation::new(EXCLUSION, format!("n{a} holds {of_a}, and so does n{b} {of_b}")));
        }
    }
    Ok(())
}

/// Asks for the lock in these modes, one after the other, and holds it each time until its node's next step.
async fn client(
    (rt, locks): (Rt<Sim>, LockClient<Sim>),
    members: Members<Sim>,
    (node, key): (u32, LockKey),
    modes: Vec<Mode>,
    (held, told, granted): (Held, Rc<Cell<bool>>, impl Fn(u64)),
    recorder: Recorder,
    course: Course,
) {
    let _watch = (course == Course::Narrow).then(|| members.watch(Rank::from_index(0)));
    for (number, mode) in (0..).zip(modes) {
        let request = RequestId { client: ClientId { node, index: 0 }, number };
        let record = |what| {
            told.set(told.get() || matches!(what, What::Lost | What::Failed(Why::LeftOut)));
            recorder.record(Event { at: Nanos::ZERO, request, key, mode, what });
        };
        record(What::Requested { deadline: None });
        let asked = once_there_is_room(&rt, async || locks.lock(key, mode).await);
        let grant = match asked.at((number, "asks")).await {
            Ok(grant) => grant,
            Err(why) => return record((&why).into()),
        };
        record(What::Granted { token: grant.token() });
        granted(members.view().map_or(0, |view| view.id.number));
        *held.borrow_mut() = Some(grant);
        rt.yield_now().at((number, "holds")).await;
        // One whose lease has run out may be lost already.
        let downgrades = course == Course::Downgrades && mode == Mode::Exclusive;
        let counting = held.borrow_mut().take_if(|grant| downgrades && grant.counts());
        if let Some(mut grant) = counting {
            if grant.downgrade().await.is_ok() {
                record(What::Downgraded { token: grant.token() });
            }
            *held.borrow_mut() = Some(grant);
            rt.yield_now().at((number, "shares")).await;
        }
        let grant = held.borrow_mut().take();
        match grant {
            // (In the past, but not at no time at all: the lease may be renewed yet.)
            Some(grant) if grant.counts_until() > Nanos::ZERO => {
                record(What::Released);
                grant.unlock().await;
            }
            _ => record(What::Lost),
        }
    }
}

impl Model for AmongMembers {
    type State = State;
    type Oracles = BesideExclusion;

    fn size(&self) -> Size {
        self.requests.size()
    }

    fn smaller(&self) -> Vec<Size> {
        // Two nodes are too few to go on without one of them.
        let smaller = self.requests.smaller().into_iter().filter(|smaller| smaller.nodes() >= 3);
        smaller.map(|smaller| smaller.size()).collect()
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes(), wait: Wait::Poll, home: None, one_by_one: true }
    }

    /// Longer messages, since a view is in them, and more receive buffers, since nothing is acknowledged.
    fn mesh(&self, config: &mut MeshConfig) {
        config.max_message = members::longest(self.nodes()).next_multiple_of(8);
        config.recv_buffers = 32;
        config.chunk = 16 << 10;
        if self.course == Course::Narrow {
            (config.max_queued, config.send_depth) = (1, 4);
            (config.ack_delay, config.probe_after) = (PATIENCE / 4, PATIENCE);
        }
        // Once all that waits for a peer has waited: a connection is never away for as long as members are patient.
        config.reconnect_min = PATIENCE;
    }

    fn drift(&self) -> Option<Nanos> {
        Some(DRIFT)
    }

    /// Without a majority no view follows, and nobody's request ends.
    fn needs(&self, state: &State, _: NodeId, _: &Recorder) -> bool {
        !state.has_majority()
    }

    fn waits(&self, state: &State, _: &[NodeId], recorder: &Recorder) -> bool {
        let is_awaited =
            || state.unaware().next().is_some() || recorder.oracles(|oracles| oracles.unended() > 0);
        state.has_majority() && is_awaited()
    }

    fn usual_faults(&self) -> FaultSet {
        self.faults().and(FaultSet::one(Outcome::Crash).with(Outcome::SlowNode))
    }

    /// Of three nodes a crash beside one that leaves may leave no majority: the view without that one may have the dead one. Who watches a node that is slow, and whose adapter answers all
    /// probes, does so without end in an order in which that node never wakes up.
    fn faults(&self) -> FaultSet {
        let survived = FaultSet::ALL.without_all(FaultSet::OF_DISKS).without(Outcome::Restart);
        match self.course {
            Course::Leaves => survived.without(Outcome::Crash),
            Course::Narrow => survived.without(Outcome::SlowNode),
            // Nobody else has a reason to begin another view.
            Course::Strangers => FaultSet::NONE,
            _ => survived,
        }
    }

    fn oracles(&self) -> BesideExclusion {
        BesideExclusion::new(self.scheme.has_tokens()).among_members()
    }

    fn promises(&self) -> &'static [&'static str] {
        &[EXCLUSION, KNOWS, TOLD]
    }

    fn configurations(&self) -> usize {
        self.requests.mixes()
    }

    fn configuration(&self, number: usize) -> String {
        format!("the nodes ask for {}", modes::text(&self.requests.mix(number)))
    }

    fn start(&self, _: usize, nodes: &[Member], _: &Recorder) -> State {
        let timing = MembersConfig { lease: LEASE, drift: DRIFT, patience: PATIENCE, nodes: self.nodes() };
        let config = LockConfig::new(self.scheme, self.nodes());
        let start = |Member { rt, mesh }: &Member| {
            let members = Members::start(rt, mesh, timing).expect("good settings");
            let service = LockService::start_with(rt, mesh, config, &members).expect("good settings");
            (members, service)
        };
        let (members, services) = nodes.iter().map(start).unzip();
        let held = nodes.iter().map(|_| Held::default()).collect();
        let told = nodes.iter().map(|_| Rc::default()).collect();
        let meshes = nodes.iter().map(|node| node.mesh.clone()).collect();
        let (dead, first, granted_later) = (Vec::new(), ViewId::default(), Rc::default());
        State { services, members, meshes, held, told, dead, first, granted_later }
    }

    /// The first view begins, and what earlier ones might have granted is over.
    fn warms_up(&self) -> bool {
        true
    }

    fn begin(&self, configuration: usize, state: &mut State, nodes: &[Member], recorder: &Recorder) {
        let view = state.members[0].view().expect("all have met");
        state.first = view.id;
        let modes = self.requests.mix(configuration);
        for (node, modes) in modes.into_iter().enumerate() {
            let (rt, service) = (nodes[node].rt.clone(), state.services[node].client());
            let (members, held) = (state.members[node].clone(), Rc::clone(&state.held[node]));
            let told = Rc::clone(&state.told[node]);
            let (first, later) = (state.first.number, Rc::clone(&state.granted_later));
            let granted = move |view| later.set(later.get() || view > first);
            let place = (node as u32, self.key());
            let asks = client(
                (rt, service),
                members,
                place,
                modes,
                (held, told, granted),
                recorder.clone(),
                self.course,
            );
            drop(nodes[node].rt.spawn(asks));
        }
        if self.course == Course::Leaves {
            state.members[0].leave();
        }
        if self.course == Course::Strangers {
            let [others @ .., last] = nodes else { return };
            let incarnations: Vec<u64> = others.iter().map(|other| other.mesh.incarnation()).collect();
            let (rt, mesh) = (last.rt.clone(), last.mesh.clone());
            last.rt.spawn(async move {
                for (other, to) in (0..).zip(incarnations) {
                    for (number, bytes) in nonsense(mesh.incarnation(), to).iter().enumerate() {
                        // A mesh keeps more messages than that.
                        let _ = mesh.send(Rank::from_index(other), members::CHANNEL, bytes);
                        rt.yield_now().at((other, number)).await;
                    }
                }
            });
        }
    }

    fn crashed(&self, state: &mut State, node: NodeId, recorder: &Recorder) {
        state.dead.push((node.index(), state.members[node.index()].lease_until()));
        recorder.record(Event::of_node(Nanos::ZERO, node.0, What::Crashed));
    }

    fn judge(&self, state: &State, members: &[Member], view: &mut StateHasher) -> Result<(), Violation> {
        let mut holders: Vec<(usize, Mode)> = Vec::new();
        for (node, held) in state.held.iter().enumerate() {
            if let Some(grant) = &*held.borrow()
                && self.counts(state, members, node, grant)
            {
                holders.push((node, grant.mode()));
            }
        }
        for (node, mode) in &holders {
            (node, *mode == Mode::Shared).hash(view);
        }
        alone(&holders)
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        self.judge_each(state, members)?;
        if self.course == Course::Strangers
            && state.members.iter().any(|member| member.view().is_none_or(|view| view.id != state.first))
        {
            return Err(Violation::new(KNOWS, "what a stranger said has begun or ended a view"));
        }
        state.all_know()
    }

    fn finish_without(&self, state: &State, _: &[NodeId], _: &[Member]) -> Result<(), Violation> {
        state.all_know()
    }

    fn violation_at(&self, state: &State, node: usize, _: &Member) -> Option<Violation> {
        at_rest(node, Locks::conduct(&state.services[node].stats().into()), state.leftovers(node))
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        let view = |of: &Members<Sim>| of.view().map_or(0, |view| view.id.number);
        sink.sometimes("another view began", state.members.iter().any(|of| view(of) > state.first.number));
        sink.sometimes("something was granted in it", state.granted_later.get());
        sink.sometimes("a node was left out alive", state.members.iter().any(Members::is_out));
        sink.sometimes("what lock services keep was judged", state.is_settled());
        if self.course == Course::Downgrades {
            let downgrades = state.services.iter().any(|service| service.stats().downgrades > 0);
            sink.sometimes("who held alone went on sharing", downgrades);
        }
    }
}

impl Explored for BesideExclusion {
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Crashed => Some(AccessKind::Write),
            _ => WorldOracles::access(event),
        }
    }

    fn is_response(event: &Event) -> bool {
        event.what != What::Crashed && WorldOracles::is_response(event)
    }

    fn of_requests(event: &Event) -> Option<AccessKind> {
        WorldOracles::of_requests(event)
    }

    fn mark(event: &Event) -> Option<TraceEvent> {
        match event.what {
            What::Crashed => None,
            _ => WorldOracles::mark(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_alone_beside_any_of_several_who_share_is_told() {
        use Mode::{Exclusive, Shared};
        let told = |modes: &[Mode]| {
            let holders: Vec<_> = modes.iter().copied().enumerate().collect();
            alone(&holders).err().map(|violation| violation.text)
        };
        assert_eq!(told(&[Shared, Shared, Shared]), None);
        assert_eq!(told(&[Exclusive]), None);
        let text = Some("n0 holds shared, and so does n2 exclusive".to_string());
        assert_eq!(told(&[Shared, Shared, Exclusive]), text);
    }

    #[test]
    fn to_ask_whether_somebody_waits_judges_nothing() {
        let requests = Requests::of(&Size::default(), ",x,x").expect("three nodes");
        let model = AmongMembers { scheme: Scheme::Srsl, requests, course: Course::Stays };
        let recorder = Recorder::new(model.oracles());
        let (services, members, held) = (Vec::new(), Vec::new(), Vec::new());
        let (meshes, told, dead) = (Vec::new(), Vec::new(), Vec::new());
        let (first, granted_later) = (ViewId::default(), Rc::default());
        let state = State { services, members, meshes, held, told, dead, first, granted_later };
        assert!(!model.waits(&state, &[NodeId(0)], &recorder));
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number: 0 };
        let what = What::Requested { deadline: None };
        let (at, key, mode) = (Nanos::ZERO, model.key(), Mode::Exclusive);
        recorder.record(Event { at, request, key, mode, what });
        assert!(model.waits(&state, &[NodeId(0)], &recorder));
        assert_eq!(recorder.violation().map(|violation| violation.text), None);
    }
}
