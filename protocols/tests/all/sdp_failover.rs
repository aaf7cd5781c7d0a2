//! The ways in which a stream's connection goes over to another rail, and the ways in which a dead link is found.

use crate::common::{Cluster, accepts_and_rests, begins, ms, rank, sockets, us};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Failover, Sdp, SdpError, SdpOptions, SdpStream};
use weft_protocols::transport::Channel;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const PORT: u16 = 9;
const LEN: usize = 200_000;

const OPTIONS: fn() -> SdpOptions =
    || SdpOptions { buffers: 8, buffer_bytes: 200, zcopy_threshold: 1_000, ..SdpOptions::default() };

fn coded(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

/// What the second node's reader got, how its stream ended, and the longest time between two reads.
#[derive(Clone, Default)]
struct Got(Rc<RefCell<Reads>>);

#[derive(Default)]
struct Reads {
    bytes: Vec<u8>,
    error: Option<SdpError>,
    stall: Nanos,
}

impl Got {
    /// What one who comes to these sockets writes, which is read from a moment on.
    fn from((rt, sdp): (Rt<Sim>, Sdp<Sim>), at: Nanos) -> Got {
        let got = Got::default();
        let reads = got.clone();
        drop(rt.clone().spawn(async move {
            let stream = sdp.bind(PORT).expect("free").accept().await.expect("one comes");
            rt.sleep_until(at).await;
            reads.read(rt, stream).await;
        }));
        got
    }

    async fn read(self, rt: Rt<Sim>, stream: SdpStream<Sim>) {
        let (mut part, mut last) = ([0; 4_096], rt.now());
        loop {
            let read = stream.read(&mut part).await;
            let mut got = self.0.borrow_mut();
            got.stall = got.stall.max(rt.now() - last);
            last = rt.now();
            match read {
                Ok(0) => return,
                Ok(len) => got.bytes.extend_from_slice(&part[..len]),
                Err(why) => {
                    got.error = Some(why);
                    return;
                }
            }
        }
    }

    fn is_whole(&self) {
        let got = self.0.borrow();
        assert!(
            got.error.is_none() && got.bytes == coded(LEN),
            "{:?} after {} bytes",
            got.error,
            got.bytes.len()
        );
    }

    fn stall(&self) -> Nanos {
        self.0.borrow().stall
    }
}

/// Writes coded bytes from the first node to the second one, a part every so often: by calls that borrow, or with owned buffers.
fn transfer(cluster: &Cluster, options: SdpOptions, owned: bool) -> (Got, [Sdp<Sim>; 2]) {
    transfer_of(cluster, [options; 2], owned)
}

/// The same between nodes that have options of their own.
fn transfer_of(cluster: &Cluster, options: [SdpOptions; 2], owned: bool) -> (Got, [Sdp<Sim>; 2]) {
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options[node]));
    let got = Got::default();
    let (reads, serves) = (got.clone(), far.clone());
    let rt = far_rt.clone();
    drop(far_rt.spawn(async move {
        let stream = serves.bind(PORT).expect("free").accept().await.expect("one comes");
        reads.read(rt, stream).await;
    }));
    let (asks, rt) = (near.clone(), near_rt.clone());
    drop(near_rt.spawn(async move {
        let stream = asks.connect(rank(1), PORT).await.expect("the server listens");
        for part in coded(LEN).chunks(4_000) {
            if owned {
                let buffer = asks.buffer(4_000).expect("memory");
                buffer.write(0, part).expect("it fits");
                stream.send(buffer, part.len() as u32).await.0.expect("sent");
            } else {
                stream.write_all(part).await.expect("written");
            }
            rt.sleep(us(100)).await;
        }
        stream.close().await.expect("closed");
    }));
    (got, [near, far])
}

