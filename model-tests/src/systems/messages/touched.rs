//! A node asks after a peer that has nothing to say: the peer's adapter answers, or the link is taken for dead.
//!
//! While the connection stands each question is answered, though nothing is heard of the peer's node. Behind a question without an answer
//! the connection is made again, and what is sent then arrives.

use crate::explore::{Coverage, Entry, Violation};
use crate::harness::{self, Member, Model, Shape, any_counted, of_one_size, worlds};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::WaitPoint;
use weft_protocols::transport::{Channel, Incoming, MeshConfig};
use weft_sim::explore::{FaultSet, Outcome};
use weft_verbs::{Nanos, Wait};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const CHANNEL: Channel = Channel(0);

/// How often the first node asks.
const TIMES: u32 = 2;

/// How long it waits for an answer.
const PATIENCE: Nanos = Nanos::from_millis(20);

/// The world.
pub fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "messages-touched" of_one_size(Touched) Held, "the transport: a node asks after a peer that has nothing to say";
    }
}

struct Touched;

/// What an execution keeps.
struct State {
    /// How many questions were answered, and how many were not.
    answered: Rc<Cell<u32>>,
    unanswered: Rc<Cell<u32>>,
    /// Frames that were heard of the other node before anything was sent to it.
    heard: Rc<Cell<u64>>,
    /// The message has arrived.
    arrived: Rc<Cell<bool>>,
}

impl Model for Touched {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn mesh(&self, config: &mut MeshConfig) {
        harness::with_timers(config);
    }

    fn drift(&self) -> Option<Nanos> {
        Some(harness::DRIFT)
    }

    fn promises(&self) -> &'static [&'static str] {
        &["signs of life", "progress"]
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::TIMELESS.without(Outcome::Crash).without(Outcome::Restart)
    }

    fn is_open(&self, state: Option<&State>, _: &Recorder) -> bool {
        state.is_some_and(|state| !state.arrived.get())
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [first, last] = members else { unreachable!("the shape has two nodes") };
        let state = State {
            answered: Rc::default(),
            unanswered: Rc::default(),
            heard: Rc::default(),
            arrived: Rc::default(),
        };
        let mut inbox = last.mesh.open(CHANNEL).expect("nobody else opens it");
        let arrived = Rc::clone(&state.arrived);
        last.rt.spawn(async move {
            if let Some(Incoming::Message(_)) = inbox.recv().at("hears").await {
                arrived.set(true);
            }
        });
        let (rt, mesh, peer) = (first.rt.clone(), first.mesh.clone(), last.mesh.me());
        let State { answered, unanswered, heard, .. } = &state;
        let (answered, unanswered, heard) = (Rc::clone(answered), Rc::clone(unanswered), Rc::clone(heard));
        let recorder = recorder.clone();
        first.rt.spawn(async move {
            for _ in 0..TIMES {
                let before = mesh.answered(peer);
                mesh.touch(peer);
                rt.sleep(PATIENCE).at("asks").await;
                let is_answered = mesh.answered(peer) > before;
                recorder.say(0, || format!("is answered: {is_answered}"));
                if is_answered {
                    answered.set(answered.get() + 1);
                } else {
                    unanswered.set(unanswered.get() + 1);
                    mesh.suspect(peer);
                }
            }
            heard.set(mesh.heard(peer));
            while mesh.send(peer, CHANNEL, &[0]).is_err() {
                // The system has no memory in this step.
                rt.yield_now().at("cannot send").await;
            }
        });
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        let (answered, unanswered) = (state.answered.get(), state.unanswered.get());
        if !state.arrived.get() || answered + unanswered < TIMES {
            return Err(Violation::new("progress", "the message has not arrived"));
        }
        if unanswered > 0 && !any_counted(members, |stats| stats.reconnects) {
            let text = format!("{unanswered} questions are not answered, and the connection stands");
            return Err(Violation::new("signs of life", text));
        }
        if state.heard.get() > 0 {
            let text = format!("{} frames are heard of who says nothing", state.heard.get());
            return Err(Violation::new("signs of life", text));
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, state: &State, _: &[Member], sink: &mut Coverage) {
        sink.sometimes("a question was answered", state.answered.get() > 0);
        sink.sometimes("a question was not answered", state.unanswered.get() > 0);
    }
}
