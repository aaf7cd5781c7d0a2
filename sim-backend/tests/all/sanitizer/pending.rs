//! Memory that requests in flight hold: until their completion, or a later one of the queue, is polled.

use super::support::*;

#[test]
fn a_posted_receive_buffer_is_the_adapters_until_its_completion_is_polled() {
    let (fabric, a, b) = two();
    b.recv(5, 4096, 64);
    assert_eq!(breaks(&fabric, || read(&b.mr, 4096 + 63, 1)), [Rule::PendingResult]);
    assert_eq!(breaks(&fabric, || write(&b.mr, 4000, 97)), [Rule::PendingResult]);
    assert_eq!(breaks(&fabric, || claim(&b.mr, 4100, 8)), [Rule::PendingResult]);
    a.send(1, 0, 64);
    settle(&fabric);
    assert_eq!(breaks(&fabric, || load(&b.mr, 4096)), [Rule::PendingResult], "it is there, and nobody knows");
    assert_eq!(b.polled().len(), 1);
    assert_eq!(breaks(&fabric, || (load(&b.mr, 4096), store(&b.mr, 4096), claim(&b.mr, 4096, 64))), []);
}

#[test]
fn memory_beside_what_a_request_holds_is_free() {
    let (fabric, _a, b) = two();
    for (at, len) in [(4096, 64), (8192, 10_000), (100, 0)] {
        b.recv(1, at, len);
    }
    let beside = || {
        read(&b.mr, 0, 4096);
        write(&b.mr, 4096 + 64, 8192 - 4096 - 64);
        write(&b.mr, 18_192, 1000);
    };
    assert_eq!(breaks(&fabric, beside), []);
    for (at, len) in [(4095, 2), (4159, 1), (8192, 1), (18_191, 1), (12_000, 8)] {
        assert_eq!(breaks(&fabric, || read(&b.mr, at, len)), [Rule::PendingResult], "{at}+{len}");
    }
}

#[test]
fn where_a_reads_answer_goes_is_undefined_until_it_is_polled() {
    let (fabric, a, b) = two();
    let slots = SendFlags::SIGNALED;
    a.post(1, SendOp::Read { from: b.remote(0, 3000) }, 5000, 3000, slots);
    assert_eq!(breaks(&fabric, || load(&a.mr, 6000)), [Rule::PendingResult]);
    settle(&fabric);
    assert_eq!(breaks(&fabric, || store(&a.mr, 6000)), [Rule::PendingResult]);
    a.polled();
    assert_eq!(breaks(&fabric, || (read(&a.mr, 5000, 3000), write(&a.mr, 5000, 3000))), []);
}

#[test]
fn where_an_atomics_old_value_goes_is_undefined_until_it_is_polled() {
    let (fabric, a, b) = two();
    fetch_add(&a, 9, 16, b.remote(0, 8));
    assert_eq!(breaks(&fabric, || load(&a.mr, 16)), [Rule::PendingResult]);
    assert_eq!(breaks(&fabric, || (load(&a.mr, 8), load(&a.mr, 24))), [], "its neighbours");
    settle(&fabric);
    assert_eq!(breaks(&fabric, || load(&a.mr, 16)), [Rule::PendingResult]);
    a.polled();
    assert_eq!(breaks(&fabric, || load(&a.mr, 16)), []);
}

#[test]
fn a_send_buffer_may_be_read_and_not_changed() {
    let (fabric, a, b) = two();
    b.recv(1, 0, 64);
    for op in [SendOp::Send { imm: None }, SendOp::Write { to: b.remote(1024, 64), imm: None }] {
        a.post(2, op, 512, 64, SendFlags::SIGNALED);
        assert_eq!(breaks(&fabric, || read(&a.mr, 512, 64)), []);
        assert_eq!(breaks(&fabric, || store(&a.mr, 568)), [Rule::PendingSource]);
        settle(&fabric);
        assert_eq!(breaks(&fabric, || claim(&a.mr, 512, 1)), [Rule::PendingSource], "it may be sent again");
        a.polled();
        assert_eq!(breaks(&fabric, || store(&a.mr, 568)), []);
    }
}

#[test]
fn one_buffer_posted_many_times_is_free_after_the_last() {
    let (fabric, a, b) = two();
    for wr_id in 0..3 {
        b.recv(wr_id, 64 * wr_id as u32, 64);
        a.send(wr_id, 0, 64);
    }
    settle(&fabric);
    for left in [2, 1, 0] {
        let mut out = vec![];
        a.cq.poll(&mut out, 1).unwrap();
        let expected: &[Rule] = if left > 0 { &[Rule::PendingSource] } else { &[] };
        assert_eq!(breaks(&fabric, || store(&a.mr, 0)), expected, "{left} left");
    }
}

