//! The room of the shared data segments: gets and puts under a coherence model, and what each model promises.

pub mod history;
mod meter;
pub mod oracles;
mod paper;
mod published;
pub mod workload;
pub mod worlds;

pub use meter::DdssMeter;

use crate::MeshCounts;
use crate::explore::Entry;
use crate::fields::{Dice, Rule};
use crate::history::{ClientId, RequestId};
use crate::metrics::{Group, Latencies, Layout, Metrics, Rate};
use crate::oracle::{Conduct, Oracles};
use crate::paper::Paper;
use crate::record::Record;
use crate::system::{Amount, Example, Measured, Place, System};
use history::{Event, Value, What};
use oracles::DdssOracles;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, DdssStats, Model, Name, Segment, Spec};
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};
use workload::{DdssWork, Plan, Request};

/// Shared data segments under the coherence models of DDSS.
pub struct Segments;

/// A node's service, and what its clients agree on.
pub struct Service<V: Verbs> {
    ddss: Ddss<V>,
    spec: Spec,
}

/// What a client calls, and the versions that it holds.
pub struct Client<V: Verbs> {
    ddss: Ddss<V>,
    spec: Spec,
    held: BTreeMap<Name, u64>,
}

impl<V: Verbs> Client<V> {
    async fn put(&mut self, segment: &Segment, id: RequestId) -> Result<What, DdssError> {
        let value = Value::bytes(id, self.spec.size as usize);
        Ok(What::Put { version: self.ddss.put(segment, &value).await? })
    }

    /// Under the version model a client says which version it has.
    async fn get(&mut self, segment: &Segment, name: Name) -> Result<What, DdssError> {
        let held = self.held.get(&name).copied().filter(|_| self.spec.model == Model::Version);
        let mut bytes = vec![0; self.spec.size as usize];
        let version = self.ddss.get_if_newer(segment, held, &mut bytes).await?;
        Ok(match (version, held) {
            (None, held) => What::Unchanged { version: held.unwrap_or_default() },
            (Some(_), _) if self.spec.model == Model::Null => {
                What::Got { value: Value::of(&bytes), version: None }
            }
            (Some(version), _) => {
                self.held.insert(name, version);
                What::Got { value: Value::of(&bytes), version: Some(version) }
            }
        })
    }
}

/// What all clients of a run will ask for.
pub struct Plans {
    work: DdssWork,
    seed: u64,
}

/// What a node counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    get_retries: u64,
    swap_misses: u64,
    unknown_outcomes: u64,
    unchanged: u64,
    malformed: u64,
}

impl From<DdssStats> for Counts {
    fn from(stats: DdssStats) -> Counts {
        let DdssStats { get_retries, swap_misses, unknown_outcomes, unchanged, malformed, .. } = stats;
        Counts { get_retries, swap_misses, unknown_outcomes, unchanged, malformed }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.get_retries += other.get_retries;
        self.swap_misses += other.swap_misses;
        self.unknown_outcomes += other.unknown_outcomes;
        self.unchanged += other.unchanged;
        self.malformed += other.malformed;
    }
}

/// The model of a variant's name.
fn model(variant: &str) -> Model {
    variant.parse().unwrap_or(Model::Write)
}

