//! What a connection brings to both ends, and what it refuses.

use super::*;

#[test]
fn both_queue_pairs_come_up_for_each_other() {
    let (net, ..) = Net::connected();
    let (a, b) = (net.qp(0, 10), net.qp(1, 20));
    for (mine, theirs, num, node) in [(a, b, 20, 1), (b, a, 10, 0)] {
        assert_eq!(mine.state(), QpState::Rts);
        assert_eq!((mine.rtr().dest_qp, mine.rtr().path.dgid), (QpNum(num), address(node).gid));
        assert_eq!(mine.rtr().rq_psn, theirs.rts().sq_psn);
        assert_eq!(mine.rtr().mtu, theirs.rtr().mtu);
        assert_eq!((mine.rtr().max_dest_rd_atomic, mine.rts().max_rd_atomic), (4, 4), "what both sides can");
    }
    assert_ne!(a.rts().sq_psn, b.rts().sq_psn);
    assert_eq!(net.sides[0].manager.deadline().or(net.sides[1].manager.deadline()), None);
}

#[test]
fn private_data_reaches_the_other_application() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let CmEvent::Request { private, .. } = &net.sides[1].events[0] else { panic!() };
    assert_eq!(private, b"hello");
    let b = net.request();
    net.act(1, |m, now, io| m.reject(now, APP, b, b"no room", io)).unwrap();
    net.deliver_all();
    let want = CmEvent::Rejected { id: a, reason: RejectReason::Consumer, private: b"no room".to_vec() };
    assert_eq!(net.sides[0].events, [want]);
    assert!(net.sides.iter().all(|s| known(&s.manager) == 0));
}

#[test]
fn private_data_that_is_too_long_is_refused_with_its_bound() {
    let (mut net, a) = Net::pair();
    let long = [0; 197];
    let refused = |e: Result<()>, bound: u64| match e {
        Err(VerbsError::TooLarge { bound: b, value, .. }) => assert_eq!((b, value), (bound, bound + 1)),
        other => panic!("{other:?}"),
    };
    refused(
        net.act(0, |m, now, io| m.connect(now, APP, a, qp(10), &params(&long[..=MAX_PRIVATE_REQUEST]), io)),
        MAX_PRIVATE_REQUEST as u64,
    );
    assert!(net.flying.is_empty());
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    refused(
        net.act(1, |m, now, io| m.accept(now, APP, b, qp(20), &params(&long[..=MAX_PRIVATE_ACCEPT]), io)),
        MAX_PRIVATE_ACCEPT as u64,
    );
    refused(
        net.act(1, |m, now, io| m.reject(now, APP, b, &long[..=MAX_PRIVATE_REJECT], io)),
        MAX_PRIVATE_REJECT as u64,
    );
    net.accept(1, b, qp(20)).expect("refused calls changed nothing");
}

#[test]
fn more_than_the_adapter_can_is_refused() {
    let (mut net, a) = Net::pair();
    for wrong in [
        ConnParams { responder_resources: 17, ..params(b"") },
        ConnParams { initiator_depth: 17, ..params(b"") },
    ] {
        let got = net.act(0, |m, now, io| m.connect(now, APP, a, qp(10), &wrong, io));
        assert!(matches!(got, Err(VerbsError::TooLarge { .. })), "{got:?}");
    }
}

#[test]
fn the_smaller_packet_size_counts() {
    let (mut net, a) = Net::pair();
    let small = ConnParams { mtu: Some(Mtu::B512), ..params(b"") };
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.act(1, |m, now, io| m.accept(now, APP, b, qp(20), &small, io)).unwrap();
    net.deliver_all();
    assert_eq!((net.qp(0, 10).rtr().mtu, net.qp(1, 20).rtr().mtu), (Mtu::B512, Mtu::B512));
}

#[test]
fn nobody_listens_and_nobody_is_there() {
    let mut net = Net::new(2);
    let a = net.resolved(0, 1);
    net.connect(0, a, qp(10));
    net.deliver_all();
    let want = CmEvent::Rejected { id: a, reason: RejectReason::NoListener, private: vec![] };
    assert_eq!(net.sides[0].events, [want]);
    let gone = net.sides[0].manager.resolve(APP, None, PORT);
    net.collect();
    assert_eq!(net.sides[0].events.pop(), Some(CmEvent::Unreachable { id: gone }));
    let again = net.act(0, |m, now, io| m.connect(now, APP, gone, qp(10), &params(b""), io));
    assert!(matches!(again, Err(VerbsError::Invalid(_))));
}
