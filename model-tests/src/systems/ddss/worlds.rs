//! Worlds of shared segments: the shipped service under each model, and ways of publishing that must be refuted.

use super::history::{Event, Value, What};
use super::oracles::DdssOracles;
use super::workload::{DdssWork, Request};
use super::{Client, Segments, Service};
use crate::explore::{AnyModel, Coverage, Entry, Expected, Key, Size, SizeError, Violation};
use crate::harness::{Explored, Harness, Member, Model, Recorder, Shape};
use crate::history::{ClientId, RequestId};
use crate::oracle::{self, Conduct, Leaks, Leftover, Oracles};
use crate::record::Record;
use crate::system::{Place, System};
use std::hash::Hasher;
use weft_protocols::ddss::{self, Header, Name};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, Rank};
use weft_sim::Sim;
use weft_sim::explore::AccessKind;
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, Wait};

/// The one segment: its home is node 0.
const NAME: Name = Name(0);

const KEYS: &[Key] =
    &[Key { name: "calls", help: "what each node calls, p to put and g to get, as in p,gg" }];

macro_rules! worlds {
    ($($name:literal $way:expr, $expected:ident, $calls:literal, $about:literal;)*) => {
        /// The worlds of shared segments.
        pub fn worlds() -> Vec<Entry> {
            vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: KEYS,
                make: |size| make($name, $way, size, $calls),
            }),*]
        }
    };
}

worlds! {
    "ddss-write" Way::Shipped(ddss::Model::Write), Held, "p,p,g", "shared segments, model write: whoever gets, gets the latest";
    "ddss-strict" Way::Shipped(ddss::Model::Strict), Held, "p,p,g", "the same, model strict";
    "ddss-version" Way::Shipped(ddss::Model::Version), Held, "p,gg", "the same, model version: who has the version moves no data";
    "ddss-null" Way::Shipped(ddss::Model::Null), Held, "p,p,g", "the same, model null, which promises nothing";
    "as-published-ddss-in-place" Way::InPlace, Violated, "p,g",
        "values are put in place, and the version is added behind them";
}

/// How values are published.
#[derive(Clone, Copy)]
enum Way {
    /// As the service does it.
    Shipped(ddss::Model),
    /// In place, and a fetch-and-add on the version behind it; a get reads the version, then the value (a reading of
    /// ddss.txt, 5.3: a fetch-and-add updates the version for every put).
    InPlace,
}

/// What each node calls, one call after the other.
struct Calls {
    name: &'static str,
    way: Way,
    calls: Vec<Vec<Call>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Put,
    Get,
}

fn make(name: &'static str, way: Way, size: &Size, default: &str) -> Result<Box<dyn AnyModel>, SizeError> {
    let text = size.text("calls").unwrap_or_else(|| default.to_string());
    let call = |letter| match letter {
        'p' => Ok(Call::Put),
        'g' => Ok(Call::Get),
        other => Err(SizeError(format!("calls are p and g, not '{other}'"))),
    };
    let calls = text.split(',').map(|node| node.trim().chars().map(call).collect());
    let calls: Vec<Vec<Call>> = calls.collect::<Result<_, _>>()?;
    size.within("calls", calls.len() as u32, 2..=4)?;
    Ok(Harness::boxed(Calls { name, way, calls }))
}

/// What an execution keeps.
struct State {
    services: Vec<Service<Sim>>,
}

impl Calls {
    fn model(&self) -> ddss::Model {
        match self.way {
            Way::Shipped(model) => model,
            Way::InPlace => ddss::Model::Version,
        }
    }

    fn letters(calls: &[Vec<Call>]) -> String {
        let letter = |call: &Call| if *call == Call::Put { 'p' } else { 'g' };
        let node = |calls: &Vec<Call>| calls.iter().map(letter).collect::<String>();
        calls.iter().map(node).collect::<Vec<_>>().join(",")
    }

    fn sized(calls: &[Vec<Call>]) -> Size {
        Size::new([("calls", Calls::letters(calls))])
    }
}

