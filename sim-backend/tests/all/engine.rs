//! The adapter's engine alone: what it does with packets in any order, number and shape.

use proptest::prelude::*;
use weft_sim::bench::*;
use weft_verbs::*;

const ADD: Op = Op::Atomic { at: Remote { addr: 0, rkey: 0 }, atomic: Atomic::FetchAdd { add: 1 } };

fn fetch_add(bench: &Bench) -> Op {
    match ADD {
        Op::Atomic { atomic, .. } => Op::Atomic { at: bench.remote(1, 0), atomic },
        other => other,
    }
}

#[test]
fn a_packet_sequence_number_wraps_without_notice() {
    let mut bench = Bench::connected();
    for n in 0..10 {
        let data = bench.sge(0, 8, 8);
        let op = fetch_add(&bench);
        bench.post(0, n, op, data).unwrap();
        bench.settle();
    }
    assert_eq!(bench.word(1, 0), 10);
    assert_eq!(bench.poll(0).len(), 10);
}

#[test]
fn a_duplicate_atomic_is_answered_from_the_record() {
    let mut bench = Bench::connected();
    let (op, data) = (fetch_add(&bench), bench.sge(0, 8, 8));
    bench.post(0, 1, op, data).unwrap();
    let request = bench.to[1][0];
    bench.settle();
    bench.memory(1).write(0, &77u64.to_ne_bytes());
    for _ in 0..3 {
        bench.give(1, request);
        let Body::AtomicResponse { original, .. } = bench.to[0].pop_front().unwrap().body else { panic!() };
        assert_eq!(original, 0, "as it was then, not as it is now");
    }
    assert_eq!(bench.word(1, 0), 77, "and not executed again");
}

#[test]
fn a_record_that_was_displaced_is_not_answered() {
    let mut bench = Bench::connected();
    let (op, data) = (fetch_add(&bench), bench.sge(0, 8, 8));
    bench.post(0, 0, op, data.clone()).unwrap();
    let first = bench.to[1][0];
    bench.settle();
    for n in 1..=4 {
        bench.post(0, n, op, data.clone()).unwrap();
        bench.settle();
    }
    bench.give(1, first);
    assert!(bench.to[0].is_empty(), "four records are kept, and this was the fifth last");
    assert_eq!(bench.word(1, 0), 5);
}

/// End 0 asks to read all that end 1 has, for the n-th time, from 0. It is answered by 64 packets.
fn asks_to_read_all(bench: &Bench, n: u32) -> Packet {
    let from = Reth { addr: bench.ends[1].addr, rkey: bench.ends[1].rkey, len: LEN as u32 };
    let body = Body::ReadRequest { from };
    let (from, to, route) = (bench.endpoint(0), bench.endpoint(1), bench.route(0));
    let (data, op) = (Data::NONE, weft_sim::fault::Op::Read);
    let (psn, ack_req, solicited, migrated) = (PSN.plus(64 * n), false, false, true);
    Packet { from, to, route, psn, ack_req, solicited, migrated, body, data, op }
}

#[test]
fn a_read_more_than_is_served_at_a_time_is_refused() {
    let mut bench = Bench::connected();
    // Each is answered by 64 packets, of which 16 leave a turn: with the fifth the first has been answered.
    for n in 0..6 {
        assert_eq!(bench.qp(1).state(), QpState::Rts, "before read {n}");
        let packet = asks_to_read_all(&bench, n);
        bench.give(1, packet);
    }
    let refused = |packet: &&Packet| matches!(packet.body, Body::Ack { syndrome: Syndrome::Nak(_), .. });
    for _ in 0..30 {
        bench.serve(1);
    }
    let nak = bench.to[0].iter().find(refused).expect("a refusal, behind the answers");
    assert_eq!(nak.body, Body::Ack { syndrome: Syndrome::Nak(Nak::InvalidRequest), msn: 5 });
    assert_eq!(
        bench.qp(1).state(),
        QpState::Err,
        "four are served at a time, and the sixth was the fifth of them"
    );
}

/// End 1 has answered a read, and answers it some times more. Its requester may have the first answer, and be done.
fn answers_again(times: usize) -> Bench {
    let mut bench = Bench::connected();
    let packet = asks_to_read_all(&bench, 0);
    bench.give(1, packet);
    (0..4).for_each(|_| bench.serve(1));
    assert_eq!(bench.to[0].len(), 64);
    (0..times).for_each(|_| bench.give(1, packet));
    bench
}

