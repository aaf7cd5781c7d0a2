//! The runtime's promises, on a device that completes what the test says.

use super::fake::{Fake, V, World};
use super::sync::{mailbox, oneshot};
use super::*;
use std::cell::{RefCell, RefMut};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use weft_verbs::{AccessFlags, CmId, Modify, Node, Park, QueuePair, SendOp, WcError, WcOp};

mod events;
mod fingerprints;
mod one_by_one;
mod pool;
mod requests;
mod resting;
mod wait_points;
mod watchers;

struct Bench {
    fake: Fake,
    rt: Rt<V>,
    program: Program<V>,
}

impl Bench {
    fn new(wait: Wait) -> Bench {
        Bench::with(RtConfig { wait, ..RtConfig::default() })
    }

    fn with(config: RtConfig) -> Bench {
        let fake = Fake::default();
        let rt = Rt::new(&fake, config).expect("the fake device obeys");
        Bench { program: rt.program(), rt, fake }
    }

    fn world(&self) -> RefMut<'_, World> {
        self.fake.world.borrow_mut()
    }

    fn queue(&self, sends: u32, receives: u32) -> QpHandle<V> {
        let caps = QpCaps { max_send_wr: sends, max_recv_wr: receives, ..QpCaps::default() };
        self.rt.create_qp(&self.fake, caps).expect("the fake device obeys")
    }

    /// Steps until the node waits.
    fn settle(&mut self) -> Park {
        for _ in 0..100 {
            let park = self.program.step();
            if park != Park::Again {
                return park;
            }
        }
        panic!("the node never waits");
    }

    fn complete(&self, post: usize, result: Result<WcOp, WcError>) {
        let id = self.world().sends[post].0;
        self.world().complete(id, result);
    }
}

const SEND: SendOp<'static, V> = SendOp::Send { imm: None };

fn nothing() -> Local<'static, V> {
    Local::Guarded(BufferGuard::Nothing)
}

fn until(style: Wait, deadline: Option<u64>) -> Park {
    Park::Until { style, deadline: deadline.map(Nanos) }
}

#[test]
fn a_node_with_nothing_to_do_waits_for_ever() {
    for wait in [Wait::Poll, Wait::Notify] {
        assert_eq!(Bench::new(wait).settle(), until(wait, None));
    }
}

#[test]
fn arming_is_preceded_by_a_step_in_which_the_world_moves_and_followed_by_a_poll() {
    let mut bench = Bench::new(Wait::Notify);
    let queue = bench.queue(4, 4);
    let rt = bench.rt.clone();
    let done = rt.spawn(async move {
        let pending = queue.post(SEND, nothing()).expect("room");
        pending.await.0.is_ok()
    });
    assert_eq!(bench.program.step(), Park::Again);
    assert!(!bench.world().armed[0], "not armed in the step of the empty poll");
    // The completion falls into the gap: no event will tell of it.
    bench.complete(0, Ok(WcOp::Send));
    assert!(bench.world().channel.is_empty());
    let _ = bench.program.step();
    assert!(done.is_finished(), "the poll after arming found it");
}

#[test]
fn a_completion_of_an_armed_queue_wakes_and_it_is_armed_again() {
    let mut bench = Bench::new(Wait::Notify);
    let queue = bench.queue(4, 4);
    let sink = CompletionSink::new();
    queue.post_recv(&sink, 7, BufferGuard::Nothing).expect("room");
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert!(bench.world().armed[0]);
    let id = bench.world().receives[0].0;
    bench.world().complete(id, Ok(WcOp::Recv));
    assert_eq!((bench.world().channel.len(), sink.is_empty()), (1, true));
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert!(!sink.is_empty());
    assert_eq!(sink.take().map(|c| (c.tag, c.outcome.is_ok())), Some((7, true)));
    assert!(sink.is_empty());
    assert!(bench.world().armed[0]);
}

/// What its tasks did may have taken a while: it sleeps after a poll that follows them.
#[test]
fn a_notified_node_looks_once_more_after_its_tasks_have_run() {
    let mut bench = Bench::new(Wait::Notify);
    let queue = bench.queue(4, 4);
    bench.settle();
    for (task_waits, polls) in [(false, 1), (true, 2)] {
        let pending = queue.post(SEND, nothing()).expect("room");
        if task_waits {
            bench.rt.spawn(pending);
        } else {
            drop(pending);
        }
        bench.settle();
        let last = bench.world().sends.len() - 1;
        let before = bench.world().polls;
        bench.complete(last, Ok(WcOp::Send));
        bench.program.step();
        assert_eq!(bench.world().polls - before, polls);
        bench.settle();
    }
}

