//! What explorers are told that tasks know: where they wait and what they still need there, and whether that is all.

use super::super::fingerprint::StateHasher;
use super::*;
use std::hash::Hash;
use std::pin::pin;

/// What a runtime tells now, if it can.
fn now(rt: &Rt<V>) -> Option<u128> {
    let mut digest = StateHasher::default();
    rt.fingerprint(&mut digest).then(|| digest.whole())
}

/// A node to which an explorer listens, with tasks that have run until all of them wait.
fn node(start: impl FnOnce(&Rt<V>)) -> Bench {
    let mut bench = Bench::new(Wait::Poll);
    bench.rt.note_waits();
    start(&bench.rt);
    bench.settle();
    bench
}

fn told(start: impl FnOnce(&Rt<V>)) -> Option<u128> {
    now(&node(start).rt)
}

/// Waits for good, for something that is told elsewhere.
async fn ever() {
    let (_sender, answer) = oneshot::<()>();
    let _ = answer.at(()).await;
}

/// A task that waits for good, and knows something.
fn waits(rt: &Rt<V>, what: impl Hash + 'static) {
    rt.spawn(async move { ever().at(what).await });
}

fn differ(all: &[Option<u128>]) {
    for (i, one) in all.iter().enumerate() {
        assert!(one.is_some() && !all[..i].contains(one), "{i}: {all:x?}");
    }
}

#[test]
fn a_task_is_known_by_what_each_of_its_functions_says_in_their_order() {
    let nested = |outer: u32, inner: u32| {
        told(|rt| {
            let own = rt.clone();
            rt.spawn(async move {
                own.yield_now().at("forgotten when it says something else").await;
                async { ever().at(inner).await }.at(outer).await;
            });
        })
    };
    let all = [(1, 2), (2, 1), (1, 1), (2, 2)].map(|(outer, inner)| nested(outer, inner));
    differ(&all);
    assert_eq!(nested(1, 2), all[0]);
    differ(&[told(|rt| waits(rt, 1u32)), told(|rt| waits(rt, 2u32))]);
}

#[test]
fn a_function_that_has_returned_says_nothing_any_more() {
    let plain = told(|rt| waits(rt, 1u32));
    let after_another = told(|rt| {
        let own = rt.clone();
        rt.spawn(async move {
            async { own.yield_now().at("gone").await }.at("gone, too").await;
            std::future::ready(()).at("never waited").await;
            ever().at(1u32).await;
        });
    });
    assert_eq!(after_another, plain);
}

#[test]
fn tasks_are_told_in_no_order_and_as_many_as_know_something() {
    let all = |known: &[u32]| told(|rt| known.iter().for_each(|&what| waits(rt, what)));
    assert_eq!(all(&[1, 2]), all(&[2, 1]));
    let different: [&[u32]; 6] = [&[], &[1], &[1, 1], &[2, 2], &[1, 2], &[1, 1, 1]];
    let different = different.map(all);
    differ(&different);
    // It makes no difference which of those that wait for work gets it, and how many there are.
    let with_idle = |idle| {
        told(|rt| {
            (0..idle).for_each(|_| waits(rt, ()));
            waits(rt, 1u32);
        })
    };
    assert_eq!((with_idle(1), with_idle(3)), (different[1], different[1]));
}

#[test]
fn a_task_that_has_ended_is_nobody() {
    let plain = told(|rt| waits(rt, 1u32));
    let beside_others = told(|rt| {
        drop(rt.spawn(async {}));
        waits(rt, 1u32);
        drop(rt.spawn(async {}));
    });
    assert!(plain.is_some() && beside_others == plain);
}

/// Whether a node can be told beside whose tasks there is another one, and how many of them say nothing.
fn beside(start: impl FnOnce(&Rt<V>)) -> (bool, usize) {
    let bench = node(|rt| {
        waits(rt, 1u32);
        start(rt);
    });
    (now(&bench.rt).is_some(), bench.rt.silent_tasks())
}

#[test]
fn of_a_task_that_says_nothing_nothing_is_assumed_and_it_is_counted() {
    let (_sender, answer) = oneshot::<()>();
    let silent = beside(|rt| drop(rt.spawn(answer)));
    assert_eq!(silent, (false, 1));
    assert_eq!(beside(|rt| waits(rt, 7u32)), (true, 0));
    let ready = node(|rt| waits(rt, 1u32));
    ready.rt.spawn(async {});
    assert_eq!(ready.rt.silent_tasks(), 0, "it does not wait");
}

#[test]
fn a_task_that_waits_for_what_nobody_tells_or_for_two_things_cannot_be_told() {
    let unknown = beside(|rt| drop(rt.spawn(async { pending::<()>().at(7u32).await })));
    assert_eq!(unknown, (false, 0));
    let two = beside(|rt| {
        rt.spawn(async {
            let (mut one, mut other) = (pin!(ever().at(7u32)), pin!(ever().at(8u32)));
            poll_fn(|cx| {
                let _ = (one.as_mut().poll(cx), other.as_mut().poll(cx));
                Poll::<()>::Pending
            })
            .await;
        });
    });
    assert_eq!(two, (false, 0));
}

