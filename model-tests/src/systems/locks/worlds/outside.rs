//! Lock worlds whose clients are no tasks of their nodes: they ask as `weft lock` asks a daemon, call by call.
//!
//! A call may be made twice, and is: each client asks once more while it waits and while it holds. One of them may die without a word
//! while it holds. Its wish is over with its patience, and the others' requests end all the same.

use super::client::{Locker, Recorder, WorldOracles, client};
use super::service::{Locks, State as Services};
use crate::explore::{Size, Violation};
use crate::harness::{Member, Model, Shape, at_rest};
use crate::system::System;
use crate::systems::locks;
use std::cell::Cell;
use weft_protocols::locks::remote::{Remote, RemoteError, Reply, Request, Wish, WishId};
use weft_protocols::locks::{LockError, LockKey, Mode, Token};
use weft_protocols::rt::Rt;
use weft_sim::explore::FaultSet;
use weft_sim::{NodeId, Sim};
use weft_verbs::Nanos;

/// By how much clocks differ.
const DRIFT: Nanos = Nanos::from_millis(3);

/// A lock world, and who asks in it.
pub(super) struct Outside {
    pub(super) locks: Locks,
    /// Whether the first node's client dies while it holds.
    pub(super) dies: bool,
}

/// What an execution keeps.
pub(super) struct State {
    services: Services,
    remote: Vec<Remote<Sim>>,
}

impl Outside {
    /// The first name whose lock is at home where the world wants it.
    fn name(&self) -> String {
        let nodes = self.locks.requests.nodes();
        let at_home = |name: &String| LockKey::named(name).home(nodes).index() == self.locks.home as usize;
        (0..).map(|n| format!("lock {n}")).find(at_home).expect("every node is a home")
    }
}

/// A program outside of the mesh.
struct Program {
    rt: Rt<Sim>,
    remote: Remote<Sim>,
    name: String,
    /// What its next wish is called.
    next: Cell<u128>,
    dies: bool,
}

impl Program {
    async fn asks(&self, wish: &Wish, holds: bool, wait: Nanos) -> Option<Option<Token>> {
        loop {
            let request = Request::Hold { wish: wish.clone(), holds, wait };
            match self.remote.serve(request).await {
                Ok(Reply::Holds { token, .. }) => return Some(token),
                Ok(Reply::Waits) => return None,
                Err(RemoteError::Lock(LockError::HomeFull)) => self.rt.yield_now().await,
                // Refused for good: this client waits for ever, and the oracle of progress says so.
                Ok(_) | Err(_) => std::future::pending().await,
            }
        }
    }
}

impl Locker for Program {
    type Held = (WishId, Option<Token>);

    async fn lock(&self, mode: Mode) -> (WishId, Option<Token>) {
        let id = WishId(self.next.replace(self.next.get() + 1));
        let patience = Nanos::from_secs(1);
        let wish = Wish { id, name: self.name.clone(), mode, by: String::new(), tries: false, patience };
        // The first call's answer is lost.
        let _ = self.asks(&wish, false, Nanos::ZERO).await;
        loop {
            if let Some(token) = self.asks(&wish, false, Nanos::from_secs(1)).await {
                self.asks(&wish, true, Nanos::ZERO).await;
                return (id, token);
            }
        }
    }

    async fn unlock(&self, (id, _): (WishId, Option<Token>)) {
        if !self.dies {
            let _ = self.remote.serve(Request::Give { id }).await;
        }
    }

    fn token((_, token): &(WishId, Option<Token>)) -> Option<Token> {
        *token
    }
}

impl Model for Outside {
    type State = State;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        self.locks.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.locks.smaller()
    }

    fn shape(&self) -> Shape {
        self.locks.shape()
    }

    /// Whoever waits for another's patience to be over has a later deadline than that.
    fn drift(&self) -> Option<Nanos> {
        self.dies.then_some(DRIFT)
    }

    fn faults(&self) -> FaultSet {
        self.locks.faults()
    }

    fn needs(&self, state: &State, node: NodeId, recorder: &Recorder) -> bool {
        self.locks.needs(&state.services, node, recorder)
    }

    fn oracles(&self) -> WorldOracles {
        self.locks.oracles()
    }

    fn configurations(&self) -> usize {
        self.locks.configurations()
    }

    fn configuration(&self, number: usize) -> String {
        self.locks.configuration(number)
    }

    fn start(&self, configuration: usize, members: &[Member], recorder: &Recorder) -> State {
        let services = self.locks.served(members, recorder);
        let remote = members.iter().enumerate();
        let remote = remote.map(|(node, member)| Remote::new(&member.rt, services.service(node))).collect();
        let state = State { services, remote };
        let (name, modes) = (self.name(), self.locks.requests.mix(configuration));
        for ((node, modes), Member { rt, .. }) in (0..).zip(modes).zip(members) {
            let (remote, name) = (state.remote[node as usize].clone(), name.clone());
            let (next, dies) = (Cell::new(0), self.dies && node == 0);
            let key = LockKey::named(&name);
            let program = Program { rt: rt.clone(), remote, name, next, dies };
            rt.spawn(client(rt.clone(), recorder.clone(), node, key, modes, program));
        }
        state
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let service = state.services.service(node);
        let conduct = locks::Locks::conduct(&service.stats().into());
        let (holds, waits) = state.remote[node].count();
        let wishes = [("wishes of programs", (holds + waits) as u64)];
        let left = locks::Locks::leftovers(service).into_iter().chain(wishes);
        at_rest(node, conduct, left.chain(member.leftovers()))
    }
}
