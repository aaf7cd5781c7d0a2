//! The shipped service: node 0 is the server, or the first two are, and each other node is a client.

use super::super::client::{Client, Teller};
use super::super::content;
use super::super::history::{self, Event, What};
use super::super::oracles::{FileOracles, Survival};
use super::super::requests::{Request, Tile};
use super::super::workload::{Access, Durable, Keep, Mover, PfWork};
use super::super::{Files, Service};
use super::calls::Call;
use super::remote::{Caller, cuts_what_it_looked_at};
use super::stores::{self, STORES};
use super::{InOrder, NAMES};
use crate::explore::{Coverage, Size, SizeError, Violation};
use crate::fields::Span;
use crate::harness::{DRIFT, Meeting, Member, Model, Quits, Recorder, Requests, Shape, at_rest};
use crate::history::{ClientId, RequestId};
use crate::oracle::Conduct;
use crate::record::Record;
use crate::system::{Place, System};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::pario::{File, FsConfig, FsError, FsStats, Group, Pario};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{GuestConfig, MeshConfig};
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{Fabric, NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Cells of the one file: each is a strip and a unit.
const CELLS: u32 = 2;

/// How long a guest may be silent, where there are guests: no time passes while anything else can happen.
const LEASE: Nanos = Nanos::from_millis(100);

/// The group's number.
const GROUP: u64 = 7;

/// Digits of names of which one fits into an answer, and two do not.
const LONG: usize = 95;

/// Buffers that guests share.
const SLOTS: u32 = 1;

/// How data go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By RDMA through one place in staging.
    Staged,
    /// In messages.
    Eager,
    /// By RDMA through one place in staging, which is offered to clients.
    Offered,
    /// By RDMA, as rows of one cell that are staged together.
    List,
    /// By RDMA, as two rows of which each is a request, with room for one message.
    Narrow,
    /// In messages, where files have names of which no two fit into one.
    Paged,
    /// In messages, to servers with a disk, which crash and come back.
    Durable,
    /// In messages, over two servers.
    Spread,
    /// In messages, over two servers with a disk each, which crash and come back.
    DurableSpread,
    /// In messages, to a server with a disk that makes safe what it is asked to, and that crashes and comes back.
    Asked,
    /// The same of two rows, which are one unit.
    Unit,
    /// The same over two servers.
    AskedSpread,
    /// In messages, from guests.
    Guests,
    /// In messages, from guests, to a server with a disk, which crashes and comes back.
    DurableGuests,
    /// By name, from a daemon: to a server with a disk, which crashes and comes back.
    Remote,
}

/// What a call of rows is about: as many as one list posts.
const ROWS: Tile = Tile { first: 0, cells: 1, rows: 4, stride: 2, list: false };

/// The same in requests of their own.
const APART: Tile = Tile { rows: 2, list: true, ..ROWS };

/// Two rows that are one request.
const PAIR: Tile = Tile { rows: 2, ..ROWS };

impl Way {
    fn has_disk(self) -> bool {
        matches!(self, Way::Durable | Way::DurableGuests | Way::DurableSpread | Way::Remote)
            || self.is_asked()
    }

    /// Whether what is answered is safe only once somebody has asked for that.
    const fn is_asked(self) -> bool {
        matches!(self, Way::Asked | Way::Unit | Way::AskedSpread)
    }

    /// What a server's crash leaves of what it has answered.
    const fn survival(self) -> Survival {
        if self.is_asked() { Survival::Synced } else { Survival::Answered }
    }

    /// How many servers there are, the first nodes.
    const fn servers(self) -> u32 {
        if matches!(self, Way::Spread | Way::DurableSpread | Way::AskedSpread) { 2 } else { 1 }
    }

    /// The node of a client.
    const fn node_of(self, client: usize) -> u32 {
        client as u32 + self.servers()
    }

    fn has_guests(self) -> bool {
        matches!(self, Way::Guests | Way::DurableGuests)
    }

