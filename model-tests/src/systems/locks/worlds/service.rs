//! Lock worlds on the shipped code: its runtime, its transport, its lock service.

use super::client::{Locker, Recorder, WorldOracles, client};
use super::modes::{self, Requests};
use super::once_there_is_room;
use crate::explore::{Size, Violation};
use crate::harness::{Member, Model, Shape, Unseen, at_rest};
use crate::named::Named;
use crate::system::System;
use crate::systems::locks::{self, workload::LockWork};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::locks::{
    Grant, LockClient, LockError, LockKey, LockService, LockStats, Mode, Scheme, Token,
};
use weft_protocols::rt::Rt;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{NodeId, Sim};
use weft_verbs::Wait;

/// One lock, and what each node asks of it.
pub struct Locks {
    /// The protocol.
    pub scheme: Scheme,
    /// What each node asks for, one after the other.
    pub requests: Requests,
    /// The node that is the lock's home, from 0.
    pub home: u32,
    /// How the nodes learn of completions.
    pub wait: Wait,
    /// Whether they take completions one by one.
    pub one_by_one: bool,
    /// Whether every node has used the lock once before, and knows where its word is.
    pub warm: bool,
    /// The count of shared requests from which on the word is given up; `None` for the default.
    pub shared_limit: Option<u32>,
}

impl Locks {
    fn nodes(&self) -> u32 {
        self.requests.nodes()
    }

    /// The first key whose home is the wanted one.
    pub(super) fn key(&self) -> LockKey {
        let at_home = |key: &LockKey| key.home(self.nodes()).index() == self.home as usize;
        (0..).map(LockKey).find(at_home).expect("every node is a home")
    }

    /// Every node's service, and nobody who asks for anything.
    pub(super) fn served(&self, members: &[Member], recorder: &Recorder) -> State {
        let work = LockWork { shared_limit: self.shared_limit, ..LockWork::idle(self.scheme) };
        let start = |(node, member): (usize, &Member)| {
            let place = member.place(node, members.len(), 0);
            <locks::Locks as System>::start(&place, &work, recorder).expect("a good configuration")
        };
        let services = members.iter().enumerate().map(start).collect();
        State { services, before: Vec::new(), refused: Vec::new() }
    }

    /// Every node tries once to take the lock, and gives it back.
    fn warm_up(&self, services: &[LockService<Sim>], members: &[Member]) {
        for (service, member) in services.iter().zip(members) {
            let (client, key) = (service.client(), self.key());
            member.rt.spawn(async move {
                if let Ok(grant) = client.try_lock(key, Mode::Exclusive).await {
                    grant.unlock().await;
                }
            });
        }
    }
}

/// A client of the lock service, as the worlds' clients use it.
struct Client {
    rt: Rt<Sim>,
    locks: LockClient<Sim>,
    key: LockKey,
    refused: Rc<Cell<u64>>,
}

impl Locker for Client {
    type Held = Grant<Sim>;

    async fn lock(&self, mode: Mode) -> Grant<Sim> {
        let ask = async || {
            let answer = self.locks.lock(self.key, mode).await;
            let refused = answer.as_ref().is_err_and(|why| *why == LockError::HomeFull);
            self.refused.update(|before| before + u64::from(refused));
            answer
        };
        match once_there_is_room(&self.rt, ask).await {
            Ok(grant) => grant,
            // Refused for good: this client waits for ever, and the oracle of progress says so.
            Err(_) => std::future::pending().await,
        }
    }

    async fn unlock(&self, held: Grant<Sim>) {
        held.unlock().await;
    }

    fn token(held: &Grant<Sim>) -> Option<Token> {
        held.token()
    }
}

/// What an execution keeps.
pub struct State {
    services: Vec<LockService<Sim>>,
    /// What each had done when the clients began.
    before: Vec<LockStats>,
    /// How often the home of each one's client had no memory for the lock since.
    refused: Vec<Rc<Cell<u64>>>,
}

impl State {
    /// A node's service.
    pub fn service(&self, node: usize) -> &LockService<Sim> {
        &self.services[node]
    }

    fn stats(&self) -> Vec<LockStats> {
        self.services.iter().map(LockService::stats).collect()
    }
}

