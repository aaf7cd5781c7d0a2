//! The room of shared memory: threads of all nodes load and store, and what sequential consistency promises them.

pub mod apps;
mod client;
pub mod history;
mod meter;
mod objects;
pub mod oracles;
mod paper;
pub mod workload;
pub mod worlds;

pub use client::Client;
pub use meter::DsmMeter;

use crate::MeshCounts;
use crate::counted::counted;
use crate::explore::Entry;
use crate::fields::{Dice, Rule};
use crate::history::{ClientId, RequestId};
use crate::metrics::{Group, Latencies, Layout, Metrics, Rate};
use crate::oracle::{Conduct, Oracles};
use crate::paper::Paper;
use crate::record::Record;
use crate::system::{Amount, Example, Measured, Place, Plans, System};
use apps::Worker;
use history::{Event, Spent, What, Why};
use objects::Objects;
use oracles::DsmOracles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::rc::Rc;
use weft_protocols::dsm::{Charges, Dsm, DsmConfig, DsmError, DsmStats, Grain, LONGEST, STAMP, Shared};
use weft_protocols::locks::{LockConfig, LockService, Scheme};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, MeshConfig};
use weft_verbs::{Nanos, Verbs};
use workload::{DsmWork, Plan, Request};

/// Distributed shared memory in minipages.
pub struct SharedMemory;

/// A node's shared memory, and the words that the workload accesses.
pub struct Service<V: Verbs> {
    dsm: Dsm<V>,
    words: Shared<[u64]>,
    parties: u32,
    /// What an application needs besides.
    locks: LockService<V>,
    rt: Rt<V>,
    mesh: Mesh<V>,
    work: DsmWork,
}

/// A thread of the workload: it accesses words, or runs an application.
pub struct Member<V: Verbs> {
    client: Client<V>,
    worker: Worker<V>,
}

counted! {
    /// What a node counted in all.
    Sums from DsmStats {
        read_faults, write_faults, joined, transfers, pulls, invalidations, upgrades, orders_waited,
        stalls, epochs, lost, fenced, stale, out_of_turn, malformed,
    }
}

/// What a node counted, in all and by object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    sums: Sums,
    objects: Objects,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.sums += other.sums;
        self.objects += other.objects;
    }
}

/// A message without data, and the stamp behind it where nodes agree on who is alive: bytes.
const STAMPED: u32 = (LONGEST + STAMP) as u32;

/// How many bytes of messages' buffers are registered at a time, at most.
const MOST_AT_ONCE: u32 = 1 << 20;

/// The name of the words that the workload accesses: all nodes know it.
const NAME: u32 = 0;

/// How long a thread waits before it makes a call again for which the operating system registered no memory.
const BEFORE_MEMORY_IS_ASKED_FOR: Nanos = Nanos::from_millis(1);

/// Makes a call, again and again for as long as the operating system registers no memory for it: it has done nothing.
async fn with_memory<V: Verbs, T>(
    rt: &Rt<V>,
    mut call: impl AsyncFnMut() -> Result<T, DsmError>,
) -> Result<T, DsmError> {
    loop {
        match call().await {
            Err(DsmError::Memory(_)) => rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
            done => return done,
        }
    }
}

/// How long a thread rests whose access has failed: a call that fails at once takes no time.
const AFTER_FAILURE: Nanos = Nanos::from_micros(10);

/// Records for the oracles which nodes a node shares its memory with, and outlives.
fn tell_of_others<V: Verbs, R: Record<Event>>(dsm: &Dsm<V>, rt: &Rt<V>, node: u32, record: R) {
    let tell = move |rt: &Rt<V>, what| record.record(Event::of_node(rt.now(), node, what));
    let (memory, clock, says) = (dsm.clone(), rt.clone(), tell.clone());
    drop(rt.spawn(async move {
        says(&clock, What::Waits);
        let Ok(name) = memory.begun().await else { return };
        says(&clock, What::Begun(name));
        for told in 0.. {
            let Ok(died) = memory.next_death(told).await else { return };
            says(&clock, What::Outlives(died.index() as u32));
        }
    }));
    let (memory, clock) = (dsm.clone(), rt.clone());
    drop(rt.spawn(async move {
        // Another end is no reason for others to go on without this node: calls that fail by it are to be explained otherwise.
        if matches!(memory.ended().await, DsmError::Out | DsmError::PeerReset(_)) {
            tell(&clock, What::LeftOut);
        }
    }));
}