    fn transfer(self, writes: bool) -> Request {
        match (self, writes) {
            (Way::Unit, true) => Request::WriteTile(PAIR),
            (Way::Unit, false) => Request::ReadTile(PAIR),
            (Way::Narrow, true) => Request::WriteTile(APART),
            (Way::Narrow, false) => Request::ReadTile(APART),
            (Way::List, true) => Request::WriteTile(ROWS),
            (Way::List, false) => Request::ReadTile(ROWS),
            (_, true) => Request::Write { file: 0, first: 0, cells: CELLS },
            (_, false) => Request::Read { file: 0, first: 0, cells: CELLS },
        }
    }
}

/// What each client calls, one call after the other.
pub(super) struct Calls {
    way: Way,
    calls: Vec<Vec<Called>>,
}

/// A call, and whether its user may drop it at any moment.
pub(super) type Called = (Call, bool);

pub(super) fn make(size: &Size, way: Way, calls: &str) -> Result<Calls, SizeError> {
    let text = size.text("calls").unwrap_or_else(|| calls.to_string());
    let call = |(letter, quits)| Call::of(letter).map(|call| (call, quits));
    let calls = text.split(',').map(|client| Requests::calls(client.trim()).map(call).collect());
    let calls: Vec<Vec<Called>> = calls.collect::<Result<_, _>>()?;
    size.within("calls", calls.len() as u32, 1..=3)?;
    if calls.len() < 2 && calls[0].iter().any(|(_, quits)| *quits) {
        return Err(SizeError(
            "another client says when a call (!) is dropped: there is to be one, as in w!,".into(),
        ));
    }
    let is_open_at_first = |calls: &Vec<Called>| {
        let first = calls.iter().position(|(call, _)| call.is_transfer());
        first.is_some_and(|first| !calls[..first].iter().any(|(call, _)| *call == Call::Hold))
    };
    if way.has_guests() && calls.iter().any(is_open_at_first) {
        let why = "guests read and write what they made (h): a file that is open from the start has them give signs of life for ever";
        return Err(SizeError(why.to_string()));
    }
    if way != Way::Guests && calls.iter().flatten().any(|(call, _)| *call == Call::Leave) {
        let why = "guests leave (l) a server that does not begin anew: another one asks for a connection again, without an end";
        return Err(SizeError(why.to_string()));
    }
    if way == Way::Paged && calls.iter().flatten().any(|(call, _)| *call == Call::Rename) {
        let why = "two names are to be too long for a message: nobody renames (n) a file";
        return Err(SizeError(why.to_string()));
    }
    if way == Way::Unit && !calls.iter().flatten().all(|(call, _)| call.is_transfer()) {
        let letters = Call::letters(Call::is_transfer);
        return Err(SizeError(format!("all calls are to be of one unit: they are {letters}")));
    }
    let by_name = |(call, _): &Called| call.is_by_name();
    if way == Way::Remote && !calls.iter().flatten().all(by_name) {
        return Err(SizeError(format!("a daemon is asked for {}", Call::letters(Call::is_by_name))));
    }
    if way == Way::Remote && !cuts_what_it_looked_at(&calls) {
        let why = "a daemon cuts by name: where a client cuts (t), no other one makes, removes or renames a file, and nobody drops that";
        return Err(SizeError(why.to_string()));
    }
    Ok(Calls { way, calls })
}

/// A client's file, from the warm-up on.
type Opened = Rc<RefCell<Option<File<Sim>>>>;

/// What an execution keeps.
pub(super) struct State {
    services: Vec<Service<Sim>>,
    files: Vec<Opened>,
}

impl Calls {
    fn letters(calls: &[Vec<Called>]) -> String {
        let letter = |(call, quits): &Called| [Some(call.letter()), quits.then_some('!')];
        let client = |calls: &Vec<Called>| calls.iter().flat_map(letter).flatten().collect::<String>();
        calls.iter().map(client).collect::<Vec<_>>().join(",")
    }

    fn sized(calls: &[Vec<Called>]) -> Size {
        Size::new([("calls", Calls::letters(calls))])
    }

