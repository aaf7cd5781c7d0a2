//! Events that are not completions, and whom they reach.

use super::*;
use std::task::{Context, Waker};
use weft_verbs::CqId;

#[test]
fn connection_events_reach_whoever_listens_or_asked() {
    let mut bench = Bench::new(Wait::Poll);
    let (own, other) = (Service(1), Service(2));
    let (connector, mut events) = bench.rt.listen(own).expect("nobody listens yet");
    assert!(bench.rt.listen(own).is_err(), "one listener a service");
    let id = connector.resolve_at("n1", other).expect("the fake device obeys");
    let request = |id, service| CmEvent::Request { id: CmId(id), service, private: Vec::new() };
    bench.world().cm_events.extend([
        request(1, own),
        request(2, other),
        CmEvent::Resolved { id },
        CmEvent::Disconnected { id: CmId(1) },
        CmEvent::Established { id: CmId(1), private: Vec::new() },
    ]);
    bench.settle();
    assert_eq!(events.try_recv(), Some(request(1, own)));
    assert_eq!(events.try_recv(), Some(CmEvent::Resolved { id }));
    assert_eq!(events.try_recv(), Some(CmEvent::Disconnected { id: CmId(1) }));
    assert_eq!(events.try_recv(), None, "a connection that is over has no more events");
    assert_eq!(bench.world().rejected, [CmId(2)], "nobody listens there");
    connector.disconnect(id);
    bench.world().cm_events.push_back(CmEvent::Unreachable { id });
    bench.settle();
    assert_eq!(events.try_recv(), None, "nor has one that was given up");
}

#[test]
fn asynchronous_events_reach_everyone_who_asked() {
    let mut bench = Bench::new(Wait::Poll);
    let (mut a, mut b) = (bench.rt.async_events(), bench.rt.async_events());
    bench.world().async_events.push_back(AsyncEvent::PortError(1));
    bench.settle();
    assert_eq!(a.try_recv(), Some(AsyncEvent::PortError(1)));
    drop(a);
    bench.world().async_events.push_back(AsyncEvent::DeviceFatal);
    bench.settle();
    let got: Vec<_> = std::iter::from_fn(|| b.try_recv()).collect();
    assert_eq!(got, [AsyncEvent::PortError(1), AsyncEvent::DeviceFatal]);
}

fn request(id: u64, service: Service) -> CmEvent {
    CmEvent::Request { id: CmId(id), service, private: Vec::new() }
}

#[test]
fn a_service_whose_listener_has_gone_is_refused_until_another_one_listens() {
    let mut bench = Bench::new(Wait::Poll);
    let (own, other) = (Service(1), Service(2));
    let (_first, gone) = bench.rt.listen(own).expect("nobody listens yet");
    let (_beside, mut neighbour) = bench.rt.listen(other).expect("nobody listens there either");
    drop(gone);
    bench.world().cm_events.push_back(request(1, own));
    bench.settle();
    assert_eq!(bench.world().rejected, [CmId(1)]);
    let (_next, mut events) = bench.rt.listen(own).expect("nobody listens any more");
    bench.world().cm_events.extend([request(2, own), request(3, other)]);
    bench.settle();
    assert_eq!((events.try_recv(), neighbour.try_recv()), (Some(request(2, own)), Some(request(3, other))));
    assert_eq!(bench.world().rejected.len(), 1);
}

#[test]
fn of_a_request_that_was_turned_down_nothing_more_is_heard() {
    let mut bench = Bench::new(Wait::Poll);
    let (connector, mut events) = bench.rt.listen(Service(1)).expect("nobody listens yet");
    bench.world().cm_events.push_back(request(1, Service(1)));
    bench.settle();
    assert_eq!(events.try_recv(), Some(request(1, Service(1))));
    connector.reject(CmId(1), &[]);
    assert_eq!(bench.world().rejected, [CmId(1)]);
    bench.world().cm_events.push_back(CmEvent::Disconnected { id: CmId(1) });
    bench.settle();
    assert_eq!(events.try_recv(), None);
}

#[test]
fn with_the_node_every_source_of_events_ends() {
    let bench = Bench::new(Wait::Poll);
    let (connector, mut events) = bench.rt.listen(Service(1)).expect("nobody listens yet");
    let mut asynchronous = bench.rt.async_events();
    drop(connector);
    bench.rt.shutdown();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(events.poll_recv(&mut cx), Poll::Ready(Err(_))));
    assert!(matches!(asynchronous.poll_recv(&mut cx), Poll::Ready(Err(_))));
}

