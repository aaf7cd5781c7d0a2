//! The fabric around the adapters: time, order, wires, crashes, what is left behind.

use crate::common::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_sim::choice::{First, Seeded};
use weft_sim::fault::{Fault, FaultError, Link, PacketClass, Rule, Verdict, Way};
use weft_sim::{Config, ConfigError, Fabric, NodeId, Order, RunEnd, SimHost, SimPd};
use weft_verbs::*;

/// A run with something of everything, and its log.
fn busy_run(choice: Box<dyn weft_sim::choice::Choice>) -> (Vec<u8>, u64) {
    let mut config = Config::new(3, profile());
    config.log = true;
    let fabric = fabric_with(config, choice);
    let (a, b) = connected_with(&fabric, |r| r, |r| ToRts { retry: Retries::MOST, ..r });
    let loss = Fault::Loss { link: Link::Node(b.node), way: Way::Both, ppm: 100_000, lasts: None };
    fabric.plan(Nanos::ZERO, loss).unwrap();
    for n in 0..20 {
        b.recv(n, 0, 4096);
        a.send(n, 0, 3000);
        a.post(100 + n, SendOp::FetchAdd { at: b.remote(8, 8), add: 1 }, 8, 8, SendFlags::SIGNALED);
        run(&fabric, Nanos::from_micros(30));
    }
    settle(&fabric);
    assert_eq!(a.polled().len(), 40);
    (fabric.take_log(), fabric.log(|log| log.digest()))
}

#[test]
fn the_same_answers_give_the_same_log_to_the_byte() {
    let (log, digest) = busy_run(Box::new(Seeded::new(5)));
    assert!(log.len() > 10_000);
    assert_eq!(busy_run(Box::new(Seeded::new(5))), (log.clone(), digest));
    assert_ne!(busy_run(Box::new(Seeded::new(6))).0, log);
}

#[test]
fn nothing_is_left_when_all_is_dropped() {
    let fabric = fabric(2);
    let (a, b) = connected(&fabric);
    b.recv(1, 0, 64);
    for n in 0..3 {
        a.send(n, 0, 64);
    }
    run(&fabric, Nanos::from_micros(3));
    let alive = fabric.stats().alive[0];
    assert_eq!((alive.qps, alive.cqs, alive.mrs, alive.pds, alive.outstanding), (1, 1, 1, 1, 3));
    drop((a, b));
    settle(&fabric);
    assert_eq!(fabric.stats().alive, vec![Default::default(); 2]);
}

#[test]
fn a_world_is_freed_with_the_last_fabric_though_programs_hold_handles() {
    struct Holder(#[allow(dead_code)] SimHost, Rc<Cell<bool>>);
    impl Node for Holder {
        fn step(&mut self) -> Park {
            Park::Until { style: Wait::Poll, deadline: None }
        }
    }
    impl Drop for Holder {
        fn drop(&mut self) {
            self.1.set(true);
        }
    }
    let dropped = Rc::new(Cell::new(false));
    let fabric = fabric(1);
    let host = fabric.devices(NodeId(0))[0].open().unwrap().host();
    fabric.mount(NodeId(0), Box::new(Holder(host, dropped.clone())));
    assert_eq!(fabric.run_until(Nanos::MAX), RunEnd::Idle);
    let clone = fabric.clone();
    drop(fabric);
    assert!(!dropped.get());
    drop(clone);
    assert!(dropped.get());
}

#[test]
fn a_crash_takes_everything_and_old_handles_find_the_device_gone() {
    let fabric = fabric(2);
    let (a, b) = connected(&fabric);
    fabric.plan(Nanos::ZERO, Fault::Crash { node: b.node }).unwrap();
    run(&fabric, Nanos::from_micros(1));
    assert!(fabric.is_crashed(b.node));
    let gone = VerbsError::DeviceGone;
    assert_eq!(b.mr.load(0), Err(gone));
    assert_eq!(b.qp.query(), Err(gone));
    assert_eq!(b.qp.modify(&Modify::Err), Err(gone));
    assert_eq!(b.qp.post_recv(&[RecvWr { wr_id: 1, data: &[] }]).unwrap_err().why, gone);
    assert_eq!(b.cq.poll(&mut vec![], 1), Err(gone));
    assert_eq!(b.ctx.alloc_pd().unwrap_err(), gone);
    assert_eq!(fabric.devices(b.node)[0].open().unwrap_err(), gone);

    // The peer learns by its retries.
    a.post(1, SendOp::Write { to: b.remote(0, 8), imm: None }, 0, 8, SendFlags::SIGNALED);
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(1, Some(WcError::RetryExc))]);

    fabric.plan(Nanos::ZERO, Fault::Restart { node: b.node }).unwrap();
    run(&fabric, Nanos::from_micros(1));
    assert_eq!(b.ctx.alloc_pd().unwrap_err(), gone, "a context does not outlive its node");
    let fresh = Side::new(&fabric, 1);
    assert_eq!(b.mr.load(0), Err(gone));
    assert_ne!(fresh.qp.num(), b.qp.num());
    drop(b);
    assert_eq!(fabric.stats().alive[1].mrs, 1, "the dead handle's end does not touch the new incarnation");
}

