//! Timers: many are thrown away, and those that are kept come all the same, each at its time.

use super::{CHANNEL, Recorder, says};
use crate::explore::{Entry, Violation};
use crate::harness::{self, Member, Model, Shape, of_one_size, worlds};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::rt::{Rt, WaitPoint};
use weft_protocols::transport::Incoming;
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{Nanos, Wait};

/// More than a heap keeps of those that were thrown away.
const MANY: usize = 80;

/// After how many milliseconds the others come.
const KEPT: [u64; 3] = [4, 2, 6];

/// The world.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "runtime-timers" of_one_size(Timers) Held, "the runtime: timers come at their times, though many others are thrown away";
    }
}

struct Timers;

/// What an execution keeps: which timers came, and when.
struct State {
    came: Rc<RefCell<Vec<(usize, Nanos)>>>,
    began: Nanos,
}

/// Sets timers and throws them away.
async fn throws_away(rt: &Rt<Sim>) {
    let mut all: Vec<_> = (0..MANY).map(|nth| rt.sleep(Nanos::from_millis(1 + nth as u64 % 9))).collect();
    poll_fn(|cx| {
        let are_set = all.iter_mut().all(|sleep| Pin::new(sleep).poll(cx).is_pending());
        if are_set { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Model for Timers {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn drift(&self) -> Option<Nanos> {
        Some(harness::DRIFT)
    }

    fn promises(&self) -> &'static [&'static str] {
        &["timers", "progress"]
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [other, node] = members else { unreachable!("the shape has two nodes") };
        let state = State { came: Rc::default(), began: node.rt.now() };
        for (nth, after) in KEPT.into_iter().enumerate() {
            let (rt, came, recorder) = (node.rt.clone(), Rc::clone(&state.came), recorder.clone());
            let at = state.began + Nanos::from_millis(after);
            node.rt.spawn(async move {
                let mut sleep = rt.sleep_until(at);
                // One task sets the timer, and another one waits for it.
                poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_ready())).await;
                rt.clone().spawn(async move {
                    sleep.await;
                    came.borrow_mut().push((nth, rt.now()));
                    recorder.say(1, || format!("timer {nth} comes"));
                });
            });
        }
        // Some are thrown away before a message comes, and some behind it.
        let (rt, mut inbox) = (node.rt.clone(), node.mesh.open(CHANNEL).expect("nobody else opens it"));
        node.rt.spawn(async move {
            throws_away(&rt).await;
            let heard = rt.deadline(Nanos::MAX, inbox.recv()).at("hears").await;
            if let Ok(Some(Incoming::Message(_))) = heard {
                throws_away(&rt).await;
            }
        });
        says(other, node, [0]);
        state
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        let came = state.came.borrow();
        let order: Vec<usize> = came.iter().map(|(nth, _)| *nth).collect();
        if order != [1, 0, 2] {
            return Err(Violation::new(
                "progress",
                format!("of three timers these come, in order: {order:?}"),
            ));
        }
        let early = |(nth, at): &&(usize, Nanos)| *at < state.began + Nanos::from_millis(KEPT[*nth]);
        if let Some((nth, at)) = came.iter().find(early) {
            return Err(Violation::new("timers", format!("timer {nth} comes at {at}, before its time")));
        }
        let left = members[1].rt.audit().timers;
        if left > 0 {
            return Err(Violation::new("timers", format!("{left} are left over")));
        }
        self.judge_each(state, members)
    }
}
