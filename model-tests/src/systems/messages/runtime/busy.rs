//! A node on which a task is always ready: what waits until nothing else is to be done has its turn all the same.
//!
//! Receive buffers are such work: without it the other node would have nowhere to send to.

use super::{CHANNEL, Recorder, says};
use crate::explore::{Entry, Violation};
use crate::harness::{Meeting, Member, Model, Shape, of_one_size, worlds};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::rt::WaitPoint;
use weft_protocols::transport::Incoming;
use weft_sim::explore::FaultSet;
use weft_verbs::Wait;

/// How many messages come.
const MESSAGES: u8 = 2;

/// How often the task is woken again by itself: more often than in twenty steps.
const ROUNDS: u32 = 64 * 22;

/// The world.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "runtime-busy" of_one_size(Busy) Held, "the runtime: a task is always ready, and messages are heard";
    }
}

struct Busy;

/// What an execution keeps.
struct State {
    /// How many messages were heard, and whether in order.
    heard: Rc<Cell<u8>>,
    ordered: Rc<Cell<bool>>,
    /// The task that is always ready has ended.
    ended: Rc<Cell<bool>>,
}

impl Model for Busy {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: false }
    }

    fn meeting(&self) -> Meeting {
        Meeting::Joined
    }

    fn promises(&self) -> &'static [&'static str] {
        &["progress"]
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder) -> State {
        let [other, node] = members else { unreachable!("the shape has two nodes") };
        let state = State { heard: Rc::default(), ordered: Rc::new(Cell::new(true)), ended: Rc::default() };
        let (heard, ordered) = (Rc::clone(&state.heard), Rc::clone(&state.ordered));
        let mut inbox = node.mesh.open(CHANNEL).expect("nobody else opens it");
        node.rt.spawn(async move {
            while let Some(Incoming::Message(message)) = inbox.recv().at("hears").await {
                ordered.set(ordered.get() && message.bytes() == [heard.get()]);
                heard.set(heard.get() + 1);
            }
        });
        let (ended, mut rounds) = (Rc::clone(&state.ended), 0);
        node.rt.spawn(async move {
            poll_fn(|cx| {
                rounds += 1;
                if rounds > ROUNDS {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            ended.set(true);
        });
        says(other, node, 0..MESSAGES);
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if state.heard.get() < MESSAGES || !state.ordered.get() || !state.ended.get() {
            let text = format!("{} of {MESSAGES} messages are heard in order", state.heard.get());
            return Err(Violation::new("progress", text));
        }
        let owed = members[1].mesh.audit().credits_out;
        if owed > u64::from(MESSAGES) {
            return Err(Violation::new("progress", format!("{owed} receive buffers are owed")));
        }
        self.judge_each(state, members)
    }
}