/// A state machine written by hand, which is polled once for each thing that it says.
fn says(what: &'static [Option<u32>]) -> Option<u128> {
    let mut bench = Bench::new(Wait::Poll);
    bench.rt.note_waits();
    let (wakers, mut rest) = (Rc::new(RefCell::new(Vec::new())), what.iter().copied());
    let own = Rc::clone(&wakers);
    bench.rt.spawn(poll_fn(move |cx| {
        own.borrow_mut().push(cx.waker().clone());
        if let Some(knows) = rest.next().flatten() {
            leaf_at(knows);
        }
        Poll::<()>::Pending
    }));
    for _ in what {
        bench.settle();
        let now = now(&bench.rt);
        if wakers.borrow().len() == what.len() {
            return now;
        }
        wakers.borrow()[0].wake_by_ref();
    }
    None
}

#[test]
fn a_state_machine_written_by_hand_says_what_it_knows_each_time() {
    let plain = says(&[Some(1)]);
    differ(&[plain, says(&[Some(2)])]);
    assert_eq!(says(&[Some(2), None, Some(1)]), plain, "the last word counts");
    assert_eq!(says(&[Some(1), None]), None);
}

#[test]
fn nothing_is_told_that_nobody_asked_for() {
    let mut bench = Bench::new(Wait::Poll);
    waits(&bench.rt, 1u32);
    bench.rt.spawn(poll_fn(|_| {
        leaf_at(1u32);
        Poll::<()>::Pending
    }));
    bench.settle();
    assert_eq!(now(&bench.rt), None);
}

#[test]
fn a_node_with_something_to_do_or_to_wait_for_cannot_be_told() {
    let quiet = node(|rt| waits(rt, 1u32));
    assert!(now(&quiet.rt).is_some());
    quiet.rt.spawn(async {});
    assert_eq!(now(&quiet.rt), None, "a task is ready");
    let sleeping = told(|rt| {
        let own = rt.clone();
        rt.spawn(async move { own.sleep(Nanos(10)).at(()).await });
    });
    assert_eq!(sleeping, None, "a task waits for a time");
    let yielding = |tasks| {
        let mut bench = Bench::new(Wait::Poll);
        bench.rt.note_waits();
        for _ in 0..tasks {
            let own = bench.rt.clone();
            bench.rt.spawn(async move {
                own.yield_now().at(()).await;
                pending::<()>().await;
            });
        }
        assert_eq!(bench.program.step() == Park::Again, tasks > 0);
        now(&bench.rt)
    };
    let one = yielding(1);
    assert!(one.is_some() && one != yielding(0), "it is known who goes on with the next step");
    assert_eq!(yielding(2), None, "it is not known which of two goes first");
    let idle = node(|_| {});
    idle.rt.inner.executor.wake_when_idle(std::task::Waker::noop());
    assert_eq!(now(&idle.rt), None, "a task waits for the others to rest");
}

#[test]
fn a_runtime_is_known_by_its_completion_queues_and_by_how_far_it_is_with_arming() {
    let mut bench = Bench::new(Wait::Notify);
    bench.rt.note_waits();
    let mut seen = vec![now(&bench.rt)];
    let mut look = |bench: &Bench, what: &str| {
        let now = now(&bench.rt);
        assert!(now.is_some() && !seen.contains(&now), "{what}");
        seen.push(now);
    };
    let queue = bench.queue(4, 4);
    look(&bench, "something is promised");
    let another = bench.queue(4, 4);
    look(&bench, "more is promised");
    assert!(!bench.program.is_about_to_arm());
    assert_eq!(bench.program.step(), Park::Again);
    assert!(bench.program.is_about_to_arm());
    look(&bench, "the next step arms");
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert!(!bench.program.is_about_to_arm());
    look(&bench, "armed, and found empty since");
    drop(another);
    look(&bench, "a promise ends with the next empty poll");
    bench.settle();
    look(&bench, "a promise has ended");
    drop(queue);
    bench.settle();
    look(&bench, "nothing is promised any more");
    bench.rt.shutdown();
    look(&bench, "it has ended");

    // Armed before it waits, and not looked at since: its next step looks, and does not sleep.
    let armed = |looked: bool| {
        let mut bench = Bench::with(RtConfig { one_by_one: true, ..RtConfig::default() });
        bench.rt.note_waits();
        let _queue = bench.queue(4, 4);
        assert_eq!(bench.program.step(), Park::Again);
        if !looked {
            // A task that is ready keeps the step from looking.
            bench.rt.spawn(async {});
        }
        bench.program.step();
        assert!(bench.world().armed[0] && !bench.program.is_about_to_arm());
        now(&bench.rt)
    };
    assert!(armed(true).is_some() && armed(true) == armed(true));
    assert_ne!(armed(true), armed(false));

    let driven = Bench::new(Wait::Notify);
    driven.rt.note_waits();
    let _queue = driven.queue(4, 4);
    let before = now(&driven.rt);
    driven.rt.arm().expect("the fake device obeys");
    assert_ne!(now(&driven.rt), before, "a completion would raise an event");
}
