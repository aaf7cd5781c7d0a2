//! What is asked of every execution without a fault: that no receiver was without a buffer, and of some that nobody waited for time.

use super::{Harness, Meeting, Member, Model, Recorder, Shape};
use crate::by_hand;
use crate::explore::{Described, Options, Reduction, explore};
use crate::polled::polled;
use std::cell::Cell;
use std::future::pending;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::rt::{BufferGuard, CompletionSink, Local, QpHandle};
use weft_protocols::transport::{Channel, Incoming};
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, Context, MemoryRegion, Nanos, QpCaps, SendOp, Wait};

/// The promise of a model that is broken without a fault.
fn broken(model: impl Model) -> Option<String> {
    broken_by(model, &Options::default())
}

/// The same as it is explored otherwise.
fn broken_by(model: impl Model, options: &Options) -> Option<String> {
    let mut harness = Harness::new("two nodes", model);
    let explored = explore(&mut harness, options, &mut |_| ControlFlow::Continue(()));
    let found = explored.expect("explores").counterexample?;
    assert!(harness.promises().contains(&&*found.violation.oracle), "{}", found.violation);
    Some(found.violation.oracle)
}

/// A node sends the other one a message, by a connection without credits.
struct Sends {
    /// The buffer is posted before the message is. Otherwise in a step of the receiver.
    is_ready: bool,
    /// The second node sends, so that orders in which the first one has posted its buffer come first.
    is_second: bool,
    /// Then the receiver sleeps: there is a quiescent state before the end.
    sleeps: bool,
}

/// As most tests send it.
const SENDS: Sends = Sends { is_ready: true, is_second: false, sleeps: false };

fn queue(member: &Member) -> QpHandle<Sim> {
    let pd = member.rt.context().alloc_pd().expect("there is one");
    member.rt.create_qp(&pd, QpCaps::default()).expect("the usual one")
}

impl Model for Sends {
    type State = [QpHandle<Sim>; 2];
    type Oracles = ();

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn meeting(&self) -> Meeting {
        Meeting::Unmet
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::one(Outcome::Delay)
    }

    fn oracles(&self) {}

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> [QpHandle<Sim>; 2] {
        let [first, second] = members else { unreachable!("the shape has two nodes") };
        let (sender, receiver) = if self.is_second { (second, first) } else { (first, second) };
        let [from, to] = [queue(sender), queue(receiver)];
        let ends = (sender.rt.context(), from.qp());
        by_hand::connect(ends, (receiver.rt.context(), to.qp()), AccessFlags::empty()).expect("they are new");
        let posts = to.clone();
        let post = move || {
            posts.post_recv(&CompletionSink::new(), 0, BufferGuard::Nothing).expect("there is room");
        };
        match self.is_ready {
            true => post(),
            false => {
                let (rt, sleeps) = (receiver.rt.clone(), self.sleeps);
                drop(receiver.rt.spawn(async move {
                    post();
                    if sleeps {
                        rt.sleep(Nanos::from_millis(1)).await;
                    }
                }));
            }
        }
        let sends = from.clone();
        drop(sender.rt.spawn(async move {
            let op = SendOp::Send { imm: None };
            let sent = sends.post(op, Local::Guarded(BufferGuard::Nothing)).expect("there is room");
            drop(sent.await);
        }));
        [from, to]
    }
}

#[test]
fn a_receiver_without_a_buffer_is_told_though_the_message_comes_in_the_end() {
    assert_eq!(broken(Sends { is_ready: false, ..SENDS }).as_deref(), Some("standing"));
    assert_eq!(broken(SENDS), None);
}

