//! The server of a node: what the state machine wants done, and what comes of it.

mod machine;
mod names;
mod ranges;
mod store;

use super::calls::{self, Held};
use super::messages::{Answer, Request};
use super::service::Shared;
use super::{FsConfig, FsError};
use crate::rt::BufferGuard;
use crate::transport::{NotExecuted, OpError, Rank};
use machine::{Action, Event, Machine, Stage};
use std::cell::RefCell;
use std::rc::Rc;
use store::Store;
use weft_verbs::{AccessFlags, RemoteSlice, Verbs, WcError, Work};

/// A node's server.
pub(super) struct Server<V: Verbs> {
    machine: RefCell<Machine>,
    store: Store<V>,
    staging: V::Mr,
    unit: u32,
}

impl<V: Verbs> Server<V> {
    /// Server `me` of a cluster.
    pub(super) fn open(shared: &Shared<V>, me: u32, config: FsConfig) -> Result<Server<V>, FsError> {
        let len = config.stages as usize * config.unit as usize;
        let staging = shared.mesh.alloc(len, AccessFlags::LOCAL_WRITE)?;
        let store = Store::open(&shared.rt, config.storage, staging.clone(), config.unit)?;
        let machine = RefCell::new(Machine::new(me, config, shared.mesh.max_message()));
        Ok(Server { machine, store, staging, unit: config.unit })
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
    }

    fn guard(&self, stage: Stage, len: u32) -> BufferGuard<V> {
        BufferGuard::Range { mr: self.staging.clone(), at: stage.0 * self.unit, len }
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
        Action::Pull { op, from, at, stage } => {
            Event::Moved { op, done: pull(&shared, server, from, at, stage).await }
        }
        Action::Push { op, to, at, stage } => {
            Event::Moved { op, done: push(&shared, server, to, at, stage).await }
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

/// Reads a client's memory into staging; whether it is there. A read that ended in an error changed nothing at the client,
/// and when it has ended, the adapter puts nothing into staging any more: it is done again on the next connection.
async fn pull<V: Verbs>(
    shared: &Shared<V>,
    server: &Server<V>,
    from: Rank,
    at: RemoteSlice,
    stage: Stage,
) -> bool {
    loop {
        match shared.mesh.read_into(from, at, server.guard(stage, at.len)).await {
            Ok(_) => return true,
            Err(why) if is_final(&why) => return false,
            Err(why) => again(shared, &why),
        }
    }
}

/// Writes staging into a client's memory; whether it is there. A write of unknown outcome may be executed late: it is done
/// again once it cannot, and the client, who keeps the memory until the answer, sees the same bytes whatever became of it.
async fn push<V: Verbs>(
    shared: &Shared<V>,
    server: &Server<V>,
    to: Rank,
    at: RemoteSlice,
    stage: Stage,
) -> bool {
    loop {
        match shared.mesh.write_from(to, at, server.guard(stage, at.len)).await {
            Ok(_) => return true,
            Err(why) if is_final(&why) => return false,
            Err(why) => {
                again(shared, &why);
                if matches!(why, OpError::Unknown(_)) && shared.mesh.resolve_outcomes(to).await.is_err() {
                    return false;
                }
            }
        }
    }
}

fn again<V: Verbs>(shared: &Shared<V>, why: &OpError) {
    let mut stats = shared.stats.borrow_mut();
    stats.again += 1;
    stats.unknown_outcomes += u64::from(matches!(why, OpError::Unknown(_)));
}

/// Whether a transfer can never be done: the client is gone, or what it offered is no memory.
fn is_final(why: &OpError) -> bool {
    match why {
        OpError::NotExecuted(NotExecuted::Failed(status)) => is_refusal(*status),
        OpError::NotExecuted(_) => true,
        OpError::Unknown(crate::transport::Lost::Failed(status)) => is_refusal(*status),
        OpError::Unknown(_) => false,
    }
}

/// Whether the far side's adapter refused the request itself, as it will again.
fn is_refusal(status: WcError) -> bool {
    matches!(status, WcError::RemAccess | WcError::RemInvReq | WcError::RemOp)
}