#[test]
fn a_planned_move_loses_nothing_repeats_nothing_and_stays_where_it_went() {
    for owned in [false, true] {
        let cluster = Cluster::railed(2, 2, 4, Wait::Poll);
        let (got, sdp) = transfer(&cluster, OPTIONS(), owned);
        let (moves, ended) = (sdp[0].clone(), Rc::new(RefCell::new(None)));
        let keep = Rc::clone(&ended);
        let rt = cluster.members[0].rt.clone();
        drop(rt.clone().spawn(async move {
            rt.sleep(ms(2)).await;
            let end = moves.move_to(rank(1), 1).await;
            keep.replace(Some(end));
        }));
        cluster.run(Nanos::from_secs(2));
        got.is_whole();
        assert_eq!(ended.take(), Some(Ok(1)));
        // Long after the hold-off, and with nothing wrong with the first rail.
        assert!(cluster.members.iter().enumerate().all(|(n, m)| m.mesh.rail(rank(1 - n)) == Some(1)));
        let unknown: u64 = cluster.members.iter().map(|member| member.mesh.stats().unknown_outcomes).sum();
        assert_eq!((unknown, sdp[0].stats().repeated, sdp[1].stats().repeated), (0, 0, 0));
        assert!(got.stall() < ms(1), "{owned}: {}", got.stall());
    }
}

#[test]
fn two_ends_that_want_different_rails_at_once_agree_and_a_dead_rail_is_not_moved_to() {
    let cluster = Cluster::railed(2, 2, 5, Wait::Poll);
    let (got, sdp) = transfer(&cluster, OPTIONS(), true);
    let ends = Rc::new(RefCell::new(Vec::new()));
    for (node, rail) in [(0, 1), (1, 0)] {
        let (sdp, rt, ends) = (sdp[node].clone(), cluster.members[node].rt.clone(), Rc::clone(&ends));
        drop(rt.clone().spawn(async move {
            rt.sleep(ms(2)).await;
            let end = sdp.move_to(rank(1 - node), rail).await;
            ends.borrow_mut().push((node, end));
        }));
    }
    cluster.run(Nanos::from_secs(2));
    got.is_whole();
    // The lower rank's wish counts; the other one may have been where it wanted to be before.
    assert!(ends.borrow().len() == 2 && ends.borrow().contains(&(0, Ok(1))), "{:?}", ends.borrow());
    assert!(cluster.members.iter().enumerate().all(|(n, m)| m.mesh.rail(rank(1 - n)) == Some(1)));
    // A rail without a link answers no trial, and nothing is suspended for it.
    let cluster = Cluster::railed(2, 2, 6, Wait::Poll);
    cluster.plan(us(1), Fault::Cut { link: Link::Port(NodeId(1), 2), way: Way::Both, lasts: None });
    let options = SdpOptions { move_timeout: Some(ms(20)), ..OPTIONS() };
    let (got, sdp) = transfer(&cluster, options, false);
    let (ended, moves, rt) = (Rc::new(Cell::new(false)), sdp[1].clone(), cluster.members[1].rt.clone());
    let told = Rc::clone(&ended);
    drop(rt.clone().spawn(async move {
        rt.sleep(ms(2)).await;
        assert_eq!(moves.move_to(rank(0), 1).await, Err(SdpError::TimedOut));
        assert!(
            matches!(moves.move_to(rank(0), 2).await, Err(SdpError::Options { .. })),
            "there are two rails"
        );
        told.set(true);
    }));
    cluster.run(Nanos::from_secs(2));
    got.is_whole();
    assert!(ended.get() && got.stall() < us(200), "{}", got.stall());
    assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(0));
}

#[test]
fn a_move_that_nobody_waits_for_any_more_holds_up_nobody() {
    for patience in (0..80).map(|step| us(10 * step)) {
        let cluster = Cluster::railed(2, 2, 4, Wait::Poll);
        let (got, sdp) = transfer(&cluster, OPTIONS(), true);
        let (moves, rt) = (sdp[0].clone(), cluster.members[0].rt.clone());
        drop(rt.clone().spawn(async move {
            rt.sleep(ms(2)).await;
            let _ = rt.deadline(rt.now() + patience, moves.move_to(rank(1), 1)).await;
        }));
        cluster.run(Nanos::from_secs(2));
        got.is_whole();
        assert_eq!(sdp.each_ref().map(Sdp::held_up), [0, 0], "{patience}");
    }
}