#[test]
fn a_loopback_connection_crosses_no_link() {
    let fabric = fabric(1);
    let (a, b) = (Side::new(&fabric, 0), Side::new(&fabric, 0));
    a.connect(rtr(&b), rts());
    b.connect(rtr(&a), rts());
    let (node, port, lasts) = (NodeId(0), 1, None);
    fabric.plan(Nanos::ZERO, Fault::PortDown { node, port, lasts }).unwrap();
    let cut = Fault::Cut { link: Link::Node(node), way: Way::Both, lasts };
    fabric.plan(Nanos::ZERO, cut).unwrap();
    run(&fabric, Nanos::from_micros(1));
    assert_eq!(a.ctx.async_event(), Some(AsyncEvent::PortError(1)));
    assert_eq!(a.ctx.port_attr(1).unwrap().state, PortState::Down);
    b.mr.store(0, 41).unwrap();
    a.post(1, SendOp::FetchAdd { at: b.remote(0, 8), add: 1 }, 8, 8, SendFlags::SIGNALED);
    let begun = fabric.now();
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(1, None)]);
    assert_eq!((a.mr.load(8).unwrap(), b.mr.load(0).unwrap()), (41, 42));
    assert_eq!(fabric.stats().dropped, 0);
    assert!(fabric.now() - begun > Nanos::from_micros(1), "through the adapter, which takes its time");
}

#[test]
fn a_queue_pair_connected_to_itself_talks_to_itself() {
    let fabric = fabric(1);
    let a = Side::new(&fabric, 0);
    a.connect(rtr(&a), rts());
    a.recv(1, 64, 8);
    a.mr.store(0, 7).unwrap();
    a.send(2, 0, 8);
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(1, None), (2, None)]);
    assert_eq!(a.mr.load(64).unwrap(), 7);
}

#[test]
fn a_port_that_goes_down_loses_what_is_on_its_cable() {
    let fabric = fabric(2);
    let (a, b) = connected(&fabric);
    b.recv(1, 0, 8);
    a.send(1, 0, 8);
    // The packet has left (its way takes 4 us), and the receiver's port goes down before it arrives.
    let down = Fault::PortDown { node: b.node, port: 1, lasts: Some(Nanos::from_micros(40)) };
    fabric.plan(fabric.now() + Nanos(2_600), down).unwrap();
    run(&fabric, Nanos::from_micros(20));
    assert!(b.polled().is_empty());
    assert_eq!(b.ctx.async_event(), Some(AsyncEvent::PortError(1)));
    settle(&fabric);
    assert_eq!(b.ctx.async_event(), Some(AsyncEvent::PortActive(1)));
    assert_eq!(ids(&b.polled()), [(1, None)], "sent again");
    assert!(fabric.faults()[0].struck);
}

#[test]
fn a_connection_to_nowhere_times_out() {
    let fabric = fabric(2);
    let a = Side::new(&fabric, 0);
    let nowhere = Path::to(Gid([9; 16]), 1);
    a.connect(ToRtr { dest_qp: QpNum(7), path: nowhere, ..rtr(&a) }, rts());
    a.send(1, 0, 2048);
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(1, Some(WcError::RetryExc))]);
}

