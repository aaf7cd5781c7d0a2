//! Nodes that take completions one by one.

use super::*;

/// A node that takes completions one by one, with three of them queued.
fn one_by_one(wait: Wait) -> Bench {
    let mut bench = Bench::with(RtConfig { wait, one_by_one: true, ..RtConfig::default() });
    let queue = bench.queue(64, 4);
    assert_eq!(bench.settle(), until(wait, None));
    for _ in 0..3 {
        drop(queue.post(SEND, nothing()).expect("room"));
    }
    for i in 0..3 {
        bench.complete(i, Ok(WcOp::Send));
    }
    bench
}

#[test]
fn one_by_one_a_step_takes_one_completion_and_waits_as_if_there_were_no_other() {
    let mut bench = one_by_one(Wait::Poll);
    for left in [2, 1, 0, 0] {
        assert_eq!(bench.program.step(), until(Wait::Poll, None));
        assert_eq!(bench.world().cqs[0].len(), left);
    }
}

#[test]
fn one_by_one_a_ready_task_comes_before_any_completion() {
    let mut bench = one_by_one(Wait::Poll);
    bench.rt.spawn(async {});
    assert_eq!(bench.program.step(), until(Wait::Poll, None));
    assert_eq!(bench.world().cqs[0].len(), 3);
}

#[test]
fn one_by_one_a_node_sleeps_only_after_an_empty_poll_that_follows_the_arming() {
    let mut bench = one_by_one(Wait::Notify);
    while bench.program.step() == Park::Again {}
    assert!(bench.world().cqs[0].is_empty() && bench.world().armed[0]);
}

#[test]
fn one_by_one_a_step_takes_one_event_and_no_completion_beside_it() {
    let mut bench = one_by_one(Wait::Poll);
    let mut events = bench.rt.async_events();
    bench.world().async_events.extend([AsyncEvent::PortError(1), AsyncEvent::PortActive(1)]);
    for (events, completions) in [(1, 3), (0, 3), (0, 2)] {
        assert_eq!(bench.program.step(), until(Wait::Poll, None));
        let left = bench.world().async_events.len();
        assert_eq!((left, bench.world().cqs[0].len()), (events, completions));
    }
    assert!(events.try_recv().is_some() && events.try_recv().is_some());
}

#[test]
fn one_by_one_a_ready_task_comes_before_any_event() {
    let mut bench = one_by_one(Wait::Poll);
    bench.world().async_events.push_back(AsyncEvent::PortError(1));
    bench.rt.spawn(async {});
    assert_eq!(bench.program.step(), until(Wait::Poll, None));
    assert_eq!(bench.world().async_events.len(), 1);
}
