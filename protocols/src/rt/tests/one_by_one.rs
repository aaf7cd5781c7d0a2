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

/// Two adapters of one node, each with a queue pair's completion.
fn two_rails(config: RtConfig) -> ([Fake; 2], Rt<V>) {
    let fakes = [Fake::default(), Fake::default()];
    let rt = Rt::over(&fakes, config).expect("the fake devices obey");
    for (rail, fake) in (0..).zip(&fakes) {
        let caps = QpCaps { max_send_wr: 4, max_recv_wr: 4, ..QpCaps::default() };
        let queue = rt.rail(rail).expect("there are two").create_qp(fake, caps).expect("the fake obeys");
        drop(queue.post(SEND, nothing()).expect("room"));
        let id = fake.world.borrow().sends[0].0;
        fake.world.borrow_mut().complete(id, Ok(WcOp::Send));
        std::mem::forget(queue);
    }
    (fakes, rt)
}

#[test]
fn one_by_one_a_step_takes_one_completion_of_all_rails() {
    let one = RtConfig { wait: Wait::Poll, one_by_one: true, ..RtConfig::default() };
    for (config, after_a_step) in [(one, [0, 1]), (RtConfig { wait: Wait::Poll, ..one_off(one) }, [0, 0])] {
        let (fakes, rt) = two_rails(config);
        let mut program = rt.program();
        program.step();
        assert_eq!(fakes.each_ref().map(|fake| fake.world.borrow().cqs[0].len()), after_a_step);
        program.step();
        assert_eq!(fakes.each_ref().map(|fake| fake.world.borrow().cqs[0].len()), [0, 0]);
    }
}

fn one_off(config: RtConfig) -> RtConfig {
    RtConfig { one_by_one: false, ..config }
}

#[test]
fn one_by_one_a_step_takes_one_event_of_all_rails_and_tells_whose_it_is() {
    let (fakes, rt) = two_rails(RtConfig { wait: Wait::Poll, one_by_one: true, ..RtConfig::default() });
    let mut program = rt.program();
    let mut events = [0, 1].map(|rail| rt.rail(rail).expect("there are two").async_events());
    for fake in &fakes {
        fake.world.borrow_mut().async_events.push_back(AsyncEvent::PortError(1));
    }
    for heard in [[true, false], [false, true]] {
        program.step();
        assert_eq!(events.each_mut().map(|events| events.try_recv().is_some()), heard);
    }
    assert!(rt.rail(2).is_none());
    assert_eq!((rt.rails(), rt.on(), rt.rail(1).map(|rt| rt.on())), (2, 0, Some(1)));
}

#[test]
fn a_signal_arms_the_queue_of_its_own_rail_again() {
    let (fakes, rt) = two_rails(RtConfig { wait: Wait::Notify, ..RtConfig::default() });
    let mut program = rt.program();
    while program.step() == Park::Again {}
    assert!(fakes.iter().all(|fake| fake.world.borrow().armed[0]));
    // Completion queues of two adapters have the same identity.
    fakes[1].world.borrow_mut().complete(99, Ok(WcOp::Send));
    assert!(!fakes[1].world.borrow().armed[0]);
    while program.step() == Park::Again {}
    assert!(fakes.iter().all(|fake| fake.world.borrow().armed[0]));
}