/// Once the message has arrived, nothing else tells the two orders apart, and the one in which it arrives at once comes first.
#[test]
fn what_follows_on_a_message_sent_again_is_explored_though_its_state_is_known_without() {
    let sends = |sleeps| Sends { is_ready: false, is_second: true, sleeps };
    let cached = Options { reduction: Reduction::Cache, ..Options::default() };
    assert_eq!(broken_by(sends(false), &cached).as_deref(), Some("standing"));
    let merged = Options { reduction: Reduction::Dpor, faults: 1, ..Options::default() };
    assert_eq!(broken_by(sends(true), &merged).as_deref(), Some("standing"));
}

/// The first node has something to do, after a while.
struct Dawdles {
    needs_no_time: bool,
}

impl Model for Dawdles {
    type State = Rc<Cell<bool>>;
    type Oracles = ();

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn meeting(&self) -> Meeting {
        Meeting::Unmet
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::NONE
    }

    fn oracles(&self) {}

    fn needs_no_time(&self) -> bool {
        self.needs_no_time
    }

    fn is_open(&self, state: Option<&Rc<Cell<bool>>>, _: &Recorder<()>) -> bool {
        state.is_some_and(|is_done| !is_done.get())
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Rc<Cell<bool>> {
        let is_done = Rc::<Cell<bool>>::default();
        let (rt, done) = (members[0].rt.clone(), Rc::clone(&is_done));
        drop(members[0].rt.spawn(async move {
            rt.sleep(Nanos::from_millis(1)).await;
            done.set(true);
        }));
        is_done
    }
}

#[test]
fn who_waits_for_a_timer_is_told_where_no_time_is_needed() {
    assert_eq!(broken(Dawdles { needs_no_time: true }).as_deref(), Some("no wait for time"));
    assert_eq!(broken(Dawdles { needs_no_time: false }), None);
}

/// The first node writes into the second one's memory.
struct Writes {
    looks: bool,
}

impl Model for Writes {
    /// The memory.
    type State = SimMr;
    type Oracles = ();

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) {}

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> SimMr {
        let (near, far) = (members[0].mesh.clone(), members[1].mesh.me());
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let memory = members[1].mesh.alloc(8, access).expect("eight bytes");
        let (at, looks) = (memory.remote(0..8).expect("all of it"), self.looks);
        drop(members[0].rt.spawn(async move {
            let mut write = pin!(near.write(far, at, &[7; 8]));
            if looks {
                write.await.expect("no fault");
            } else {
                assert!(polled(write.as_mut()).await.is_pending());
                pending::<()>().await;
            }
        }));
        memory
    }
}

#[test]
fn an_operation_whose_end_nobody_looks_at_is_left_over_though_its_model_judges_nothing() {
    assert_eq!(broken(Writes { looks: false }).as_deref(), Some("no leaks"));
    assert_eq!(broken(Writes { looks: true }), None);
}

/// A task of the second node looks again and again for what another one is told.
struct Polls {
    sleeps: bool,
}

impl Model for Polls {
    type State = ();
    type Oracles = ();

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) {}

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) {
        const CHANNEL: Channel = Channel(1);
        let [near, far] = members else { unreachable!("the shape has two nodes") };
        near.mesh.send(far.mesh.me(), CHANNEL, &[]).expect("there is room");
        let mut inbox = far.mesh.open(CHANNEL).expect("nobody else opens it");
        let (told, rt, sleeps) = (Rc::<Cell<bool>>::default(), far.rt.clone(), self.sleeps);
        let tells = Rc::clone(&told);
        drop(far.rt.spawn(async move {
            tells.set(matches!(inbox.recv().await, Some(Incoming::Message(_))));
        }));
        drop(far.rt.spawn(async move {
            while !told.get() {
                match sleeps {
                    true => rt.sleep(Nanos::from_micros(1)).await,
                    false => rt.yield_now().await,
                }
            }
        }));
    }
}

#[test]
fn who_looks_again_and_again_comes_to_an_end_by_sleeping_in_between() {
    assert_eq!(broken(Polls { sleeps: true }), None);
    assert_eq!(broken(Polls { sleeps: false }).as_deref(), Some("possible livelock"));
}