#[test]
fn an_application_that_wants_to_know_is_told_what_the_peer_has_and_connects_again() {
    let mut told = 0;
    for seed in 0..24 {
        let node = NodeId((seed % 2) as u32);
        let lasts = Some(us(300 + 100 * (seed % 7)));
        let fault = match seed % 3 {
            0 => Fault::Cut { link: Link::Port(node, 1), way: Way::Both, lasts },
            1 => Fault::Cut { link: Link::Port(node, 1), way: Way::To, lasts },
            _ => Fault::PortDown { node, port: 1, lasts },
        };
        // Twice, so that it may go there and back before anybody looks.
        told += connects_again(seed, &[(us(600 + 170 * seed), fault), (us(2_000 + 310 * seed), fault)]);
    }
    assert!(told >= 24, "{told}");
}

/// A stream that is still to be made has stood at no address that could change: the link dies while nothing is open, or amid the making.
#[test]
fn a_connection_that_is_made_over_another_rail_than_the_last_one_is_told_of_no_change() {
    for after in (0..60).map(us) {
        let cluster = Cluster::railed(2, 2, 7, Wait::Poll);
        let options = SdpOptions { failover: Failover::Application, ..OPTIONS() };
        let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
        drop(far_rt.spawn(async move {
            let listener = far.bind(PORT).expect("free");
            while let Ok(stream) = listener.accept().await {
                let _ = stream.close().await;
            }
        }));
        let connected = Rc::new(Cell::new(0));
        let counts = Rc::clone(&connected);
        drop(near_rt.clone().spawn(async move {
            for at in [ms(1), ms(5) + us(30)] {
                near_rt.sleep_until(at).await;
                let stream = near.connect(rank(1), PORT).await;
                counts.set(counts.get() + u32::from(stream.is_ok()));
            }
        }));
        let link = Link::Port(NodeId(1), 1);
        cluster.plan(ms(5) + after, Fault::Cut { link, way: Way::Both, lasts: None });
        cluster.run(Nanos::from_secs(2));
        assert_eq!(connected.get(), 2, "{after}");
    }
}

/// A transfer whose both ends are told of each change of address, and which goes on behind what was acknowledged. How often its
/// writer was told.
fn connects_again(seed: u64, faults: &[(Nanos, Fault)]) -> u32 {
    let cluster = Cluster::railed(2, 2, seed, Wait::Poll);
    let options = SdpOptions { failover: Failover::Application, ..OPTIONS() };
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    let got = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&got);
    drop(far_rt.spawn(async move {
        let listener = far.bind(PORT).expect("free");
        loop {
            // A connection begins with the position of its first byte.
            let Ok(stream) = listener.accept().await else { return };
            let mut head = [0; 8];
            if stream.read_exact(&mut head).await.is_err() {
                continue;
            }
            let mut at = u64::from_le_bytes(head) as usize;
            let mut part = [0; 4_096];
            loop {
                match stream.read(&mut part).await {
                    Ok(0) => return,
                    Ok(len) => {
                        let all = &mut keep.borrow_mut();
                        assert!(at <= all.len(), "what was acknowledged is here");
                        all.truncate(at);
                        all.extend_from_slice(&part[..len]);
                        at += len;
                    }
                    Err(why) => {
                        assert!(matches!(why, SdpError::AddressChanged { .. }), "{why}");
                        break;
                    }
                }
            }
        }
    }));
    let told = Rc::new(Cell::new(0_u32));
    let tells = Rc::clone(&told);
    drop(near_rt.clone().spawn(async move {
        let (all, mut from) = (coded(LEN), 0_usize);
        'connections: loop {
            let stream = match near.connect(rank(1), PORT).await {
                Ok(stream) => stream,
                Err(why) => panic!("{why}"),
            };
            let mut change = stream.write_all(&(from as u64).to_le_bytes()).await;
            for part in all[from..].chunks(2_000) {
                if change.is_ok() {
                    change = stream.write_all(part).await;
                    near_rt.sleep(us(50)).await;
                }
            }
            if change.is_ok() {
                change = stream.close().await;
            }
            match change {
                Ok(()) => return,
                Err(SdpError::AddressChanged { acknowledged }) => {
                    tells.set(tells.get() + 1);
                    // The first eight are the position.
                    from += (acknowledged as usize).saturating_sub(8);
                    continue 'connections;
                }
                Err(why) => panic!("{why}"),
            }
        }
    }));
    faults.iter().for_each(|(at, fault)| cluster.plan(*at, *fault));
    cluster.run(Nanos::from_secs(2));
    assert!(*got.borrow() == coded(LEN), "{seed}: {} bytes", got.borrow().len());
    told.get()
}

