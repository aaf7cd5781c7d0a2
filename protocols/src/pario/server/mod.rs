//! The server of a node: what the state machine wants done, and what comes of it.

mod machine;
mod names;
mod ranges;
mod store;

use super::access::Run;
use super::calls::{self, Held};
use super::messages::{Answer, Request};
use super::moves::{Transfer, moved};
use super::service::Shared;
use super::{FsConfig, FsError, Movers};
use crate::rt::{BufferGuard, Label, LabelGuard};
use crate::transport::Rank;
use machine::{Action, Event, Machine, Stage};
use std::cell::RefCell;
use std::rc::Rc;
use store::Store;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, SendOp, Verbs, Work};

/// A node's server.
pub(super) struct Server<V: Verbs> {
    machine: RefCell<Machine>,
    store: Store<V>,
    staging: V::Mr,
    _label: LabelGuard,
    unit: u32,
}

impl<V: Verbs> Server<V> {
    /// Server `me` of a cluster.
    pub(super) fn open(shared: &Shared<V>, me: u32, config: FsConfig) -> Result<Server<V>, FsError> {
        let len = config.stages as usize * config.unit as usize;
        let access = match config.movers {
            Movers::Server => AccessFlags::LOCAL_WRITE,
            _ => AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE,
        };
        let staging = shared.mesh.alloc(len, access)?;
        let _label = shared.mesh.label(&staging, 0..len, Label::new("staging").cut("slot", config.unit));
        let store = Store::open(&shared.rt, config.storage, staging.clone(), config.unit)?;
        let machine = RefCell::new(Machine::new(me, config, shared.mesh.max_message()));
        Ok(Server { machine, store, staging, _label, unit: config.unit })
    }

    /// What it holds although nobody asks for anything.
    pub(super) fn leftovers(&self) -> Vec<(&'static str, u64)> {
        self.machine.borrow().leftovers()
    }

    /// Adds what it has counted.
    pub(super) fn count(&self, stats: &mut super::FsStats) {
        let counts = self.machine.borrow().counts;
        stats.requests = counts.requests;
        stats.pulls = counts.pulls;
        stats.pushes = counts.pushes;
        stats.eager = counts.eager;
        stats.staging_waits = counts.staging_waits;
        stats.offered = counts.offered;
    }

    /// A place in staging, as a client reaches it: as much of it as the runs have.
    fn place(&self, stage: Stage, runs: &[Run]) -> Option<RemoteSlice> {
        let at = (stage.0 * self.unit) as usize;
        let len: usize = runs.iter().map(|run| run.len as usize).sum();
        self.staging.remote(at..at + len).ok()
    }

    /// The transfers between runs of a client's memory and a place in staging, where they lie one behind the other.
    fn list(
        &self,
        runs: &[Run],
        stage: Stage,
        memory: RemoteSlice,
        op: impl Fn(RemoteSlice) -> SendOp<'static, V>,
    ) -> Vec<Transfer<V>> {
        let mut at = stage.0 * self.unit;
        let transfer = |run: &Run| {
            let start = u32::try_from(run.at).ok()?;
            let slice = memory.slice(start..start.checked_add(run.len)?)?;
            let local = BufferGuard::Range { mr: self.staging.clone(), at, len: run.len };
            at += run.len;
            Some((op(slice), local))
        };
        // The machine has held every run against the memory.
        runs.iter().filter_map(transfer).collect()
    }
}

/// A client asks the server of this node.
pub(super) fn requested<V: Verbs>(shared: &Rc<Shared<V>>, from: Rank, id: u64, request: Request) {
    shared.rt.spend(Work::Bookkeeping);
    on(shared, Event::Request { from, id, request });
}

/// A client began anew.
pub(super) fn client_reset<V: Verbs>(shared: &Rc<Shared<V>>, client: Rank) {
    on(shared, Event::Reset { client });
}

fn on<V: Verbs>(shared: &Rc<Shared<V>>, event: Event) {
    let Some(server) = &shared.server else { return };
    let mut actions = Vec::new();
    server.machine.borrow_mut().on(event, &mut actions);
    for action in actions {
        drop(shared.rt.spawn(carry_out(Rc::clone(shared), action)));
    }
}

/// Does what the machine wants, and tells it what came of it.
async fn carry_out<V: Verbs>(shared: Rc<Shared<V>>, action: Action) {
    let Some(server) = &shared.server else { return };
    let event = match action {
        Action::Answer { to, id, answer } => {
            if let Answer::Data { bytes, .. } = &answer
                && shared.wire.copies()
            {
                shared.copied(bytes.len() as u64);
            }
            // An answer that cannot be sent has nobody who waits for it: the mesh is closed.
            return drop(shared.wire.answer(to, id, answer).await);
        }
        Action::Store { op, call } => Event::Stored { op, end: server.store.call(call).await },
        Action::Offer { op, to, id, stage, runs, writes } => {
            let Some(place) = server.place(stage, &runs) else { return };
            // As above: an offer that cannot be sent has nobody who takes it.
            return drop(shared.wire.answer(to, id, Answer::Offer { op, place, runs, writes }).await);
        }
        Action::Pull { op, from, memory, runs, stage } => {
            let pull = server.list(&runs, stage, memory, |from| SendOp::Read { from });
            Event::Moved { op, done: moved(&shared, from, &pull).await }
        }
        Action::Push { op, to, memory, runs, stage } => {
            let push = server.list(&runs, stage, memory, |to| SendOp::Write { to, imm: None });
            Event::Moved { op, done: moved(&shared, to, &push).await }
        }
        Action::Remove { op, server: other, handle } => {
            let request = Request::Remove { handle };
            let asked = shared.ask(Rank::from_index(other), request, Held::NOTHING).await;
            if let Ok(told) = asked {
                drop(calls::answer(told).await);
            }
            Event::Removed { op }
        }
    };
    on(&shared, event);
}
