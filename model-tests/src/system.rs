//! What a system is to everything that runs systems: a workload, a service on each node, clients, oracles, figures.
//!
//! A scenario, a paper's experiment, an explored world and a real machine all start a system by [`System::start`], and its
//! clients by [`crate::run::client`].

use crate::MeshCounts;
use crate::explore::Entry;
use crate::fields::{Dice, Rule, Span};
use crate::history::{ClientId, HistoryEvent, RequestId};
use crate::metrics::Metrics;
use crate::named::Named;
use crate::oracle::{Conduct, Oracles};
use crate::paper::Paper;
use crate::record::{Meter, Record};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::AddAssign;
use std::rc::Rc;
use weft_protocols::members::Members;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, MeshConfig};
use weft_verbs::{Nanos, Verbs};

/// A node on which a system starts: its runtime, its connections, and its place among the others.
#[derive(Clone)]
pub struct Place<V: Verbs> {
    /// The node's runtime.
    pub rt: Rt<V>,
    /// The node's connections.
    pub mesh: Mesh<V>,
    /// Which node it is, from 0.
    pub node: u32,
    /// How many there are.
    pub nodes: u32,
    /// How often this one had restarted when the system started on it.
    pub incarnation: u32,
    /// Its part in the membership, where nodes agree on who is alive.
    pub members: Option<Members<V>>,
}

/// A command that shows what can be done with a system.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// What it does, in a line.
    pub what: &'static str,
    /// The command as it is typed: `weft run scenarios/...`.
    pub command: &'static str,
}

/// How many requests a client makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So many.
    Requests(u32),
    /// As many as it can begin before this time of its node's clock.
    Time(Nanos),
}

/// What all clients of a run will ask for, where the workload and the seed say it.
pub struct Plans<W> {
    /// The workload.
    pub work: W,
    /// How many nodes there are.
    pub nodes: u32,
    /// The run's seed.
    pub seed: u64,
}

/// How much work there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The clients of each node.
    pub clients: u32,
    /// How many requests each of them makes.
    pub until: Until,
}

impl Amount {
    /// The work of so many clients, each of which makes a number of requests or goes on for a span of time. Scenarios are checked
    /// to say one of the two ([`requests_or_duration`](crate::fields::requests_or_duration)).
    pub fn of(clients: u32, requests: Option<u32>, duration: Option<Span>) -> Amount {
        let until = match duration {
            Some(duration) => Until::Time(duration.nanos()),
            None => Until::Requests(requests.unwrap_or(0)),
        };
        Amount { clients, until }
    }
}

/// What a run's figures are made of.
#[derive(Debug)]
pub struct Measured<'a, S: System + ?Sized> {
    /// What was to be done.
    pub work: &'a S::Workload,
    /// The oracles, with what they know.
    pub oracles: &'a S::Oracles,
    /// What was measured of the history.
    pub meter: &'a S::Meter,
    /// What the services counted, over all nodes.
    pub counts: S::Counts,
    /// What their transport counted, over all nodes.
    pub mesh: MeshCounts,
    /// From the first event of the history to the last.
    pub busy: Nanos,
}

/// The counts of a system that counts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncounted;

impl AddAssign for Uncounted {
    fn add_assign(&mut self, _: Uncounted) {}
}