#[test]
fn inline_data_is_copied_by_the_post() {
    let (fabric, a, b) = two();
    b.recv(1, 0, 64);
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send { imm: None },
        data: Payload::Inline(&[1; 32]),
        flags: SendFlags::SIGNALED,
    };
    a.qp.post_send(&[wr]).unwrap();
    assert_eq!(breaks(&fabric, || write(&a.mr, 0, 65_536)), []);
}

#[test]
fn an_unsignaled_request_is_settled_by_a_later_completion() {
    let (fabric, a, b) = two();
    let to = |at| SendOp::Write { to: b.remote(at, 8), imm: None };
    a.post(1, to(0), 0, 8, SendFlags::empty());
    a.post(2, to(8), 8, 8, SendFlags::empty());
    settle(&fabric);
    assert_eq!(breaks(&fabric, || store(&a.mr, 0)), [Rule::PendingSource], "nothing says that it is done");
    a.post(3, to(16), 16, 8, SendFlags::SIGNALED);
    a.post(4, to(24), 24, 8, SendFlags::empty());
    settle(&fabric);
    assert_eq!(a.polled().len(), 1);
    assert_eq!(breaks(&fabric, || (0..3).for_each(|word| store(&a.mr, 8 * word))), []);
    assert_eq!(breaks(&fabric, || store(&a.mr, 24)), [Rule::PendingSource], "posted after it");
}

#[test]
fn every_range_of_a_request_is_held() {
    let (fabric, _a, b) = two();
    let ranges = [0, 128, 256].map(|at| Sge { mr: &b.mr, at, len: 64 });
    b.qp.post_recv(&[RecvWr { wr_id: 1, data: &ranges }]).unwrap();
    for at in [0, 128, 256] {
        assert_eq!(breaks(&fabric, || load(&b.mr, at)), [Rule::PendingResult]);
        assert_eq!(breaks(&fabric, || load(&b.mr, at + 64)), []);
    }
}

#[test]
fn a_refused_post_holds_nothing() {
    let fabric = watched(1);
    let side = Side::new(&fabric, 0);
    let data = side.sge(0, 64);
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send { imm: None },
        data: Payload::Sge(&data),
        flags: SendFlags::SIGNALED,
    };
    assert!(side.qp.post_send(&[wr]).is_err(), "not connected");
    assert_eq!(breaks(&fabric, || store(&side.mr, 0)), []);
}

#[test]
fn a_reset_or_destroyed_queue_pair_holds_nothing() {
    let (fabric, a, b) = two();
    b.recv(1, 0, 4096);
    a.send(1, 0, 64);
    b.qp.modify(&Modify::Reset).unwrap();
    assert_eq!(breaks(&fabric, || write(&b.mr, 0, 4096)), []);
    assert_eq!(breaks(&fabric, || store(&a.mr, 0)), [Rule::PendingSource]);
    let Side { qp, mr, .. } = a;
    drop(qp);
    assert_eq!(breaks(&fabric, || store(&mr, 0)), []);
}

#[test]
fn a_flushed_request_holds_its_buffer_until_the_flush_is_polled() {
    let (fabric, _a, b) = two();
    b.recv(1, 0, 64);
    b.recv(2, 64, 64);
    b.qp.modify(&Modify::Err).unwrap();
    assert_eq!(breaks(&fabric, || load(&b.mr, 64)), [Rule::PendingResult]);
    assert_eq!(b.polled().len(), 2);
    assert_eq!(breaks(&fabric, || (store(&b.mr, 0), store(&b.mr, 64))), []);
    b.recv(3, 0, 64);
    assert_eq!(b.polled().len(), 1, "flushed at once");
    assert_eq!(breaks(&fabric, || store(&b.mr, 0)), []);
}

/// What adapters do to the buffers of requests in flight is what they were posted for.
#[test]
fn adapters_may_touch_what_requests_hold() {
    let (fabric, a, b) = two();
    b.recv(1, 0, 4096);
    a.post(1, SendOp::Write { to: b.remote(0, 4096), imm: None }, 0, 4096, SendFlags::SIGNALED);
    a.post(2, SendOp::Read { from: b.remote(0, 4096) }, 8192, 4096, SendFlags::SIGNALED);
    a.send(3, 8192, 4096);
    settle(&fabric);
    assert_eq!((ids(&a.polled()).len(), ids(&b.polled())), (3, vec![(1, None)]));
    assert_eq!(rules(&fabric), []);
}
