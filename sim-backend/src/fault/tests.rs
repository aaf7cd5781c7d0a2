use super::*;
use crate::choice::{First, Seeded};

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

fn packet(src: NodeId, dst: NodeId, class: PacketClass, op: Op) -> PacketInfo {
    PacketInfo { src, src_port: 1, dst, dst_port: 1, class, op, qp: 7, psn: 3 }
}

fn request(src: NodeId, dst: NodeId) -> PacketInfo {
    packet(src, dst, PacketClass::Request, Op::Send)
}

fn struck(faults: &mut Faults, at: u64, fault: Fault) -> (FaultId, Option<Nanos>, Vec<Effect>) {
    let mut effects = vec![];
    let id = faults.plan(Nanos(at), fault);
    let next = faults.due(Nanos(at), id, &mut effects);
    (id, next, effects)
}

fn verdict(faults: &mut Faults, now: u64, packet: PacketInfo) -> Verdict {
    faults.judge(Nanos(now), &packet, &mut First)
}

#[test]
fn a_cut_is_silent_loss_in_its_direction_until_it_ends() {
    let mut faults = Faults::new();
    let cut = Fault::Cut { link: Link::Pair(N0, N1), way: Way::From, lasts: Some(Nanos(50)) };
    let (id, next, effects) = struck(&mut faults, 100, cut);
    assert_eq!((next, effects), (Some(Nanos(150)), vec![]));
    assert_eq!(verdict(&mut faults, 110, request(N0, N1)), Verdict::Drop);
    assert_eq!(verdict(&mut faults, 110, request(N1, N0)), Verdict::Pass);
    assert_eq!(verdict(&mut faults, 110, request(N0, N2)), Verdict::Pass);
    assert_eq!(faults.due(Nanos(150), id, &mut vec![]), None);
    assert_eq!(verdict(&mut faults, 150, request(N0, N1)), Verdict::Pass);
    let record = faults.records()[0];
    assert_eq!((record.packets_hit, record.struck, record.state), (1, true, FaultState::Over));
}

#[test]
fn a_planned_fault_waits_for_its_time() {
    let mut faults = Faults::new();
    faults.plan(Nanos(5), Fault::Cut { link: Link::Node(N0), way: Way::Both, lasts: None });
    assert_eq!(verdict(&mut faults, 9, request(N0, N1)), Verdict::Pass);
    assert_eq!(faults.records()[0].state, FaultState::Planned);
}

#[test]
fn links_and_ways_name_what_they_say() {
    let (a, b) = ((N0, 1), (N1, 2));
    for (link, way, out, back) in [
        (Link::Node(N0), Way::Both, true, true),
        (Link::Node(N0), Way::From, true, false),
        (Link::Node(N0), Way::To, false, true),
        (Link::Node(N2), Way::Both, false, false),
        (Link::Port(N0, 1), Way::From, true, false),
        (Link::Port(N0, 2), Way::Both, false, false),
        (Link::Port(N1, 2), Way::To, true, false),
        (Link::Pair(N0, N1), Way::From, true, false),
        (Link::Pair(N1, N0), Way::From, false, true),
        (Link::Pair(N0, N2), Way::Both, false, false),
    ] {
        assert_eq!((link.carries(way, a, b), link.carries(way, b, a)), (out, back), "{link:?} {way:?}");
        let fault = Fault::Cut { link, way, lasts: None };
        assert_eq!(fault.affects(a, b), out || back, "an operation's packets go both ways");
    }
}

#[test]
fn a_flap_cuts_as_often_as_it_says_and_then_ends() {
    let mut faults = Faults::new();
    let flap = Fault::Flap { link: Link::Node(N1), down: Nanos(10), up: Nanos(30), times: 2 };
    assert_eq!(flap.lasts(), Some(Nanos(50)));
    let (id, next, _) = struck(&mut faults, 0, flap);
    let mut seen = vec![(0, verdict(&mut faults, 0, request(N0, N1)))];
    let mut next = next;
    while let Some(at) = next {
        next = faults.due(at, id, &mut vec![]);
        seen.push((at.0, verdict(&mut faults, at.0, request(N0, N1))));
    }
    let (cut, works) = (Verdict::Drop, Verdict::Pass);
    assert_eq!(seen, [(0, cut), (10, works), (40, cut), (50, works)]);
    assert_eq!(faults.records()[0].state, FaultState::Over);
}

