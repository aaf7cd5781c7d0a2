//! Every node adds one to a word. Ways of doing so that lose an addition, or do one twice.

use super::super::client::{Recorder, WorldOracles};
use crate::explore::{Size, Violation};
use crate::harness::{Member, Model, Shape};
use crate::history::{ClientId, RequestId};
use crate::named::Named;
use crate::oracle::Linearizability;
use crate::oracle::linearizability::{self, Call, CounterOp};
use crate::record::Record;
use crate::systems::locks::history::{Event, What, Why};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::{LockKey, Mode};
use weft_protocols::transport::{Mesh, OpError, Rank};
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, Wait};

/// How a node adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adding {
    /// By fetch-and-add, once.
    Atomically,
    /// It reads the word and writes what it read plus one.
    ByReadAndWrite,
    /// By fetch-and-add, again and again until one completes.
    UntilItCompletes,
}

/// A word at the first node, to which each node adds one.
pub struct Counter {
    /// How many nodes there are.
    pub nodes: u32,
    /// How they add.
    pub adding: Adding,
}

/// Adds one, and returns what was there before.
async fn add(mesh: &Mesh<Sim>, home: Rank, at: RemoteSlice, adding: Adding) -> Result<u64, OpError> {
    if adding == Adding::ByReadAndWrite {
        let mut word = [0; 8];
        mesh.read(home, at, &mut word).await?;
        let was = u64::from_ne_bytes(word);
        return mesh.write(home, at, &(was + 1).to_ne_bytes()).await.map(|()| was);
    }
    loop {
        match mesh.fetch_add(home, at, 1).await {
            Err(_) if adding == Adding::UntilItCompletes => {}
            ended => return ended,
        }
    }
}

/// What the nodes did to the word, as it happened.
#[derive(Clone)]
struct Told {
    calls: Rc<RefCell<Vec<Call<CounterOp, u64>>>>,
    recorder: Recorder,
}

impl Told {
    fn called(&self, node: u32) {
        self.calls.borrow_mut().push(Call::Invoked(node, CounterOp::Add(1)));
        self.recorder.note(u64::from(node) << 1);
    }

    /// What was surely not executed was no call; what may have been is one that never returned.
    fn ended(&self, node: u32, how: &Result<u64, OpError>) {
        let mut calls = self.calls.borrow_mut();
        match how {
            Ok(was) => {
                calls.push(Call::Returned(node, *was));
                self.recorder.note(u64::from(node) << 1 | 1);
            }
            Err(OpError::Unknown(_)) => {}
            Err(_) => calls.retain(|call| *call != Call::Invoked(node, CounterOp::Add(1))),
        }
    }
}

/// What an execution keeps.
pub struct State {
    word: SimMr,
    told: Told,
}

impl Model for Counter {
    type State = State;
    type Oracles = WorldOracles;

    fn size(&self) -> Size {
        Size::new([("nodes", self.nodes)])
    }

    fn promises(&self) -> &'static [&'static str] {
        &[Linearizability::NAME]
    }

    fn oracles(&self) -> WorldOracles {
        WorldOracles::new(false)
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: Some(0), one_by_one: false }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let access = AccessFlags::LOCAL_WRITE
            | AccessFlags::REMOTE_ATOMIC
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_WRITE;
        let word = members[0].mesh.alloc(8, access).expect("eight bytes");
        let (home, at) = (members[0].mesh.me(), word.remote(0..8).expect("a word"));
        let told = Told { calls: Rc::default(), recorder: recorder.clone() };
        for (node, member) in (0..).zip(members) {
            let told = told.clone();
            let (mesh, recorder, adding) = (member.mesh.clone(), recorder.clone(), self.adding);
            member.rt.spawn(async move {
                let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
                let (key, mode) = (LockKey(0), Mode::Shared);
                let record = |what| recorder.record(Event { at: Nanos::ZERO, request, key, mode, what });
                record(What::Requested { deadline: None });
                told.called(node);
                let added = add(&mesh, home, at, adding).await;
                told.ended(node, &added);
                record(if added.is_ok() {
                    What::Granted { token: None }
                } else {
                    What::Failed(Why::NotSaid)
                });
                if added.is_ok() {
                    record(What::Released);
                }
            });
        }
        State { word, told }
    }

    fn name_of(&self, state: &State, node: usize, address: u64) -> Option<Named> {
        (node == 0 && address == state.word.addr()).then(|| Named::new("the counter"))
    }

    /// Whoever looks at the end is one more client.
    fn finish(&self, state: &State, _: &[Member], _: &Recorder) -> Result<(), Violation> {
        let mut calls = state.told.calls.borrow().clone();
        let sum = state.word.load(0).unwrap_or(u64::MAX);
        calls.extend([Call::Invoked(self.nodes, CounterOp::Read), Call::Returned(self.nodes, sum)]);
        let judged = Linearizability::judge(linearizability::Counter(0), &calls);
        judged.map_err(|text| Violation::new(Linearizability::NAME, text))
    }
}
