//! A node whose threads compute while messages come, which it takes in in each of the contexts that a kernel knows.
//!
//! No thread computes faster than the processors, whatever the node does besides, and every message is heard and answered.

use super::{CHANNEL, Recorder};
use crate::explore::{Entry, Violation};
use crate::harness::{self, Member, Model, Shape, of_one_size, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::{Receives, WaitPoint};
use weft_protocols::transport::Incoming;
use weft_sim::explore::FaultSet;
use weft_verbs::{Nanos, Wait, Work};

/// What each of two threads computes.
const WORK: Nanos = Nanos::from_millis(6);

/// A turn, and the time between two ticks.
const QUANTUM: Nanos = Nanos::from_millis(2);

/// How long a node that sleeps looks before it does.
const SPIN: Nanos = Nanos::from_millis(1);

/// The worlds.
pub(super) fn worlds() -> Vec<Entry> {
    use Wait::Notify;
    const AT_ONCE: Computes =
        Computes { receives: Receives::AtOnce, load: 0, spin: Nanos::ZERO, wait: Wait::Poll };
    const SIGNAL: Receives = Receives::Signal { quantum: QUANTUM, offset: Nanos::ZERO };
    worlds! { &[];
        "runtime-computes" of_one_size(AT_ONCE) Held, "the runtime: two threads of a node compute on one processor while messages come";
        "runtime-computes-task-queue" of_one_size(Computes { receives: Receives::TaskQueue { tick: QUANTUM }, wait: Notify, ..AT_ONCE }) Held,
            "the same, and what has come waits for a tick or a system call";
        "runtime-computes-polling" of_one_size(Computes { receives: Receives::Polling, ..AT_ONCE }) Held, "the same, and who waits for an answer polls";
        "runtime-computes-by-signal" of_one_size(Computes { receives: SIGNAL, load: 1, wait: Notify, ..AT_ONCE }) Held,
            "the same, and what has come waits for the turn of a process, beside another one's load";
        "runtime-spins" of_one_size(Computes { spin: SPIN, wait: Notify, ..AT_ONCE }) Held, "the same of a node that looks for a while before it sleeps";
    }
}

#[derive(Clone, Copy)]
struct Computes {
    receives: Receives,
    /// Processes of others.
    load: u32,
    spin: Nanos,
    /// What waits in the adapter would have a node that polls look without end while it may not take it.
    wait: Wait,
}

/// What an execution keeps.
struct State {
    /// From when to when each thread computed.
    spans: Rc<RefCell<Vec<(Nanos, Nanos)>>>,
    /// How many messages and answers were heard.
    heard: Rc<Cell<u32>>,
}

impl Model for Computes {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: self.wait, home: None, one_by_one: true }
    }

    fn spin(&self) -> Nanos {
        self.spin
    }

    fn drift(&self) -> Option<Nanos> {
        Some(harness::DRIFT)
    }

    fn promises(&self) -> &'static [&'static str] {
        &["processors", "progress"]
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [other, node] = members else { unreachable!("the shape has two nodes") };
        let state = State { spans: Rc::default(), heard: Rc::default() };
        node.rt.set_processors(1);
        node.rt.set_load(self.load);
        node.rt.set_receives(self.receives);
        for thread in 0..2 {
            let (rt, spans, recorder) = (node.rt.clone(), Rc::clone(&state.spans), recorder.clone());
            node.rt.spawn(async move {
                let began = rt.now();
                rt.compute(WORK).await;
                spans.borrow_mut().push((began, rt.now()));
                recorder.say(1, || format!("thread {thread} has computed"));
            });
        }
        // It asks, and whoever waits for the answer enters the kernel first.
        let (rt, mesh, to) = (node.rt.clone(), node.mesh.clone(), other.mesh.me());
        let mut inbox = node.mesh.open(CHANNEL).expect("nobody else opens it");
        let heard = Rc::clone(&state.heard);
        node.rt.spawn(async move {
            let expects = rt.expects();
            rt.spend(Work::Syscall);
            mesh.send(to, CHANNEL, &[0]).expect("a mesh keeps more messages");
            while let Some(Incoming::Message(_)) = inbox.recv().at("expects").await {
                heard.set(heard.get() + 1);
                if heard.get() == 2 {
                    break;
                }
            }
            drop(expects);
        });
        // It speaks unasked, and answers.
        let (mesh, to) = (other.mesh.clone(), node.mesh.me());
        let mut inbox = other.mesh.open(CHANNEL).expect("nobody else opens it");
        other.rt.spawn(async move {
            mesh.send(to, CHANNEL, &[1]).expect("a mesh keeps more messages");
            if let Some(Incoming::Message(_)) = inbox.recv().at("answers").await {
                mesh.send(to, CHANNEL, &[2]).expect("a mesh keeps more messages");
            }
        });
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        let spans = state.spans.borrow();
        if spans.len() < 2 || state.heard.get() < 2 {
            let text = format!("{} of 2 threads end, and {} of 2 are heard", spans.len(), state.heard.get());
            return Err(Violation::new("progress", text));
        }
        let began = spans.iter().map(|span| span.0).min().unwrap_or_default();
        let ended = spans.iter().map(|span| span.1).max().unwrap_or_default();
        let took = ended.0 - began.0;
        // Less than a nanosecond of each is a rounding error.
        if took + 2 < 2 * WORK.0 {
            let text = format!("what takes {} ns of one processor took {took} ns", 2 * WORK.0);
            return Err(Violation::new("processors", text));
        }
        if took > 2 * WORK.0 * u64::from(2 + self.load) {
            return Err(Violation::new("processors", format!("it took {took} ns, which is too long")));
        }
        self.judge_each(state, members)
    }
}