#[test]
fn rates_strike_about_as_often_as_they_say() {
    let mut faults = Faults::new();
    let (link, way, lasts) = (Link::Node(N0), Way::Both, None);
    struck(&mut faults, 0, Fault::Loss { link, way, ppm: 100_000, lasts });
    struck(&mut faults, 0, Fault::Duplicate { link, way, ppm: 100_000, lasts });
    struck(&mut faults, 0, Fault::Corrupt { link, way, ppm: 100_000, lasts });
    let mut choice = Seeded::new(1);
    let mut count = [0u32; 3];
    for _ in 0..100_000 {
        match faults.judge(Nanos(1), &request(N0, N1), &mut choice) {
            Verdict::Drop => count[0] += 1,
            Verdict::Duplicate => count[1] += 1,
            Verdict::Corrupt => count[2] += 1,
            _ => {}
        }
    }
    // A tenth; a tenth of the rest; a tenth of the rest of that. Five deviations are below 500.
    for (got, want) in count.into_iter().zip([10_000, 9_000, 8_100]) {
        assert!(got.abs_diff(want) < 500, "{count:?}");
    }
    let hit: Vec<u64> = faults.records().iter().map(|r| r.packets_hit).collect();
    assert_eq!(hit, count.map(u64::from));
}

#[test]
fn a_delay_has_a_floor_and_a_ceiling() {
    let mut faults = Faults::new();
    let (extra, jitter) = (Nanos(100), Nanos(20));
    struck(
        &mut faults,
        0,
        Fault::Delay { link: Link::Node(N0), way: Way::To, extra, jitter, in_order: false, lasts: None },
    );
    let mut choice = Seeded::new(2);
    let mut late = std::collections::BTreeSet::new();
    for _ in 0..2_000 {
        match faults.judge(Nanos(1), &request(N1, N0), &mut choice) {
            Verdict::Delay(by) => late.insert(by.0),
            other => panic!("{other:?}"),
        };
    }
    assert_eq!((late.first(), late.last(), late.len()), (Some(&100), Some(&120), 21));
}

#[test]
fn a_lost_completion_begins_with_the_answer_and_takes_all_behind_it() {
    let mut faults = Faults::new();
    let (_, next, _) = struck(&mut faults, 0, Fault::LoseCompletion { node: N0, lasts: Some(Nanos(100)) });
    assert_eq!(next, None, "its time begins later");
    let answer = packet(N1, N0, PacketClass::AtomicResponse, Op::CompareSwap);
    // Not its packets: the request itself, the answer to a send, an answer to somebody else.
    assert_eq!(verdict(&mut faults, 5, packet(N0, N1, PacketClass::Request, Op::CompareSwap)), Verdict::Pass);
    assert_eq!(verdict(&mut faults, 5, packet(N1, N0, PacketClass::Ack, Op::Send)), Verdict::Pass);
    assert_eq!(
        verdict(&mut faults, 5, packet(N0, N1, PacketClass::AtomicResponse, Op::FetchAdd)),
        Verdict::Pass
    );
    assert_eq!(verdict(&mut faults, 500, answer), Verdict::Drop);
    assert_eq!(verdict(&mut faults, 501, request(N1, N0)), Verdict::Drop, "all behind it, whatever it is");
    assert_eq!(verdict(&mut faults, 501, request(N2, N0)), Verdict::Pass, "from that peer only");
    assert_eq!(verdict(&mut faults, 501, request(N0, N1)), Verdict::Pass, "and that way only");
    assert_eq!(verdict(&mut faults, 599, answer), Verdict::Drop, "a replayed answer too");
    assert_eq!(verdict(&mut faults, 600, answer), Verdict::Pass);
    let record = faults.records()[0];
    assert_eq!((record.packets_hit, record.struck, record.state), (3, true, FaultState::Over));
}

#[test]
fn a_write_is_completed_by_its_acknowledgement() {
    for (class, op) in [(PacketClass::Ack, Op::Write), (PacketClass::ReadResponse, Op::Read)] {
        let mut faults = Faults::new();
        struck(&mut faults, 0, Fault::LoseCompletion { node: N0, lasts: None });
        assert_eq!(verdict(&mut faults, 1, packet(N1, N0, class, op)), Verdict::Drop);
        assert_eq!(verdict(&mut faults, u64::MAX - 1, request(N1, N0)), Verdict::Drop);
    }
}