impl System for SharedMemory {
    /// Its part of the memory is gone: it is started anew with all others.
    const COMES_BACK: bool = false;
    const QUITS: bool = true;
    const MEMORY: bool = true;
    const KIND: &'static str = "dsm";
    const ABOUT: &'static str = "distributed shared memory in minipages, sequentially consistent";
    const EXAMPLE: &'static str = "requests = 100";
    const COSTS: &'static [(&'static str, &'static str)] =
        &[("protocol", "read_faults"), ("protocol", "write_faults"), ("protocol", "transfers")];
    const EXAMPLES: &'static [Example] = &[Example {
        what: "Threads of 16 nodes share memory while links fail",
        command: "weft run scenarios/dsm-16.toml",
    }];

    const PAPERS: &'static [Paper] = &[paper::DSM];

    type Workload = DsmWork;
    type Event = Event;
    type Oracles = DsmOracles;
    type Meter = DsmMeter;
    type Counts = Counts;
    type Service<V: Verbs> = Service<V>;
    type Client<V: Verbs> = Member<V>;
    type Plans = Plans<DsmWork>;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &DsmWork, nodes: u32) -> Rule {
        work.check(nodes)
    }

    fn amount(work: &DsmWork) -> Amount {
        work.amount()
    }

    fn swarm(dice: &mut Dice<'_>, _: &str) -> DsmWork {
        DsmWork::drawn(dice)
    }

    fn bench(nodes: u32, requests: u32, _: &str) -> DsmWork {
        DsmWork { minipages: 8 * nodes, words: 1, ..DsmWork::of(requests) }
    }

    fn limited(work: DsmWork, requests: u32) -> DsmWork {
        if work.application.is_some() {
            return work;
        }
        DsmWork { requests: Some(requests), duration: None, ..work }
    }

    /// Messages carry minipages where nodes have several rails.
    fn mesh(work: &DsmWork, config: &mut MeshConfig) {
        if !config.other_rails.is_empty() {
            config.max_message = config.max_message.max(work.longest() + STAMPED);
            // A node that connects registers what it posts for all others: for so long messages it would take longer, one by one, than
            // members wait for a sign of life. So what a connection takes is registered at once.
            let buffers = config.recv_buffers.saturating_mul(config.max_message);
            config.chunk = config.chunk.max(buffers.min(MOST_AT_ONCE)).max(config.max_message);
        }
    }

    /// Every node has all minipages in its memory.
    fn memory(work: &DsmWork, nodes: u32) -> u64 {
        let each = match work.application() {
            Some((application, input)) => application.memory(input),
            None => u64::from(work.minipages) * u64::from(work.grain()),
        };
        u64::from(nodes) * each
    }

    fn oracles(work: &DsmWork, nodes: u32) -> DsmOracles {
        let oracles = DsmOracles::new(work.words_a_page(), nodes * work.threads).among(nodes);
        match work.application() {
            Some((application, input)) => oracles.of(application, input),
            None => oracles,
        }
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        work: &DsmWork,
        record: &R,
    ) -> Result<Service<V>, String> {
        let charges = if work.mapped { Charges::Mapped } else { Charges::Calls };
        let config = DsmConfig { pulls: work.pull, charges };
        place.rt.set_processors(work.processors);
        let Place { rt, mesh, node, members, .. } = place;
        let dsm = match members {
            None => Dsm::start_as(rt, mesh, config),
            Some(members) => Dsm::start_among(rt, mesh, config, members),
        };
        let dsm = dsm.map_err(|why| why.to_string())?;
        if members.is_some() {
            tell_of_others(&dsm, rt, *node, record.clone());
        }
        let len = (work.minipages * work.words_a_page()) as usize;
        let words = dsm.named(NAME, len, Grain::Bytes(work.grain()), work.placement());
        let words = words.map_err(|why| why.to_string())?;
        let locks = LockConfig::new(Scheme::Srsl, place.nodes);
        let locks = match members {
            None => LockService::start(rt, mesh, locks),
            Some(members) => LockService::start_with(rt, mesh, locks, members),
        };
        let locks = locks.map_err(|why| why.to_string())?;
        let (rt, mesh, work) = (rt.clone(), mesh.clone(), work.clone());
        Ok(Service { dsm, words, parties: place.nodes * work.threads, locks, rt, mesh, work })
    }

    fn survives(_: &DsmWork) -> bool {
        true
    }

    fn crashed<R: Record<Event>>(node: u32, at: Nanos, record: &R) {
        record.record(Event::of_node(at, node, What::Crashed));
    }

    fn client<V: Verbs>(service: &Service<V>, id: ClientId) -> Member<V> {
        let Service { dsm, words, parties, locks, rt, mesh, work } = service;
        let client = Client {
            thread: dsm.thread(),
            words: *words,
            parties: *parties,
            meets: true,
            seen: BTreeMap::new(),
            accesses: false,
        };
        let worker = Worker {
            thread: dsm.thread(),
            locks: locks.client(),
            rt: rt.clone(),
            me: id.node * work.threads + id.index,
            all: *parties,
            pace: work.unit.nanos().0 as f64,
            grain: work.grain,
            spent: Spent::default(),
            ran: Spent::default(),
            mesh: mesh.clone(),
            counted: Default::default(),
        };
        Member { client, worker }
    }

    fn plans(work: &DsmWork, nodes: u32, seed: u64) -> Self::Plans {
        Plans { work: work.clone(), nodes, seed }
    }

    fn plan(plans: &Rc<Self::Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, plans.nodes, plans.seed, id)
    }

    fn next(plan: &mut Plan) -> (Nanos, Request) {
        plan.request()
    }

    async fn perform<V: Verbs, R: Record<Event>>(
        rt: &Rt<V>,
        member: &mut Member<V>,
        id: RequestId,
        request: Request,
        record: &R,
    ) {
        let Request::Application(application, input) = request else {
            if member.client.perform(rt, id, request, record).await.is_err() {
                rt.sleep(AFTER_FAILURE).await;
            }
            return;
        };
        let happens = |what| record.record(Event { at_ns: rt.now().0, request: id, what });
        happens(What::Runs);
        record.written().await;
        let ran = application.run(&mut member.worker, input).await;
        happens(match ran {
            Ok(part) => What::Ran { part, spent: member.worker.ran },
            Err(why) => What::Failed(why.into()),
        });
        record.written().await;
    }

    // Threads that drop their wait at a barrier have to call again.
    fn may_drop<V: Verbs>(_: &Member<V>, request: &Request) -> bool {
        matches!(request, Request::Access { .. })
    }

    fn dropped<V: Verbs>(
        member: &mut Member<V>,
        request: RequestId,
        _: &Request,
        at: Nanos,
    ) -> Option<Event> {
        let accessed = std::mem::take(&mut member.client.accesses);
        accessed.then_some(Event { at_ns: at.0, request, what: What::Failed(Why::Dropped) })
    }

    fn counts<V: Verbs>(service: &Service<V>) -> Counts {
        let objects = Objects::of(service.dsm.by_object(), service.dsm.freed_objects());
        Counts { sums: service.dsm.stats().into(), objects }
    }

    fn conduct(counts: &Counts) -> Conduct {
        Conduct { out_of_turn: counts.sums.out_of_turn, malformed: counts.sums.malformed }
    }

    fn leftovers<V: Verbs>(service: &Service<V>) -> Vec<(&'static str, u64)> {
        service.dsm.unfinished().to_vec()
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds()
    }

    fn metrics(measured: Measured<'_, SharedMemory>) -> Metrics {
        let Measured { oracles, meter, counts, mesh, busy, work, .. } = measured;
        if work.application.is_some() {
            return application_metrics(work, oracles, meter, &counts, &mesh);
        }
        Metrics {
            picture: None,
            rates: vec![
                Rate::of("requests_per_second", "accesses a second", meter.served(), busy),
                Rate::of("faults_per_second", "faults a second", meter.faults, busy),
            ],
            groups: [requests(meter, oracles.unended()), protocol(&counts.sums, &mesh)]
                .into_iter()
                .chain(counts.objects.groups())
                .collect(),
            latencies: vec![Latencies {
                key: "latency",
                title: "Time of accesses that waited, call to return",
                heads: ["access", "returned"],
                rows: meter.rows(),
            }],
        }
    }
}

