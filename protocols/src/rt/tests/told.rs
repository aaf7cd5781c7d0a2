//! What explorers are told that tasks know: where they rest and what they still need there, and whether that is all.

use super::super::content::Digest;
use super::*;
use std::hash::Hash;

/// What a runtime tells now, if it can.
fn now(rt: &Rt<V>) -> Option<u128> {
    let mut digest = Digest::default();
    rt.content(&mut digest).then(|| digest.whole())
}

/// A node to which an explorer listens, with tasks that have run until all of them wait.
fn node(start: impl FnOnce(&Rt<V>)) -> Bench {
    let mut bench = Bench::new(Wait::Poll);
    bench.rt.tell_content();
    start(&bench.rt);
    bench.settle();
    bench
}

fn told(start: impl FnOnce(&Rt<V>)) -> Option<u128> {
    now(&node(start).rt)
}

/// Rests for good in a function that knows something.
async fn rests_within(rt: &Rt<V>, what: impl Hash) {
    let frame = rt.frame();
    frame.knows(what);
    let _rest = rt.rest();
    pending::<()>().await;
}

/// A task that rests for good, and knows something.
fn rests(rt: &Rt<V>, what: impl Hash + 'static) {
    let own = rt.clone();
    rt.spawn(async move { rests_within(&own, what).await });
}

#[test]
fn a_task_is_known_by_what_each_of_its_functions_says_in_their_order() {
    let nested = |outer: u32, inner: u32| {
        told(|rt| {
            let own = rt.clone();
            rt.spawn(async move {
                let frame = own.frame();
                frame.knows("forgotten when it says something else");
                frame.knows(outer);
                rests_within(&own, inner).await;
            });
        })
    };
    let all = [(1, 2), (2, 1), (1, 1), (2, 2)].map(|(outer, inner)| nested(outer, inner));
    for (i, one) in all.iter().enumerate() {
        assert!(one.is_some() && !all[..i].contains(one), "{all:x?}");
    }
    assert_eq!(nested(1, 2), all[0]);
    assert_ne!(told(|rt| rests(rt, 1u32)), told(|rt| rests(rt, 2u32)));
}

#[test]
fn a_function_that_has_returned_says_nothing_any_more() {
    let plain = told(|rt| rests(rt, 1u32));
    let after_another = told(|rt| {
        let own = rt.clone();
        rt.spawn(async move {
            let called = async {
                let frame = own.frame();
                frame.knows("gone");
                let _rest = own.rest();
                own.yield_now().await;
            };
            called.await;
            rests_within(&own, 1u32).await;
        });
    });
    assert_eq!(after_another, plain);
}

#[test]
fn tasks_are_told_in_no_order_and_as_many_as_know_something() {
    let all = |known: &[u32]| told(|rt| known.iter().for_each(|&what| rests(rt, what)));
    assert_eq!(all(&[1, 2]), all(&[2, 1]));
    let different: [&[u32]; 6] = [&[], &[1], &[1, 1], &[2, 2], &[1, 2], &[1, 1, 1]];
    let different = different.map(all);
    for (i, one) in different.iter().enumerate() {
        assert!(one.is_some() && !different[..i].contains(one), "{different:x?}");
    }
    // Which of those that wait for work gets it, and how many there are, is all the same.
    let waits = |rt: &Rt<V>| {
        let own = rt.clone();
        rt.spawn(async move {
            let _rest = own.rest();
            pending::<()>().await;
        });
    };
    let with_idle = |idle| {
        told(|rt| {
            (0..idle).for_each(|_| waits(rt));
            rests(rt, 1u32);
        })
    };
    assert_eq!((with_idle(1), with_idle(3)), (different[1], different[1]));
}

#[test]
fn a_task_that_has_ended_is_nobody() {
    let plain = told(|rt| rests(rt, 1u32));
    let beside_others = told(|rt| {
        drop(rt.spawn(async {}));
        rests(rt, 1u32);
        drop(rt.spawn(async {}));
    });
    assert!(plain.is_some() && beside_others == plain);
}