#[test]
fn a_port_comes_up_with_the_end_of_the_last_fault_that_holds_it_down() {
    let mut faults = Faults::new();
    let down = |lasts| Fault::PortDown { node: N1, port: 1, lasts: Some(Nanos(lasts)) };
    let (a, _, first) = struck(&mut faults, 0, down(10));
    let (b, _, second) = struck(&mut faults, 0, down(20));
    assert_eq!((first, second), (vec![Effect::PortDown { node: N1, port: 1 }], vec![]));
    assert_eq!(verdict(&mut faults, 1, request(N0, N1)), Verdict::Drop);
    let mut effects = vec![];
    faults.due(Nanos(10), a, &mut effects);
    assert_eq!(effects, []);
    assert_eq!(verdict(&mut faults, 11, request(N0, N1)), Verdict::Drop);
    faults.due(Nanos(20), b, &mut effects);
    assert_eq!(effects, [Effect::PortUp { node: N1, port: 1 }]);
    assert_eq!(verdict(&mut faults, 21, request(N0, N1)), Verdict::Pass);
}

#[test]
fn the_slowest_fault_of_a_node_counts() {
    let mut faults = Faults::new();
    let slow = |percent| Fault::SlowNode { node: N2, percent, lasts: Some(Nanos(10)) };
    let (_, _, e) = struck(&mut faults, 0, slow(300));
    assert_eq!(e, [Effect::Speed { node: N2, percent: 300 }]);
    let (b, _, e) = struck(&mut faults, 0, slow(500));
    assert_eq!(e, [Effect::Speed { node: N2, percent: 500 }]);
    let mut effects = vec![];
    faults.due(Nanos(10), b, &mut effects);
    faults.stop(&mut effects);
    assert_eq!(effects, [300, 100].map(|percent| Effect::Speed { node: N2, percent }));
}

#[test]
fn a_crashed_node_hears_nothing_until_its_restart() {
    let mut faults = Faults::new();
    let (_, next, effects) = struck(&mut faults, 0, Fault::Crash { node: N1 });
    assert_eq!((next, effects), (None, vec![Effect::Crash { node: N1 }]));
    assert_eq!(verdict(&mut faults, 1, request(N0, N1)), Verdict::Drop);
    faults.stop(&mut vec![]);
    assert_eq!(verdict(&mut faults, 2, request(N0, N1)), Verdict::Drop, "stopping faults raises no dead");
    let (_, next, effects) = struck(&mut faults, 3, Fault::Restart { node: N1 });
    assert_eq!((next, effects), (None, vec![Effect::Restart { node: N1 }]));
    assert_eq!(verdict(&mut faults, 4, request(N0, N1)), Verdict::Pass);
}

#[test]
fn stopping_ends_what_is_active_and_cancels_what_is_planned() {
    let mut faults = Faults::new();
    let cut = Fault::Cut { link: Link::Node(N0), way: Way::Both, lasts: None };
    struck(&mut faults, 0, cut);
    let later = faults.plan(Nanos(99), cut);
    struck(&mut faults, 0, Fault::PortDown { node: N1, port: 1, lasts: None });
    faults.rules().push(Rule::new(Verdict::Drop));
    let mut effects = vec![];
    faults.stop(&mut effects);
    assert_eq!(effects, [Effect::PortUp { node: N1, port: 1 }]);
    assert_eq!(verdict(&mut faults, 1, request(N0, N1)), Verdict::Pass);
    assert_eq!(faults.due(Nanos(99), later, &mut effects), None);
    assert_eq!(verdict(&mut faults, 99, request(N0, N1)), Verdict::Pass);
    let states: Vec<FaultState> = faults.records().iter().map(|r| r.state).collect();
    assert_eq!(states, [FaultState::Over, FaultState::Cancelled, FaultState::Over]);
}