/// The figures of an application: speed-up, and what threads spent their time on, as the paper's Figure 4 has it. Where no thread
/// has ended there is none of both. What adds up over runs every run has, also one in which no thread has ended.
fn application_metrics(
    work: &DsmWork,
    oracles: &DsmOracles,
    meter: &DsmMeter,
    Counts { sums: counts, objects }: &Counts,
    mesh: &MeshCounts,
) -> Metrics {
    let faults = counts.read_faults + counts.write_faults;
    let ended = Ended::of(&meter.spent);
    let alone = oracles.expected().units as f64 * work.unit.nanos().0 as f64;
    let locks = meter.spent.iter().map(|spent| spent.locks_taken).sum();
    let counted = [
        ("threads", "threads ended", meter.spent.len() as u64),
        ("locks", "locks", locks),
        ("faults", "faults", faults),
        ("lost", "lost", meter.lost),
        ("died", "died", meter.died),
    ];
    let rate = |ended: &Ended<'_>| Rate::of("faults_per_second", "faults a second", faults, ended.elapsed);
    Metrics {
        picture: None,
        rates: ended.iter().map(rate).collect(),
        groups: std::iter::once(Group::new("application", "Application", Layout::Row, &counted))
            .chain(ended.iter().flat_map(|ended| [ended.speed(alone), ended.times()]))
            .chain([protocol(counts, mesh)])
            .chain(objects.groups())
            .collect(),
        latencies: Vec::new(),
    }
}

