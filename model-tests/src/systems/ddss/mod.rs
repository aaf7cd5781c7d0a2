//! The room of the shared data segments: gets and puts under a coherence model, and what each model promises.

pub mod history;
mod meter;
pub mod oracles;
mod paper;
mod published;
mod rivals;
pub mod workload;
pub mod worlds;

pub use meter::DdssMeter;

use crate::MeshCounts;
use crate::counted::counted;
use crate::explore::Entry;
use crate::fields::{Dice, Rule};
use crate::history::{ClientId, RequestId};
use crate::metrics::{Group, Latencies, Layout, Metrics, Rate};
use crate::named::Named;
use crate::oracle::{Conduct, Oracles};
use crate::paper::Paper;
use crate::polled::polled;
use crate::record::Record;
use crate::run::left_out;
use crate::system::{Amount, Example, Measured, Place, Plans, System};
use history::{Event, Value, What, Why};
use oracles::DdssOracles;
use rivals::Rival;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::ddss::{Ddss, DdssError, DdssStats, Header, Key, Model, Name, Segment, Spec};
use weft_protocols::rt::Rt;
use weft_protocols::transport::MeshConfig;
use weft_verbs::{Nanos, Verbs};
use workload::{Call, DdssWork, Plan, Request, Store};

/// Shared data segments under the coherence models of DDSS.
pub struct Segments;

/// A node's service, and what its clients agree on.
pub struct Service<V: Verbs> {
    ddss: Ddss<V>,
    spec: Spec,
    /// Who keeps the values instead, if somebody does.
    rival: Option<Rival<V>>,
    /// How often the node had restarted before.
    incarnation: u32,
}

/// What a client calls, and the versions that it holds.
pub struct Client<V: Verbs> {
    ddss: Ddss<V>,
    spec: Spec,
    rival: Option<Rival<V>>,
    /// How often its node had restarted before.
    incarnation: u32,
    /// By name, which segment that was and its version.
    held: BTreeMap<Name, (u64, u64)>,
    /// The first key that was had of a name.
    first: BTreeMap<Name, Key>,
}

/// What tells a segment from others that had its name: its home's incarnation, and its number there.
fn life(key: &Key) -> u64 {
    let bytes = key.to_bytes();
    let word =
        |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    // The number is the last word, and the incarnation the one before the memory's address, length and key.
    word(Key::BYTES - 32) ^ word(Key::BYTES - 8).rotate_left(32)
}

impl<V: Verbs> Client<V> {
    /// A request by a number that no other incarnation of the client has: every put puts another value.
    fn in_life(&self, id: RequestId) -> RequestId {
        id.in_life(self.incarnation)
    }

    async fn open(&mut self, name: Name, call: Call) -> Result<Segment<V>, DdssError> {
        if let (Call::Stale, Some(key)) = (call, self.first.get(&name)) {
            return self.ddss.attach(*key);
        }
        let segment = self.ddss.open(name, self.spec).await?;
        self.first.entry(name).or_insert(segment.key());
        Ok(segment)
    }

    /// Looks up which segment a name stands for; 0 for none.
    async fn find(&self, name: Name) -> (u64, Result<What, DdssError>) {
        match self.ddss.lookup(name).await {
            Ok(key) => (key.as_ref().map_or(0, life), Ok(What::Found)),
            Err(error) => (0, Err(error)),
        }
    }

    /// Which segment a call is on that is by the first key that was had; 0 where it is by name.
    fn by_key(&self, name: Name, call: Call) -> u64 {
        let key = self.first.get(&name).filter(|_| call == Call::Stale);
        key.map_or(0, life)
    }

    /// Says between get and put under the lock what it has got.
    async fn perform(
        &mut self,
        segment: &Segment<V>,
        id: RequestId,
        Request { segment: name, call }: Request,
        holds: impl AsyncFnOnce(Value),
    ) -> Result<What, DdssError> {
        match call {
            Call::Get | Call::Stale => self.get(segment, name).await,
            Call::Earlier(back) => self.get_earlier(segment, back).await,
            Call::Put => self.put(segment, id).await,
            Call::Exchange | Call::Twice | Call::TryExchange | Call::Abandon => {
                self.exchange(segment, id, call, holds).await
            }
            Call::Release => self.ddss.release(segment.key()).await.map(|()| What::Released),
            // It was opened.
            Call::Find => Ok(What::Found),
        }
    }

