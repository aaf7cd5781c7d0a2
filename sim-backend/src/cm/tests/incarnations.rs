//! Queue pairs and peers that go and come back.

use super::*;

#[test]
fn a_queue_pair_that_was_taken_away_ends_the_attempt() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    net.sides[0].around.qps.entry(10).or_default().gone = true;
    net.deliver_all();
    assert_eq!(net.sides[0].events, [CmEvent::Unreachable { id: a }]);
    assert_eq!(net.sides[1].events, [CmEvent::Unreachable { id: b }]);

    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    net.sides[1].around.qps.entry(20).or_default().gone = true;
    net.deliver_all();
    assert_eq!(net.sides[1].events, [CmEvent::Unreachable { id: b }]);
    assert_eq!(net.sides[0].events[1..], [CmEvent::Disconnected { id: a }]);
}

#[test]
fn accepting_with_a_wrong_queue_pair_leaves_the_request_open() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.sides[1].around.qps.entry(20).or_default().gone = true;
    assert!(net.accept(1, b, qp(20)).is_err());
    assert!(net.flying.is_empty());
    net.accept(1, b, qp(21)).unwrap();
    net.deliver_all();
    assert!(matches!(net.sides[0].events[..], [CmEvent::Established { .. }]));
}

#[test]
fn a_peer_that_crashed_and_asks_anew_has_forgotten_the_old_connection() {
    let (mut net, _, b) = Net::connected();
    net.sides[0].manager = Manager::new(SETTINGS, 1);
    net.sides[0].around.qps.clear();
    let a = net.resolved(0, 1);
    net.connect(0, a, qp(10));
    net.deliver_all();
    let [old, CmEvent::Request { id: new, .. }] = &net.sides[1].events[..] else { panic!() };
    assert_eq!((old, *new == b), (&CmEvent::Disconnected { id: b }, false));
    let new = *new;
    net.sides[1].events.clear();
    net.accept(1, new, qp(21)).unwrap();
    net.deliver_all();
    assert!(matches!(net.sides[0].events[..], [CmEvent::Established { .. }]));
    assert!(matches!(net.sides[1].events[..], [CmEvent::Established { .. }]));
}

#[test]
fn messages_to_an_earlier_life_find_nobody() {
    let (mut net, a) = Net::pair();
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    net.sides[0].manager = Manager::new(SETTINGS, 1);
    let other = net.resolved(0, 1);
    net.connect(0, other, qp(10));
    net.deliver(0);
    assert!(net.sides[0].events.is_empty(), "the acceptance was of another attempt");
    net.deliver_all();
    assert!(net.sides[1].events.contains(&CmEvent::Unreachable { id: b }));
}

#[test]
fn a_node_connects_with_itself() {
    let mut net = Net::new(1);
    net.sides[0].manager.listen(APP, PORT).unwrap();
    let a = net.resolved(0, 0);
    net.connect(0, a, qp(10));
    net.deliver_all();
    let Some(CmEvent::Request { id: b, .. }) = net.sides[0].events.pop() else { panic!() };
    net.accept(0, b, qp(20)).unwrap();
    net.deliver_all();
    assert!(
        matches!(net.sides[0].events[..], [CmEvent::Established { id: x, .. }, CmEvent::Established { id: y, .. }] if x == a && y == b)
    );
    assert_eq!((net.qp(0, 10).rtr().dest_qp, net.qp(0, 20).rtr().dest_qp), (QpNum(20), QpNum(10)));
    net.sides[0].events.clear();
    net.disconnect(0, a);
    net.deliver_all();
    assert_eq!(net.sides[0].events, [CmEvent::Disconnected { id: b }]);
}

#[test]
fn a_queue_pair_connects_again_after_its_connection_ended() {
    let (mut net, a, _) = Net::connected();
    net.disconnect(0, a);
    net.deliver_all();
    net.sides.iter_mut().for_each(|s| {
        s.events.clear();
        s.around.qps.clear();
    });
    let again = net.resolved(0, 1);
    net.connect(0, again, qp(10));
    net.deliver_all();
    let b = net.request();
    net.accept(1, b, qp(20)).unwrap();
    net.deliver_all();
    assert_eq!(net.sides[1].events, [CmEvent::Established { id: b, private: vec![] }]);
}

#[test]
fn one_applications_connections_are_none_of_anothers() {
    let (mut net, a, b) = Net::connected();
    let other = Owner(5);
    assert!(net.sides[1].manager.listen(other, PORT).is_err(), "the service is taken");
    assert!(net.act(0, |m, now, io| m.disconnect(now, other, a, io)).is_err());
    net.act(1, |m, now, io| m.close(now, APP, io));
    net.deliver_all();
    assert_eq!(net.sides[0].events, [CmEvent::Disconnected { id: a }]);
    assert!(net.act(1, |m, now, io| m.disconnect(now, APP, b, io)).is_err());
    net.sides[1].manager.listen(other, PORT).expect("the service is free again");
}

#[test]
fn calls_out_of_turn_are_errors() {
    let (mut net, a) = Net::pair();
    assert!(net.accept(0, a, qp(10)).is_err());
    assert!(net.act(0, |m, now, io| m.reject(now, APP, a, b"", io)).is_err());
    net.connect(0, a, qp(10));
    assert!(net.act(0, |m, now, io| m.connect(now, APP, a, qp(11), &params(b""), io)).is_err());
    assert!(net.act(0, |m, now, io| m.disconnect(now, APP, CmId(u64::MAX), io)).is_err());
}