#[test]
fn probes_find_a_dead_link_within_their_interval_where_the_adapter_would_take_longer() {
    let stall = |probe, cut| {
        let cluster = Cluster::slow_to_give_up(2, 2, 8);
        let (got, sdp) = transfer(&cluster, SdpOptions { probe, ..OPTIONS() }, false);
        let link = Link::Port(NodeId(1), 1);
        cluster.plan(cut, Fault::Cut { link, way: Way::Both, lasts: None });
        cluster.run(Nanos::from_secs(5));
        got.is_whole();
        (got.stall(), sdp[0].stats().found_dead + sdp[1].stats().found_dead)
    };
    let (without, none) = stall(None, ms(2));
    assert_eq!(none, 0);
    assert!(without > ms(20), "{without}");
    // The link dies at any moment between two looks whether something came.
    for cut in (500..5_000).step_by(300).map(us) {
        let (with, found) = stall(Some(ms(12)), cut);
        assert!(found >= 1);
        // What comes last comes a little before, and the next connection is made.
        assert!(with < ms(12) + us(500), "cut at {cut}: {with}");
    }
}

#[test]
fn probes_do_not_take_a_peer_that_answers_for_dead_and_end_when_nothing_is_open() {
    let cluster = Cluster::railed(2, 2, 9, Wait::Poll);
    let (got, sdp) =
        transfer(&cluster, SdpOptions { probe: Some(ms(2)), give_up: Nanos::MAX, ..OPTIONS() }, true);
    cluster.run(Nanos::from_secs(2));
    got.is_whole();
    assert!(sdp.iter().all(|sdp| sdp.stats().found_dead == 0));
    // Nothing is owed any more, and no timer runs.
    assert!(cluster.members.iter().all(|member| member.rt.audit().timers == 0));
}

/// Sends buffers of so many bytes over so many streams at once, into buffers that wait for them or that come later: how often the link was
/// taken for dead within a second, and how many buffers have arrived.
fn long_buffers(options: SdpOptions, (streams, bytes): (u16, u32), wait: bool) -> (u64, u16) {
    let cluster = Cluster::new(2, 8, Wait::Poll);
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    let arrived = Rc::new(Cell::new(0));
    for port in 1..=streams {
        let (near, far, near_rt, far_rt) = (near.clone(), far.clone(), near_rt.clone(), far_rt.clone());
        let counts = Rc::clone(&arrived);
        drop(far_rt.clone().spawn(async move {
            let buffer = far.buffer(bytes).expect("memory");
            let stream = far.bind(port).expect("free").accept().await.expect("one comes");
            far_rt.sleep_until(ms(if wait { 101 } else { 103 })).await;
            let (received, _) = stream.recv(buffer).await;
            if received == Ok(bytes) {
                counts.set(counts.get() + 1);
            }
            let _ = stream.read(&mut [0]).await;
        }));
        drop(near_rt.clone().spawn(async move {
            // Whoever registers memory has no time for what comes.
            let buffer = near.buffer(bytes).expect("memory");
            near_rt.sleep_until(ms(100)).await;
            let stream = near.connect(rank(1), port).await.expect("the server listens");
            near_rt.sleep_until(ms(102)).await;
            let _ = stream.send(buffer, bytes).await;
            let _ = stream.close().await;
        }));
    }
    cluster.run(Nanos::from_secs(1));
    (near.stats().found_dead + far.stats().found_dead, arrived.get())
}

