//! Two or three managers on a network that loses, doubles and reorders.

use super::*;
use crate::choice::{Choice, Seeded};
use proptest::prelude::*;
use verbs_trait::{AckTimeout, Gid, QpState, Retries, RnrTimer, ToRtr, ToRts};

/// A queue pair as the manager sees it.
#[derive(Clone, Debug, Default)]
struct FakeQp {
    changes: Vec<Modify>,
    gone: bool,
}

impl FakeQp {
    fn state(&self) -> QpState {
        match self.changes.last() {
            None => QpState::Init,
            Some(Modify::Rtr(_)) => QpState::Rtr,
            Some(_) => QpState::Rts,
        }
    }
    fn rtr(&self) -> ToRtr {
        let is = |m: &Modify| if let Modify::Rtr(to) = m { Some(*to) } else { None };
        self.changes.iter().find_map(is).expect("it went to RTR")
    }
    fn rts(&self) -> ToRts {
        let is = |m: &Modify| if let Modify::Rts(to) = m { Some(*to) } else { None };
        self.changes.iter().find_map(is).expect("it went to RTS")
    }
}

#[derive(Default)]
struct Around {
    sent: Vec<(Address, Message)>,
    qps: BTreeMap<u32, FakeQp>,
    psn: u32,
}

impl Surroundings for Around {
    fn send(&mut self, to: Address, message: Message) {
        self.sent.push((to, message));
    }
    fn modify(&mut self, qp: QpRef, change: &Modify) -> Result<()> {
        let fake = self.qps.entry(qp.num.0).or_default();
        if fake.gone {
            return Err(VerbsError::Invalid("the queue pair is gone"));
        }
        change.check(fake.state(), verbs_trait::QpType::Rc)?;
        fake.changes.push(*change);
        Ok(())
    }
    fn starting_psn(&mut self) -> Psn {
        self.psn += 1_000;
        Psn::new(self.psn)
    }
}

struct Side {
    manager: Manager,
    around: Around,
    events: Vec<CmEvent>,
}

struct Net {
    now: Nanos,
    sides: Vec<Side>,
    /// Messages on their way, in the order of sending.
    flying: Vec<(Address, Message)>,
}

const APP: Owner = Owner(0);
const PORT: Service = Service(7);
const SETTINGS: Settings =
    Settings { response: Nanos(1_000), retries: 3, mtu: Mtu::B2048, max_rd_atomic: 16 };

fn address(node: u32) -> Address {
    let mut gid = [0; 16];
    gid[15] = node as u8;
    Address { node: NodeId(node), port: 1, gid: Gid(gid) }
}

fn qp(n: u32) -> QpRef {
    QpRef { num: QpNum(n), generation: 0 }
}

fn params(private: &[u8]) -> ConnParams<'_> {
    ConnParams {
        private,
        responder_resources: 4,
        initiator_depth: 8,
        timeout: AckTimeout::new(14).unwrap(),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        min_rnr_timer: RnrTimer::new(12).unwrap(),
        mtu: None,
    }
}

impl Net {
    fn new(nodes: u32) -> Net {
        let side = |node| Side {
            manager: Manager::new(address(node), SETTINGS, 0),
            around: Around { psn: node * 77, ..Around::default() },
            events: vec![],
        };
        Net { now: Nanos(0), sides: (0..nodes).map(side).collect(), flying: vec![] }
    }

    /// A net of nodes 0 and 1; 1 listens, 0 has resolved it.
    fn pair() -> (Net, CmId) {
        let mut net = Net::new(2);
        net.sides[1].manager.listen(APP, PORT).unwrap();
        let id = net.resolved(0, 1);
        (net, id)
    }

    fn resolved(&mut self, from: usize, to: u32) -> CmId {
        let id = self.sides[from].manager.resolve(APP, Some(address(to)), PORT);
        self.collect();
        assert_eq!(self.sides[from].events.pop(), Some(CmEvent::Resolved { id }));
        id
    }

    fn act<R>(&mut self, node: usize, f: impl FnOnce(&mut Manager, Nanos, &mut Around) -> R) -> R {
        let side = &mut self.sides[node];
        let result = f(&mut side.manager, self.now, &mut side.around);
        self.collect();
        result
    }