    fn work(&self) -> PfWork {
        let cell = content::SHORTEST;
        let by_rdma = [Way::Staged, Way::Offered, Way::List, Way::Narrow].contains(&self.way);
        PfWork {
            strip: cell,
            cell,
            cells: CELLS,
            storage: if self.way.has_disk() { Keep::Disk } else { Keep::Memory },
            sync: if self.way.has_disk() && !self.way.is_asked() { Durable::Each } else { Durable::Asked },
            servers: self.way.servers(),
            eager: if by_rdma { 0 } else { cell * CELLS },
            unit: match self.way {
                Way::List => cell * ROWS.rows,
                Way::Unit => cell * PAIR.rows,
                _ => cell,
            },
            stages: 1,
            movers: if self.way == Way::Offered { Mover::Client } else { Mover::Server },
            guests: self.way.has_guests(),
            lease: Span(LEASE),
            slots: SLOTS,
            digits: if self.way == Way::Paged { LONG } else { 0 },
            ..PfWork::of(Access::Bulk, 0)
        }
    }

    /// Where no server begins anew, nobody looks whether one did: every timer is one more event to be ordered.
    fn service(&self, place: &Place<Sim>) -> Service<Sim> {
        let (work, never) = (self.work(), Nanos::MAX);
        // Each sector of the log's room would be one more that a crash keeps or loses.
        let config = FsConfig { log_room: 0, ..work.config() };
        let config = if self.way == Way::Narrow { FsConfig { regions: 1, ..config } } else { config };
        let config = if self.way.has_disk() { config } else { FsConfig { probe_after: never, ..config } };
        Service::start(place, &work, config).expect("nobody else has the channel")
    }

    fn has_group(&self) -> bool {
        self.calls.iter().flatten().any(|(call, _)| call.is_of_group())
    }

    /// Whether no client has a file open at the end. One that was struck is not heard of again.
    fn closes_all(&self) -> bool {
        let all_live = !self.way.has_disk() || self.mortal().is_some();
        all_live && self.each_closes()
    }

    /// Whether no client has a file open at the end that lives until then.
    fn each_closes(&self) -> bool {
        let is_open = |calls: &Vec<Called>| {
            calls.iter().fold(false, |open, (call, _)| match call {
                Call::Write | Call::Read | Call::Hold => true,
                Call::Close | Call::Leave | Call::Die => false,
                _ => open,
            })
        };
        let are_open_at_first = self.has_file_at_first() && self.calls.iter().any(Vec::is_empty);
        !are_open_at_first && !self.calls.iter().any(is_open)
    }

    /// Whether a file is there from the start: nobody makes it, and somebody reads or writes it.
    fn has_file_at_first(&self) -> bool {
        let any = |is: fn(&Call) -> bool| self.calls.iter().flatten().any(|(call, _)| is(call));
        any(|call| call.is_transfer()) && !any(|call| *call == Call::Hold)
    }
}

impl Model for Calls {
    type State = State;
    type Oracles = InOrder;

    fn size(&self) -> Size {
        Calls::sized(&self.calls)
    }

    fn mesh(&self, config: &mut MeshConfig) {
        // A request with two views, or an offer, is longer than what worlds have by default.
        config.max_message = match self.way {
            Way::Offered => 896,
            Way::Unit => 256,
            _ => 192,
        };
        if self.way == Way::Narrow {
            // There is room again once what was sent is acknowledged.
            (config.max_queued, config.ack_delay, config.probe_after) = (1, LEASE, LEASE * 4);
        }
    }

    fn meeting(&self) -> Meeting {
        match self.work().guest_config() {
            Some(guests) => Meeting::Guests(GuestConfig { most: 2, send_depth: 8, ..guests }),
            None => Meeting::Joined,
        }
    }

    /// Who waits for a member that died waits on, and so only the server does; and where a daemon crashes nobody sees whether a call
    /// leaves anything open.
    fn mortal(&self) -> Option<NodeId> {
        (self.has_group() || self.way == Way::Remote).then_some(NodeId(0))
    }

    /// A server that began anew waits a lease for its guests: they must be heard of before. Members of a group wait for each other, and who
    /// looks whether its server lives must not do so for ever before another one has looked.
    fn drift(&self) -> Option<Nanos> {
        let waits = self.way == Way::DurableGuests
            || self.way == Way::Narrow
            || (self.way.has_disk() && self.has_group());
        waits.then_some(DRIFT)
    }

