//! An incarnation that is expelled does nothing more: nodes that add to a word of a node, which expels one of them.
//!
//! The last node expels the first, and looks at the word when that has returned. From then on the first node's lane of it may
//! not change, whatever of its additions was on its way; and what it was told to be done must be there. It is told that it is
//! out, and ends.

use super::rails::lane;
use crate::explore::{Coverage, Entry, Key, Size, SizeError, Violation};
use crate::harness::{self, Member, Model, Shape, worlds};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::WaitPoint;
use weft_protocols::transport::MeshConfig;
use weft_sim::SimMr;
use weft_verbs::{AccessFlags, MemoryRegion, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const KEYS: &[Key] = &[Key { name: "requests", help: "how often the first node adds" }];

/// The worlds of expulsion.
pub fn worlds() -> Vec<Entry> {
    worlds! { KEYS;
        "expel" make(true, true) Held, "a node expels another one whose additions are on their way";
        "expel-atomless" make(true, false) Held, "the same, and its processor stands in for an adapter without atomics";
        "planted-members-begins-before-fence" make(false, true) Violated, "the same, and the next view begins before the fence";
    }
}

fn make(size: &Size, fences_first: bool, atomics: bool) -> Result<Expulsion, SizeError> {
    let requests = size.number("requests")?.unwrap_or(2);
    size.within("requests", requests, 1..=8)?;
    Ok(Expulsion { fences_first, atomics, requests })
}

struct Expulsion {
    /// What follows the expulsion comes after it.
    fences_first: bool,
    /// Adapters execute atomics.
    atomics: bool,
    requests: u32,
}

/// What an execution keeps.
struct State {
    word: SimMr,
    /// How often the first node was told that it has added.
    added: Rc<Cell<u32>>,
    /// Its lane as the last node found it when it had expelled it.
    seen: Rc<Cell<Option<u32>>>,
}

impl Model for Expulsion {
    type State = State;
    type Oracles = ();

    fn size(&self) -> Size {
        Size::new([("requests", self.requests)])
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.atomics = self.atomics;
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: Some(1), one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_READ;
        let [first, last] = members else { panic!("two nodes") };
        let word: SimMr = last.mesh.alloc(8, access).expect("eight bytes");
        let (at, home) = (word.remote(0..8).expect("a word"), last.mesh.me());
        let (added, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));

        let (mesh, of, requests) = (first.mesh.clone(), Rc::clone(&added), self.requests);
        first.rt.spawn(async move {
            for _ in 0..requests {
                match mesh.fetch_add(home, at, 1).await {
                    Ok(_) => of.set(of.get() + 1),
                    // It is out, or does not know: this node does not look, it ends.
                    Err(_) => break,
                }
            }
        });
        let mesh = first.mesh.clone();
        first.rt.spawn(async move {
            mesh.expelled().await;
            mesh.close();
        });

        let (mesh, incarnation, out) = (last.mesh.clone(), first.mesh.incarnation(), first.mesh.me());
        let (memory, of, recorder) = (word.clone(), Rc::clone(&seen), recorder.clone());
        let (rt, fences_first) = (last.rt.clone(), self.fences_first);
        // An adapter executes what comes whatever its node does; a processor takes some steps for that.
        let steps = if self.atomics { 0 } else { 4 };
        last.rt.spawn(async move {
            for step in 0..steps {
                rt.yield_now().at(step).await;
            }
            if fences_first {
                mesh.expel(out, incarnation);
            }
            let found = lane(memory.load(0).unwrap_or(u64::MAX), 0);
            if !fences_first {
                rt.yield_now().at("begins").await;
                mesh.expel(out, incarnation);
            }
            of.set(Some(found));
            recorder.say(1, || format!("has expelled n0 and finds {found}"));
        });
        State { word, added, seen }
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        const PROMISE: &str = "expelled for good";
        let word = lane(state.word.load(0).unwrap_or(u64::MAX), 0);
        let Some(seen) = state.seen.get() else {
            return Err(Violation::new(PROMISE, "n1 has not expelled n0".to_string()));
        };
        if word != seen {
            let text = format!("n0 had added {seen} times when it was expelled, and has added {word} times");
            return Err(Violation::new(PROMISE, text));
        }
        if state.added.get() > word {
            let text =
                format!("n0 was told {} times that it had added, and the word has {word}", state.added.get());
            return Err(Violation::new(PROMISE, text));
        }
        let audit = members[1].mesh.audit();
        // (Its connection to itself stands.)
        match (audit.unacked, audit.waiting) {
            (0, 0) => Ok(()),
            left => Err(Violation::new(PROMISE, format!("n1 still keeps for n0: {left:?}"))),
        }
    }

    fn coverage(&self, state: &State, members: &[Member], sink: &mut Coverage) {
        sink.sometimes("it was told that it is out", members[0].mesh.is_expelled());
        sink.sometimes("it had added before", state.seen.get().is_some_and(|seen| seen > 0));
    }
}