    async fn put(&mut self, segment: &Segment<V>, id: RequestId) -> Result<What, DdssError> {
        let value = Value::bytes(id, self.spec.size as usize);
        let version = self.ddss.put(segment, &value).await?;
        // Nobody could see whether it was published that is told of no version. Null has none.
        let is_told = version.is_some() || self.spec.model == Model::Null;
        Ok(if is_told { What::Put { version } } else { What::Failed(Why::Other) })
    }

    /// Where the model takes copies into account a client says which version it has.
    async fn get(&mut self, segment: &Segment<V>, name: Name) -> Result<What, DdssError> {
        let life = life(&segment.key());
        let held = self.held.get(&name).filter(|(of, _)| *of == life).map(|(_, version)| *version);
        let mut bytes = vec![0; self.spec.size as usize];
        let version = self.ddss.get_if_newer(segment, held, &mut bytes).await?;
        let Some(version) = version else { return Ok(What::Unchanged { version: held.unwrap_or_default() }) };
        if self.spec.model.keeps_copies() {
            self.held.insert(name, (life, version));
        }
        Ok(What::Got { value: Value::of(&bytes), version: self.known(version) })
    }

    async fn get_earlier(&mut self, segment: &Segment<V>, back: u8) -> Result<What, DdssError> {
        let mut bytes = vec![0; self.spec.size as usize];
        let version = self.ddss.get_earlier(segment, back, &mut bytes).await?;
        Ok(What::Got { value: Value::of(&bytes), version: Some(version) })
    }

    async fn exchange(
        &mut self,
        segment: &Segment<V>,
        id: RequestId,
        call: Call,
        holds: impl AsyncFnOnce(Value),
    ) -> Result<What, DdssError> {
        let held = match call {
            Call::TryExchange => self.ddss.try_lock(segment).await?,
            _ => Some(self.ddss.lock(segment).await?),
        };
        let Some(mut held) = held else { return Ok(What::Locked) };
        let mut bytes = vec![0; self.spec.size as usize];
        let got = held.get(&mut bytes).await?;
        if self.spec.model == Model::Null {
            holds(Value::of(&bytes)).await;
        }
        let value = Value::bytes(id, self.spec.size as usize);
        if call == Call::Twice {
            held.put(&value).await?;
        }
        let put = match call {
            // Dropped where it first waits.
            Call::Abandon => match polled(pin!(held.put(&value))).await {
                Poll::Ready(put) => put?,
                Poll::Pending => None,
            },
            _ => held.put(&value).await?,
        };
        held.unlock().await?;
        Ok(What::Exchanged { value: Value::of(&bytes), got: self.known(got), put })
    }

    /// Versions mean nothing under null.
    fn known(&self, version: u64) -> Option<u64> {
        Some(version).filter(|_| self.spec.model != Model::Null)
    }
}

counted! {
    /// What a node counted.
    Counts from DdssStats {
        get_retries, wrong_guesses, swap_misses, turns, unknown_outcomes, unchanged, malformed,
        out_of_turn,
    }
}

/// The model of a variant's name.
fn model(variant: &str) -> Model {
    variant.parse().unwrap_or(Model::Write)
}