/// What comes soon is taken without an interrupt, and a node for which nothing comes sleeps.
#[test]
fn a_notified_node_spins_for_a_while_after_each_completion_and_then_arms_and_sleeps() {
    let mut bench = Bench::with(RtConfig { spin: Nanos(10), ..RtConfig::default() });
    let queue = bench.queue(4, 4);
    assert_eq!(bench.settle(), until(Wait::Poll, Some(10)));
    drop(queue.post(SEND, nothing()).expect("room"));
    bench.world().now = Nanos(4);
    bench.complete(0, Ok(WcOp::Send));
    assert_eq!(bench.settle(), until(Wait::Poll, Some(14)), "it begins anew");
    assert!(!bench.world().armed[0]);
    let sleeper = bench.rt.clone();
    let _sleeps = bench.rt.spawn(async move { sleeper.sleep(Nanos(6)).await });
    assert_eq!(bench.settle(), until(Wait::Poll, Some(10)), "it is woken for a timer");
    bench.world().now = Nanos(10);
    assert_eq!(bench.settle(), until(Wait::Poll, Some(14)), "and goes on as it was");
    bench.world().now = Nanos(14);
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert!(bench.world().armed[0]);
}

#[test]
fn a_driver_may_arm_what_the_program_has_not_armed() {
    let bench = Bench::new(Wait::Notify);
    let _queue = bench.queue(4, 4);
    assert!(!bench.world().armed[0]);
    bench.rt.arm().expect("the fake device obeys");
    assert!(bench.world().armed[0]);
}

#[test]
fn an_armed_queue_is_not_armed_again_for_a_timer() {
    let mut bench = Bench::new(Wait::Notify);
    let _queue = bench.queue(4, 4);
    let rt = bench.rt.clone();
    let sleeper = bench.rt.clone();
    let done = rt.spawn(async move { sleeper.sleep(Nanos(10)).await });
    assert_eq!(bench.settle(), until(Wait::Notify, Some(10)));
    bench.world().now = Nanos(10);
    assert_eq!(bench.program.step(), until(Wait::Notify, None), "no further step in between");
    assert!(done.is_finished());
}

#[test]
fn a_polling_node_parks_after_one_round_and_never_arms() {
    let mut bench = Bench::new(Wait::Poll);
    let _queue = bench.queue(4, 4);
    assert_eq!(bench.program.step(), until(Wait::Poll, None));
    assert_eq!(bench.world().polls, 1);
    assert!(!bench.world().armed[0]);
}

#[test]
fn every_completion_is_taken_before_the_node_waits() {
    let config = RtConfig { wait: Wait::Poll, poll_batch: 2, ..RtConfig::default() };
    let mut bench = Bench::with(config);
    let queue = bench.queue(64, 4);
    for _ in 0..5 {
        queue.post_quiet(SEND, nothing()).expect("room");
    }
    let last = queue.post(SEND, nothing()).expect("room");
    for i in 0..6 {
        bench.complete(i, Ok(WcOp::Send));
    }
    assert_eq!(bench.program.step(), until(Wait::Poll, None));
    assert!(bench.world().cqs[0].is_empty());
    drop(last);
    assert_eq!(bench.rt.audit().slots, 0);
}