    fn collect(&mut self) {
        for side in &mut self.sides {
            self.flying.append(&mut side.around.sent);
            side.events.extend(std::iter::from_fn(|| side.manager.event(APP)));
        }
    }

    fn connect(&mut self, node: usize, id: CmId, qp: QpRef) {
        self.act(node, |m, now, io| m.connect(now, APP, id, qp, &params(b"hello"), io)).unwrap();
    }

    fn accept(&mut self, node: usize, id: CmId, qp: QpRef) -> Result<()> {
        self.act(node, |m, now, io| m.accept(now, APP, id, qp, &params(b"welcome"), io))
    }

    fn disconnect(&mut self, node: usize, id: CmId) {
        self.act(node, |m, now, io| m.disconnect(now, APP, id, io)).unwrap();
    }

    /// The kinds of message on their way.
    fn names(&self) -> Vec<&'static str> {
        self.flying.iter().map(|(_, m)| m.name()).collect()
    }

    fn deliver(&mut self, at: usize) {
        let (to, message) = self.flying.remove(at);
        self.act(to.node.index(), |m, now, io| m.on_message(now, message, io));
    }

    fn deliver_all(&mut self) {
        while !self.flying.is_empty() {
            self.deliver(0);
        }
    }

    fn lose(&mut self, name: &str) {
        let at = self.names().iter().position(|n| *n == name).expect("such a message");
        self.flying.remove(at);
    }

    /// Lets the earliest timer fire. `false` if there is none.
    fn tick(&mut self) -> bool {
        let Some(at) = self.sides.iter().filter_map(|s| s.manager.deadline()).min() else { return false };
        self.now = self.now.max(at);
        for node in 0..self.sides.len() {
            self.act(node, |m, now, io| m.on_timer(now, io));
        }
        true
    }

    /// Node 1's request event, taken.
    fn request(&mut self) -> CmId {
        let Some(CmEvent::Request { id, service: PORT, .. }) = self.sides[1].events.pop() else {
            panic!("no request: {:?}", self.sides[1].events)
        };
        id
    }

    /// Connects node 0's queue pair 10 with node 1's 20.
    fn connected() -> (Net, CmId, CmId) {
        let (mut net, a) = Net::pair();
        net.connect(0, a, qp(10));
        net.deliver_all();
        let b = net.request();
        net.accept(1, b, qp(20)).unwrap();
        net.deliver_all();
        assert_eq!(net.sides[0].events, [CmEvent::Established { id: a, private: b"welcome".to_vec() }]);
        assert_eq!(net.sides[1].events, [CmEvent::Established { id: b, private: vec![] }]);
        net.sides.iter_mut().for_each(|s| s.events.clear());
        (net, a, b)
    }

    fn qp(&self, node: usize, num: u32) -> &FakeQp {
        &self.sides[node].around.qps[&num]
    }
}

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
    assert!(net.sides.iter().all(|s| s.manager.is_empty()));
}

#[test]
fn private_data_that_is_too_long_is_refused_with_its_bound() {
    let (mut net, a) = Net::pair();
    let long = [0; 197];
    let refused = |e: Result<()>, bound: u64| match e {
        Err(VerbsError::TooLarge { bound: b, value, .. }) => assert_eq!((b, value), (bound, bound + 1)),
        other => panic!("{other:?}"),
    };
    refused(net.act(0, |m, now, io| m.connect(now, APP, a, qp(10), &params(&long[..57]), io)), 56);
    assert!(net.flying.is_empty());
    net.connect(0, a, qp(10));
    net.deliver_all();
    let b = net.request();
    refused(net.act(1, |m, now, io| m.accept(now, APP, b, qp(20), &params(&long), io)), 196);
    refused(net.act(1, |m, now, io| m.reject(now, APP, b, &long[..149], io)), 148);
    net.accept(1, b, qp(20)).expect("refused calls changed nothing");
}