/// A buffer was one operation, and what its node said meanwhile was behind it: the link was taken for dead, and on the next one the same
/// operation began again, for ever. Now a part of each is in front of what is said.
#[test]
fn a_link_is_not_taken_for_dead_while_long_buffers_go_over_it_however_many_streams_have_some() {
    let options = SdpOptions { probe: Some(ms(1)), give_up: Nanos::MAX, ..OPTIONS() };
    for wait in [true, false] {
        assert_eq!(long_buffers(options, (1, 64 << 20), wait), (0, 1), "one of 2.7 ms");
        let options = SdpOptions { probe: Some(ms(4)), ..options };
        assert_eq!(long_buffers(options, (24, 2 << 20), wait), (0, 24), "a part of each of them takes 1 ms");
    }
}

#[test]
fn a_peer_is_not_given_up_while_a_buffer_goes_there_that_takes_longer_than_the_patience_with_it() {
    let options = SdpOptions { give_up: ms(2), ..OPTIONS() };
    for wait in [true, false] {
        assert_eq!(long_buffers(options, (1, 64 << 20), wait), (0, 1));
        assert_eq!(long_buffers(options, (16, 16 << 20), wait), (0, 16), "a part of each of them takes 5 ms");
    }
}

/// What is kept alive has something open from its question on, however long a peer may be silent until it is given up.
#[test]
fn probes_find_the_dead_link_of_a_reader_whose_stream_is_kept_alive_and_never_given_up() {
    let cluster = Cluster::slow_to_give_up(2, 2, 8);
    let options = SdpOptions { keepalive: Some(ms(5)), probe: Some(ms(4)), give_up: Nanos::MAX, ..OPTIONS() };
    let (near_rt, near) = sockets(&cluster.members[0], options);
    // Its peer asks nothing: what is found is found by the reader.
    accepts_and_rests(sockets(&cluster.members[1], OPTIONS()), PORT);
    let asks = near.clone();
    drop(near_rt.spawn(async move {
        let stream = asks.connect(rank(1), PORT).await.expect("the server listens");
        let _ = stream.read(&mut [0]).await;
    }));
    cluster.plan(ms(50), Fault::Cut { link: Link::Port(NodeId(1), 1), way: Way::Both, lasts: None });
    cluster.run(ms(50) + ms(5) * 2 + ms(4) * 2);
    assert!(near.stats().found_dead >= 1);
}

#[test]
fn keepalive_tells_a_reader_of_a_peer_that_is_gone_and_nothing_else_does() {
    for keepalive in [None, Some(ms(5))] {
        let cluster = Cluster::railed(2, 2, 10, Wait::Poll);
        let options = SdpOptions { keepalive, give_up: ms(40), ..OPTIONS() };
        let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], options));
        accepts_and_rests(far, PORT);
        let end = Rc::new(Cell::new(None));
        let tell = Rc::clone(&end);
        drop(near_rt.spawn(async move {
            let stream = near.connect(rank(1), PORT).await.expect("the server listens");
            tell.set(Some(stream.read(&mut [0]).await));
        }));
        for port in [1, 2] {
            cluster
                .plan(ms(10), Fault::Cut { link: Link::Port(NodeId(1), port), way: Way::Both, lasts: None });
        }
        cluster.run(ms(500));
        assert_eq!(end.get(), keepalive.map(|_| Err(SdpError::TimedOut)));
    }
}

