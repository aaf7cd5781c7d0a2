//! Values by names that are texts, as `weft segment` has them: nodes put, get and remove the value of one name.
//!
//! The name is an object that one client alone would know as nothing or a value, and what all see of it has an order that explains it.
//! At the end what is kept is the segment for which the name stands, or nothing.

use crate::explore::{Entry, Key, Size, SizeError, Violation};
use crate::harness::{Explored, Member, Model, Recorder, Requests, Shape, at_rest, worlds};
use crate::history::{ClientId, HistoryEvent, RequestId, Stage};
use crate::oracle::linearizability::{Call, Linearizability, SequentialSpec};
use crate::oracle::{self, CallEvent, Oracles, Returns};
use crate::record::Record;
use crate::system::System;
use crate::systems::ddss::{Segments, leftovers};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};
use weft_protocols::ddss::Ddss;
use weft_protocols::ddss::named::{self, Named, NamedError, Reply, Request, Seen};
use weft_protocols::transport::{MeshConfig, Rank};
use weft_sim::Sim;
use weft_sim::explore::AccessKind;
use weft_verbs::{Nanos, Wait};

/// The name.
const NAME: &str = "a";

/// What letters ask for, for people.
const LETTERS: &str = "p to put, f to put on the last node, g to get, n to get what is not what was seen, r to remove, k to list what is kept and h to ask how much \
                       memory the first node holds, a list for each node, as in pn,r";

const KEYS: &[Key] = &[Key { name: "calls", help: LETTERS }];

/// The worlds of values by names.
pub fn worlds() -> Vec<Entry> {
    worlds! { KEYS;
        "ddss-named" make("p,p") Held, "two nodes put the first value of a name at the same time";
        "ddss-named-get" make("pp,g") Held, "a value is got by its name while it is put, and put again";
        "ddss-named-removed" make("pg,r") Held, "a value is removed while it is put and got";
        "ddss-named-anew" make("prp,ghn") Held, "a value is removed and put anew, and another node gets the next one";
        "ddss-named-list" make("khk,pr") Held, "a node lists what it keeps while a value is put and removed";
        "ddss-named-far" make("f,r,,") Held, "a value that another node than the name's keeps is removed while it is put";
        "ddss-named-both" make("pr,r") Held, "two nodes remove a value";
        "ddss-named-early" make("f,rg") Held, "a value is removed at its home before it has the name";
    }
}

/// What a node does to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    Put(u32),
    Get,
    Remove,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ret {
    Done,
    /// The value.
    Value(u32),
    /// Nothing has the name.
    Nothing,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Value(Option<u32>);

impl SequentialSpec for Value {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match op {
            Op::Put(value) => {
                self.0 = Some(*value);
                Ret::Done
            }
            Op::Get => self.0.map_or(Ret::Nothing, Ret::Value),
            Op::Remove => self.0.take().map_or(Ret::Nothing, |_| Ret::Done),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Calls(Op),
    Returns(Ret),
    /// What it did nobody knows.
    Fails(String),
}

/// Something that a node saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    request: RequestId,
    what: What,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.request)?;
        match &self.what {
            What::Calls(Op::Put(value)) => write!(f, "puts {value}"),
            What::Calls(Op::Get) => f.write_str("gets"),
            What::Calls(Op::Remove) => f.write_str("removes it"),
            What::Returns(Ret::Done) => f.write_str("is done"),
            What::Returns(Ret::Value(value)) => write!(f, "has got {value}"),
            What::Returns(Ret::Nothing) => f.write_str("is told that there is nothing"),
            What::Fails(why) => write!(f, "fails: {why}"),
        }
    }
}

impl HistoryEvent for Event {
    fn at(&self) -> Nanos {
        Nanos::ZERO
    }

    fn by_another_clock(self, _: Nanos) -> Event {
        self
    }

    fn node(&self) -> u32 {
        self.request.client.node
    }

    fn stage(&self) -> Stage {
        match self.what {
            What::Calls(_) => Stage::Asked,
            What::Returns(_) => Stage::Served,
            What::Fails(_) => Stage::Other,
        }
    }
}

impl CallEvent for Event {
    fn request(&self) -> RequestId {
        self.request
    }
}

/// Every call returns, and the calls have an order.
#[derive(Clone, Default)]
pub struct NameOracles {
    calls: Vec<Call<Op, Ret>>,
    failed: Option<String>,
    progress: Returns<Event>,
}

impl NameOracles {
    fn judge(&self) -> Result<(), String> {
        Linearizability::judge(Value(None), &self.calls)
    }
}