#[test]
fn a_step_ends_though_a_task_never_rests() {
    let mut bench = Bench::new(Wait::Poll);
    let _queue = bench.queue(4, 4);
    bench.rt.spawn(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    assert_eq!(bench.program.step(), Park::Again);
    assert_eq!(bench.world().polls, RtConfig::default().max_rounds);
}

#[test]
fn a_yield_lets_the_world_move() {
    let mut bench = Bench::new(Wait::Poll);
    let rt = bench.rt.clone();
    let task = bench.rt.spawn(async move { rt.yield_now().await });
    assert_eq!(bench.program.step(), Park::Again);
    assert!(!task.is_finished());
    assert_eq!(bench.program.step(), until(Wait::Poll, None));
    assert!(task.is_finished());
}

#[test]
fn work_that_can_wait_is_done_after_all_other_work_and_before_the_node_rests() {
    for wait in [Wait::Poll, Wait::Notify] {
        let mut bench = Bench::new(wait);
        let order = Rc::new(RefCell::new(Vec::new()));
        let (rt, book) = (bench.rt.clone(), Rc::clone(&order));
        let idler = async move {
            poll_fn(|cx| rt.poll_idle(cx)).await;
            book.borrow_mut().push("idle");
        };
        bench.rt.spawn(idler);
        // A chain of tasks, each woken by the one before it: a round for each.
        let (rt, book) = (bench.rt.clone(), Rc::clone(&order));
        bench.rt.spawn(async move {
            let next = Rc::clone(&book);
            let second = rt.spawn(async move { next.borrow_mut().push("second") });
            book.borrow_mut().push("first");
            second.await;
            book.borrow_mut().push("third");
        });
        bench.program.step();
        assert_eq!(*order.borrow(), ["first", "second", "third", "idle"], "{wait:?}");
    }
}

#[test]
fn work_that_can_wait_is_done_on_a_node_that_always_has_something_to_do() {
    let mut bench = Bench::new(Wait::Poll);
    // Its completion queue holds more than 16 steps take.
    let _queue = bench.queue(40_000, 4);
    bench.rt.spawn(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let wait = |rt: Rt<V>| rt.clone().spawn(async move { poll_fn(|cx| rt.poll_idle(cx)).await });
    let first = wait(bench.rt.clone());
    let rt = bench.rt.clone();
    let looked = rt.clone().spawn(async move { rt.idle().await });
    let ended = |bench: &mut Bench, steps| {
        (0..steps).for_each(|_| assert_eq!(bench.program.step(), Park::Again));
        (first.is_finished(), looked.is_finished())
    };
    let steps = 40_000_u32.div_ceil(RtConfig::default().max_rounds * RtConfig::default().poll_batch as u32);
    assert_eq!(ended(&mut bench, steps), (false, false));
    assert_eq!(ended(&mut bench, 1), (true, false), "the other one has let one step go by first");
    assert_eq!(ended(&mut bench, 1), (true, true));
}

#[test]
fn a_deadline_drops_what_comes_too_late_and_keeps_what_comes_in_time() {
    let mut bench = Bench::new(Wait::Poll);
    let rt = bench.rt.clone();
    let late = bench.rt.spawn(async move { rt.deadline(Nanos(5), pending::<()>()).await });
    let rt = bench.rt.clone();
    let (sender, receiver) = oneshot::<u8>();
    let early = bench.rt.spawn(async move { rt.deadline(Nanos(5), receiver).await });
    assert_eq!(bench.settle(), until(Wait::Poll, Some(5)));
    assert_eq!(sender.send(3), Ok(()));
    bench.world().now = Nanos(5);
    assert_eq!(bench.settle(), until(Wait::Poll, None));
    let results = bench.rt.spawn(async move { (late.await, early.await) });
    bench.settle();
    assert!(results.is_finished());
    let (send, mut get) = mailbox();
    bench.rt.spawn(async move { send.send(results.await).map_err(drop) });
    bench.settle();
    assert_eq!(get.try_recv(), Some(Some((Some(Err(Elapsed)), Some(Ok(Ok(3)))))));
    assert_eq!(bench.rt.audit().timers, 0, "no timer outlives its deadline's future");
}

#[test]
fn a_deadline_that_was_met_leaves_no_timer() {
    let mut bench = Bench::new(Wait::Poll);
    let rt = bench.rt.clone();
    let (sender, receiver) = oneshot::<u8>();
    let task = bench.rt.spawn(async move { rt.deadline(Nanos(5), receiver).await });
    assert_eq!(bench.settle(), until(Wait::Poll, Some(5)));
    assert_eq!(sender.send(3), Ok(()));
    assert_eq!(bench.settle(), until(Wait::Poll, None));
    assert!(task.is_finished());
}

#[test]
fn never_never_comes() {
    let mut bench = Bench::new(Wait::Poll);
    let rt = bench.rt.clone();
    bench.rt.spawn(async move { rt.sleep(Nanos::MAX).await });
    assert_eq!(bench.settle(), until(Wait::Poll, None));
    assert_eq!(bench.rt.audit().tasks, 1);
}

#[test]
fn shutting_down_ends_everything_and_the_program() {
    let mut bench = Bench::new(Wait::Notify);
    let queue = bench.queue(8, 4);
    let rt = bench.rt.clone();
    bench.rt.spawn(async move {
        let _held = queue.post(SEND, nothing());
        rt.sleep(Nanos(5)).await;
        drop(queue);
    });
    bench.settle();
    assert_eq!(bench.rt.audit().tasks, 1);
    bench.rt.shutdown();
    assert!(bench.rt.is_closed());
    assert_eq!(bench.rt.audit(), RtAudit::default());
    assert_eq!(bench.world().qps_destroyed.len(), 1);
    assert_eq!(bench.program.step(), Park::Done);
    bench.world().armed.fill(false);
    assert_eq!((bench.rt.arm(), bench.world().armed[0]), (Ok(()), false), "its completion queues are gone");
}

#[test]
fn what_was_posted_when_the_node_ended_gives_its_memory_back_and_is_told_to_no_sink() {
    let bench = Bench::new(Wait::Poll);
    let (queue, sink) = (bench.queue(8, 4), CompletionSink::new());
    let pool = BufferPool::<V>::new(&bench.fake, 8, 4, AccessFlags::LOCAL_WRITE);
    let guard = || BufferGuard::Block { block: pool.alloc().expect("room"), len: 8 };
    queue.post_recv(&sink, 9, guard()).expect("room");
    queue.post_to(&sink, 8, SEND, Local::Guarded(guard())).expect("room");
    queue.post_quiet(SEND, Local::Guarded(guard())).expect("room");
    let pending = queue.post(SEND, Local::Guarded(guard())).expect("room");
    bench.rt.shutdown();
    assert_eq!(pool.in_use(), 4, "the adapter may still write there");
    drop(queue);
    assert_eq!((pool.in_use(), bench.rt.audit().slots, sink.is_empty()), (1, 1, true));
    drop(pending);
    assert_eq!((pool.in_use(), bench.rt.audit()), (0, RtAudit::default()));
}

#[test]
fn a_device_that_is_gone_ends_the_node() {
    let mut bench = Bench::new(Wait::Poll);
    let _queue = bench.queue(8, 4);
    bench.world().refuse_polls = true;
    assert_eq!(bench.program.step(), Park::Done);
    assert_eq!(bench.rt.fatal(), Some(VerbsError::DeviceGone));
}

#[test]
fn a_task_that_shuts_the_node_down_ends_the_step() {
    let mut bench = Bench::new(Wait::Poll);
    let rt = bench.rt.clone();
    bench.rt.spawn(async move { rt.shutdown() });
    assert_eq!(bench.program.step(), Park::Done);
    assert_eq!(bench.rt.fatal(), None);
}

#[test]
fn a_configuration_in_which_nothing_could_run_is_refused() {
    let fake = Fake::default();
    for (what, config) in [
        ("cqe", RtConfig { cqe: 0, ..RtConfig::default() }),
        ("poll_batch", RtConfig { poll_batch: 0, ..RtConfig::default() }),
        ("max_rounds", RtConfig { max_rounds: 0, ..RtConfig::default() }),
    ] {
        assert_eq!(Rt::<V>::new(&fake, config).err(), Some(RtError::Zero(what)));
    }
}

#[test]
fn time_chance_and_work_are_the_hosts() {
    let mut bench = Bench::new(Wait::Poll);
    assert_eq!((bench.rt.now(), bench.rt.random()), (Nanos(0), 4));
    bench.rt.spend(weft_verbs::Work::Compute(Nanos(30)));
    assert_eq!(bench.rt.now(), Nanos(30));
    let sleeper = bench.rt.clone();
    bench.rt.spawn(async move { sleeper.sleep(Nanos(12)).await });
    assert_eq!(bench.settle(), until(Wait::Poll, Some(42)));
}

#[test]
fn the_queue_pair_is_the_callers_to_modify() {
    let bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    assert_eq!(queue.num(), weft_verbs::QpNum(1));
    assert!(queue.qp().modify(&Modify::Err).is_ok());
    assert_eq!(bench.world().modified, [queue.num()]);
}