/// A target of a fuzzer: its name, and what is done with the fuzzer's bytes, which panics if a promise is broken.
pub type Target = (&'static str, fn(&[u8]));

/// A system that can be run, judged and measured on either backend.
pub trait System: 'static {
    /// Its name, as `kind` in `[workload]`.
    const KIND: &'static str;
    /// What it is, in a few words, for lists.
    const ABOUT: &'static str;
    /// What to write into `[workload]` at least, beside `kind`, as an error says it.
    const EXAMPLE: &'static str;
    /// Whether it needs a network on which packets of one connection do not overtake each other, as InfiniBand's switches and one path of an
    /// Ethernet have it: then random scenarios delay packets in their order.
    const NEEDS_ORDER: bool = false;
    /// Whether a node may restart in the middle: the system says what is promised then.
    const RESTARTS: bool = false;
    /// Whether a node that died among members takes part again when it is back, and is not refused: on real machines it is held to that.
    const COMES_BACK: bool = true;
    /// Whether nodes use their machine's disk: then disks may be full and fail.
    const DISKS: bool = false;
    /// Whether users may drop calls before they end: then random scenarios have some do so, and a scenario may say `[quits]`.
    const QUITS: bool = false;
    /// Whether users are none the wiser where machines register no more memory for a while, or try again: then random scenarios have that.
    const MEMORY: bool = false;
    /// For how long a peer may be out of reach until users are told so: no link of a scenario fails for as long.
    const PATIENCE: Nanos = Nanos::MAX;
    /// Whether nodes use remote atomics: then adapters may have none.
    const ATOMICS: bool = false;

    /// The fewest nodes that it runs on.
    const LEAST_NODES: u32 = 1;

    /// The variants that random scenarios are drawn of in turn, by name. One without a name if there are none.
    const VARIANTS: &'static [&'static str] = &[""];

    /// What a user might take instead, by name: [`System::bench`] knows them as it knows variants, and random scenarios have none.
    const RIVALS: &'static [&'static str] = &[];

    /// The counted numbers that are worth telling for each request, as `weft bench` does: their group and their key.
    const COSTS: &'static [(&'static str, &'static str)] = &[];

    /// Targets of fuzzers beside [`crate::fuzz::system`]: their names and bodies.
    const TARGETS: &'static [Target] = &[];

    /// The papers whose experiments can be repeated.
    const PAPERS: &'static [Paper] = &[];

    /// What a user may begin with, for help texts.
    const EXAMPLES: &'static [Example] = &[];

    /// The fields of its `[workload]` table.
    type Workload: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Send + Sync;
    /// What its clients see.
    type Event: HistoryEvent;
    /// Its oracles.
    type Oracles: Oracles<Event = Self::Event>;
    /// What is measured of a history.
    type Meter: Meter<Self::Event> + Default + Debug;
    /// What its services count, for each node.
    type Counts: Copy + Debug + Default + AddAssign + Serialize + DeserializeOwned + Send;
    /// What runs on a node.
    type Service<V: Verbs>: 'static;
    /// What a client calls.
    type Client<V: Verbs>: 'static;
    /// What all clients of a run will ask for.
    type Plans: 'static;
    /// What one client will ask for: a stream of requests that is drawn from the run's seed alone.
    type Plan: 'static;
    /// One request.
    type Request: Clone + 'static;

    /// Checks what the types of the workload's fields cannot express, on so many nodes.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    fn check(work: &Self::Workload, nodes: u32) -> Rule;

    /// How much work there is.
    fn amount(work: &Self::Workload) -> Amount;

    /// Which of its kinds the workload is about, for reports: a name for what varies, and its value.
    fn variant(work: &Self::Workload) -> Option<(&'static str, String)> {
        let _ = work;
        None
    }

    /// A workload that is drawn at random; of a variant, if there are [variants](System::VARIANTS).
    fn swarm(dice: &mut Dice<'_>, variant: &str) -> Self::Workload;

    /// The workload that `weft bench` measures: one client a node, each of which makes so many requests.
    fn bench(nodes: u32, requests: u32, variant: &str) -> Self::Workload;

    /// A workload with at most so many requests of each client, for runs that must be short.
    fn limited(work: Self::Workload, requests: u32) -> Self::Workload;

    /// What it needs of the connections beyond what the scenario says of them.
    fn mesh(work: &Self::Workload, config: &mut MeshConfig) {
        let _ = (work, config);
    }

    /// How many bytes the services of so many nodes register at the most, beside what their connections take: for a scenario to be
    /// refused that needs more memory than it may take. 0 unless a system says otherwise.
    fn memory(work: &Self::Workload, nodes: u32) -> u64 {
        let _ = (work, nodes);
        0
    }

    /// For how long at the most a request waits for another node where no link fails, as for a lock that it holds or to learn that it has
    /// restarted: a scenario is refused in which that is longer than a request may take. Zero unless a system says otherwise.
    fn held_up(work: &Self::Workload) -> Nanos {
        let _ = work;
        Nanos::ZERO
    }

    /// For how long services keep what is of a user that has gone without a word: it takes them as much longer to come to rest.
    fn lingers(work: &Self::Workload) -> Nanos {
        let _ = work;
        Nanos::ZERO
    }

    /// Its oracles, on so many nodes.
    fn oracles(work: &Self::Workload, nodes: u32) -> Self::Oracles;

    /// Starts the service of a node. What the service itself sees, and no client, it records.
    ///
    /// # Errors
    ///
    /// The service cannot be started; why.
    fn start<V: Verbs, R: Record<Self::Event>>(
        place: &Place<V>,
        work: &Self::Workload,
        record: &R,
    ) -> Result<Self::Service<V>, String>;

    /// What a workload lacks for a node to restart in the middle, where the system [has that](System::RESTARTS); nothing unless it says so.
    fn lacks_for_restarts(work: &Self::Workload) -> Option<&'static str> {
        let _ = work;
        None
    }

    /// Whether its services survive a node that crashes where nodes agree on who is alive ([`Place::members`]).
    fn survives(work: &Self::Workload) -> bool {
        let _ = work;
        false
    }

    /// A node crashes: what the history and the oracles must know of it.
    fn crashed<R: Record<Self::Event>>(node: u32, at: Nanos, record: &R) {
        let _ = (node, at, record);
    }

    /// A node crashed and is there again: what the history and the oracles must know of it before its service starts anew.
    fn restarted<R: Record<Self::Event>>(node: u32, at: Nanos, record: &R) {
        let _ = (node, at, record);
    }

    /// A client of a service.
    fn client<V: Verbs>(service: &Self::Service<V>, id: ClientId) -> Self::Client<V>;

    /// What all clients of a run will ask for.
    fn plans(work: &Self::Workload, nodes: u32, seed: u64) -> Self::Plans;

    /// What one of them will ask for.
    fn plan(plans: &Rc<Self::Plans>, id: ClientId) -> Self::Plan;

    /// The next request of a plan, and how long its client rests before it.
    fn next(plan: &mut Self::Plan) -> (Nanos, Self::Request);

    /// Makes a request, and records what the client sees of it. Ends when the client is through with it.
    fn perform<V: Verbs, R: Record<Self::Event>>(
        rt: &Rt<V>,
        client: &mut Self::Client<V>,
        id: RequestId,
        request: Self::Request,
        record: &R,
    ) -> impl Future<Output = ()>;

    /// Whether a client may drop a request like this one before it ends; see [`System::dropped`]. Where [users may](System::QUITS), any of them
    /// unless the system says so.
    fn may_drop<V: Verbs>(client: &Self::Client<V>, request: &Self::Request) -> bool {
        let _ = (client, request);
        Self::QUITS
    }

    /// A client has dropped a request before it ended: what it sees of that. Called at once afterwards, and only of requests that
    /// [may be](System::may_drop) dropped.
    fn dropped<V: Verbs>(
        client: &mut Self::Client<V>,
        id: RequestId,
        request: &Self::Request,
        at: Nanos,
    ) -> Option<Self::Event> {
        let _ = (client, id, request, at);
        None
    }

    /// What a service has counted so far; nothing, unless the system says so.
    fn counts<V: Verbs>(service: &Self::Service<V>) -> Self::Counts {
        let _ = service;
        Self::Counts::default()
    }

    /// Whether a user may break a connection by what it asks for, as by a read of memory that is its peer's no more (IBA 9.7.4.1.5).
    const BREAKS_CONNECTIONS: bool = false;

    /// The messages that a service had to drop, among what it counted; none, unless the system says so.
    fn conduct(counts: &Self::Counts) -> Conduct {
        let _ = counts;
        Conduct::default()
    }

    /// How many bytes have arrived at a node's users, if the system tells it: what `weft run --report` draws over time.
    fn arrived<V: Verbs>(service: &Self::Service<V>) -> Option<u64> {
        let _ = service;
        None
    }

    /// What a service keeps although nobody asks for anything, by name; nothing beyond what the transport keeps, unless the
    /// system says so. Asked only while no operation is in flight.
    fn leftovers<V: Verbs>(service: &Self::Service<V>) -> Vec<(&'static str, u64)> {
        let _ = service;
        Vec::new()
    }

    /// What is at an address of a service's registered memory, for logs and drawings, where that is more than a
    /// [label](weft_protocols::rt::Rt::label) says. Asked while no program runs.
    fn name_of<V: Verbs>(service: &Self::Service<V>, address: u64) -> Option<Named> {
        let _ = (service, address);
        None
    }

    /// Its worlds, for `weft check`.
    fn worlds() -> Vec<Entry> {
        Vec::new()
    }

    /// A run's figures.
    fn metrics(measured: Measured<'_, Self>) -> Metrics;
}
