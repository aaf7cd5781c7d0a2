//! Regions that go away under peers' operations.

use super::support::*;
use weft_sim::fault::Fault;

/// A peer's operation on a region of `len` bytes that goes away after `packets` were taken in.
fn deregistered_under(
    len: usize,
    packets: u64,
    op: impl FnOnce(RemoteSlice) -> SendOp<'static, weft_sim::Sim>,
) -> (Fabric, Side, Side, RemoteSlice) {
    let (fabric, a, b) = two();
    let region = b.pd.alloc_mr(len, ALL).unwrap();
    let to = region.remote(0..len).unwrap();
    run(&fabric, Nanos::from_millis(1));
    a.post(6, op(to), 0, len as u32, SendFlags::SIGNALED);
    // Posted, and on its way.
    run(&fabric, a.host.now() - fabric.now());
    after_packets(&fabric, packets);
    drop(region);
    settle(&fabric);
    (fabric, a, b, to)
}

#[test]
fn a_write_that_finds_its_region_gone_is_reported() {
    let (fabric, a, _b, to) = deregistered_under(64, 0, |to| SendOp::Write { to, imm: None });
    let [found] = fabric.violations()[..] else { panic!("{:?}", fabric.violations()) };
    assert_eq!((found.rule, found.memory), (Rule::Deregistered, NodeId(1)));
    let Party { node, action, addr, len, .. } = found.first;
    assert_eq!((node, action, addr, len), (NodeId(1), Action::Deregister, to.addr, 64));
    let Party { node, action, addr, len, at, .. } = found.second;
    let write = Action::Request { op: WcOp::Write, qp: Some(a.qp.num()), wr_id: Some(6) };
    assert_eq!((node, action, addr, len), (NodeId(0), write, to.addr, 64));
    assert!(at > found.first.at, "it came afterwards");
}

#[test]
fn reads_and_atomics_that_find_their_region_gone_are_reported() {
    let read = deregistered_under(64, 0, |from| SendOp::Read { from });
    let add = deregistered_under(8, 0, |at| SendOp::FetchAdd { at, add: 1 });
    let swap = deregistered_under(8, 0, |at| SendOp::CompareSwap { at, compare: 0, swap: 1 });
    for (fabric, ..) in [read, add, swap] {
        assert_eq!(rules(&fabric), [Rule::Deregistered]);
    }
}

#[test]
fn a_region_that_goes_in_the_middle_of_an_operation_is_reported() {
    let write = deregistered_under(1 << 15, 3, |to| SendOp::Write { to, imm: None });
    let read = deregistered_under(1 << 15, 3, |from| SendOp::Read { from });
    for (fabric, ..) in [write, read] {
        assert_eq!(rules(&fabric), [Rule::Deregistered]);
    }
}

#[test]
fn an_operation_with_a_stale_key_is_refused_aloud_and_no_more() {
    let (fabric, a, b) = two();
    let region = b.pd.alloc_mr(64, ALL).unwrap();
    let to = region.remote(0..64).unwrap();
    drop(region);
    run(&fabric, Nanos::from_millis(1));
    a.post(1, SendOp::Write { to, imm: None }, 0, 64, SendFlags::SIGNALED);
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(1, Some(WcError::RemAccess))]);
    assert_eq!(rules(&fabric), []);
}

#[test]
fn an_operation_that_was_executed_needs_its_region_no_more() {
    let (fabric, a, _b, _) = deregistered_under(64, 1, |to| SendOp::Write { to, imm: None });
    assert_eq!(ids(&a.polled()), [(6, None)]);
    assert_eq!(rules(&fabric), []);
}

#[test]
fn a_request_of_ones_own_holds_its_region() {
    let (fabric, a, b) = two();
    let (from, to) = (a.pd.alloc_mr(4096, ALL).unwrap(), b.pd.alloc_mr(4096, ALL).unwrap());
    b.qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &to, at: 0, len: 4096 }] }]).unwrap();
    let data = [Sge { mr: &from, at: 0, len: 4096 }];
    let wr = SendWr {
        wr_id: 2,
        op: SendOp::Send { imm: None },
        data: Payload::Sge(&data),
        flags: SendFlags::SIGNALED,
    };
    a.qp.post_send(&[wr]).unwrap();
    drop((from, to));
    settle(&fabric);
    assert_eq!((ids(&a.polled()), ids(&b.polled())), (vec![(2, None)], vec![(1, None)]));
    assert_eq!(rules(&fabric), []);
}

#[test]
fn a_crash_is_nobodys_violation() {
    let (fabric, a, b) = two();
    a.post(1, SendOp::Write { to: b.remote(0, 32_768), imm: None }, 0, 32_768, SendFlags::SIGNALED);
    after_packets(&fabric, 3);
    fabric.plan(fabric.now(), Fault::Crash { node: b.node }).unwrap();
    settle(&fabric);
    assert_eq!(ids(&a.polled()), [(1, Some(WcError::RetryExc))]);
    drop(b);
    assert_eq!(rules(&fabric), []);
}