impl Model for Locks {
    type State = State;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        self.requests.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.requests.smaller().iter().map(Requests::size).collect()
    }

    fn shape(&self) -> Shape {
        let home = (self.scheme != Scheme::Srsl).then_some(self.home);
        Shape { nodes: self.nodes(), wait: self.wait, home, one_by_one: self.one_by_one }
    }

    /// A crash, too: then nobody may hold who must not, and who does not need the dead node goes on.
    fn faults(&self) -> FaultSet {
        FaultSet::TIMELESS.without(Outcome::Restart)
    }

    /// The home is needed by all; and whoever has asked may be in the queue, or hold, or have been about to pass the
    /// lock on: the schemes wait for such a node for ever.
    fn needs(&self, _: &State, node: NodeId, recorder: &Recorder) -> bool {
        node.0 == self.home || recorder.oracles(|oracles| oracles.has_asked(node.0))
    }

    fn oracles(&self) -> WorldOracles {
        WorldOracles::new(self.scheme.has_tokens())
    }

    fn configurations(&self) -> usize {
        self.requests.mixes()
    }

    fn configuration(&self, number: usize) -> String {
        format!("the nodes ask for {}", modes::text(&self.requests.mix(number)))
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let mut state = self.served(members, recorder);
        match self.warm {
            true => self.warm_up(&state.services, members),
            false => self.begin(configuration, &mut state, members, recorder),
        }
        state
    }

    fn warms_up(&self) -> bool {
        self.warm
    }

    fn begin(&self, configuration: usize, state: &mut State, members: &[Member], recorder: &Recorder) {
        state.before = state.stats();
        state.refused = members.iter().map(|_| Rc::default()).collect();
        let key = self.key();
        let modes = self.requests.mix(configuration);
        for (node, ((service, Member { rt, .. }), modes)) in
            (0..).zip(state.services.iter().zip(members).zip(modes))
        {
            let refused = Rc::clone(&state.refused[node as usize]);
            let lock = Client { rt: rt.clone(), locks: service.client(), key, refused };
            rt.spawn(client(rt.clone(), recorder.clone(), node, key, modes, lock));
        }
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let service = &state.services[node];
        let conduct = locks::Locks::conduct(&service.stats().into());
        let since = service.stats() - state.before[node];
        let left =
            locks::Locks::leftovers(service).into_iter().chain(miscounted(&since, state.refused[node].get()));
        at_rest(node, conduct, left.chain(member.leftovers()))
    }

    fn reached_at(&self, state: &State, node: usize, member: &Member) -> u32 {
        let (mesh, since) = (member.mesh.stats(), state.services[node].stats() - state.before[node]);
        let reached = [
            mesh.reconnects > 0,
            mesh.messages_repeated > 0,
            since.swap_misses > 0,
            since.unknown_outcomes > 0,
            since.rebuilds > 0,
            since.stale_messages > 0,
        ];
        (0..).zip(reached).map(|(bit, reached)| u32::from(reached) << bit).sum()
    }

    fn name_of(&self, state: &State, node: usize, address: u64) -> Option<Named> {
        <locks::Locks as System>::name_of(&state.services[node], address)
    }

    fn branches(&self) -> Vec<&'static str> {
        // SRSL has no word.
        if self.scheme == Scheme::Srsl { BRANCHES[..2].to_vec() } else { BRANCHES.to_vec() }
    }

    fn is_memoisable(&self) -> bool {
        true
    }

    fn fingerprint(
        &self,
        state: &State,
        node: usize,
        member: &Member,
        unseen: &Unseen<'_>,
        to: &mut StateHasher,
    ) -> bool {
        member.mesh.fingerprint(unseen, to) && state.services[node].fingerprint(to)
    }
}

/// What a node has counted otherwise than it was: each request was granted while somebody waited for it but for those that were refused, and
/// none was given up.
pub(super) fn miscounted(since: &LockStats, refused: u64) -> [(&'static str, u64); 3] {
    [
        (
            "requests that are not counted as granted, or otherwise",
            since.requests.abs_diff(since.grants + refused),
        ),
        ("grants that are counted as late", since.late_grants),
        ("requests that are counted as abandoned", since.abandoned),
    ]
}

const BRANCHES: [&str; 6] = [
    "a connection was made again",
    "a message was sent again",
    "a compare-and-swap failed and was repeated",
    "an atomic's outcome was unknown",
    "a word was given up and rebuilt",
    "a message came after its epoch",
];