    /// Who looks whether a server lives, asks again or gives up does so where something went wrong. (A server that finds files waits a lease
    /// for guests; one that is dead is forgotten by its lease; and where there is room for one message, there is once it is acknowledged.)
    fn needs_no_time(&self) -> bool {
        let dies = self.calls.iter().flatten().any(|(call, _)| *call == Call::Die);
        !dies && !matches!(self.way, Way::Narrow | Way::DurableGuests)
    }

    /// Without one client, or without one call.
    fn smaller(&self) -> Vec<Size> {
        let mut all = Vec::new();
        for client in 0..self.calls.len() {
            // What members call all of them call.
            let is_needed = |(call, _): &Called| call.is_of_group();
            if self.calls.len() > 1 && !self.calls[client].iter().any(is_needed) {
                all.push(Calls::sized(&[&self.calls[..client], &self.calls[client + 1..]].concat()));
            }
            if self.calls[client].len() > 1 && !self.calls[client].last().is_some_and(is_needed) {
                let mut calls = self.calls.clone();
                calls[client].pop();
                all.push(Calls::sized(&calls));
            }
        }
        all
    }

    /// Restarts and disks that fail, where servers have disks. Who looks whether what it sent has come does so without end in an order in
    /// which nothing else happens.
    fn usual_faults(&self) -> FaultSet {
        match self.way {
            Way::Narrow => FaultSet::NONE,
            way if way.has_disk() => FaultSet::OF_DISKS.with(Outcome::Restart),
            way => {
                let lost = FaultSet::ALL.without_all(FaultSet::OF_DISKS);
                let lost = lost.without(Outcome::Crash).without(Outcome::Restart);
                // A guest does the same where its server has nothing to take a message with.
                if way == Way::Guests { lost.without(Outcome::NoMemory) } else { lost }
            }
        }
    }

    /// What ran on a server begins anew; a client that is struck asks for nothing more.
    fn restart(&self, state: &mut State, node: NodeId, member: &Member, recorder: &Recorder<InOrder>) {
        Files::restarted(node.0, Nanos::ZERO, recorder);
        let nodes = state.services.len();
        let life = state.services[node.index()].life + 1;
        let place = member.place(node.index(), nodes, life);
        state.services[node.index()] = self.service(&place);
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.way.node_of(self.calls.len()), wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> InOrder {
        // Where strips lie matters to who is told of lost writes.
        let strip = if self.way.is_asked() { self.work().strip } else { 0 };
        let (way, servers) = (self.way, self.way.servers());
        let oracles = FileOracles::new(NAMES, 0).surviving(servers, way.survival()).striped(strip);
        let oracles = oracles.asking_again(way.has_disk()).of_guests(way.has_guests());
        InOrder::new(oracles.of_groups(self.has_group()).of_one_unit(way == Way::Unit))
    }

    fn promises(&self) -> &'static [&'static str] {
        &[STORES]
    }

    fn judge_disks(
        &self,
        state: &State,
        fabric: &Fabric,
        recorder: &Recorder<InOrder>,
    ) -> Result<(), Violation> {
        if !self.way.has_disk() {
            return Ok(());
        }
        let known = stores::known(recorder.oracles(|of| of.oracles.known_names()), &self.work());
        let servers = self.way.servers();
        let mut clients = state.services.iter().skip(servers as usize);
        let all_closed = self.each_closes() && clients.all(|client| client.life == 0);
        stores::judge_power_cuts(fabric, servers, &known, all_closed)
    }

    fn warms_up(&self) -> bool {
        self.has_file_at_first()
    }

