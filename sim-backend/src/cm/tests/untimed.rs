//! Where there is no time: whose timer a loss lets run out, and what a call says that it touched.

use super::*;

fn lose(net: &mut Net, name: &str) {
    let at = net.names().iter().position(|n| *n == name).expect("such a message");
    let (to, message) = net.flying.remove(at);
    net.sides[message.from.hca.0 as usize].manager.sent_in_vain(&message);
    net.sides[to.hca.0 as usize].manager.not_received(&message);
}

/// Which connections of a node may ask again.
fn may_ask(net: &Net, node: usize) -> Vec<CommId> {
    net.sides[node].manager.asking().filter(|asking| asking.lost).map(|asking| asking.id).collect()
}

fn touched(net: &mut Net, node: usize) -> Vec<(Part, AccessKind)> {
    let mut touched = Vec::new();
    net.sides[node].manager.take_touched(&mut touched);
    touched
}

/// Two attempts of node 0 at once, toward nodes 1 and 2.
fn two_attempts() -> (Net, [CommId; 2]) {
    let mut net = Net::new(3);
    let ids = [1, 2].map(|to| {
        net.sides[to].manager.listen(APP, PORT).unwrap();
        net.resolved(0, to as u32)
    });
    for (id, num) in ids.into_iter().zip([10, 11]) {
        net.connect(0, id, qp(num));
    }
    (net, ids.map(|id| CommId(id.0 as u32)))
}

#[test]
fn a_loss_lets_that_connection_ask_again_and_no_other() {
    let (mut net, [first, _]) = two_attempts();
    lose(&mut net, "req");
    assert_eq!(may_ask(&net, 0), [first]);
    net.act(0, |m, now, io| m.time_out(now, first, false, io));
    assert_eq!((may_ask(&net, 0), net.names()), (vec![], vec!["req", "req"]));
}

#[test]
fn what_is_lost_while_nobody_asks_lets_nobody_ask_again() {
    let (mut net, a, b) = Net::connected();
    net.disconnect(0, a);
    net.deliver(0);
    // The confirmation is awaited by who asked for it; the other side asks for nothing.
    lose(&mut net, "drep");
    assert_eq!((may_ask(&net, 0), may_ask(&net, 1)), (vec![CommId(a.0 as u32)], vec![]));
    assert!(net.sides[1].manager.find(APP, b).is_err());
}

#[test]
fn what_was_answered_meanwhile_is_not_asked_again() {
    let (mut net, id) = Net::pair();
    net.connect(0, id, qp(10));
    let copy = net.flying[0].clone();
    lose(&mut net, "req");
    net.flying.push(copy);
    net.deliver_all();
    let request = net.request();
    net.accept(1, request, qp(20)).unwrap();
    assert_eq!(may_ask(&net, 0).len(), 1);
    net.deliver_all();
    assert!(may_ask(&net, 0).is_empty());
}

#[test]
fn a_copy_that_changes_nothing_writes_nothing() {
    let (mut net, id) = Net::pair();
    net.connect(0, id, qp(10));
    let copy = net.flying[0].clone();
    net.deliver_all();
    assert!(touched(&mut net, 1).contains(&(Part::Theirs(HcaId(0), CommId(id.0 as u32)), AccessKind::Write)));
    net.flying.push(copy);
    net.deliver_all();
    assert_eq!(touched(&mut net, 1), [(Part::Theirs(HcaId(0), CommId(id.0 as u32)), AccessKind::Read)]);
}

#[test]
fn messages_about_two_connections_change_nothing_that_both_touch() {
    let (mut net, _) = two_attempts();
    net.sides[0].manager.listen(APP, PORT).unwrap();
    net.deliver_all();
    touched(&mut net, 0);
    for (node, num) in [(1, 20), (2, 21)] {
        let event = net.sides[node].events.pop();
        let Some(CmEvent::Request { id, .. }) = event else { panic!("{event:?}") };
        net.accept(node, id, qp(num)).unwrap();
    }
    let mut of_each = Vec::new();
    while !net.flying.is_empty() {
        net.deliver(0);
        of_each.push(touched(&mut net, 0));
    }
    let conflict = |(a, b): (&(Part, AccessKind), &(Part, AccessKind))| {
        a.0 == b.0 && (a.1, b.1) != (AccessKind::Read, AccessKind::Read)
    };
    let [first, second, ..] = &of_each[..] else { panic!("two acceptances") };
    assert!(!first.iter().any(|a| second.iter().any(|b| conflict((a, b)))), "{first:?}\n{second:?}");
}
