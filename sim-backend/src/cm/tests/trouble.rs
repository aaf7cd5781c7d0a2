//! Messages that are lost, doubled or late; ends that leave.

use super::*;

#[test]
fn an_attempt_without_any_answer_ends_after_all_retries() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    let mut sent = 0;
    while net.sides[0].events.is_empty() {
        sent += net.names().iter().filter(|n| **n == "req").count();
        net.flying.clear();
        assert!(net.tick());
    }
    assert_eq!((sent, net.now), (4, Nanos(4_000)), "once and three retries");
    assert_eq!(net.sides[0].events, [CmEvent::Unreachable { id: a }]);
    assert!(known(&net.sides[0].manager) == 0 && !net.sides[0].around.qps.contains_key(&10));
}

#[test]
fn each_message_may_be_lost_once() {
    for lost in ["req", "rep", "rtu"] {
        let (mut net, a) = Net::pair();
        net.connect(0, a, qp(10));
        if lost == "req" {
            net.lose("req");
            net.tick();
        }
        net.deliver_all();
        let b = net.request();
        net.accept(1, b, qp(20)).unwrap();
        if lost == "rep" {
            net.lose("rep");
            net.tick();
        }
        net.deliver(0);
        if lost == "rtu" {
            net.lose("rtu");
            assert_eq!(net.qp(1, 20).state(), QpState::Rtr);
            net.tick();
        }
        net.deliver_all();
        assert!(matches!(net.sides[0].events[..], [CmEvent::Established { .. }]), "{lost}");
        assert!(matches!(net.sides[1].events[..], [CmEvent::Established { .. }]), "{lost}");
        assert!(!net.tick(), "{lost}: nothing is left to repeat");
    }
}

#[test]
fn the_first_packet_settles_a_lost_confirmation() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    net.deliver(0);
    net.lose("rtu");
    net.act(1, |m, now, io| m.communication_established(now, QpNum(99), io));
    assert_eq!(net.sides[1].events, [], "of another queue pair");
    net.act(1, |m, now, io| m.communication_established(now, QpNum(20), io));
    assert_eq!(net.sides[1].events, [CmEvent::Established { id: b, private: vec![] }]);
    assert_eq!(net.qp(1, 20).state(), QpState::Rts);
    assert!(!net.tick());
}

#[test]
fn a_doubled_message_changes_nothing() {
    let (mut net, a) = Net::pair();
    let double = |net: &mut Net| {
        let copies = net.flying.clone();
        net.flying.extend(copies);
    };
    net.connect(0, a, qp(10));
    double(&mut net);
    net.deliver_all();
    assert_eq!(net.sides[1].events.len(), 1, "one request");
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    for _ in 0..3 {
        double(&mut net);
        (0..net.flying.len()).for_each(|_| net.deliver(0));
    }
    net.flying.clear();
    assert_eq!((net.sides[0].events.len(), net.sides[1].events.len()), (1, 1));
    net.disconnect(0, a);
    double(&mut net);
    net.deliver_all();
    assert_eq!(net.sides[1].events[1..], [CmEvent::Disconnected { id: b }]);
}

#[test]
fn a_late_copy_of_a_rejected_request_is_rejected_again() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    let copy = net.flying[0].clone();
    net.deliver_all();
    let b = net.request();
    net.act(1, |m, now, io| m.reject(now, APP, b, b"busy", io)).unwrap();
    net.lose("rej");
    net.flying.push(copy);
    net.deliver_all();
    assert_eq!(net.sides[1].events, [], "no second request");
    let want = CmEvent::Rejected { id: a, reason: RejectReason::Consumer, private: b"busy".to_vec() };
    assert_eq!(net.sides[0].events, [want]);
}

#[test]
fn a_late_copy_of_an_ended_connections_request_makes_no_new_one() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    let copy = net.flying[0].clone();
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    net.deliver_all();
    net.disconnect(0, a);
    net.deliver_all();
    net.sides[1].events.clear();
    net.flying.push(copy);
    net.deliver_all();
    assert_eq!((net.sides[0].events.len(), net.sides[1].events.len()), (1, 0));
}

#[test]
fn disconnecting_tells_the_peer_even_when_messages_are_lost() {
    for lost in ["dreq", "drep"] {
        for (from, to) in [(0, 1), (1, 0)] {
            let (mut net, a, b) = Net::connected();
            let ids = [a, b];
            net.disconnect(from, ids[from]);
            if lost == "drep" {
                net.deliver(0);
            }
            net.lose(lost);
            net.tick();
            net.deliver_all();
            assert_eq!(net.sides[to].events, [CmEvent::Disconnected { id: ids[to] }], "{lost}");
            assert_eq!(net.sides[from].events, []);
            let again = net.act(from, |m, now, io| m.disconnect(now, APP, ids[from], io));
            assert!(again.is_err(), "it is forgotten");
            assert_eq!(net.qp(0, 10).changes.len(), 2, "the queue pair's state is not touched");
        }
    }
}

#[test]
fn both_may_disconnect_at_once() {
    let (mut net, a, b) = Net::connected();
    net.disconnect(0, a);
    net.disconnect(1, b);
    net.deliver_all();
    assert!(net.sides.iter().all(|s| s.events.is_empty() && known(&s.manager) == 0));
    while net.tick() {}
    assert!(net.flying.is_empty() && net.sides.iter().all(|s| s.manager.conns.is_empty()));
}

#[test]
fn giving_up_an_attempt_ends_it_on_both_sides() {
    // Before the request arrives, behind it, and when it was accepted already.
    for accepted in [false, true] {
        let (mut net, a) = Net::pair();
        net.connect(0, a, qp(10));
        net.deliver_all();
        let b = net.request();
        if accepted {
            net.accept(1, b, qp(20)).unwrap();
            net.lose("rep");
        }
        net.disconnect(0, a);
        net.deliver_all();
        let want = if accepted { CmEvent::Unreachable { id: b } } else { CmEvent::Disconnected { id: b } };
        assert_eq!(net.sides[1].events, [want]);
        assert!(net.sides.iter().all(|s| known(&s.manager) == 0));
    }
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.disconnect(0, a);
    net.deliver(1); // The end overtakes the request, which makes a ghost.
    net.deliver_all();
    let ghost = net.request();
    net.accept(1, ghost, qp(20)).unwrap();
    net.deliver_all();
    assert_eq!(net.sides[1].events, [CmEvent::Unreachable { id: ghost }]);
}

#[test]
fn an_acceptance_that_is_never_confirmed_ends() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    while net.sides[1].events.is_empty() {
        net.flying.clear();
        assert!(net.tick());
    }
    assert_eq!(net.sides[1].events, [CmEvent::Unreachable { id: b }]);
}

#[test]
fn half_a_connection_is_told_apart_from_a_whole_one() {
    // Every confirmation is lost: the passive side gives up and says so, the active side hears it.
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    while net.sides[1].events.is_empty() {
        net.flying.retain(|(_, m)| m.body != Body::Rtu);
        match net.flying.is_empty() {
            true => assert!(net.tick()),
            false => net.deliver(0),
        }
    }
    net.deliver_all();
    assert_eq!(net.sides[1].events, [CmEvent::Unreachable { id: b }]);
    let [CmEvent::Established { .. }, end] = &net.sides[0].events[..] else {
        panic!("{:?}", net.sides[0].events)
    };
    assert_eq!(*end, CmEvent::Disconnected { id: a });
}