#[test]
fn a_read_is_taken_while_those_before_it_are_answered_once_more() {
    let mut bench = answers_again(5);
    let packet = asks_to_read_all(&bench, 1);
    bench.give(1, packet);
    (0..30).for_each(|_| bench.serve(1));
    assert_eq!(bench.qp(1).state(), QpState::Rts);
    assert_eq!(bench.to[0].len(), 7 * 64);
}

#[test]
fn a_region_given_up_while_its_read_is_answered_once_more_breaks_nothing() {
    let mut bench = answers_again(1);
    let mr = bench.ends[1].mr;
    bench.ends[1].hca.hw.memory.drop_handle(mr);
    (0..8).for_each(|_| bench.serve(1));
    assert_eq!(bench.qp(1).state(), QpState::Rts);
    assert!(bench.to[0].iter().all(|packet| matches!(packet.body, Body::ReadResponse { .. })));
}

#[test]
fn a_read_answered_in_part_is_resumed_where_it_broke() {
    let mut bench = Bench::connected();
    let bytes: Vec<u8> = (0..1024u32).map(|n| (n * 7) as u8).collect();
    bench.memory(1).write(0, &bytes);
    let (from, data) = (bench.remote(1, 0), bench.sge(0, 4096, 1024));
    bench.post(0, 1, Op::Read { from }, data).unwrap();
    bench.deliver(1);
    bench.deliver(0);
    bench.to[0].clear();
    assert!(bench.time_out(0));
    let Body::ReadRequest { from } = bench.to[1][0].body else { panic!() };
    assert_eq!((from.addr - bench.ends[1].addr, from.len), (256, 768));
    bench.settle();
    assert_eq!(bench.poll(0).len(), 1);
    let mut got = vec![0; 1024];
    bench.memory(0).read(4096, &mut got);
    assert_eq!(got, bytes);
}

#[test]
fn a_lost_read_answer_is_noticed_by_the_next_one() {
    let mut bench = Bench::connected();
    for n in 0..3 {
        let (from, data) = (bench.remote(1, 0), bench.sge(0, 4096, 8));
        bench.post(0, n, Op::Read { from }, data).unwrap();
    }
    while bench.deliver(1) {}
    bench.to[0].pop_front();
    bench.settle();
    assert_eq!(bench.poll(0).len(), 3, "without a time-out");
    assert_eq!(bench.stats.timeouts, 0);
}

#[test]
fn what_a_long_message_has_in_flight_is_bounded() {
    let mut bench = Bench::connected();
    let (to, data) = (bench.remote(1, 0), bench.sge(0, 0, LEN as u32));
    for n in 0..8 {
        bench.post(0, n, Op::Write { to, imm: None }, data.clone()).unwrap();
    }
    let mut most = 0;
    loop {
        most = most.max(bench.to[1].len());
        let before = bench.stats.delivered;
        // One end only, so that acknowledgements wait: the window closes.
        while bench.qp(0).service_at <= bench.now && bench.to[1].len() <= 100 {
            bench.serve(0);
        }
        most = most.max(bench.to[1].len());
        bench.settle();
        if bench.stats.delivered == before {
            break;
        }
    }
    assert_eq!(bench.poll(0).len(), 8);
    assert!(most <= 64, "{most} packets in flight");
    assert_eq!(bench.buffers.in_use(), 0, "every payload's buffer came back");
    assert_eq!(bench.packets.len(), 0);
}

#[test]
fn a_region_given_up_during_a_read_ends_it_with_an_access_error() {
    let mut bench = Bench::connected();
    let (from, data) = (bench.remote(1, 0), bench.sge(0, 0, LEN as u32));
    bench.post(0, 1, Op::Read { from }, data).unwrap();
    bench.deliver(1);
    let mr = bench.ends[1].mr;
    bench.ends[1].hca.hw.memory.drop_handle(mr);
    bench.settle();
    assert_eq!(bench.poll(0)[0].result, Err(WcError::RemAccess));
    assert_eq!(bench.qp(1).state(), QpState::Err);
}

