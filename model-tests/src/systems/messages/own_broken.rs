//! A node whose program breaks the node's connection to itself, over which it executes what peers ask for.
//!
//! Where adapters have no remote atomics, and where a connection stands on another rail than the memory's, a node's processor executes what
//! its peers ask of its memory, by operations on itself. One that breaks meanwhile is made again, and what was asked for is done once,
//! or its asker is told that it does not know.

use super::rails::lane;
use crate::explore::{Coverage, Entry, Violation};
use crate::harness::{self, Member, Model, Shape, any_counted, of_one_size, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::{Rt, WaitPoint};
use weft_protocols::transport::{Mesh, MeshConfig, OpError, Rank};
use weft_sim::explore::FaultSet;
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

/// How often the first node adds, each time in another way.
const TIMES: u32 = 2;

/// The worlds.
pub fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "operations-own-broken" of_one_size(OwnBroken { rails: 1 }) Held,
            "the transport: a node stands in for an adapter without atomics, and breaks its connection to itself";
        "operations-carried-own-broken" of_one_size(OwnBroken { rails: 2 }) Held,
            "the same of a node that executes what messages carry";
    }
}

/// The first node adds to a word of the second one, which reads its own memory by a key that is none.
struct OwnBroken {
    rails: u8,
}

/// What an execution keeps.
struct State {
    word: SimMr,
    /// How often the first node has added, as far as it knows.
    added: Rc<Cell<u32>>,
    /// Whether the second one's operations have ended.
    ended: Rc<Cell<bool>>,
    broken: Rc<RefCell<Option<String>>>,
}

struct Adder {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    home: Rank,
    at: RemoteSlice,
    broken: Rc<RefCell<Option<String>>>,
}

impl Adder {
    async fn run(self, added: Rc<Cell<u32>>) {
        if self.mesh.rails() > 1 && self.mesh.answers(self.home, 1).await {
            self.mesh.move_to(self.home, 1);
            self.asks_for_what_is_not_its_own().await;
        }
        for before in 0..TIMES {
            while !self.adds(before).await {}
            added.set(before + 1);
        }
    }

    /// Memory by a key that is none, in parts and as a whole.
    async fn asks_for_what_is_not_its_own(&self) {
        let foreign = RemoteSlice { rkey: self.at.rkey ^ 0x5555, len: 200, ..self.at };
        let written = self.mesh.write(self.home, foreign, &[7; 200]).await;
        let read = self.mesh.read(self.home, foreign, &mut [0; 100]).await;
        if written.is_ok() || read.is_ok() {
            self.breaks(format!(
                "memory without its key: a write ends with {written:?}, a read with {read:?}"
            ));
        }
    }

    /// Adds once, by a sum or by a swap; says whether it is there.
    async fn adds(&self, before: u32) -> bool {
        let (mesh, home, at, was) = (&self.mesh, self.home, self.at, u64::from(before));
        let answer = match before {
            0 => mesh.fetch_add(home, at, 1).await,
            _ => mesh.compare_swap(home, at, was, was + 1).await,
        };
        match answer {
            Ok(old) if lane(old, 0) == before => true,
            Ok(old) => {
                self.breaks(format!("n0 added {before} times and finds {old}"));
                true
            }
            Err(OpError::Unknown(_)) => {
                mesh.resolve_outcomes(home).await.is_err() || self.looks().await != before
            }
            Err(OpError::NotExecuted(_)) => {
                self.rt.yield_now().await;
                false
            }
        }
    }

    /// How often it has added, by the word.
    async fn looks(&self) -> u32 {
        let mut word = [0; 8];
        while self.mesh.read(self.home, self.at, &mut word).await.is_err() {
            self.rt.yield_now().await;
        }
        lane(u64::from_ne_bytes(word), 0)
    }

    fn breaks(&self, how: String) {
        self.broken.borrow_mut().get_or_insert(how);
    }
}

impl Model for OwnBroken {
    type State = State;
    type Oracles = ();

    fn rails(&self) -> u8 {
        self.rails
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.atomics = self.rails > 1;
    }

    fn breaks_connections(&self) -> bool {
        true
    }

    fn promises(&self) -> &'static [&'static str] {
        &["additions", "progress"]
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: Some(1), one_by_one: true }
    }

    /// What a fault may do beside is explored by the worlds of rails.
    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [first, last] = members else { unreachable!("the shape has two nodes") };
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_READ;
        let word = last.mesh.alloc(8, access).expect("eight bytes");
        let at = word.remote(0..8).expect("a word");
        let state = State { word, added: Rc::default(), ended: Rc::default(), broken: Rc::default() };
        let (rt, mesh, broken) = (first.rt.clone(), first.mesh.clone(), Rc::clone(&state.broken));
        let adder = Adder { rt, mesh, home: last.mesh.me(), at, broken };
        first.rt.spawn(adder.run(Rc::clone(&state.added)));
        let (rt, mesh, broken) = (last.rt.clone(), last.mesh.clone(), Rc::clone(&state.broken));
        let (ended, recorder) = (Rc::clone(&state.ended), recorder.clone());
        last.rt.spawn(async move {
            let foreign = RemoteSlice { rkey: at.rkey ^ 0x5555, ..at };
            for _ in 0..2 {
                match mesh.read(mesh.me(), foreign, &mut [0; 8]).await {
                    Ok(()) => {
                        broken.borrow_mut().get_or_insert("memory was read without its key".to_string());
                    }
                    Err(why) => recorder.say(1, || format!("is refused its own memory: {why}")),
                }
                rt.yield_now().at("breaks").await;
            }
            ended.set(true);
        });
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new("additions", text.clone()));
        }
        let (added, found) = (state.added.get(), lane(state.word.load(0).unwrap_or(u64::MAX), 0));
        if added < TIMES || !state.ended.get() {
            let text = format!("n0 has added {added} times of {TIMES}, and nothing happens any more");
            return Err(Violation::new("progress", text));
        }
        if found != added {
            let text = format!("n0 added {added} times and the word has {found}");
            return Err(Violation::new("additions", text));
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, _: &State, members: &[Member], sink: &mut Coverage) {
        sink.sometimes("an outcome was lost", any_counted(members, |stats| stats.unknown_outcomes));
        sink.sometimes("a connection was made again", any_counted(members, |stats| stats.reconnects));
    }
}