#[test]
fn a_device_that_says_it_failed_ends_the_node() {
    let mut bench = Bench::new(Wait::Notify);
    let mut events = bench.rt.async_events();
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    bench.world().async_events.push_back(AsyncEvent::DeviceFatal);
    assert_eq!(bench.settle(), Park::Done);
    assert_eq!(bench.rt.fatal(), Some(VerbsError::DeviceGone));
    assert_eq!(events.try_recv(), Some(AsyncEvent::DeviceFatal));
}

/// Two devices of a node, and a queue pair on each.
fn two() -> ([Fake; 2], Rt<V>, [QpHandle<V>; 2]) {
    let fakes = [Fake::default(), Fake::default()];
    let rt = Rt::<V>::over(&fakes, RtConfig::default()).expect("the fake devices obey");
    let queues = [0, 1].map(|rail: u8| {
        let caps = QpCaps { max_send_wr: 4, max_recv_wr: 4, ..QpCaps::default() };
        let on = rt.rail(rail).expect("there are two");
        on.create_qp(&fakes[usize::from(rail)], caps).expect("the fake obeys")
    });
    (fakes, rt, queues)
}

/// A failed adapter may refuse what it likes, also to be polled.
#[test]
fn of_several_devices_the_first_one_ends_the_node_when_it_fails_and_no_other_does() {
    let (fakes, rt, _queues) = two();
    let mut program = rt.program();
    let mut settle = || (0..100).map(|_| program.step()).find(|park| *park != Park::Again);
    fakes[1].world.borrow_mut().refuse_polls = true;
    fakes[1].world.borrow_mut().async_events.push_back(AsyncEvent::DeviceFatal);
    assert_eq!(settle(), Some(until(Wait::Notify, None)));
    assert_eq!((rt.is_closed(), rt.fatal()), (false, None));
    fakes[0].world.borrow_mut().async_events.push_back(AsyncEvent::DeviceFatal);
    assert_eq!(settle(), Some(Park::Done));
    assert_eq!(rt.fatal(), Some(VerbsError::DeviceGone));
}

/// It may refuse before it says anything.
#[test]
fn a_device_that_refuses_to_be_polled_or_armed_has_failed_as_if_it_had_said_so() {
    let refusals: [fn(&mut World); 2] = [|world| world.refuse_polls = true, |world| world.refuse_arms = true];
    for refuse in refusals {
        let (fakes, rt, [_queue, other]) = two();
        let mut program = rt.program();
        let mut settle = || (0..100).map(|_| program.step()).find(|park| *park != Park::Again);
        let mut told = rt.rail(1).expect("there are two").async_events();
        other.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room");
        other.fence();
        let drained = rt.spawn(async move { other.drained().await });
        refuse(&mut fakes[1].world.borrow_mut());
        assert_eq!(settle(), Some(until(Wait::Notify, None)));
        assert_eq!((rt.is_closed(), rt.fatal()), (false, None));
        assert!(drained.is_finished(), "nothing will tell of it");
        assert_eq!((told.try_recv(), told.try_recv()), (Some(AsyncEvent::DeviceFatal), None));
        assert!(fakes[0].world.borrow().armed[0], "the other one's queues are looked after");
        refuse(&mut fakes[0].world.borrow_mut());
        // It is to be armed again.
        fakes[0].world.borrow_mut().channel.push_back(CqId(0));
        assert_eq!(settle(), Some(Park::Done));
        assert_eq!(rt.fatal(), Some(VerbsError::DeviceGone));
    }
}

/// The marker of a fence completes nothing there, whether the device took it or not.
#[test]
fn a_drain_ends_when_its_device_fails_and_no_other_does() {
    let (fakes, rt, queues) = two();
    let mut program = rt.program();
    for queue in &queues {
        queue.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room");
        queue.fence();
    }
    let drains = queues.map(|queue| rt.spawn(async move { queue.drained().await }));
    let mut drained = || {
        while program.step() == Park::Again {}
        drains.each_ref().map(|drain| drain.is_finished())
    };
    assert_eq!(drained(), [false, false]);
    fakes[1].world.borrow_mut().async_events.push_back(AsyncEvent::DeviceFatal);
    assert_eq!(drained(), [false, true]);
}