/// A packet: its number, whether it asks for an acknowledgement, its two other bits, and what it says.
type Forged = (Psn, bool, [bool; 2], Body, Vec<u8>);

/// Any packet at all, aimed at a queue pair of the bench.
fn any_packet() -> impl Strategy<Value = Forged> {
    let part = prop_oneof![Just(Part::Only), Just(Part::First), Just(Part::Middle), Just(Part::Last)];
    let imm = prop::option::of(any::<u32>());
    // Near the region, mostly; near the sequence numbers in use, mostly.
    let addr = prop_oneof![4 => (1u64 << 20)..(1 << 20) + 2 * LEN as u64, 1 => any::<u64>()];
    let rkey = prop_oneof![4 => Just(0x8000_0100u32), 1 => any::<u32>()];
    let len = prop_oneof![4 => 0u32..1024, 1 => any::<u32>()];
    let reth = (addr.clone(), rkey.clone(), len).prop_map(|(addr, rkey, len)| Reth { addr, rkey, len });
    let service = weft_sim::bench::Service { sl: 0, traffic_class: 0, hop_limit: 1 };
    let deth = (any::<u32>(), imm.clone()).prop_map(move |(qkey, imm)| Deth { qkey, imm, service });
    let atomic = prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(compare, swap)| Atomic::CompareSwap { compare, swap }),
        any::<u64>().prop_map(|add| Atomic::FetchAdd { add }),
    ];
    let syndrome = prop_oneof![
        4 => Just(Syndrome::Ack),
        1 => (0u8..32).prop_map(|n| Syndrome::Rnr(RnrTimer::new(n).unwrap())),
        2 => Just(Syndrome::Nak(Nak::Sequence)),
        1 => Just(Syndrome::Nak(Nak::RemoteAccess)),
    ];
    let body = prop_oneof![
        (part.clone(), imm.clone()).prop_map(|(part, imm)| Body::Send { part, imm }),
        (part.clone(), prop::option::of(reth.clone()), imm).prop_map(|(part, to, imm)| Body::Write {
            part,
            to,
            imm
        }),
        reth.prop_map(|from| Body::ReadRequest { from }),
        (addr, rkey, atomic).prop_map(|(addr, rkey, atomic)| Body::AtomicRequest { addr, rkey, atomic }),
        (part, any::<u32>()).prop_map(|(part, msn)| Body::ReadResponse { part, msn }),
        (any::<u64>(), any::<u32>()).prop_map(|(original, msn)| Body::AtomicResponse { original, msn }),
        (syndrome, any::<u32>()).prop_map(|(syndrome, msn)| Body::Ack { syndrome, msn }),
        deth.prop_map(Body::Datagram),
    ];
    let psn = prop_oneof![8 => (0u32..24).prop_map(|n| PSN.plus(n.wrapping_sub(4))), 1 => any::<u32>().prop_map(Psn::new)];
    let data =
        prop_oneof![Just(0usize), Just(256usize), 0usize..300, 0usize..5000,].prop_map(|n| vec![0x5a; n]);
    (psn, any::<bool>(), any::<[bool; 2]>(), body, data)
}

#[derive(Clone, Debug)]
enum Act {
    Post(u8, u16),
    Recv(u16),
    Deliver(usize),
    Lose(usize),
    Repeat(usize),
    TimeOut(usize),
    Rearm(usize),
    Move(usize),
    Forge(usize, Box<Forged>),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0u8..5, 0u16..2000).prop_map(|(op, len)| Act::Post(op, len)),
        2 => (0u16..2000).prop_map(Act::Recv),
        8 => (0usize..2).prop_map(Act::Deliver),
        1 => (0usize..2).prop_map(Act::Lose),
        1 => (0usize..2).prop_map(Act::Repeat),
        1 => (0usize..2).prop_map(Act::TimeOut),
        1 => (0usize..2).prop_map(Act::Rearm),
        1 => (0usize..2).prop_map(Act::Move),
        3 => (0usize..2, any_packet()).prop_map(|(n, p)| Act::Forge(n, Box::new(p))),
    ]
}

