//! The server of a node: what the state machine wants done, and what comes of it.

mod machine;
mod names;
mod ranges;
mod store;

use super::access::Run;
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
use weft_verbs::{AccessFlags, RemoteSlice, SendOp, Verbs, WcError, Work};

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

/// One transfer of a list, and its memory in staging.
type Transfer<V> = (SendOp<'static, V>, BufferGuard<V>);

/// Carries out the transfers of a unit; whether all are done.
///
/// A read that ended in an error changed nothing at the client, and when it has ended, the adapter puts nothing into staging any
/// more: it is done again on the next connection. A write of unknown outcome may be executed late: it is done again once it
/// cannot, and the client, who keeps the memory until the answer, sees the same bytes whatever became of it.
async fn moved<V: Verbs>(shared: &Shared<V>, peer: Rank, list: &[Transfer<V>]) -> bool {
    'list: loop {
        let mut rest = list;
        while !rest.is_empty() {
            // One doorbell and one completion for many (5.3).
            let (posted, now) = if let Some((now, behind)) = rest.split_first_chunk::<16>() {
                (shared.mesh.post_list(peer, copies(now)).await.map(drop), behind)
            } else if let Some((now, behind)) = rest.split_first_chunk::<4>() {
                (shared.mesh.post_list(peer, copies(now)).await.map(drop), behind)
            } else if let Some((now, behind)) = rest.split_first_chunk::<1>() {
                (shared.mesh.post_list(peer, copies(now)).await.map(drop), behind)
            } else {
                (Ok(()), rest)
            };
            match posted {
                Ok(()) => rest = now,
                Err(why) if is_final(&why) => return false,
                Err(why) => {
                    again(shared, &why);
                    let writes = list.iter().any(|(op, _)| matches!(op, SendOp::Write { .. }));
                    if writes
                        && matches!(why, OpError::Unknown(_))
                        && shared.mesh.resolve_outcomes(peer).await.is_err()
                    {
                        return false;
                    }
                    continue 'list;
                }
            }
        }
        return true;
    }
}

fn copies<V: Verbs, const N: usize>(list: &[Transfer<V>; N]) -> [Transfer<V>; N] {
    std::array::from_fn(|nth| {
        let (op, guard) = &list[nth];
        let guard = match guard {
            BufferGuard::Range { mr, at, len } => BufferGuard::Range { mr: mr.clone(), at: *at, len: *len },
            _ => BufferGuard::Nothing,
        };
        (*op, guard)
    })
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
