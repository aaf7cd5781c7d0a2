//! What a report says, and that watching changes nothing.

use super::support::*;
use weft_sim::choice::Seeded;
use weft_sim::sanitizer;

#[test]
fn a_report_is_one_line_with_both_sides() {
    let (fabric, a, b) = two();
    run(&fabric, Nanos::from_micros(5));
    b.host.task(3);
    b.recv(9, 4096, 64);
    b.host.task(4);
    b.host.spend(Work::Compute(Nanos(100)));
    read(&b.mr, 4100, 10);
    let [found] = fabric.violations()[..] else { panic!("{:?}", fabric.violations()) };
    let addr = b.mr.addr();
    let qp = b.qp.num();
    assert_eq!(found.first.action, Action::Request { op: WcOp::Recv, qp: Some(qp), wr_id: Some(9) });
    assert_eq!((found.first.task, found.second.task), (Some(3), Some(4)));
    assert_eq!((found.first.addr, found.first.len), (addr + 4096, 64));
    assert_eq!((found.second.addr, found.second.len), (addr + 4100, 10));
    assert_eq!(found.second.at, b.host.now());
    assert_eq!(found.second.at, found.first.at + Nanos(100), "by the node's clock, which the work moved");
    let (posted, read) = (found.first.at.0, found.second.at.0);
    let expected = format!(
        "memory touched that a request in flight may write on n1: n1 task 4 reads 10 bytes at {:#x} ({read} ns); \
         n1 task 3 recv wr=9 of {qp}: 64 bytes at {:#x} ({posted} ns)",
        addr + 4100,
        addr + 4096,
    );
    assert_eq!(found.to_string(), expected);
    drop(a);
}

#[test]
fn a_peers_task_is_named_for_its_operation() {
    let (fabric, a, b) = two();
    a.host.task(8);
    fetch_add(&a, 1, 0, b.remote(0, 8));
    a.host.task(0);
    settle(&fabric);
    store(&b.mr, 0);
    let [found] = fabric.violations()[..] else { panic!("{:?}", fabric.violations()) };
    assert_eq!((found.first.node, found.first.task), (a.node, Some(8)));
    assert_eq!(found.second.task, None, "outside of tasks");
}

#[test]
fn all_are_counted_and_the_first_are_kept() {
    let (fabric, _a, b) = two();
    b.recv(1, 0, 64);
    (0..1000).for_each(|_| store(&b.mr, 8));
    assert_eq!(fabric.violations_found(), 1000);
    assert_eq!(fabric.violations().len(), sanitizer::KEPT);
}

/// The same traffic, with violations in it, watched or not.
fn log_of(sanitize: bool) -> (Vec<u8>, u64) {
    let config = Config { sanitize, log: true, ..Config::new(2, profile()) };
    let fabric = fabric_with(config, Box::new(Seeded::new(5)));
    let (a, b) = connected(&fabric);
    for wr_id in 0..20 {
        b.recv(wr_id, 0, 8192);
        a.send(wr_id, 0, 5000);
        store(&a.mr, 64);
        fetch_add(&a, wr_id, 32_768, b.remote(16_384, 8));
        run(&fabric, Nanos::from_micros(wr_id));
        read(&b.mr, 0, 64);
        b.mr.store(16_384, wr_id).unwrap();
        a.polled();
        b.polled();
    }
    settle(&fabric);
    (fabric.take_log(), fabric.violations_found())
}

#[test]
fn a_run_is_the_same_to_the_byte_watched_or_not() {
    let (plain, none) = log_of(false);
    let (watched, some) = log_of(true);
    assert!(plain == watched, "the logs differ");
    assert_eq!(none, 0, "nobody watched");
    assert!(some > 20, "{some} found");
}

/// A test that never asks what the sanitizer found fails all the same.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the sanitizer found what nobody asked for")]
fn violations_that_nobody_asked_for_are_told_when_the_fabric_goes() {
    let (fabric, a, b) = two();
    b.recv(1, 0, 64);
    store(&b.mr, 8);
    drop((a, b));
    drop(fabric);
}