/// The stream is closed at any moment after its connection broke: also while its end waits for the peer to say what it has read.
#[test]
fn what_was_advertised_before_a_failover_arrives_before_the_end_whenever_the_stream_is_closed() {
    let breaks = ms(5);
    for after in (0..400).step_by(2).map(us) {
        let cluster = Cluster::railed(2, 2, 4, Wait::Poll);
        let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
        let got = Got::from(far, breaks + ms(3));
        let closed = Rc::new(Cell::new(false));
        let close = Rc::clone(&closed);
        drop(near_rt.clone().spawn(async move {
            let stream = near.connect(rank(1), PORT).await.expect("the server listens");
            let buffer = near.buffer(LEN as u32).expect("memory");
            buffer.write(0, &coded(LEN)).expect("it fits");
            // A call that is dropped is carried out all the same.
            begins(pin!(stream.send(buffer, LEN as u32))).await;
            near_rt.sleep_until(breaks + after).await;
            stream.close().await.expect("closed");
            close.set(true);
        }));
        cluster.plan(breaks, Fault::PortDown { node: NodeId(0), port: 1, lasts: None });
        cluster.run(ms(100));
        got.is_whole();
        assert!(closed.get(), "{after}");
    }
}

/// The peer's adapter had something in process when both rails were cut, for longer than a move may take: the connection breaks, or it stands
/// through that and the end that has asked for it would take it to the rail it prefers once the hold-off is over.
#[test]
fn a_move_that_was_given_up_does_not_happen_later() {
    let mut given_up = [0; 4];
    for (kind, after) in (0..160).map(|n| (n % 4, us(n as u64 / 4 * 3 / 2))) {
        let (mover, stands) = (kind % 2, kind / 2 == 1);
        let cluster = match stands {
            false => Cluster::railed(2, 2, 4, Wait::Poll),
            true => Cluster::slow_to_give_up(2, 2, 4),
        };
        let options = SdpOptions { move_timeout: Some(ms(2)), ..OPTIONS() };
        let (got, sdp) = transfer(&cluster, options, true);
        let ended = Rc::new(Cell::new(None));
        let (rt, keep, moves) = (cluster.members[mover].rt.clone(), Rc::clone(&ended), sdp[mover].clone());
        drop(rt.clone().spawn(async move {
            rt.sleep_until(ms(2)).await;
            keep.set(Some(moves.move_to(rank(1 - mover), 1).await));
        }));
        let link = Link::Node(NodeId(1));
        cluster.plan(ms(2) + after, Fault::Cut { link, way: Way::Both, lasts: Some(ms(12)) });
        cluster.run(ms(300));
        got.is_whole();
        if ended.take() == Some(Err(SdpError::TimedOut)) {
            given_up[kind] += 1;
            // Who has used the connection after the hold-off has gone back to the rail that is preferred.
            for mover in [0, 1, 0, 1] {
                let sends = cluster.members[mover].mesh.clone();
                cluster.members[mover].at(cluster.fabric.now() + ms(1), move || {
                    sends.send(rank(1 - mover), Channel(40), &[1]).expect("room");
                });
                cluster.run(ms(20));
            }
            let rails = [0, 1].map(|node: usize| cluster.members[node].mesh.rail(rank(1 - node)));
            assert_eq!(rails, [Some(0); 2], "{kind}: {after}");
        }
    }
    assert!(given_up.iter().all(|given_up| *given_up > 10), "{given_up:?}");
}