#[test]
fn more_than_the_adapter_can_is_refused() {
    let (mut net, a) = Net::pair();
    for wrong in [
        ConnParams { responder_resources: 17, ..params(b"") },
        ConnParams { initiator_depth: 17, ..params(b"") },
        ConnParams { mtu: Some(Mtu::B4096), ..params(b"") },
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
    assert!(net.sides[0].manager.is_empty() && !net.sides[0].around.qps.contains_key(&10));
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
    assert!(net.sides.iter().all(|s| s.events.is_empty() && s.manager.is_empty()));
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
        assert!(net.sides.iter().all(|s| s.manager.is_empty()));
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
    net.sides[0].manager = Manager::new(address(0), SETTINGS, 1);
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
    net.sides[0].manager = Manager::new(address(0), SETTINGS, 1);
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

/// What one end saw of a connection: at most one outcome, and an end only after it.
fn check_story(events: &[CmEvent], id: CmId) {
    let (mut outcome, mut ended) = (0, 0);
    for event in events {
        match event {
            CmEvent::Established { id: i, .. } if *i == id => {
                assert_eq!(ended, 0, "{events:?}");
                outcome += 1;
            }
            CmEvent::Rejected { id: i, .. } | CmEvent::Unreachable { id: i } if *i == id => {
                outcome += 1;
                ended += 1;
            }
            CmEvent::Disconnected { id: i } if *i == id => ended += 1,
            _ => {}
        }
    }
    assert!(outcome <= 1 && ended <= 1, "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_loss_doubling_and_order_ends_in_agreement(seed: u64, loss in 0u32..600_000, act in 0u64..6) {
        let mut choice = Seeded::new(seed);
        let (mut net, a) = Net::pair();
        net.connect(0, a, qp(10));
        let (mut b, mut ended, mut steps) = (None, false, 0);
        loop {
            steps += 1;
            prop_assert!(steps < 10_000, "it does not come to rest");
            if let Some(CmEvent::Request { id, .. }) =
                net.sides[1].events.iter().find(|e| matches!(e, CmEvent::Request { .. })).cloned()
            {
                prop_assert!(b.is_none_or(|b| b == id), "one attempt makes one request");
                if b.is_none() {
                    b = Some(id);
                    // It may be over already; then the answer is refused.
                    let _ = if act == 1 {
                        net.act(1, |m, now, io| m.reject(now, APP, id, b"", io))
                    } else {
                        net.accept(1, id, qp(20))
                    };
                }
            }
            if !ended && act >= 2 && choice.chance("end", 100_000) {
                ended = true;
                let (node, id) = if act % 2 == 0 { (0, Some(a)) } else { (1, b) };
                if let Some(id) = id {
                    let _ = net.act(node, |m, now, io| m.disconnect(now, APP, id, io));
                }
            }
            if net.flying.is_empty() || choice.chance("timer", 50_000) {
                if !net.tick() && net.flying.is_empty() {
                    break;
                }
                continue;
            }
            let at = choice.pick("which", net.flying.len() as u64) as usize;
            if choice.chance("loss", loss) {
                net.flying.remove(at);
            } else {
                if choice.chance("double", 100_000) {
                    let copy = net.flying[at].clone();
                    net.flying.push(copy);
                }
                net.deliver(at);
            }
        }
        check_story(&net.sides[0].events, a);
        if let Some(b) = b {
            check_story(&net.sides[1].events, b);
        }
        let stands = |node: usize| net.sides[node].manager.len() == 1;
        if stands(0) && stands(1) {
            let (qa, qb) = (net.qp(0, 10), net.qp(1, 20));
            prop_assert_eq!((qa.state(), qb.state()), (QpState::Rts, QpState::Rts));
            prop_assert_eq!((qa.rtr().rq_psn, qb.rtr().rq_psn), (qb.rts().sq_psn, qa.rts().sq_psn));
        }
        if loss == 0 && !ended && act != 1 {
            prop_assert!(stands(0) && stands(1));
        }
        if ended || act == 1 || !stands(0) {
            prop_assert!(net.sides[0].manager.conns.len() <= 1 && net.sides[1].manager.conns.len() <= 1);
        }
    }
}