    /// Before the first choice, the first client makes the file and writes it, and the others open it.
    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) -> State {
        let start = |(node, member): (usize, &Member)| self.service(&member.place(node, members.len(), 0));
        let services: Vec<Service<Sim>> = members.iter().enumerate().map(start).collect();
        let files: Vec<Opened> = self.calls.iter().map(|_| Opened::default()).collect();
        let state = State { services, files };
        if self.has_file_at_first() {
            for (client, opened) in state.files.iter().enumerate() {
                let node = self.way.node_of(client);
                let member = &members[node as usize];
                let client = Files::client(&state.services[node as usize], ClientId { node, index: 0 });
                let (rt, opened, recorder) = (member.rt.clone(), Rc::clone(opened), recorder.clone());
                member.rt.spawn(warm_up(rt, client, (node, self.way), opened, recorder));
            }
        } else {
            self.spawn(&state, members, recorder);
        }
        state
    }

    fn begin(&self, _: usize, state: &mut State, members: &[Member], recorder: &Recorder<InOrder>) {
        self.spawn(state, members, recorder);
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let service = &state.services[node];
        let conduct: Conduct = Files::conduct(&Files::counts(service));
        let mut left: Vec<_> = Files::leftovers(service).into_iter().chain(member.leftovers()).collect();
        left.retain(|(what, _)| self.closes_all() || *what != "open files");
        at_rest(node, conduct, left)
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        let any = |of: fn(&FsStats) -> u64| {
            state.services.iter().any(|service| of(&service.files.borrow().stats()) > 0)
        };
        sink.sometimes("a unit was pulled", any(|stats| stats.pulls));
        sink.sometimes("a unit was pushed", any(|stats| stats.pushes));
        sink.sometimes("a unit was offered", any(|stats| stats.offered));
        sink.sometimes("bytes rode in a message", any(|stats| stats.eager));
        sink.sometimes("a transfer was begun again", any(|stats| stats.again));
        sink.sometimes("a request waited for staging", any(|stats| stats.staging_waits));
        sink.sometimes("a change of names was committed", any(|stats| stats.commits));
        if self.way.has_guests() {
            sink.sometimes("a guest was forgotten", any(|stats| stats.forgotten));
        }
    }
}

impl Calls {
    /// A client's part of the group of those that call something together.
    fn group(&self, client: usize, files: &Pario<Sim>) -> Option<Membership> {
        let is_member = |client: &usize| self.calls[*client].iter().any(|(call, _)| call.is_of_group());
        let all: Vec<usize> = (0..self.calls.len()).filter(is_member).collect();
        let member = all.iter().position(|member| *member == client)?;
        let members = all.len() as u32;
        let group = files.group(GROUP, member as u32, members).expect("a member is one of all");
        let first = ClientId { node: self.way.node_of(all[0]), index: 0 };
        Some(Membership { group, first, members, met: Cell::new(0) })
    }

    fn spawn(&self, state: &State, members: &[Member], recorder: &Recorder<InOrder>) {
        for (number, calls) in self.calls.iter().enumerate() {
            let node = self.way.node_of(number);
            let rt = members[node as usize].rt.clone();
            let opened = Rc::clone(&state.files[number]);
            let client = Files::client(&state.services[node as usize], ClientId { node, index: 0 });
            let (calls, recorder) = (calls.clone(), recorder.clone());
            let next = self.way.node_of((number + 1) % self.calls.len());
            let next = &members[next as usize];
            let quits = calls.iter().any(|(_, quits)| *quits);
            let quits = quits.then(|| Quits::told(&rt, &members[node as usize].mesh, &next.mesh));
            let group = self.group(number, &client.files);
            let remote =
                (self.way == Way::Remote).then(|| Caller::new(&rt, &client.files, self.work(), &recorder));
            let user = User { rt: rt.clone(), node, way: self.way, quits, group, remote, recorder };
            drop(rt.spawn(user.calls(client, opened, calls)));
        }
    }
}

async fn warm_up(
    rt: Rt<Sim>,
    mut client: Client<Sim>,
    (node, way): (u32, Way),
    opened: Opened,
    recorder: Recorder<InOrder>,
) {
    let id = RequestId { client: ClientId { node, index: 0 }, number: 0 };
    let teller = Teller { rt: &rt, id, record: &recorder };
    // The first writes, so that there is something to read.
    drop(teller.perform(&mut client, way.transfer(node == way.node_of(0))).await);
    *opened.borrow_mut() = client.open.take();
}

/// A client's part of the group.
struct Membership {
    group: Group<Sim>,
    /// The first member.
    first: ClientId,
    /// How many members there are.
    members: u32,
    /// To how many barriers this one has come.
    met: Cell<u32>,
}

