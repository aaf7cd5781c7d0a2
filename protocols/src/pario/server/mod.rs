//! The server of a node: what the state machine wants done, and what comes of it.

mod absent;
mod answered;
mod bars;
mod batch;
mod check;
mod early;
mod inode;
mod log;
mod machine;
mod names;
mod ranges;
mod store;
mod tree;

pub use check::{StoreError, StoreReport, check_store};
pub use log::object as log_object;
pub(super) use log::read_log_of;

use super::access::Run;
use super::calls::{self, Answered, Held};
use super::error::Refusal;
use super::messages::{Answer, Request};
use super::moves::{Transfer, moved};
use super::service::{Life, Pario, Shared};
use super::wire::{LONGEST, PAUSE};
use super::{FsConfig, FsError, Handle, Movers, Storage, Wire};
use crate::rt::{BufferGuard, Label, LabelGuard};
use crate::transport::Rank;
use early::Early;
use log::Log;
pub(super) use machine::Event;
use machine::{Action, Directory, Machine, Stage};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use store::Store;
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, SendOp, Verbs, Work};

/// How long who removes a file waits for other servers. Much longer than one that lives takes, and so short that a client's
/// [calls](FsConfig::window) are not all taken by those that wait for one that is down.
const LATE: Nanos = Nanos::from_secs(1);

/// The pause before a server that is away is asked once more, at most.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(1);