#[test]
fn of_a_task_that_waits_without_a_rest_nothing_is_assumed() {
    let waiting = |frame: bool, rest: bool, then: bool| {
        told(|rt| {
            rests(rt, 1u32);
            let own = rt.clone();
            rt.spawn(async move {
                let around = frame.then(|| own.frame());
                if let Some(frame) = &around {
                    frame.knows(7u32);
                }
                let resting = rest.then(|| own.rest());
                if then {
                    // Within the rest, something more is known: then it was none.
                    rests_within(&own, 8u32).await;
                }
                pending::<()>().await;
                drop(resting);
            });
        })
    };
    assert_eq!((waiting(false, false, false), waiting(true, false, false)), (None, None));
    assert_eq!(waiting(true, true, true), None);
    assert!(waiting(true, true, false).is_some() && waiting(false, true, false).is_some());
}

#[test]
fn a_future_written_by_hand_says_at_once_what_it_knows_and_that_it_rests() {
    let says = |what: Vec<Option<u32>>| {
        told(|rt| {
            let own = rt.clone();
            rt.spawn(poll_fn(move |_| {
                what.iter().for_each(|&what| own.notes().set(what));
                Poll::<()>::Pending
            }));
        })
    };
    assert_eq!(says(vec![Some(1)]), told(|rt| rests(rt, 1u32)));
    assert_eq!(says(vec![Some(2), None, Some(1)]), says(vec![Some(1)]), "the last word counts");
    assert_ne!(says(vec![Some(2)]), says(vec![Some(1)]));
    assert_eq!(says(vec![Some(1), None]), None);
}

#[test]
fn nothing_is_told_that_nobody_asked_for() {
    let mut bench = Bench::new(Wait::Poll);
    rests(&bench.rt, 1u32);
    let own = bench.rt.clone();
    bench.rt.spawn(poll_fn(move |_| {
        own.notes().set(Some(1u32));
        Poll::<()>::Pending
    }));
    bench.settle();
    assert_eq!(now(&bench.rt), None);
}

#[test]
fn a_node_with_something_to_do_or_to_wait_for_cannot_be_told() {
    let quiet = node(|rt| rests(rt, 1u32));
    assert!(now(&quiet.rt).is_some());
    quiet.rt.spawn(async {});
    assert_eq!(now(&quiet.rt), None, "a task is ready");
    let sleeping = told(|rt| {
        let own = rt.clone();
        rt.spawn(async move {
            let _rest = own.rest();
            own.sleep(Nanos(10)).await;
        });
    });
    assert_eq!(sleeping, None, "a task waits for a time");
    let yielding = |tasks| {
        let mut bench = Bench::new(Wait::Poll);
        bench.rt.tell_content();
        for _ in 0..tasks {
            let own = bench.rt.clone();
            bench.rt.spawn(async move {
                let _rest = own.rest();
                own.yield_now().await;
                pending::<()>().await;
            });
        }
        assert_eq!(bench.program.step() == Park::Again, tasks > 0);
        now(&bench.rt)
    };
    let one = yielding(1);
    assert!(one.is_some() && one != yielding(0), "who goes on with the next step is known");
    assert_eq!(yielding(2), None, "of two it is not known who comes first");
    let idle = node(|_| {});
    idle.rt.inner.executor.wake_when_idle(std::task::Waker::noop());
    assert_eq!(now(&idle.rt), None, "a task waits for the others to rest");
}

#[test]
fn a_runtime_is_known_by_its_completion_queues_and_by_how_far_it_is_with_arming() {
    let mut bench = Bench::new(Wait::Notify);
    bench.rt.tell_content();
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
        bench.rt.tell_content();
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
    driven.rt.tell_content();
    let _queue = driven.queue(4, 4);
    let before = now(&driven.rt);
    driven.rt.arm().expect("the fake device obeys");
    assert_ne!(now(&driven.rt), before, "a completion would raise an event");
}