/// Faults that are over cost nothing: by a look at all that ever were, this takes 10^10 steps, and more than a minute.
#[test]
fn a_fault_costs_the_same_whether_few_or_many_were_before() {
    let mut faults = Faults::new();
    let down = Fault::PortDown { node: N1, port: 1, lasts: Some(Nanos(1)) };
    let began = std::time::Instant::now();
    for at in 0..100_000 {
        let (id, next, mut effects) = struck(&mut faults, 2 * at, down);
        faults.due(next.expect("it ends"), id, &mut effects);
        assert_eq!(effects.len(), 2, "down and up");
    }
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[test]
fn connection_set_up_is_hit_but_no_operation_of_it_struck() {
    let mut faults = Faults::new();
    struck(&mut faults, 0, Fault::Cut { link: Link::Node(N0), way: Way::Both, lasts: None });
    assert_eq!(verdict(&mut faults, 1, packet(N0, N1, PacketClass::Cm, Op::Other)), Verdict::Drop);
    assert_eq!((faults.records()[0].packets_hit, faults.records()[0].struck), (1, false));
}

#[test]
fn a_cut_amid_operations_strikes_none_until_it_hits_a_packet_and_a_slow_node_does_at_once() {
    let mut faults = Faults::new();
    let (cut, _, _) =
        struck(&mut faults, 0, Fault::Cut { link: Link::Node(N0), way: Way::Both, lasts: None });
    let (slow, _, _) = struck(&mut faults, 0, Fault::SlowNode { node: N0, percent: 300, lasts: None });
    faults.began_amid_operations(cut);
    faults.began_amid_operations(slow);
    let seen: Vec<bool> = faults.records().iter().map(|record| record.struck).collect();
    assert_eq!(seen, [false, true]);
    verdict(&mut faults, 1, packet(N0, N1, PacketClass::Request, Op::Send));
    assert!(faults.records()[0].struck);
}

#[test]
fn the_first_rule_that_strikes_decides() {
    let mut faults = Faults::new();
    let ack = packet(N1, N0, PacketClass::Ack, Op::Send);
    let second = faults.rules().push(Rule::new(Verdict::Drop).class(PacketClass::Ack).after(1).times(1));
    let rest = faults.rules().push(Rule::new(Verdict::Duplicate).dst(N0).src(N1).op(Op::Send).qp(7).psn(3));
    let got: Vec<Verdict> = (0..4).map(|t| verdict(&mut faults, t, ack)).collect();
    let twice = Verdict::Duplicate;
    assert_eq!(got, [twice, Verdict::Drop, twice, twice]);
    assert_eq!((faults.rules().struck(second), faults.rules().struck(rest)), (Some(1), Some(3)));
    for other in [PacketInfo { psn: 4, ..ack }, PacketInfo { qp: 8, ..ack }, request(N0, N1)] {
        assert_eq!(verdict(&mut faults, 9, other), Verdict::Pass);
    }
    assert!(faults.rules().remove(rest) && !faults.rules().remove(rest));
    assert_eq!(verdict(&mut faults, 9, ack), Verdict::Pass);
}

#[test]
fn impossible_faults_are_refused_with_the_bound() {
    let (way, lasts) = (Way::Both, None);
    let loss = |ppm| Fault::Loss { link: Link::Node(N0), way, ppm, lasts };
    assert_eq!(loss(1_000_000).check(3, 1), Ok(()));
    assert_eq!(
        loss(1_000_001).check(3, 1).unwrap_err().to_string(),
        "a rate in packets a million is 1000001, and must be from 0 to 1000000"
    );
    assert_eq!(
        Fault::Crash { node: NodeId(3) }.check(3, 1),
        Err(FaultError::NoSuchNode { node: NodeId(3), nodes: 3 })
    );
    assert_eq!(
        Fault::PortDown { node: N0, port: 2, lasts }.check(3, 1).unwrap_err().to_string(),
        "node n0 has no port 2: they count from 1 to 1"
    );
    let pair = Fault::Cut { link: Link::Pair(N1, N1), way, lasts };
    assert_eq!(pair.check(3, 1), Err(FaultError::SameNode(N1)));
    let flap = Fault::Flap { link: Link::Node(N0), down: Nanos(1), up: Nanos(1), times: 0 };
    assert!(matches!(flap.check(3, 1), Err(FaultError::OutOfBounds { value: 0, least: 1, .. })));
}

#[test]
fn faults_read_as_people_say_them() {
    let cut = Fault::Cut { link: Link::Pair(N0, N1), way: Way::From, lasts: Some(Nanos(2_000)) };
    assert_eq!(cut.to_string(), "cut n0-n1 outward for 2.00 us");
    let flap = Fault::Flap { link: Link::Port(N2, 1), down: Nanos(100), up: Nanos(900), times: 3 };
    assert_eq!(flap.to_string(), "flap n2.1 3 times 100 ns in 1.00 us");
    assert_eq!(Fault::Crash { node: N1 }.to_string(), "crash n1");
}
