//! Latencies that vary: orders differ from seed to seed, flows and queues keep theirs, and answers give the run again.

use crate::common::*;
use std::cell::RefCell;
use std::rc::Rc;
use weft_sim::choice::{Choice, First, Seeded};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, Jitter};
use weft_verbs::*;

/// So much that everything that may change its order does.
const WILD: Jitter = Jitter { share_ppm: 500_000, spikes_ppm: 200_000, spike: Nanos::from_micros(20) };

fn varied(jitter: Jitter, choice: Box<dyn Choice>) -> Fabric {
    let config = Config { jitter, log: true, ..Config::new(3, Profile::builtin("present-day").unwrap()) };
    fabric_with(config, choice)
}

/// The requests whose completions a side has polled, in their order.
type Polled = Rc<RefCell<Vec<u64>>>;

/// Polls what completes.
struct Poller {
    cq: weft_sim::SimCq,
    polled: Polled,
}

impl Node for Poller {
    fn step(&mut self) -> Park {
        let mut done = Vec::new();
        self.cq.poll(&mut done, usize::MAX).unwrap();
        self.polled.borrow_mut().extend(done.iter().map(|done| done.wr_id));
        Park::Until { style: Wait::Poll, deadline: None }
    }
}

/// Sixty messages of several lengths from the first node to the last, and what each side polls.
fn messages(fabric: &Fabric) -> [Vec<u64>; 2] {
    let (a, b) = connected(fabric);
    let polled: [Polled; 2] = Default::default();
    for (side, polled) in [&a, &b].into_iter().zip(&polled) {
        fabric.mount(side.node, Box::new(Poller { cq: side.cq.clone(), polled: Rc::clone(polled) }));
    }
    for n in 0..60 {
        b.recv(1_000 + n, 0, 5_000);
    }
    for n in 0..60 {
        a.send(n, 0, 64 * (n as u32 % 80));
    }
    settle(fabric);
    polled.map(|polled| polled.take())
}

#[test]
fn a_flow_and_a_completion_queue_keep_their_order() {
    for seed in 0..50 {
        let fabric = varied(WILD, Box::new(Seeded::new(seed)));
        let [sent, received] = messages(&fabric);
        assert_eq!(sent, Vec::from_iter(0..60), "seed {seed}");
        assert_eq!(received, Vec::from_iter(1_000..1_060), "seed {seed}");
        assert_eq!(fabric.stats().retransmitted, 0, "seed {seed}: nothing came out of order");
    }
}

/// The log and the order of a run by these answers.
fn told(jitter: Jitter, choice: Box<dyn Choice>) -> (Vec<u8>, u64) {
    let fabric = varied(jitter, choice);
    messages(&fabric);
    (fabric.take_log(), fabric.log(|log| log.order()))
}

#[test]
fn a_seed_is_a_run_and_another_seed_is_another_order() {
    let by_seed = |jitter, seed| told(jitter, Box::new(Seeded::new(seed)));
    assert_eq!(by_seed(WILD, 1), by_seed(WILD, 1));
    let orders = |jitter| {
        let orders = (0..20).map(|seed| by_seed(jitter, seed).1);
        orders.collect::<std::collections::BTreeSet<u64>>().len()
    };
    assert_eq!(orders(WILD), 20);
    assert!(orders(Jitter::USUAL) >= 10, "{}", orders(Jitter::USUAL));
}

#[test]
fn quiet_answers_give_the_profile_alone() {
    assert_eq!(told(WILD, Box::new(First)), told(Jitter::NONE, Box::new(First)));
}