#[test]
fn packets_share_their_ports_bandwidth() {
    let fabric = fabric(3);
    let time_of = |sides: &[(Side, Side)]| {
        let begun = fabric.now();
        for (a, b) in sides {
            a.post(1, SendOp::Write { to: b.remote(0, 65_536), imm: None }, 0, 65_536, SendFlags::SIGNALED);
        }
        let mut left = sides.len();
        while left > 0 {
            run(&fabric, Nanos(100));
            left -= sides.iter().map(|(a, _)| a.polled().len()).sum::<usize>();
        }
        (fabric.now() - begun).as_micros_f64()
    };
    let pair = |x, y| {
        let (a, b) = (Side::new(&fabric, x), Side::new(&fabric, y));
        let no_timer = ToRts { timeout: AckTimeout::NEVER, ..rts() };
        a.connect(rtr(&b), no_timer);
        b.connect(rtr(&a), no_timer);
        run(&fabric, Nanos::from_millis(1));
        (a, b)
    };
    let one = time_of(&[pair(0, 2)]);
    // 64 KiB at 1.5 GB/s of the host's bus.
    assert!((43.0..60.0).contains(&one), "{one}");
    let into_one = time_of(&[pair(0, 2), pair(1, 2)]);
    assert!((1.7..2.1).contains(&(into_one / one)), "two senders into one port: {into_one} after {one}");
    let out_of_one = time_of(&[pair(0, 1), pair(0, 2)]);
    assert!((1.7..2.1).contains(&(out_of_one / one)), "one sender to two ports: {out_of_one} after {one}");
    let apart = time_of(&[pair(0, 1), pair(1, 2)]);
    assert!(apart / one < 1.1, "different ways: {apart} after {one}");
}

#[test]
fn a_small_message_does_not_wait_for_the_end_of_a_long_one() {
    let fabric = fabric(2);
    let (long, long_peer) = connected_with(&fabric, |r| r, |r| ToRts { timeout: AckTimeout::NEVER, ..r });
    let (small, small_peer) = connected(&fabric);
    let to = long_peer.remote(0, 65_536);
    long.post(1, SendOp::Write { to, imm: None }, 0, 65_536, SendFlags::SIGNALED);
    small_peer.recv(1, 0, 8);
    small.send(1, 0, 8);
    let (begun, mut took) = (fabric.now(), [Nanos::MAX; 2]);
    for _ in 0..200 {
        run(&fabric, Nanos(500));
        for (side, took) in [&small_peer, &long].into_iter().zip(&mut took) {
            if !side.polled().is_empty() {
                *took = fabric.now();
            }
        }
    }
    assert!(took[0] < took[1] && took[0] - begun < Nanos::from_micros(20), "{took:?}");
}

#[test]
fn a_delayed_packet_is_overtaken_and_order_is_kept_all_the_same() {
    let fabric = fabric(2);
    let (a, b) = connected(&fabric);
    let late = Verdict::Delay(Nanos::from_micros(10));
    fabric.rules(|rules| rules.push(Rule::new(late).class(PacketClass::Request).times(1)));
    for n in 0..4u64 {
        b.recv(n, 8 * n as u32, 8);
        a.mr.store(8 * n as usize, 100 + n).unwrap();
    }
    for n in 0..4 {
        a.send(n, 8 * n as u32, 8);
    }
    settle(&fabric);
    assert_eq!(ids(&b.polled()), (0..4).map(|n| (n, None)).collect::<Vec<_>>());
    assert_eq!((0..4).map(|n| b.mr.load(8 * n).unwrap()).collect::<Vec<_>>(), [100, 101, 102, 103]);
    assert!(fabric.stats().retransmitted > 0);
}

#[test]
fn impossible_worlds_and_faults_are_refused() {
    let bad = Fabric::new(Config::new(0, profile()), Box::new(First)).unwrap_err();
    assert_eq!(
        (&bad, bad.to_string().as_str()),
        (&ConfigError::Nodes(0), "nodes is 0, and must be from 1 to 65536")
    );
    let fabric = fabric(2);
    let fault = Fault::Crash { node: NodeId(2) };
    assert!(matches!(fabric.plan(Nanos::ZERO, fault), Err(FaultError::NoSuchNode { nodes: 2, .. })));
    assert!(fabric.devices(NodeId(2)).is_empty());
}

/// Records when it is stepped; does as it is told.
struct Stepper {
    host: SimHost,
    park: Vec<Park>,
    spend: Nanos,
    steps: Rc<RefCell<Vec<Nanos>>>,
}

