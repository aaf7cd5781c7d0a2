//! What memory is called: of all that was said of it, the last.
//!
//! Two nodes have a third one label a part of its memory, and take the label away again, in any order.

use super::{CHANNEL, Recorder, says};
use crate::explore::{Entry, Violation};
use crate::harness::{Member, Model, Shape, of_one_size, worlds};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::{Label, WaitPoint};
use weft_protocols::transport::Incoming;
use weft_sim::explore::FaultSet;
use weft_verbs::{AccessFlags, MemoryRegion, Wait};

/// How long the memory is, and the place in it that is asked about.
const LEN: usize = 96;
const AT: u64 = 50;

/// The world.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "runtime-labels" of_one_size(Labels) Held, "the runtime: memory is called what was said of it last";
    }
}

struct Labels;

/// What the first and the last node say of the memory, and how the place is called then.
fn label(of: usize) -> (Label, &'static str) {
    match of {
        0 => (
            Label::new("segment").number(5).of_node(1).cut("slot", 24),
            "slot 2 of n1's segment 5 from byte 2",
        ),
        _ => (Label::new("log").part("header"), "log's header from byte 50"),
    }
}

/// What an execution keeps.
struct State {
    /// How many labels came and went.
    changes: Rc<RefCell<u32>>,
    broken: Rc<RefCell<Option<String>>>,
}

impl Model for Labels {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 3, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn promises(&self) -> &'static [&'static str] {
        &["labels", "progress"]
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let state = State { changes: Rc::default(), broken: Rc::default() };
        let node = &members[1];
        let memory = node.mesh.alloc(LEN, AccessFlags::LOCAL_WRITE).expect("a few bytes");
        let (rt, mesh) = (node.rt.clone(), node.mesh.clone());
        let mut inbox = mesh.open(CHANNEL).expect("nobody else opens it");
        let (changes, broken) = (Rc::clone(&state.changes), Rc::clone(&state.broken));
        let recorder = recorder.clone();
        node.rt.spawn(async move {
            let mut guards = [None, None, None];
            let mut last = None;
            while let Some(Incoming::Message(message)) = inbox.recv().at("hears").await {
                let of = message.from().index();
                match guards[of].take() {
                    Some(guard) => drop(guard),
                    None => {
                        let (label, text) = label(of);
                        guards[of] = Some(mesh.label(&memory, 0..LEN, label));
                        last = Some(text);
                    }
                }
                let told = rt.label_at(memory.addr() + AT).map(|place| place.to_string());
                recorder.say(1, || format!("calls it {told:?}"));
                if told.as_deref() != last {
                    broken.borrow_mut().get_or_insert(format!("it is called {told:?}, not {last:?}"));
                }
                let outside = [memory.addr() + LEN as u64, memory.addr().wrapping_sub(1)];
                if outside.into_iter().any(|address| rt.label_at(address).is_some()) {
                    broken.borrow_mut().get_or_insert("what lies outside of it has a name".to_string());
                }
                *changes.borrow_mut() += 1;
            }
        });
        for other in [0, 2] {
            // The second one takes the label away.
            says(&members[other], node, [0; 2]);
        }
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new("labels", text.clone()));
        }
        if *state.changes.borrow() < 4 {
            return Err(Violation::new("progress", "a label has not come, or not gone"));
        }
        self.judge_each(state, members)
    }
}