/// A node's server.
pub(super) struct Server<V: Verbs> {
    /// None until the server knows what its disk has.
    machine: RefCell<Option<Machine>>,
    /// What happened before that.
    early: RefCell<Early>,
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
        let server = Server {
            machine: RefCell::default(),
            early: RefCell::default(),
            store,
            staging,
            _label,
            unit: config.unit,
        };
        let directory = (me == 0).then(|| Directory::in_memory(shared.mesh.incarnation()));
        if directory.is_none() || !matches!(config.storage, Storage::Disk) {
            *server.machine.borrow_mut() = Some(new_machine(shared, directory));
        }
        Ok(server)
    }

    /// What it holds although nobody asks for anything.
    pub(super) fn leftovers(&self) -> Vec<(&'static str, u64)> {
        let early = ("requests before recovery", self.early.borrow().len() as u64);
        let machine = self.machine.borrow();
        machine.iter().flat_map(Machine::leftovers).chain([early]).collect()
    }

    /// Adds what it has counted.
    pub(super) fn count(&self, stats: &mut super::FsStats) {
        let Some(counts) = self.machine.borrow().as_ref().map(|machine| machine.counts) else { return };
        stats.requests = counts.requests;
        stats.pulls = counts.pulls;
        stats.pushes = counts.pushes;
        stats.eager = counts.eager;
        stats.staging_waits = counts.staging_waits;
        stats.offered = counts.offered;
        stats.commits = counts.commits;
        stats.places = counts.places;
        stats.known_again = counts.known_again;
        stats.disk_errors = counts.disk_errors;
    }

    /// Why it answers nothing about names any more.
    pub(super) fn failed(&self) -> Option<Refusal> {
        self.machine.borrow().as_ref()?.failed()
    }

    /// Nodes that may have files open since an earlier life of it, which they have not told yet.
    pub(super) fn unheard(&self) -> Vec<Rank> {
        self.machine.borrow().as_ref().map(Machine::unheard).unwrap_or_default()
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

/// The node's server, in its present life: a mesh has another incarnation whenever its node begins anew.
fn new_machine<V: Verbs>(shared: &Shared<V>, directory: Option<Directory>) -> Machine {
    let (me, epoch) = (shared.mesh.me().index() as u32, shared.mesh.incarnation());
    let has_guests = shared.mesh.guests_lease().is_some();
    let mut config = shared.config;
    config.places = config.places(has_guests);
    let longest = match config.wire {
        Wire::Verbs => shared.mesh.max_message(),
        Wire::Tcp => LONGEST,
    };
    let machine = Machine::new((me, epoch), config, longest, directory);
    match forgets(shared) {
        true => machine.with_clients_that_are_forgotten(),
        false => machine,
    }
}

/// Whether clients may be forgotten that live and do not know it: guests, whose leases end, and who asks by a byte stream, which breaks.
fn forgets<V: Verbs>(shared: &Shared<V>) -> bool {
    shared.mesh.guests_lease().is_some() || shared.config.wire == Wire::Tcp
}

/// Finds out what the directory was when the server stopped, and begins to serve. Where there are files, the other nodes are asked
/// which of them they have open, and until all have answered none ends.
pub(super) async fn recover<V: Verbs>(shared: Rc<Shared<V>>) {
    let Some(server) = shared.server.as_ref().filter(|server| server.machine.borrow().is_none()) else {
        return;
    };
    let me = shared.mesh.me();
    let others = (0..shared.mesh.size()).map(Rank::from_index).filter(|other| *other != me);
    let mut asked = Vec::new();
    let mut guests = shared.mesh.guests_lease().map(|lease| (shared.mesh.admissions(), lease));
    let directory = match server.store.find_log().await {
        Ok((mut names, newest, found)) => {
            // By streams a server does not ask its clients anything: a file that has no name ends with its home's life.
            if !names.is_empty() && matches!(shared.config.wire, Wire::Verbs) {
                asked.extend(others);
                names.ask(asked.iter().copied());
                guests.iter().for_each(|_| names.ask(absent::guests()));
            } else {
                guests = None;
            }
            Directory::new(names, Some(Log::behind(newest, found, shared.config.log_room)))
        }
        Err(why) => {
            guests = None;
            Directory::broken(why)
        }
    };
    let mut machine = new_machine(&shared, Some(directory));
    // No event tells of the calls by which the log was looked for.
    machine.counts.disk_errors += u64::from(machine.failed() == Some(Refusal::Io));
    *server.machine.borrow_mut() = Some(machine);
    asked.into_iter().for_each(|client| drop(shared.rt.spawn(ask_for_opens(Rc::clone(&shared), client))));
    if let Some((mut met, lease)) = guests {
        absent::ask_those_met(&shared, &mut met);
        drop(shared.rt.spawn(absent::hear_guests(Rc::clone(&shared), met, lease)));
    }
    // What an earlier life unlinked and did not remove.
    on(&shared, Event::Heard { client: me, open: Vec::new(), more: false });
    let early = server.early.borrow_mut().take();
    for event in early {
        on(&shared, event);
    }
}

/// Asks a node what it has open since an earlier life of this one. Its answers are [taken](heard) in the order in which it sent them
/// and its closes.
pub(super) async fn ask_for_opens<V: Verbs>(shared: Rc<Shared<V>>, client: Rank) {
    let mut after = Handle(0);
    loop {
        let request = Request::Opens { epoch: shared.mesh.incarnation(), after };
        let Ok(told) = shared.ask(client, request, Held::NOTHING).await else { return };
        match calls::answer(told).await {
            Ok(Answer::Open { files, more: true }) if !files.is_empty() => {
                after = files.last().map_or(after, |(handle, _)| *handle);
            }
            // That was all; or it began anew, and has nothing open: that is told by its reset.
            _ => return,
        }
    }
}

/// Clients to which this node's server has offered places in staging.
pub(super) fn offered_to<V: Verbs>(shared: &Shared<V>) -> Vec<Rank> {
    let machine = shared.server.as_ref().map(|server| server.machine.borrow());
    machine.iter().filter_map(|machine| machine.as_ref()).flat_map(Machine::offered_to).collect()
}

/// A node has said what it has open.
pub(super) fn heard<V: Verbs>(shared: &Rc<Shared<V>>, client: Rank, open: &[(Handle, u32)], more: bool) {
    on(shared, Event::Heard { client, open: open.to_vec(), more });
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

pub(super) fn on<V: Verbs>(shared: &Rc<Shared<V>>, event: Event) {
    let Some(server) = &shared.server else { return };
    let mut actions = Vec::new();
    match &mut *server.machine.borrow_mut() {
        Some(machine) => machine.on(event, &mut actions),
        None => actions.extend(server.early.borrow_mut().on(event, shared.mesh.incarnation())),
    }
    for action in actions {
        let client = shared.life_of(action.client().unwrap_or(shared.mesh.me()));
        drop(shared.rt.spawn(carry_out(Rc::clone(shared), action, client)));
    }
}

/// Does what the machine wants, and tells it what came of it.
async fn carry_out<V: Verbs>(shared: Rc<Shared<V>>, action: Action, client: Life) {
    let Some(server) = &shared.server else { return };
    let event = match action {
        // Of a client that has begun anew since, the machine is told in a moment.
        Action::Answer { .. } | Action::Offer { .. } if shared.is_over(client) => return,
        Action::Answer { to, id, answer } => {
            if let Answer::Data { bytes, .. } = &answer
                && shared.wire.copies()
            {
                shared.copied(bytes.len() as u64);
            }
            // An answer that cannot be sent has nobody who waits for it: the mesh is closed.
            return drop(shared.wire.answer(to, id, answer).await);
        }
        Action::Commit { op, commit } => Event::Committed { op, end: server.store.commit(commit).await },
        Action::Store { op, call } => Event::Stored { op, end: server.store.call(call).await },
        Action::Offer { op, to, id, stage, runs, writes } => {
            let Some(place) = server.place(stage, &runs) else { return };
            // As above: an offer that cannot be sent has nobody who takes it.
            drop(shared.wire.answer(to, id, Answer::Offer { op, place, runs, writes }).await);
            return shared.calls.look_again();
        }
        Action::Pull { op, memory, runs, stage, .. } => {
            let pull = server.list(&runs, stage, memory, |from| SendOp::Read { from });
            Event::Moved { op, done: moved(&shared, client, &pull).await }
        }
        Action::Push { op, memory, runs, stage, .. } => {
            let push = server.list(&runs, stage, memory, |to| SendOp::Write { to, imm: None });
            Event::Moved { op, done: moved(&shared, client, &push).await }
        }
        Action::Spread { op, server: other, request } => {
            let end = match spread(&shared, op, other, request).await {
                Ok(_) => Ok(()),
                Err(FsError::Full) => Err(Refusal::Full),
                Err(FsError::Unknown) => Err(Refusal::Unknown),
                Err(_) => Err(Refusal::Io),
            };
            Event::Spread { op, end }
        }
        Action::Lives { op, handle } => {
            let asked = Pario(Rc::clone(&shared)).ask_home_until(Request::Lives { handle }).await;
            let end = match asked {
                Ok(Answer::Lives { given }) => Ok(given),
                Err(FsError::Stale) => Err(Refusal::Stale),
                _ => Err(Refusal::Io),
            };
            Event::Lives { op, end }
        }
    };
    on(&shared, event);
}

/// Has another server remove its object, or cut it. Who waits for a removal is told if that takes long.
async fn spread<V: Verbs>(shared: &Rc<Shared<V>>, op: u64, other: u32, request: Request) -> Answered {
    let server = Rank::from_index(other);
    if let Request::Remove { .. } = request {
        // One that restarted before it answered may have removed nothing, and one that has removes nothing more.
        let mut removed = pin!(answered(shared, server, request));
        if let Ok(told) = shared.rt.within(LATE, removed.as_mut()).await {
            return told;
        }
        on(shared, Event::Late { op });
        return removed.await;
    }
    let told = sent(shared, server, request).await;
    if told == Err(FsError::Unknown) {
        // A second cut would cut off what others have written since. What the server is asked from now on comes behind the first one, if
        // that is carried out at all, once it has answered something.
        drop(answered(shared, server, Request::Epoch).await);
    }
    told
}

/// Asks another server until it answers: nothing more comes of it if that has been done. It may be away for a night.
async fn answered<V: Verbs>(shared: &Shared<V>, server: Rank, request: Request) -> Answered {
    let mut pause = PAUSE;
    loop {
        match sent(shared, server, request.clone()).await {
            Err(FsError::Unknown) => shared.pause_for(pause).await,
            told => return told,
        }
        pause = Nanos(pause.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Asks another server once. What cannot be sent has not been asked: a byte stream broke before.
async fn sent<V: Verbs>(shared: &Shared<V>, server: Rank, request: Request) -> Answered {
    loop {
        match shared.ask(server, request.clone(), Held::NOTHING).await {
            Ok(told) => return calls::answer(told).await,
            Err(_) if shared.mesh.is_closed() => return Err(FsError::Closed),
            Err(_) => shared.rt.sleep(PAUSE).await,
        }
    }
}