impl Node for Stepper {
    fn step(&mut self) -> Park {
        self.steps.borrow_mut().push(self.host.now());
        self.host.spend(Work::Compute(self.spend));
        if self.park.is_empty() { Park::Done } else { self.park.remove(0) }
    }
}

fn steps(fabric: &Fabric, node: u32, spend: Nanos, park: Vec<Park>) -> Rc<RefCell<Vec<Nanos>>> {
    let steps = Rc::new(RefCell::new(vec![]));
    let host = fabric.devices(NodeId(node))[0].open().unwrap().host();
    fabric.mount(NodeId(node), Box::new(Stepper { host, park, spend, steps: steps.clone() }));
    steps
}

#[test]
fn a_step_begins_when_the_one_before_has_been_paid_for() {
    let fabric = fabric(1);
    let late = Park::Until { style: Wait::Poll, deadline: Some(Nanos(5_000)) };
    let early = Park::Until { style: Wait::Poll, deadline: Some(Nanos(10)) };
    let steps = steps(&fabric, 0, Nanos(700), vec![Park::Again, late, early, Park::Again]);
    assert_eq!(fabric.run_until(Nanos::MAX), RunEnd::AllDone);
    assert_eq!(*steps.borrow(), [0, 700, 5_000, 5_700, 6_400].map(Nanos));
}

#[test]
fn a_slow_node_takes_longer_for_the_same_work() {
    let fabric = fabric(1);
    let slow = Fault::SlowNode { node: NodeId(0), percent: 300, lasts: Some(Nanos(1_500)) };
    fabric.plan(Nanos::ZERO, slow).unwrap();
    run(&fabric, Nanos(1));
    let steps = steps(&fabric, 0, Nanos(1_000), vec![Park::Again, Park::Again]);
    fabric.run_until(Nanos::MAX);
    assert_eq!(*steps.borrow(), [1, 3_001, 4_001].map(Nanos));
}

#[test]
fn a_node_that_restarts_is_as_slow_as_the_fault_says_that_lasts() {
    let fabric = fabric(1);
    let (node, lasts) = (NodeId(0), Some(Nanos(3_000)));
    fabric.plan(Nanos::ZERO, Fault::SlowNode { node, percent: 300, lasts }).unwrap();
    fabric.plan(Nanos(1), Fault::Crash { node }).unwrap();
    fabric.plan(Nanos(2), Fault::Restart { node }).unwrap();
    run(&fabric, Nanos(3));
    let steps = steps(&fabric, 0, Nanos(1_000), vec![Park::Again, Park::Again]);
    fabric.run_until(Nanos::MAX);
    assert_eq!(*steps.borrow(), [3, 3_003, 4_003].map(Nanos));
}

#[test]
fn a_node_that_restarts_while_there_is_no_memory_is_given_none() {
    let fabric = fabric(1);
    let node = NodeId(0);
    fabric.plan(Nanos::ZERO, Fault::NoMemory { node, lasts: None }).unwrap();
    fabric.plan(Nanos(1), Fault::Crash { node }).unwrap();
    fabric.plan(Nanos(2), Fault::Restart { node }).unwrap();
    run(&fabric, Nanos(3));
    struct Asks(SimPd, Rc<Cell<Option<bool>>>);
    impl Node for Asks {
        fn step(&mut self) -> Park {
            self.1.set(Some(self.0.alloc_mr(64, AccessFlags::empty()).is_ok()));
            Park::Until { style: Wait::Poll, deadline: None }
        }
    }
    let given = Rc::new(Cell::new(None));
    let pd = fabric.devices(node)[0].open().unwrap().alloc_pd().unwrap();
    fabric.mount(node, Box::new(Asks(pd, given.clone())));
    fabric.run_until(Nanos::MAX);
    assert_eq!(given.get(), Some(false));
}

#[test]
fn a_node_that_never_spends_time_does_not_stop_the_world() {
    let mut config = Config::new(2, profile());
    config.order = Order::Fifo;
    let fabric = fabric_with(config, Box::new(First));
    let steps = steps(&fabric, 0, Nanos::ZERO, vec![Park::Again; 100]);
    assert_eq!(fabric.run_until(Nanos(50)), RunEnd::Reached);
    assert_eq!(fabric.now(), Nanos(50));
    assert_eq!(steps.borrow().len(), 51);
    assert_eq!(fabric.run_until(Nanos::MAX), RunEnd::AllDone);
}