impl System for Segments {
    const ATOMICS: bool = true;
    const QUITS: bool = true;
    const MEMORY: bool = true;
    // A segment that is released is memory that its readers may still ask for.
    const BREAKS_CONNECTIONS: bool = true;
    const KIND: &'static str = "ddss";
    const ABOUT: &'static str = "shared data segments under the seven models of DDSS";
    const EXAMPLE: &'static str = "model = \"write\"";
    const VARIANTS: &'static [&'static str] =
        &["null", "read", "version", "delta", "temporal", "write", "strict"];
    const COSTS: &'static [(&'static str, &'static str)] =
        &[("protocol", "get_retries"), ("protocol", "swap_misses")];

    const RIVALS: &'static [&'static str] = &["rpc", "versioned"];

    const PAPERS: &'static [Paper] = &[paper::DDSS];
    const EXAMPLES: &'static [Example] = &[Example {
        what: "The figures of the paper on shared segments: tables, plots, and one page with everything",
        command: "weft paper ddss --report report",
    }];

    /// A get reads header, value and header in one list. If an answer is lost, its adapter asks for all behind it again, and takes the first
    /// answer to each: where packets overtake each other, the value may be that of the first time and both headers those of the second.
    const NEEDS_ORDER: bool = true;

    type Workload = DdssWork;
    type Event = Event;
    type Oracles = DdssOracles;
    type Meter = DdssMeter;
    type Counts = Counts;
    type Service<V: Verbs> = Service<V>;
    type Client<V: Verbs> = Client<V>;
    type Plans = Plans<DdssWork>;
    type Plan = Plan;
    type Request = Request;

    fn check(work: &DdssWork, nodes: u32) -> Rule {
        work.check(nodes)
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
        let store = match variant {
            "rpc" => Store::Rpc,
            "versioned" => Store::Versioned,
            _ => Store::Segments,
        };
        DdssWork { segments: nodes, store, ..DdssWork::of(model(variant), requests) }
    }

    fn mesh(work: &DdssWork, config: &mut MeshConfig) {
        if work.store != Store::Segments {
            config.max_message = config.max_message.max(work.bytes + 32);
        }
    }

    fn limited(work: DdssWork, requests: u32) -> DdssWork {
        DdssWork { requests: Some(requests), duration: None, ..work }
    }

    fn memory(work: &DdssWork, nodes: u32) -> u64 {
        u64::from(work.segments).saturating_mul(work.spec().footprint(nodes))
    }

    fn oracles(work: &DdssWork, nodes: u32) -> DdssOracles {
        DdssOracles::new(work.model, nodes)
    }

    fn start<V: Verbs, R: Record<Event>>(
        place: &Place<V>,
        work: &DdssWork,
        record: &R,
    ) -> Result<Service<V>, String> {
        let Place { rt, mesh, .. } = place;
        if let Some(members) = &place.members {
            let record = record.clone();
            left_out(rt, members, move |at, node| record.record(Event::of_node(at, node, What::LeftOut)));
        }
        let ddss = match &place.members {
            None => Ddss::start(rt, mesh),
            Some(members) => Ddss::start_among(rt, mesh, members),
        };
        let ddss = ddss.map_err(|why| why.to_string())?;
        let rival = Rival::start(place, work.store, work.bytes).map_err(|why| why.to_string())?;
        Ok(Service { ddss, spec: work.spec(), rival, incarnation: place.incarnation })
    }

    fn survives(work: &DdssWork) -> bool {
        work.store == Store::Segments
    }

    fn crashed<R: Record<Event>>(node: u32, at: Nanos, record: &R) {
        record.record(Event::of_node(at, node, What::Crashed));
    }

    fn client<V: Verbs>(service: &Service<V>, _: ClientId) -> Client<V> {
        let Service { ddss, spec, rival, incarnation } = service;
        Client {
            ddss: ddss.clone(),
            spec: *spec,
            rival: rival.clone(),
            incarnation: *incarnation,
            held: BTreeMap::new(),
            first: BTreeMap::new(),
        }
    }

    fn plans(work: &DdssWork, nodes: u32, seed: u64) -> Self::Plans {
        Plans { work: work.clone(), nodes, seed }
    }

    fn plan(plans: &Rc<Self::Plans>, id: ClientId) -> Plan {
        Plan::new(&plans.work, plans.seed, id)
    }

    fn next(plan: &mut Plan) -> (Nanos, Request) {
        plan.request()
    }

    async fn perform<V: Verbs, R: Record<Event>>(
        rt: &Rt<V>,
        client: &mut Client<V>,
        id: RequestId,
        request: Request,
        record: &R,
    ) {
        let Request { segment: name, call } = request;
        let id = client.in_life(id);
        let happens = |life, what| {
            record.record(Event { at_ns: rt.now().0, request: id, segment: name.0, life, what });
        };
        let begins = match call {
            Call::Get | Call::Stale => What::Gets,
            Call::Earlier(back) => What::GetsEarlier { back },
            Call::Put => What::Puts,
            Call::Twice => What::ExchangesTwice,
            Call::Exchange | Call::TryExchange | Call::Abandon => What::Exchanges,
            Call::Release => What::Releases,
            Call::Find => What::Finds,
        };
        happens(0, begins);
        record.written().await;
        if let Some(rival) = &client.rival {
            happens(0, rival.perform(id, request, client.spec.size).await);
            return record.written().await;
        }
        let opened = match call {
            Call::Find => None,
            _ => Some(client.open(name, call).await),
        };
        let (of, done) = match opened {
            None => client.find(name).await,
            Some(Err(error)) => (client.by_key(name, call), Err(error)),
            Some(Ok(segment)) => {
                let life = life(&segment.key());
                let holds = async |value| {
                    happens(life, What::Holds { value });
                    record.written().await;
                };
                (life, client.perform(&segment, id, request, holds).await)
            }
        };
        if matches!(done, Err(DdssError::Gone(_) | DdssError::Out)) {
            rt.sleep(AFTER_LOSS).await;
        }
        happens(
            of,
            match done {
                Ok(what) => what,
                Err(DdssError::Released) => What::Gone,
                Err(DdssError::Gone(_)) => What::Lost,
                Err(why) => What::Failed((&why).into()),
            },
        );
        record.written().await;
    }

    fn may_drop<V: Verbs>(client: &Client<V>, _: &Request) -> bool {
        client.rival.is_none()
    }

    fn dropped<V: Verbs>(
        client: &mut Client<V>,
        id: RequestId,
        request: &Request,
        at: Nanos,
    ) -> Option<Event> {
        let id = client.in_life(id);
        let what = What::Failed(Why::Dropped);
        Some(Event { at_ns: at.0, request: id, segment: request.segment.0, life: 0, what })
    }

    fn counts<V: Verbs>(service: &Service<V>) -> Counts {
        service.ddss.stats().into()
    }

    fn conduct(counts: &Counts) -> Conduct {
        Conduct { out_of_turn: counts.out_of_turn, malformed: counts.malformed }
    }

    fn name_of<V: Verbs>(service: &Service<V>, address: u64) -> Option<Named> {
        let header = service.ddss.header_at(address)?;
        Some(Named::with(header.to_string(), |word| Header::from_word(word).to_string()))
    }

    fn leftovers<V: Verbs>(service: &Service<V>) -> Vec<(&'static str, u64)> {
        leftovers(&service.ddss).to_vec()
    }

    fn worlds() -> Vec<Entry> {
        worlds::worlds()
    }

    fn metrics(measured: Measured<'_, Segments>) -> Metrics {
        let Measured { oracles, meter, counts, mesh, busy, .. } = measured;
        Metrics {
            picture: None,
            rates: vec![Rate::of("requests_per_second", "requests a second", meter.served(), busy)],
            groups: vec![requests(meter, oracles.unended()), protocol(&counts, &mesh, meter.lost)],
            latencies: vec![Latencies {
                key: "latency",
                title: "Time from call to return",
                heads: ["call", "returned"],
                rows: vec![
                    ("get", meter.gets.percentiles()),
                    ("put", meter.puts.percentiles()),
                    ("exchange", meter.exchanges.percentiles()),
                ],
            }],
        }
    }
}

