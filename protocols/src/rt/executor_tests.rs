//! The executor's promises.

use super::*;
use crate::rt::sync::{Signal, oneshot};
use std::future::{pending, poll_fn};

type Trace = Rc<RefCell<Vec<u32>>>;

fn note(trace: &Trace, what: u32) {
    trace.borrow_mut().push(what);
}

fn run(executor: &Executor) {
    while executor.run_round(|_| {}) > 0 {}
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_woken() {
    let (executor, trace) = (Executor::default(), Trace::default());
    let signals: Vec<Signal> = (0..3).map(|_| Signal::new()).collect();
    for (i, signal) in signals.iter().enumerate() {
        let (signal, trace) = (signal.clone(), Rc::clone(&trace));
        executor.spawn(async move {
            note(&trace, i as u32);
            signal.changed().await;
            note(&trace, 10 + i as u32);
        });
    }
    run(&executor);
    for i in [2, 0, 1] {
        signals[i].notify();
    }
    run(&executor);
    assert_eq!(*trace.borrow(), [0, 1, 2, 12, 10, 11]);
    assert_eq!(executor.alive(), 0);
}

#[test]
fn a_task_that_is_woken_twice_runs_once() {
    let (executor, trace) = (Executor::default(), Trace::default());
    let (a, b) = (Signal::new(), Signal::new());
    let (a2, b2, seen) = (a.clone(), b.clone(), Rc::clone(&trace));
    executor.spawn(async move {
        let (mut a, mut b) = (a2.changed(), b2.changed());
        poll_fn(|cx| {
            note(&seen, 1);
            let both = [Pin::new(&mut a).poll(cx), Pin::new(&mut b).poll(cx)];
            if both.iter().all(Poll::is_ready) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    run(&executor);
    a.notify();
    b.notify();
    assert_eq!(executor.run_round(|_| {}), 1);
    assert_eq!(*trace.borrow(), [1, 1]);
    assert!(!executor.has_ready());
}

#[test]
fn what_a_task_wakes_waits_for_the_next_round() {
    let executor = Rc::new(Executor::default());
    let (spawner, trace) = (Rc::clone(&executor), Trace::default());
    let seen = Rc::clone(&trace);
    executor.spawn(async move {
        let inner = Rc::clone(&seen);
        spawner.spawn(async move { note(&inner, 2) });
        note(&seen, 1);
    });
    assert_eq!(executor.run_round(|_| {}), 1);
    assert_eq!(*trace.borrow(), [1]);
    assert!(executor.has_ready());
    assert_eq!(executor.run_round(|_| {}), 1);
    assert_eq!(*trace.borrow(), [1, 2]);
}

#[test]
fn a_task_keeps_its_number_and_no_other_gets_it() {
    let (executor, trace) = (Executor::default(), Trace::default());
    let signal = Signal::new();
    let waits = signal.clone();
    executor.spawn(async {});
    executor.spawn(async move { waits.changed().await });
    executor.run_round(|task| note(&trace, task));
    signal.notify();
    executor.spawn(async {});
    executor.run_round(|task| note(&trace, task));
    executor.run_round(|task| note(&trace, task));
    assert_eq!(*trace.borrow(), [1, 2, 0, 2, 3, 0], "0 after a round in which some ran");
}

#[test]
fn a_handle_awaits_the_tasks_result() {
    let executor = Executor::default();
    let (sender, receiver) = oneshot::<u32>();
    let task = executor.spawn(async move { receiver.await.unwrap_or(0) + 1 });
    let outer = executor.spawn(task);
    run(&executor);
    assert!(!outer.is_finished());
    assert_eq!(sender.send(41), Ok(()));
    run(&executor);
    assert!(outer.is_finished());
    let waker = Waker::noop();
    let mut outer = outer;
    let result = Pin::new(&mut outer).poll(&mut Context::from_waker(waker));
    assert_eq!(result, Poll::Ready(Some(Some(42))));
}

#[test]
fn closing_drops_every_task_and_tells_who_awaits_them() {
    let executor = Executor::default();
    let held = Rc::new(());
    let guard = Rc::clone(&held);
    let mut task = executor.spawn(async move {
        pending::<()>().await;
        drop(guard);
    });
    run(&executor);
    assert_eq!((executor.alive(), Rc::strong_count(&held)), (1, 2));
    executor.close();
    assert_eq!((executor.alive(), Rc::strong_count(&held)), (0, 1));
    let ended = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(ended, Poll::Ready(None));
    let late = executor.spawn(async {});
    assert!(late.is_finished() && !executor.has_ready() && executor.alive() == 0);
}

#[test]
fn a_task_may_close_the_executor_that_runs_it() {
    let executor = Rc::new(Executor::default());
    let closer = Rc::clone(&executor);
    let held = Rc::new(());
    let guard = Rc::clone(&held);
    executor.spawn(async move {
        closer.close();
        pending::<()>().await;
        drop(guard);
    });
    run(&executor);
    assert_eq!((executor.alive(), Rc::strong_count(&held)), (0, 1));
}

#[test]
fn a_late_waker_does_not_run_the_next_tenant_of_its_place() {
    let (executor, trace) = (Executor::default(), Trace::default());
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let keeper = Rc::clone(&kept);
    executor.spawn(poll_fn(move |cx| {
        *keeper.borrow_mut() = Some(cx.waker().clone());
        Poll::Ready(())
    }));
    run(&executor);
    let seen = Rc::clone(&trace);
    executor.spawn(poll_fn(move |_| {
        note(&seen, 1);
        Poll::<()>::Pending
    }));
    run(&executor);
    kept.take().expect("the first task left its waker").wake();
    run(&executor);
    assert_eq!(*trace.borrow(), [1]);
    assert_eq!(executor.alive(), 1);
}

#[test]
fn who_yields_waits_for_the_next_step() {
    let executor = Rc::new(Executor::default());
    let yielder = Rc::clone(&executor);
    let mut first = true;
    let task = executor.spawn(poll_fn(move |cx| {
        if std::mem::take(&mut first) {
            yielder.wake_next_step(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }));
    run(&executor);
    assert!(executor.has_yielded() && !executor.has_ready());
    executor.begin_step();
    assert!(!executor.has_yielded() && executor.has_ready());
    run(&executor);
    assert!(task.is_finished());
}