impl Model for Calls {
    type State = State;
    type Oracles = InOrder;

    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        Calls::sized(&self.calls)
    }

    /// Without one node, or without one call.
    fn smaller(&self) -> Vec<Size> {
        let mut all = Vec::new();
        for node in 0..self.calls.len() {
            if self.calls.len() > 2 {
                all.push(Calls::sized(&[&self.calls[..node], &self.calls[node + 1..]].concat()));
            }
            if self.calls[node].len() > 1 {
                let mut calls = self.calls.clone();
                calls[node].pop();
                all.push(Calls::sized(&calls));
            }
        }
        all
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.calls.len() as u32, wait: Wait::Poll, home: Some(0), one_by_one: true }
    }

    fn oracles(&self) -> InOrder {
        InOrder { oracles: DdssOracles::new(self.model()), events: 0 }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) -> State {
        let nodes = members.len() as u32;
        let work = DdssWork { bytes: Value::SHORTEST, ..DdssWork::of(self.model(), 0) };
        let place = |(node, Member { rt, mesh }): (u32, &Member)| Place {
            rt: rt.clone(),
            mesh: mesh.clone(),
            node,
            nodes,
            incarnation: 0,
        };
        let places: Vec<Place<Sim>> = (0..).zip(members).map(place).collect();
        let start = |place| Segments::start(place, &work, recorder).expect("nobody else has the channel");
        let services: Vec<Service<Sim>> = places.iter().map(start).collect();
        let in_place = matches!(self.way, Way::InPlace).then(|| InPlace::new(&members[0].mesh));
        for (place, (service, calls)) in places.iter().zip(services.iter().zip(&self.calls)) {
            let client = Segments::client(service, ClientId { node: place.node, index: 0 });
            let (rt, mesh) = (place.rt.clone(), place.mesh.clone());
            let (calls, recorder, node) = (calls.clone(), recorder.clone(), place.node);
            match &in_place {
                None => drop(rt.clone().spawn(call(rt, client, node, calls, recorder))),
                Some(segment) => drop(rt.spawn(segment.clone().call(mesh, node, calls, recorder))),
            }
        }
        State { services }
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let service = &state.services[node];
        let conduct: Conduct = Segments::conduct(&Segments::counts(service));
        let mut broken = conduct.finish(Nanos::ZERO, node as u32);
        let left = Segments::leftovers(service).into_iter().chain(member.leftovers());
        broken.extend(Leaks::finish(Nanos::ZERO, &Leftover::named(node as u32, left)));
        broken.into_iter().next().map(Violation::from)
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        let any = |of: fn(&ddss::DdssStats) -> u64| {
            state.services.iter().any(|service| of(&service.ddss.stats()) > 0)
        };
        sink.sometimes("a get read a slot again", any(|stats| stats.get_retries));
        sink.sometimes("a header was swapped again", any(|stats| stats.swap_misses));
        sink.sometimes("an operation's outcome was unknown", any(|stats| stats.unknown_outcomes));
        sink.sometimes("a get moved no data", any(|stats| stats.unchanged));
    }
}

async fn call(
    rt: Rt<Sim>,
    mut client: Client<Sim>,
    node: u32,
    calls: Vec<Call>,
    recorder: Recorder<InOrder>,
) {
    for (number, call) in (0..).zip(calls) {
        let id = RequestId { client: ClientId { node, index: 0 }, number };
        let request = Request { segment: NAME, puts: call == Call::Put };
        Segments::perform(&rt, &mut client, id, request, &recorder).await;
    }
}

/// A segment that is put in place.
#[derive(Clone)]
struct InPlace {
    home: Rank,
    at: RemoteSlice,
    /// Keeps it where it is.
    _memory: <Sim as weft_verbs::Verbs>::Mr,
}

impl InPlace {
    fn new(home: &Mesh<Sim>) -> InPlace {
        let access = AccessFlags::LOCAL_WRITE
            .union(AccessFlags::REMOTE_READ)
            .union(AccessFlags::REMOTE_WRITE)
            .union(AccessFlags::REMOTE_ATOMIC);
        let len = 8 + Value::SHORTEST as usize;
        let memory = home.alloc(len, access).expect("a few bytes");
        let at = memory.remote(0..len).expect("all of it");
        InPlace { home: home.me(), at, _memory: memory }
    }

    async fn call(self, mesh: Mesh<Sim>, node: u32, calls: Vec<Call>, recorder: Recorder<InOrder>) {
        for (number, call) in (0..).zip(calls) {
            let request = RequestId { client: ClientId { node, index: 0 }, number };
            let happens = |what| recorder.record(Event { at_ns: 0, request, segment: NAME.0, what });
            happens(if call == Call::Put { What::Puts } else { What::Gets });
            let done = match call {
                Call::Put => self.put(&mesh, request).await,
                Call::Get => self.get(&mesh).await,
            };
            happens(done.unwrap_or(What::Failed));
        }
    }

    async fn put(&self, mesh: &Mesh<Sim>, request: RequestId) -> Option<What> {
        let value = Value::bytes(request, Value::SHORTEST as usize);
        mesh.write(self.home, self.at.slice(8..self.at.len)?, &value).await.ok()?;
        let before = mesh.fetch_add(self.home, self.at, Header::default().next(0).word()).await.ok()?;
        Some(What::Put { version: Some(Header::from_word(before).version + 1) })
    }

    async fn get(&self, mesh: &Mesh<Sim>) -> Option<What> {
        let (mut word, mut bytes) = ([0; 8], vec![0; Value::SHORTEST as usize]);
        mesh.read(self.home, self.at.word(0)?, &mut word).await.ok()?;
        mesh.read(self.home, self.at.slice(8..self.at.len)?, &mut bytes).await.ok()?;
        let version = Header::from_word(u64::from_ne_bytes(word)).version;
        Some(What::Got { value: Value::of(&bytes), version: Some(version) })
    }
}

/// The oracles where nobody looks at a clock: events happen in the order of recording, far apart.
#[derive(Clone)]
struct InOrder {
    oracles: DdssOracles,
    events: u64,
}

impl Oracles for InOrder {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        self.oracles.promises()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(oracle::Violation)) {
        self.events += 1;
        let at_ns = Nanos::from_secs(self.events).0;
        self.oracles.observe(&Event { at_ns, ..*event }, broken);
    }

    fn ended(&self) -> u64 {
        self.oracles.ended()
    }

    fn unended(&self) -> u64 {
        self.oracles.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<oracle::Violation> {
        self.oracles.finish(now, healthy)
    }

    fn state(&self, to: &mut dyn Hasher) {
        self.oracles.state(to);
    }
}

impl Explored for InOrder {
    /// A call that begins looks at what has completed.
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Gets | What::Puts => Some(AccessKind::Read),
            _ => Some(AccessKind::Write),
        }
    }
}