impl Oracles for NameOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        use oracle::Oracle as _;
        vec![(self.progress.name(), self.progress.promise()), (FAILS, "without a fault no call fails")]
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(oracle::Violation)) {
        let Event { request: RequestId { client, number }, what } = event;
        // Who was told nothing calls nothing more, as far as an order goes.
        let caller = packed(*client, *number);
        match what {
            What::Calls(op) => self.calls.push(Call::Invoked(caller, *op)),
            What::Returns(ret) => self.calls.push(Call::Returned(caller, *ret)),
            What::Fails(_) => self.failed = Some(event.to_string()),
        }
        oracle::show(event, [&mut self.progress as &mut dyn oracle::Oracle<Event>], broken);
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<oracle::Violation> {
        self.progress.finish(now, healthy).collect()
    }

    fn finish_unharmed(&self) -> Option<oracle::Violation> {
        let text = self.failed.clone()?;
        Some(oracle::Violation { oracle: FAILS, at: Nanos::ZERO, text })
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        for call in &self.calls {
            match call {
                Call::Invoked(client, op) => (client, op).hash(&mut to),
                Call::Returned(client, ret) => (client, ret).hash(&mut to),
            }
        }
        self.failed.is_some().hash(&mut to);
    }
}

impl Explored for NameOracles {
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Calls(_) => Some(AccessKind::Read),
            _ => Some(AccessKind::Write),
        }
    }
}

/// The promise that no call fails.
const FAILS: &str = "failures";
/// The promise that a name has one segment, and that nothing else is kept.
const ONE: &str = "one segment";

struct World {
    requests: Requests,
}

fn make(size: &Size, calls: &str) -> Result<World, SizeError> {
    let requests = Requests::parse(&size.text("calls").unwrap_or_else(|| calls.to_owned()));
    let nodes = requests.nodes();
    size.within("calls", nodes, 2..=4)?;
    if let Some((_, letter)) = requests.all().find(|(_, letter)| !"pfgnrkh".contains(*letter)) {
        return Err(SizeError(format!("calls are {LETTERS}, not '{letter}'")));
    }
    let world = World { requests };
    if world.says('f') && world.says('p') {
        let why =
            "a value is put (p), or put on the last node (f), and not both: what is there keeps its place";
        return Err(SizeError(why.to_owned()));
    }
    if world.says('f') && world.home() + 1 == nodes {
        let why = format!("of {nodes} nodes the last one is the name's home: f puts nowhere else");
        return Err(SizeError(why));
    }
    Ok(world)
}

impl World {
    fn says(&self, letter: char) -> bool {
        self.requests.all().any(|(_, other)| other == letter)
    }

    /// The node that keeps what the name stands for.
    fn home(&self) -> u32 {
        named::number(NAME).home(self.requests.nodes()).index() as u32
    }
}

/// A call as a number.
fn packed(client: ClientId, number: u32) -> u32 {
    client.node << 16 | client.index << 8 | number
}

/// What a node calls, one call after the other.
struct Client {
    ddss: Ddss<Sim>,
    named: Named<Sim>,
    id: ClientId,
    last: Rank,
    recorder: Recorder<NameOracles>,
}

impl Client {
    /// Looks at what nodes keep, of which nothing is promised but that it is told. Its answer comes at any moment.
    async fn looks(&self, request: RequestId, letter: char) {
        let failed = match letter {
            'k' => self.named.serve(Request::Kept { after: None }).await.err().map(|why| why.to_string()),
            _ => self.ddss.holdings(Rank::from_index(0)).await.err().map(|why| why.to_string()),
        };
        let failed = failed.map(|why| Event { request, what: What::Fails(why) });
        failed.into_iter().for_each(|event| self.recorder.record(event));
    }