/// The threads of an application that have ended, of which there are some.
struct Ended<'a> {
    spent: &'a [Spent],
    /// From the first one's beginning to the last one's end.
    elapsed: Nanos,
}

impl Ended<'_> {
    fn of(spent: &[Spent]) -> Option<Ended<'_>> {
        let from = spent.iter().map(|spent| spent.from).min()?;
        let to = spent.iter().map(|spent| spent.to).max()?;
        Some(Ended { spent, elapsed: Nanos(to.saturating_sub(from)) })
    }

    fn threads(&self) -> u64 {
        self.spent.len() as u64
    }

    fn sum(&self, of: fn(&Spent) -> u64) -> u64 {
        self.spent.iter().map(of).sum()
    }

    /// How much sooner they were through than one thread alone, which takes so many nanoseconds.
    fn speed(&self, alone: f64) -> Group {
        let speed_up = if self.elapsed > Nanos::ZERO { alone / self.elapsed.0 as f64 } else { 0.0 };
        let speed = [
            ("speed_up_percent", "speed, % of one", (100.0 * speed_up).round() as u64),
            ("barriers", "barriers of each", self.sum(|spent| spent.barriers_entered) / self.threads()),
        ];
        Group { adds_up: false, ..Group::new("speed", "Speed", Layout::Row, &speed) }
    }

    /// What they spent their time on.
    fn times(&self) -> Group {
        let micros = |of: fn(&Spent) -> u64| self.sum(of) / self.threads() / 1_000;
        let time = [
            ("elapsed_us", "elapsed", self.elapsed.0 / 1_000),
            ("compute_us", "computing", micros(|spent| spent.compute)),
            ("handlers_us", "taken by handlers", micros(|spent| spent.handlers)),
            ("faults_us", "waiting for minipages", micros(|spent| spent.faults)),
            ("barriers_us", "waiting at barriers", micros(|spent| spent.barriers)),
            ("locks_us", "waiting for locks", micros(|spent| spent.locks)),
        ];
        let times = Group::new("time", "Time, mean of threads", Layout::Figures("what", "us"), &time);
        Group { adds_up: false, ..times }
    }
}

fn requests(meter: &DsmMeter, unended: u64) -> Group {
    let DsmMeter { loads, stores, atomics, barriers, faults, lost, died, failed, .. } = *meter;
    let counts = [
        ("loads", "loads", loads),
        ("stores", "stores", stores),
        ("atomics", "atomics", atomics),
        ("barriers", "barriers", barriers),
        ("faults", "that waited", faults),
        ("lost", "lost", lost),
        ("died", "died", died),
        ("failed", "failed", failed),
        ("unended", "not ended", unended),
    ];
    Group::new("requests", "Requests", Layout::Row, &counts)
}

fn protocol(counts: &Sums, mesh: &MeshCounts) -> Group {
    let counts = [
        ("read_faults", "requests to read", counts.read_faults),
        ("write_faults", "requests to write", counts.write_faults),
        ("joined", "accesses that joined a request", counts.joined),
        ("transfers", "minipages sent", counts.transfers),
        ("pulls", "minipages pulled by readers", counts.pulls),
        ("invalidations", "minipages given up", counts.invalidations),
        ("upgrades", "copies made writable", counts.upgrades),
        ("orders_waited", "orders that waited for accesses", counts.orders_waited),
        ("stalls", "messages that found no room", counts.stalls),
        ("reconnects", "connections made again", mesh.reconnects),
        ("resent", "messages sent again", mesh.messages_repeated),
        ("struck", "transfers struck before their notice", mesh.places_repeated),
        ("epochs", "epochs begun without the dead", counts.epochs),
        ("fenced", "transfers awaited or taken back then", counts.fenced),
        ("stale", "messages of epochs that were over", counts.stale),
        ("lost", "minipages lost with the dead", counts.lost),
    ];
    Group::new("protocol", "Protocol", Layout::Column("what"), &counts)
}