/// Who calls.
struct User {
    rt: Rt<Sim>,
    node: u32,
    way: Way,
    quits: Option<Rc<Quits>>,
    group: Option<Membership>,
    remote: Option<Caller>,
    recorder: Recorder<InOrder>,
}

impl User {
    async fn calls(self, mut client: Client<Sim>, opened: Opened, calls: Vec<Called>) {
        client.open = opened.borrow_mut().take();
        for (number, (call, may_quit)) in (1..).zip(calls) {
            let id = RequestId { client: ClientId { node: self.node, index: 0 }, number };
            let made = self.call(&mut client, id, call);
            if Quits::call(self.quits.as_deref().filter(|_| may_quit), made).await.is_none() {
                self.recorder.record(Event { at_ns: 0, request: id, what: What::Dropped });
            }
        }
        // What is open stays so: to close it is a call.
        *opened.borrow_mut() = client.open.take();
    }

    async fn call(&self, client: &mut Client<Sim>, id: RequestId, call: Call) {
        if let Some(remote) = &self.remote {
            return remote.call(id, call).await;
        }
        let teller = Teller { rt: &self.rt, id, record: &self.recorder };
        let done = match call {
            Call::Write | Call::Read => teller.perform(client, self.way.transfer(call == Call::Write)).await,
            Call::Create | Call::CreateOther => {
                match teller.create(client, u32::from(call == Call::CreateOther)).await {
                    Ok(file) => teller.close(client, file).await,
                    Err(why) => Err(why),
                }
            }
            Call::Hold => teller.create(client, 0).await.map(|file| client.open = Some(file)),
            Call::OpenOther => match teller.open(client, 1).await {
                Ok(file) => teller.close(client, file).await,
                Err(why) => Err(why),
            },
            Call::Close => match client.open.take() {
                Some(file) => teller.close(client, file).await,
                None => Ok(()),
            },
            Call::WriteBeyond => match &client.open {
                Some(file) => teller.write_beyond(client, file).await,
                None => Ok(()),
            },
            Call::Sync => match &client.open {
                Some(file) => teller.sync(client, file).await,
                None => Ok(()),
            },
            Call::Append => teller.perform(client, Request::Append { file: 0, cells: 1 }).await,
            Call::Cut => teller.perform(client, Request::Truncate { file: 0, cells: 0 }).await,
            Call::Rename => teller.perform(client, Request::Rename { from: 0, to: 1 }).await,
            Call::Unlink => teller.perform(client, Request::Unlink { file: 0 }).await,
            Call::Make => teller.perform(client, Request::Make { file: 0, cells: CELLS }).await,
            Call::Leave => teller.perform(client, Request::Leave).await,
            Call::Die => teller.perform(client, Request::Die { file: 1, after: Nanos::ZERO }).await,
            Call::Look => teller.perform(client, Request::Look { file: 0 }).await,
            Call::List => teller.perform(client, Request::List).await,
            Call::Stat => teller.perform(client, Request::Stat { file: 0 }).await,
            Call::Say => teller.perform(client, Request::Say { file: 0 }).await,
            Call::Meet | Call::MakeTogether | Call::CutTogether => {
                self.call_together(&teller, client, call).await
            }
        };
        drop(done);
    }

    /// A call that all members of the group make.
    async fn call_together(
        &self,
        teller: &Teller<'_, Sim, Recorder<InOrder>>,
        client: &Client<Sim>,
        call: Call,
    ) -> Result<(), FsError> {
        let Some(Membership { group, first, members, met }) = &self.group else { return Ok(()) };
        match (call, &client.open) {
            (Call::MakeTogether, _) => match teller.create_together(client, group, 0).await {
                Ok(file) => teller.close(client, file).await,
                Err(why) => Err(why),
            },
            (Call::CutTogether, Some(open)) => teller.cut_together(group, *first, open).await,
            (Call::CutTogether, None) => Err(FsError::Stale),
            _ => {
                let meets = history::Call::Meet(met.replace(met.get() + 1), *members);
                teller.meet(group, meets).await
            }
        }
    }
}