/// What a node has not done.
fn leftovers<V: Verbs>(ddss: &Ddss<V>) -> [(&'static str, u64); 5] {
    [
        ("requests to homes not answered", ddss.unanswered()),
        ("calls that wait for a turn", ddss.waiting()),
        ("released segments among those that are open", ddss.released()),
        ("segments that are gone and whose memory is not free", ddss.unfreed()),
        ("bytes that are neither free nor a segment's", ddss.astray()),
    ]
}

/// How long a client rests that found its segment's home dead: that takes no time to find, and it has nothing better to do.
const AFTER_LOSS: Nanos = Nanos::from_micros(50);

fn requests(meter: &DdssMeter, unended: u64) -> Group {
    let DdssMeter { got, unchanged, torn, put, exchanged, locked, released, gone, unknown, .. } = *meter;
    let DdssMeter { slow, failed, .. } = *meter;
    let counts = [
        ("got", "got", got),
        ("unchanged", "same", unchanged),
        ("torn", "torn", torn),
        ("put", "put", put),
        ("exchanged", "swapped", exchanged),
        ("locked", "locked", locked),
        ("released", "freed", released),
        ("gone", "gone", gone),
        ("unknown", "unknown", unknown),
        ("failed", "failed", failed),
        ("unended", "open", unended),
        ("slow", "slow", slow),
    ];
    // Only under temporal can a home be too slow.
    let shown = counts.len() - usize::from(slow == 0);
    Group::new("requests", "Requests", Layout::Row, &counts[..shown])
}

fn protocol(counts: &Counts, mesh: &MeshCounts, lost: u64) -> Group {
    let counts = [
        ("get_retries", "slots read again: somebody published", counts.get_retries),
        ("wrong_guesses", "slots read again: another node had put", counts.wrong_guesses),
        ("turns", "turns asked for at homes", counts.turns),
        ("swap_misses", "headers swapped again: somebody published", counts.swap_misses),
        ("unknown_outcomes", "operations of unknown outcome", counts.unknown_outcomes),
        ("reconnects", "connections made again", mesh.reconnects),
        ("resent", "messages sent again", mesh.messages_repeated),
        ("lost", "calls to segments whose homes had died", lost),
    ];
    // Only where nodes die can a segment be lost.
    let shown = counts.len() - usize::from(lost == 0);
    Group::new("protocol", "Protocol", Layout::Column("what"), &counts[..shown])
}
