//! A node whose program ends itself while tasks of it wait and others speak to it.
//!
//! Its tasks are dropped, whoever waits for the result of one is told so, and nothing that was started afterwards runs.

use super::{CHANNEL, Recorder, says};
use crate::explore::{Entry, Violation};
use crate::harness::{Member, Model, Shape, of_one_size, worlds};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use weft_protocols::rt::{JoinHandle, WaitPoint};
use weft_protocols::transport::{Channel, Incoming};
use weft_sim::explore::FaultSet;
use weft_verbs::{Nanos, Wait};

/// The world.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { &[];
        "runtime-ends" of_one_size(Ends) Held, "the runtime: a node ends itself while its tasks wait";
    }
}

struct Ends;

/// What an execution keeps.
struct State {
    /// The tasks that wait: for a message, for a time, and for the next step.
    tasks: RefCell<Vec<JoinHandle<()>>>,
    /// How many of them were dropped.
    dropped: Rc<Cell<u32>>,
    /// Something ran that was started behind the end, or behind a wait that never ends.
    ran: Rc<Cell<bool>>,
}

/// Tells that it was dropped.
struct Dropped(Rc<Cell<u32>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Model for Ends {
    type State = State;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn promises(&self) -> &'static [&'static str] {
        &["the end", "progress"]
    }

    fn breaks_connections(&self) -> bool {
        true
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [other, node] = members else { unreachable!("the shape has two nodes") };
        let (dropped, ran) = (Rc::<Cell<u32>>::default(), Rc::<Cell<bool>>::default());
        let mut never = node.mesh.open(Channel(1)).expect("nobody else opens it");
        let (guard, told) = (Dropped(Rc::clone(&dropped)), Rc::clone(&ran));
        let hears = node.rt.spawn(async move {
            let _guard = guard;
            never.recv().at("hears").await;
            told.set(true);
        });
        let (guard, rt, told) = (Dropped(Rc::clone(&dropped)), node.rt.clone(), Rc::clone(&ran));
        let sleeps = node.rt.spawn(async move {
            let _guard = guard;
            rt.sleep(Nanos::from_millis(1)).at("sleeps").await;
            rt.sleep_until(Nanos::MAX).at("sleeps for ever").await;
            told.set(true);
        });
        let (rt, mut inbox) = (node.rt.clone(), node.mesh.open(CHANNEL).expect("nobody else opens it"));
        let (guard, told, recorder) = (Dropped(Rc::clone(&dropped)), Rc::clone(&ran), recorder.clone());
        let ends = node.rt.spawn(async move {
            let _guard = guard;
            if let Some(Incoming::Message(_)) = inbox.recv().at("hears").await {
                recorder.say(1, || "ends itself".to_string());
                rt.shutdown();
                // Once is enough.
                rt.shutdown();
                let late = Rc::clone(&told);
                drop(rt.spawn(async move { late.set(true) }));
                rt.yield_now().at("has ended").await;
                told.set(true);
            }
        });
        says(other, node, [0; 2]);
        State { tasks: RefCell::new(vec![hears, sleeps, ends]), dropped, ran }
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if !members[1].rt.is_closed() {
            return Err(Violation::new("progress", "the node has not ended"));
        }
        if state.ran.get() {
            return Err(Violation::new("the end", "a task goes on behind it"));
        }
        let mut cx = Context::from_waker(Waker::noop());
        for task in state.tasks.borrow_mut().iter_mut() {
            if !task.is_finished() || Pin::new(task).poll(&mut cx) != Poll::Ready(None) {
                return Err(Violation::new("the end", "who waits for a task is not told that it is gone"));
            }
        }
        match (state.dropped.get(), members[1].rt.audit().tasks) {
            (3, 0) => Ok(()),
            left => Err(Violation::new(
                "the end",
                format!("of three tasks these were dropped, and are left: {left:?}"),
            )),
        }
    }
}