    async fn run(self, letters: String) {
        let mut seen: Option<(Seen, u32)> = None;
        for (number, letter) in (0..).zip(letters.chars()) {
            let request = RequestId { client: self.id, number };
            if let 'k' | 'h' = letter {
                self.looks(request, letter).await;
                continue;
            }
            let value = packed(self.id, number);
            let name = NAME.to_owned();
            let put = |home| Request::Put {
                name: NAME.to_owned(),
                size: None,
                model: None,
                home,
                value: value.to_le_bytes().to_vec(),
            };
            let (op, ask) = match letter {
                'p' => (Op::Put(value), put(None)),
                'f' => (Op::Put(value), put(Some(self.last))),
                'r' => (Op::Remove, Request::Remove { name }),
                _ => {
                    let known = seen.map(|(seen, _)| seen).filter(|_| letter == 'n');
                    (Op::Get, Request::Get { name, known, wait: Nanos::ZERO })
                }
            };
            self.recorder.record(Event { request, what: What::Calls(op) });
            let what = match self.named.serve(ask).await {
                Ok(Reply::Value { version, of, value, .. }) => {
                    let value = value.try_into().map_or(u32::MAX, u32::from_le_bytes);
                    seen = Some((Seen { version, of: Some(of) }, value));
                    What::Returns(Ret::Value(value))
                }
                Ok(Reply::Same { .. }) => {
                    What::Returns(Ret::Value(seen.map_or(u32::MAX, |(_, value)| value)))
                }
                Ok(_) => What::Returns(Ret::Done),
                Err(NamedError::Unknown(_)) => What::Returns(Ret::Nothing),
                Err(why) => What::Fails(why.to_string()),
            };
            self.recorder.record(Event { request, what });
        }
    }
}

impl Model for World {
    type State = Vec<Ddss<Sim>>;
    type Oracles = NameOracles;

    fn size(&self) -> Size {
        Size::new([("calls", self.requests.to_string())])
    }

    fn smaller(&self) -> Vec<Size> {
        let smaller = self.requests.smaller(2);
        smaller.iter().map(|requests| Size::new([("calls", requests.to_string())])).collect()
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.recv_buffers = 16;
        // A name's keys, the one instead of the other, and as many messages a chunk as elsewhere.
        (config.max_message, config.chunk) = (128, 3_200);
    }

    /// Whoever keeps a segment marks headers over a connection to itself; here that is one node.
    fn shape(&self) -> Shape {
        let nodes = self.requests.nodes();
        let last_looks = self.says('f') && self.requests.of(nodes - 1).any(|(_, calls)| !calls.is_empty());
        let home = if last_looks { nodes - 1 } else { 0 };
        Shape { nodes, wait: Wait::Poll, home: Some(home), one_by_one: true }
    }

    fn oracles(&self) -> NameOracles {
        NameOracles::default()
    }

    fn promises(&self) -> &'static [&'static str] {
        &[Linearizability::NAME, ONE]
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<NameOracles>) -> Vec<Ddss<Sim>> {
        let start =
            |member: &Member| Ddss::start(&member.rt, &member.mesh).expect("nobody else has the channel");
        let all: Vec<Ddss<Sim>> = members.iter().map(start).collect();
        let last = Rank::from_index(self.requests.nodes() - 1);
        for (node, (member, ddss)) in (0..).zip(members.iter().zip(&all)) {
            for (id, letters) in self.requests.of(node) {
                let named = Named::new(&member.rt, ddss);
                let client = Client { ddss: ddss.clone(), named, id, last, recorder: recorder.clone() };
                drop(member.rt.spawn(client.run(letters.to_owned())));
            }
        }
        all
    }

    fn violation_at(&self, nodes: &Vec<Ddss<Sim>>, node: usize, member: &Member) -> Option<Violation> {
        let ddss = &nodes[node];
        let conduct = Segments::conduct(&ddss.stats().into());
        at_rest(node, conduct, leftovers(ddss).into_iter().chain(member.leftovers()))
    }

    fn finish(
        &self,
        nodes: &Vec<Ddss<Sim>>,
        members: &[Member],
        recorder: &Recorder<NameOracles>,
    ) -> Result<(), Violation> {
        self.judge_each(nodes, members)?;
        let judged = recorder.oracles(NameOracles::judge);
        judged.map_err(|text| Violation::new(Linearizability::NAME, text))?;
        let kept: Vec<_> = nodes.iter().flat_map(Ddss::kept).map(|(key, _)| key).collect();
        let stands_for = nodes[self.home() as usize].kept_by(named::number(NAME));
        let text = match kept[..] {
            [] => return Ok(()),
            [key] if stands_for == Some(key) => return Ok(()),
            [_] => "a segment is kept that has no name, and that nobody can reach".to_owned(),
            _ => format!("{} segments have been made for one name, and are kept", kept.len()),
        };
        Err(Violation::new(ONE, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_put_on_the_last_node_is_kept_by_another_one_than_its_name() {
        for calls in ["f,r,,", "f,rg"] {
            let world = make(&Size::default(), calls).expect("its home is another node");
            assert!(world.home() + 1 < world.requests.nodes(), "{calls}");
        }
        assert!(make(&Size::default(), "f,r,").is_err_and(|why| why.0.contains("the name's home")));
    }
}
