//! Messages of several packets, between the first and the last.

use super::support::*;
use weft_sim::fault::{self, PacketClass, Verdict};

const LEN: usize = 32_768;

/// A write of `LEN` bytes to the start of `b`'s memory of which some packets have landed.
fn half_written() -> Three {
    let world = three();
    let op = SendOp::Write { to: world.b.remote(0, LEN), imm: None };
    world.a.post(1, op, 0, LEN as u32, SendFlags::SIGNALED);
    after_packets(&world.fabric, 3);
    world
}

#[test]
fn a_read_of_half_a_write_is_torn() {
    let Three { fabric, a, b, .. } = &half_written();
    assert_eq!(breaks(fabric, || read(&b.mr, LEN - 16, 100)), [Rule::Unfinished]);
    let found = fabric.violations()[0];
    let plain = Action::Request { op: WcOp::Write, qp: Some(a.qp.num()), wr_id: Some(1) };
    assert_eq!((found.first.node, found.first.action, found.first.len), (NodeId(0), plain, LEN as u64));
    assert_eq!((found.second.action, found.second.addr), (Action::Read, b.mr.addr() + LEN as u64 - 16));
    assert_eq!(breaks(fabric, || read(&b.mr, 4, 8)), [Rule::Unfinished], "parts of two words");
    assert_eq!(breaks(fabric, || store(&b.mr, 8)), [Rule::Unfinished], "what is written comes in between");
    settle(fabric);
    assert_eq!(breaks(fabric, || read(&b.mr, 0, LEN)), [], "the last packet has come");
}

#[test]
fn a_word_is_never_torn() {
    let Three { fabric, b, .. } = &half_written();
    let flags = || {
        load(&b.mr, 0);
        load(&b.mr, LEN - 8);
        read(&b.mr, 12, 4);
        read(&b.mr, LEN - 1, 1);
    };
    assert_eq!(breaks(fabric, flags), []);
}

#[test]
fn memory_beside_half_a_write_is_whole() {
    let Three { fabric, b, .. } = &half_written();
    assert_eq!(breaks(fabric, || (read(&b.mr, LEN, 4096), write(&b.mr, LEN, 4096))), []);
}

#[test]
fn a_write_of_one_packet_is_never_half_done() {
    let (fabric, a, b) = two();
    for wr_id in 0..10 {
        a.post(wr_id, SendOp::Write { to: b.remote(0, 1024), imm: None }, 0, 1024, SendFlags::SIGNALED);
    }
    for _ in 0..1000 {
        read(&b.mr, 0, 1024);
        run(&fabric, Nanos(50));
    }
    assert_eq!(a.polled().len(), 10);
    assert_eq!(rules(&fabric), []);
}

/// A consumer that watches the last word of a message, and reads the message when it has come.
#[test]
fn a_flag_behind_the_data_is_the_ordinary_way() {
    let (fabric, a, b) = two();
    store(&a.mr, LEN - 8);
    a.post(1, SendOp::Write { to: b.remote(0, LEN), imm: None }, 0, LEN as u32, SendFlags::SIGNALED);
    run_until(&fabric, || load(&b.mr, LEN - 8) == 7);
    read(&b.mr, 0, LEN);
    assert_eq!(rules(&fabric), []);
}

#[test]
fn another_queue_pairs_read_of_half_a_write_is_torn() {
    let Three { fabric, b, c, .. } = &half_written();
    c.post(4, SendOp::Read { from: b.remote(128, 64) }, 0, 64, SendFlags::SIGNALED);
    assert_eq!(breaks(fabric, || run_until(fabric, || !c.polled().is_empty())), [Rule::Unfinished]);
    let found = fabric.violations()[0];
    let torn = Action::Request { op: WcOp::Read, qp: Some(c.qp.num()), wr_id: Some(4) };
    assert_eq!((found.second.node, found.second.action, found.first.node), (NodeId(1), torn, NodeId(0)));
}

#[test]
fn another_queue_pairs_read_of_a_word_or_beside_is_whole() {
    let Three { fabric, b, c, .. } = &half_written();
    c.post(4, SendOp::Read { from: b.remote(128, 8) }, 0, 8, SendFlags::SIGNALED);
    c.post(5, SendOp::Read { from: b.remote(LEN, 64) }, 8, 64, SendFlags::SIGNALED);
    settle(fabric);
    assert_eq!(rules(fabric), []);
}

#[test]
fn a_read_behind_a_write_of_its_own_queue_pair_is_in_order() {
    let (fabric, a, b) = two();
    a.post(1, SendOp::Write { to: b.remote(0, LEN), imm: None }, 0, LEN as u32, SendFlags::empty());
    a.post(2, SendOp::Read { from: b.remote(0, LEN) }, LEN as u32, LEN as u32, SendFlags::SIGNALED);
    settle(&fabric);
    assert_eq!(rules(&fabric), []);
}

#[test]
fn a_message_is_unfinished_for_peers_while_it_lands() {
    let Three { fabric, a, b, c, .. } = &three();
    b.recv(7, 0, LEN as u32);
    a.send(1, 0, LEN as u32);
    after_packets(fabric, 3);
    c.post(4, SendOp::Read { from: b.remote(128, 64) }, 0, 64, SendFlags::SIGNALED);
    settle(fabric);
    assert_eq!(rules(fabric), [Rule::Unfinished]);
    let recv = Action::Request { op: WcOp::Recv, qp: Some(b.qp.num()), wr_id: Some(7) };
    assert_eq!(fabric.violations()[0].first.action, recv);
}

#[test]
fn an_answer_is_unfinished_for_peers_while_it_lands() {
    let Three { fabric, a, b, c, .. } = &three();
    b.post(7, SendOp::Read { from: a.remote(0, LEN) }, 0, LEN as u32, SendFlags::SIGNALED);
    after_packets(fabric, 4);
    c.post(4, SendOp::Read { from: b.remote(128, 64) }, 0, 64, SendFlags::SIGNALED);
    settle(fabric);
    assert_eq!(rules(fabric), [Rule::Unfinished]);
    let own = Action::Request { op: WcOp::Read, qp: Some(b.qp.num()), wr_id: Some(7) };
    assert_eq!(fabric.violations()[0].first.action, own);
}

#[test]
fn a_message_that_broke_off_is_over() {
    for change in [Modify::Err, Modify::Reset] {
        let Three { fabric, b, .. } = &half_written();
        assert_eq!(breaks(fabric, || read(&b.mr, 0, LEN)), [Rule::Unfinished]);
        b.qp.modify(&change).unwrap();
        assert_eq!(breaks(fabric, || (read(&b.mr, 0, LEN), write(&b.mr, 0, LEN))), [], "{change:?}");
    }
}

/// The lost end of an answer is asked for again, and comes in one packet.
#[test]
fn an_answer_that_came_in_two_parts_is_whole() {
    let Three { fabric, a, b, c, .. } = &three();
    let last = fault::Rule::new(Verdict::Drop).class(PacketClass::ReadResponse).after(2).times(1);
    fabric.rules(|rules| rules.push(last));
    b.post(7, SendOp::Read { from: a.remote(0, 3000) }, 0, 3000, SendFlags::SIGNALED);
    settle(fabric);
    assert_eq!(ids(&b.polled()), [(7, None)]);
    c.post(4, SendOp::Read { from: b.remote(0, 3000) }, 0, 3000, SendFlags::SIGNALED);
    settle(fabric);
    read(&b.mr, 0, 3000);
    assert_eq!(rules(fabric), []);
}