/// What the second node reads is held up by a cut for longer than its own move may take; the first node's move may take as long as it will.
#[test]
fn a_move_that_a_peer_asks_for_is_answered_though_one_s_own_was_given_up_meanwhile() {
    let mut given_up = 0;
    for after in (0..10).map(|n| us(n * 10)) {
        let cluster = Cluster::slow_to_give_up(2, 2, 4);
        let patience = |move_timeout| SdpOptions { move_timeout, ..OPTIONS() };
        let (got, sdp) = transfer_of(&cluster, [patience(None), patience(Some(ms(2)))], true);
        let ends = Rc::new(Cell::new([None; 2]));
        for (mover, begins) in [(1, us(150)), (0, us(1_000))] {
            let (rt, keep, moves) = (cluster.members[mover].rt.clone(), Rc::clone(&ends), sdp[mover].clone());
            drop(rt.clone().spawn(async move {
                rt.sleep_until(ms(2) + begins).await;
                let end = moves.move_to(rank(1 - mover), 1).await;
                let mut ends = keep.get();
                ends[mover] = Some(end);
                keep.set(ends);
            }));
        }
        let link = Link::Port(NodeId(1), 1);
        cluster.plan(ms(2) + after, Fault::Cut { link, way: Way::From, lasts: Some(ms(5)) });
        cluster.run(ms(300));
        got.is_whole();
        let [asked, own] = ends.get();
        assert_eq!(asked, Some(Ok(1)), "{after}: {own:?}");
        assert_eq!(sdp.each_ref().map(Sdp::held_up), [0, 0], "{after}");
        given_up += u32::from(own == Some(Err(SdpError::TimedOut)));
    }
    assert!(given_up > 3, "{given_up}");
}

/// The first node has suspended the second one and cannot say any more that it goes on; the second one leaves while its own move waits for that.
#[test]
fn a_move_ends_when_its_node_leaves_while_the_peer_s_move_holds_it_up() {
    let cluster = Cluster::slow_to_give_up(2, 2, 4);
    let options = SdpOptions { move_timeout: None, ..OPTIONS() };
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    accepts_and_rests((far_rt.clone(), far.clone()), PORT);
    let (asks, rt) = (near.clone(), near_rt.clone());
    drop(near_rt.spawn(async move {
        let _stream = asks.connect(rank(1), PORT).await.expect("the server listens");
        rt.sleep_until(ms(2)).await;
        let _moved = asks.move_to(rank(1), 1).await;
        rt.sleep(Nanos::from_secs(60)).await;
    }));
    cluster.run(ms(2));
    while far.held_up() == 0 {
        assert!(cluster.fabric.now() < ms(20), "the peer's move begins");
        cluster.run(Nanos(500));
    }
    let link = Link::Node(NodeId(0));
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::Both, lasts: None });
    let ended = Rc::new(Cell::new(None));
    let (tell, moves) = (Rc::clone(&ended), far.clone());
    // Its connection stands there already, so that no trial is made.
    drop(far_rt.spawn(async move { tell.set(Some(moves.move_to(rank(0), 0).await)) }));
    cluster.run(ms(1));
    assert_eq!((ended.get(), far.held_up()), (None, 1));
    cluster.members[1].close_at(cluster.fabric.now());
    cluster.run(ms(1));
    assert_eq!(ended.get(), Some(Err(SdpError::Closed)));
}

#[test]
fn a_send_whose_buffer_is_wanted_back_behind_the_end_of_the_stream_is_carried_out() {
    let cluster = Cluster::new(2, 4, Wait::Poll);
    let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    let got = Got::from(far, ms(10));
    let sent = Rc::new(Cell::new(None));
    let keep = Rc::clone(&sent);
    drop(near_rt.clone().spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        let buffer = near.buffer(LEN as u32).expect("memory");
        buffer.write(0, &coded(LEN)).expect("it fits");
        let mut send = pin!(stream.send(buffer, LEN as u32));
        begins(send.as_mut()).await;
        stream.shutdown().expect("it stands");
        near_rt.sleep_until(ms(5)).await;
        stream.recall();
        let (end, buffer) = send.await;
        keep.set(Some((end, buffer.is_some())));
    }));
    cluster.run(ms(100));
    got.is_whole();
    assert_eq!(sent.take(), Some((Ok(LEN as u32), true)));
}