impl System for Segments {
    const KIND: &'static str = "ddss";
    const ABOUT: &'static str = "shared data segments: models null, version, write and strict";
    const EXAMPLE: &'static str = "model = \"write\"";
    const VARIANTS: &'static [&'static str] = &["null", "version", "write", "strict"];
    const COSTS: &'static [(&'static str, &'static str)] =
        &[("protocol", "get_retries"), ("protocol", "swap_misses")];

    const PAPERS: &'static [Paper] = &[paper::DDSS];
    const EXAMPLES: &'static [Example] = &[Example {
        what: "The figures of the paper on shared segments: tables, plots, and one page with everything",
        command: "weft paper ddss --report report",
    }];

    type Workload = DdssWork;
    type Event = Event;
    type Oracles = DdssOracles;
    type Meter = DdssMeter;
    type Counts = Counts;
    type Service<V: Verbs> = Service<V>;
    type Client<V: Verbs> = Client<V>;
    type Plans = Plans;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &DdssWork, _: u32) -> Rule {
        work.check()
    }

    fn amount(work: &DdssWork) -> Amount {
        work.amount()
    }

    fn variant(work: &DdssWork) -> Option<(&'static str, String)> {
        Some(("model", work.model.to_string()))
    }

    fn swarm(dice: &mut Dice<'_>, variant: &str) -> DdssWork {
        DdssWork::drawn(dice, model(variant))
    }

    fn bench(nodes: u32, requests: u32, variant: &str) -> DdssWork {
        DdssWork { segments: nodes, ..DdssWork::of(model(variant), requests) }
    }

    fn limited(work: DdssWork, requests: u32) -> DdssWork {
        DdssWork { requests: Some(requests), duration: None, ..work }
    }

    fn oracles(work: &DdssWork, _: u32) -> DdssOracles {
        DdssOracles::new(work.model)
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        work: &DdssWork,
        _: &R,
    ) -> Result<Service<V>, String> {
        let ddss = Ddss::start(&place.rt, &place.mesh).map_err(|why| why.to_string())?;
        Ok(Service { ddss, spec: Spec { size: work.bytes, model: work.model } })
    }

    fn client<V: Verbs>(service: &Service<V>, _: ClientId) -> Client<V> {
        let Service { ddss, spec } = service;
        Client { ddss: ddss.clone(), spec: *spec, held: BTreeMap::new() }
    }

    fn plans(work: &DdssWork, _: u32, seed: u64) -> Plans {
        Plans { work: work.clone(), seed }
    }

    fn plan(plans: &Rc<Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, plans.seed, id)
    }

    fn next(plan: &mut Plan) -> (Nanos, Request) {
        plan.request()
    }

    async fn perform<V: Verbs, R: Record<Event>>(
        rt: &Rt<V>,
        client: &mut Client<V>,
        id: RequestId,
        Request { segment: name, puts }: Request,
        record: &R,
    ) {
        let happens = |what| record.record(Event { at_ns: rt.now().0, request: id, segment: name.0, what });
        happens(if puts { What::Puts } else { What::Gets });
        record.written().await;
        let done = match client.ddss.open(name, client.spec).await {
            Ok(segment) if puts => client.put(&segment, id).await,
            Ok(segment) => client.get(&segment, name).await,
            Err(error) => Err(error),
        };
        happens(done.unwrap_or(What::Failed));
        record.written().await;
    }

    fn counts<V: Verbs>(service: &Service<V>) -> Counts {
        service.ddss.stats().into()
    }

    fn conduct(counts: &Counts) -> Conduct {
        Conduct { out_of_turn: 0, malformed: counts.malformed }
    }

    fn leftovers<V: Verbs>(service: &Service<V>) -> Vec<(&'static str, u64)> {
        vec![("requests to homes not answered", service.ddss.unanswered())]
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds()
    }

    fn metrics(measured: Measured<'_, Segments>) -> Metrics {
        let Measured { oracles, meter, counts, mesh, busy, .. } = measured;
        Metrics {
            rates: vec![Rate::of("requests_per_second", "requests a second", meter.served(), busy)],
            groups: vec![requests(meter, oracles.unended()), protocol(&counts, &mesh)],
            latencies: vec![Latencies {
                key: "latency",
                title: "Time from call to return",
                heads: ["call", "returned"],
                rows: vec![("get", meter.gets.percentiles()), ("put", meter.puts.percentiles())],
            }],
        }
    }
}

fn requests(meter: &DdssMeter, unended: u64) -> Group {
    let DdssMeter { got, unchanged, torn, put, failed, .. } = *meter;
    let counts = [
        ("got", "got", got),
        ("unchanged", "unchanged", unchanged),
        ("torn", "torn", torn),
        ("put", "put", put),
        ("failed", "failed", failed),
        ("unended", "not ended", unended),
    ];
    Group::new("requests", "Requests", Layout::Row, &counts)
}

fn protocol(counts: &Counts, mesh: &MeshCounts) -> Group {
    let counts = [
        ("get_retries", "slots read again: somebody published", counts.get_retries),
        ("swap_misses", "headers swapped again: somebody published", counts.swap_misses),
        ("unknown_outcomes", "operations of unknown outcome", counts.unknown_outcomes),
        ("reconnects", "connections made again", mesh.reconnects),
        ("resent", "messages sent again", mesh.messages_repeated),
    ];
    Group::new("protocol", "Protocol", Layout::Column("what"), &counts)
}