fn act(bench: &mut Bench, act: Act, posted: &mut u64) {
    match act {
        Act::Post(kind, len) => {
            let (to, len) = (bench.remote(1, 0), u32::from(len));
            let op = match kind {
                0 => Op::Send { imm: None },
                1 => Op::Write { to, imm: None },
                2 => Op::Write { to, imm: Some(7) },
                3 => Op::Read { from: to },
                _ => fetch_add(bench),
            };
            let data = bench.sge(0, 0, if kind == 4 { 8 } else { len });
            *posted += u64::from(bench.post(0, 1, op, data).is_ok());
        }
        Act::Recv(len) => {
            let data = bench.sge(1, 8192, u32::from(len));
            let _ = bench.recv(1, 2, data);
        }
        Act::Deliver(n) => drop(bench.deliver(n)),
        Act::Lose(n) => {
            if let Some(packet) = bench.to[n].pop_front() {
                packet.data.release(&mut bench.buffers);
            }
        }
        Act::Repeat(n) => {
            if let Some(&packet) = bench.to[n].front() {
                let data = packet.data.duplicate(&mut bench.buffers);
                bench.to[n].push_back(Packet { data, ..packet });
            }
        }
        Act::TimeOut(n) => drop(bench.time_out(n)),
        Act::Rearm(n) => drop(bench.rearm(n)),
        Act::Move(n) => drop(bench.ask(n, Migration::Migrated)),
        Act::Forge(n, forged) => {
            let (psn, ack_req, [solicited, migrated], body, bytes) = *forged;
            let data = Data::new(bytes.len(), &mut bench.buffers, |out| out.copy_from_slice(&bytes));
            let op = weft_sim::fault::Op::Other;
            let (from, to, route) = (bench.endpoint(1 - n), bench.endpoint(n), bench.route(1 - n));
            bench.give(n, Packet { from, to, route, psn, ack_req, solicited, migrated, body, data, op });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever arrives, nothing panics, every accepted request ends exactly once, and no slot, lease or
    /// buffer is lost.
    #[test]
    fn no_packet_harms_the_engine(acts in prop::collection::vec(any_act(), 1..120)) {
        let mut bench = Bench::connected();
        let mut posted = 0;
        for a in acts {
            act(&mut bench, a, &mut posted);
        }
        for n in 0..2 {
            if bench.qp(n).state() != QpState::Err {
                let ends = bench.connection(n);
                bench.modify(n, &Modify::Err, ends).unwrap();
            }
        }
        let completed = bench.poll(0).len() as u64;
        prop_assert_eq!(completed, posted, "signaled requests complete once each");
        bench.poll(1);
        for n in 0..2 {
            for packet in std::mem::take(&mut bench.to[n]) {
                packet.data.release(&mut bench.buffers);
            }
            prop_assert_eq!(bench.ends[n].hca.hw.outstanding, 0);
            let mr = bench.ends[n].mr;
            prop_assert!(bench.ends[n].hca.hw.memory.drop_handle(mr).is_none());
            prop_assert!(bench.ends[n].hca.hw.memory.is_empty(), "no lease is left");
        }
        prop_assert_eq!(bench.buffers.in_use(), 0);
        prop_assert_eq!(bench.packets.len(), 0);
    }

    /// Without forged packets: whatever is lost and repeated, once everything arrives again each request has
    /// been executed exactly once, in order.
    #[test]
    fn atomics_are_executed_exactly_once(acts in prop::collection::vec(any_act(), 1..200)) {
        let mut bench = Bench::connected();
        let mut posted = 0;
        for a in acts {
            match a {
                Act::Forge(..) | Act::Recv(_) => {}
                Act::Post(..) => act(&mut bench, Act::Post(4, 0), &mut posted),
                // Short of exhausting the retries: the counter is the requester's own business.
                Act::TimeOut(_) if bench.stats.timeouts >= 5 => {}
                Act::Lose(_) if bench.stats.retransmitted > 40 => {}
                a => act(&mut bench, a, &mut posted),
            }
        }
        // As many as use up the retries on two paths, if the ends have lost each other.
        for _ in 0..20 {
            bench.settle();
            bench.time_out(0);
        }
        let done = bench.poll(0);
        if bench.qp(0).state() == QpState::Rts {
            prop_assert_eq!(done.len() as u64, posted);
            prop_assert!(done.iter().all(|c| c.result.is_ok()));
            prop_assert_eq!(bench.word(1, 0), posted);
        } else {
            prop_assert!(bench.word(1, 0) <= posted);
        }
    }
}
