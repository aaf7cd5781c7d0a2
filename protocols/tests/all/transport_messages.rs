//! Messages: once, in order, whatever happens to the connections.

use crate::common::{Cluster, Dice, Member, STYLES, all_regions, config, ms, rank, seeds, us};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::sync::Mailbox;
use weft_protocols::rt::{BufferGuard, JoinHandle};
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank, SendError, TransportError};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, RunEnd, Sim};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, Wait, Work};

const CHANNEL: Channel = Channel(3);

/// What one node received: from which rank, which number.
type Got = Rc<RefCell<Vec<(usize, u32)>>>;

fn receive(member: &Member) -> Got {
    let got = Got::default();
    let mut inbox = member.mesh.open(CHANNEL).expect("nobody opened it");
    let keep = Rc::clone(&got);
    drop(member.rt.spawn(async move {
        while let Some(incoming) = inbox.recv().await {
            let Incoming::Message(message) = incoming else { panic!("nobody restarted") };
            let number = u32::from_le_bytes(message[..4].try_into().expect("4 bytes"));
            assert!(message[4..].iter().all(|b| *b == number as u8), "its content is its own");
            keep.borrow_mut().push((message.from().index(), number));
        }
    }));
    got
}

/// Sends so many numbered messages of changing length, with pauses.
fn talk(member: &Member, to: usize, count: u32, pause: Nanos) {
    let (rt, mesh) = (member.rt.clone(), member.mesh.clone());
    drop(member.rt.spawn(async move {
        for number in 1..=count {
            mesh.room(rank(to)).await.expect("the mesh is open");
            let mut bytes = vec![number as u8; 4 + (number as usize * 37) % 200];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            mesh.send(rank(to), CHANNEL, &bytes).expect("there is room");
            if pause > Nanos::ZERO && rt.random() % 4 == 0 {
                rt.sleep(Nanos(rt.random() % pause.0)).await;
            }
        }
    }));
}

fn assert_all_arrived(got: &Got, from: &[usize], count: u32, context: &str) {
    for sender in from {
        let numbers: Vec<u32> = got.borrow().iter().filter(|g| g.0 == *sender).map(|g| g.1).collect();
        let sent: Vec<u32> = (1..=count).collect();
        assert_eq!(numbers, sent, "{context}: from n{sender}");
    }
}

/// Disturbances of every kind at random times, most of them long enough to exhaust retries.
fn disturb(cluster: &Cluster, nodes: u64, dice: &mut Dice) {
    for _ in 0..6 {
        let at = us(dice.below(20_000));
        let a = NodeId(dice.below(nodes) as u32);
        let b = NodeId(((u64::from(a.0) + 1 + dice.below(nodes - 1)) % nodes) as u32);
        let link = if dice.below(2) == 0 { Link::Node(a) } else { Link::Pair(a, b) };
        let way = [Way::Both, Way::From, Way::To][dice.below(3) as usize];
        let lasts = Some(us(1 + dice.below(4_000)));
        let ppm = 100_000 + dice.below(400_000) as u32;
        let fault = match dice.below(8) {
            0 | 1 => Fault::Cut { link, way, lasts },
            2 => Fault::Flap { link, down: us(300), up: us(200), times: 4 },
            3 => Fault::Loss { link, way, ppm, lasts },
            4 => Fault::Duplicate { link, way, ppm, lasts },
            5 => Fault::Delay { link, way, extra: us(100), jitter: us(2_000), in_order: false, lasts },
            6 => Fault::PortDown { node: a, port: 1, lasts },
            _ => Fault::SlowNode { node: a, percent: 2_000, lasts },
        };
        cluster.plan(at, fault);
    }
}

#[test]
fn messages_arrive_once_and_in_order_through_faults_of_every_kind() {
    let (mut reconnects, mut repeated, mut struck) = (0, 0, 0);
    for seed in seeds(150) {
        for style in STYLES {
            let context = format!("seed {seed}, {style:?}");
            let cluster = Cluster::new(3, seed, style);
            let got: Vec<Got> = cluster.members.iter().map(receive).collect();
            for (from, member) in cluster.members.iter().enumerate() {
                for to in (0..3).filter(|to| *to != from) {
                    talk(member, to, 150, us(400));
                }
            }
            cluster.members.iter().for_each(|m| m.close_at(ms(3_000)));
            disturb(&cluster, 3, &mut Dice::new(seed));
            cluster.run(ms(30));
            cluster.fabric.stop_faults();
            cluster.run(ms(2_900));
            for (to, got) in got.iter().enumerate() {
                let from: Vec<usize> = (0..3).filter(|from| *from != to).collect();
                assert_all_arrived(got, &from, 150, &context);
                assert_eq!(got.borrow().len(), 300, "{context}: and nothing else");
            }
            for member in &cluster.members {
                let stats = member.mesh.stats();
                reconnects += stats.reconnects;
                repeated += stats.messages_repeated;
            }
            struck += cluster.fabric.faults().iter().filter(|f| f.struck).count();
            close_and_check(cluster, &context);
        }
    }
    // The faults were worth surviving.
    assert!(reconnects > 300 && repeated > 300 && struck > 500, "{reconnects} {repeated} {struck}");
}

/// Looks for leaks, before the meshes close and after.
fn close_and_check(cluster: Cluster, context: &str) {
    for member in &cluster.members {
        let audit = member.mesh.audit();
        assert_eq!((audit.unacked, audit.outstanding, audit.waiting), (0, 0, 0), "{context}");
        let rt = member.rt.audit();
        assert_eq!((rt.sends, rt.timers), (0, 1), "{context}: the closing's own timer");
        assert_eq!(rt.slots, rt.unsignaled + rt.receives, "{context}");
    }
    cluster.run(ms(200));
    for member in &cluster.members {
        let rt = member.rt.audit();
        assert_eq!((rt.tasks, rt.slots, rt.guards), (0, 0, 0), "{context}: {rt:?}");
    }
    for (node, alive) in cluster.fabric.stats().alive.iter().enumerate() {
        assert_eq!((alive.qps, alive.outstanding), (0, 0), "{context}: n{node}");
    }
}

#[test]
fn no_receiver_is_ever_not_ready_and_nothing_is_repeated_without_faults() {
    for style in STYLES {
        let cluster = Cluster::new(2, 7, style);
        let got: Vec<Got> = cluster.members.iter().map(receive).collect();
        talk(&cluster.members[0], 1, 5_000, Nanos::ZERO);
        talk(&cluster.members[1], 0, 5_000, Nanos::ZERO);
        cluster.run(ms(1_000));
        assert_all_arrived(&got[0], &[1], 5_000, "flood");
        assert_all_arrived(&got[1], &[0], 5_000, "flood");
        let stats = cluster.fabric.stats();
        assert_eq!((stats.retransmitted, stats.dropped), (0, 0));
        for member in &cluster.members {
            let stats = member.mesh.stats();
            assert_eq!((stats.duplicates, stats.messages_repeated, stats.fences), (0, 0, 0));
        }
    }
}

#[test]
fn one_way_traffic_returns_credits_by_control_frames_alone() {
    for style in STYLES {
        let cluster = Cluster::new(2, 7, style);
        let got = receive(&cluster.members[1]);
        talk(&cluster.members[0], 1, 2_000, Nanos::ZERO);
        cluster.run(ms(1_000));
        assert_all_arrived(&got, &[0], 2_000, "one way");
        let control = cluster.members[1].mesh.stats().control_frames;
        // From half to all of 16 buffers a frame.
        assert!((2_000 / 16..=2_000 / 8).contains(&control), "{control}");
    }
}

#[test]
fn crossing_connects_end_in_one_connection() {
    for seed in seeds(200) {
        for style in STYLES {
            let cluster = Cluster::new(2, seed, style);
            let got: Vec<Got> = cluster.members.iter().map(receive).collect();
            talk(&cluster.members[0], 1, 3, Nanos::ZERO);
            talk(&cluster.members[1], 0, 3, Nanos::ZERO);
            cluster.run(ms(100));
            assert_all_arrived(&got[0], &[1], 3, "crossing");
            assert_all_arrived(&got[1], &[0], 3, "crossing");
            for member in &cluster.members {
                let stats = member.mesh.stats();
                assert_eq!((stats.reconnects, stats.fences), (0, 0), "seed {seed}");
                assert_eq!(member.mesh.audit().connections, 1);
            }
            assert!(cluster.fabric.stats().alive.iter().all(|a| a.qps == 1), "seed {seed}");
        }
    }
}

#[test]
fn an_idle_mesh_is_idle() {
    for style in STYLES {
        let cluster = Cluster::new(3, 1, style);
        let _got: Vec<Got> = cluster.members.iter().map(receive).collect();
        for (from, member) in cluster.members.iter().enumerate() {
            (0..3).filter(|to| *to != from).for_each(|to| talk(member, to, 20, us(50)));
        }
        // For ever, and nothing is pending long before.
        assert_eq!(cluster.fabric.run_until(Nanos::MAX), RunEnd::Idle);
        // What is pending longest is a timer of the connection manager.
        assert!(cluster.fabric.now() < ms(500), "{}", cluster.fabric.now());
        let events = cluster.fabric.stats().events;
        assert_eq!(cluster.fabric.run_until(cluster.fabric.now() + ms(100_000)), RunEnd::Idle);
        assert_eq!(cluster.fabric.stats().events, events);
        assert!(cluster.members.iter().all(|m| m.mesh.audit().connections == 2));
    }
}

#[test]
fn a_cut_that_nobody_notices_costs_nothing() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let got = receive(&cluster.members[1]);
    talk(&cluster.members[0], 1, 1, Nanos::ZERO);
    cluster.run(ms(50));
    let cut = Fault::Cut { link: Link::Node(NodeId(0)), way: Way::Both, lasts: Some(ms(50)) };
    cluster.plan(cluster.fabric.now(), cut);
    cluster.run(ms(1_000));
    let stats = cluster.members[0].mesh.stats();
    assert_eq!((stats.fences, stats.reconnects), (0, 0));
    assert_eq!(got.borrow().len(), 1);
}

#[test]
fn a_side_that_alone_noticed_the_failure_is_met_by_the_other() {
    for style in STYLES {
        let cluster = Cluster::new(2, 1, style);
        let got = receive(&cluster.members[1]);
        let mesh = cluster.members[0].mesh.clone();
        mesh.send(rank(1), CHANNEL, &1u32.to_le_bytes()).expect("room");
        cluster.run(ms(50));
        // Only the sender's packets meet the cut; the receiver has no reason to look.
        let cut = Fault::Cut { link: Link::Node(NodeId(0)), way: Way::From, lasts: Some(ms(20)) };
        cluster.plan(cluster.fabric.now(), cut);
        cluster.run(us(10));
        mesh.send(rank(1), CHANNEL, &2u32.to_le_bytes()).expect("room");
        cluster.run(ms(500));
        assert_all_arrived(&got, &[0], 2, "half open");
        assert_eq!(cluster.members[1].mesh.stats().fences, 1, "it fenced before it accepted");
        assert_eq!(cluster.members[1].mesh.stats().reconnects, 1);
    }
}

#[test]
fn a_restarted_peer_is_a_new_one_and_what_it_lost_is_told() {
    for seed in seeds(40) {
        for style in STYLES {
            let mut cluster = Cluster::new(2, seed, style);
            let mut inbox = cluster.members[0].mesh.open(CHANNEL).expect("nobody opened it");
            let first = receive(&cluster.members[1]);
            talk(&cluster.members[0], 1, 10, Nanos::ZERO);
            cluster.run(us(20 + 7 * seed));
            let delivered = first.borrow().len();
            cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
            cluster.run(us(50));
            cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
            cluster.run(us(50));
            let reborn = cluster.start(1);
            let second = receive(&reborn);
            cluster.members[1] = reborn;
            talk(&cluster.members[1], 0, 5, Nanos::ZERO);
            cluster.run(ms(2_000));
            let events: Vec<Incoming> = std::iter::from_fn(|| inbox.try_recv()).collect();
            let messages = events.iter().filter(|e| matches!(e, Incoming::Message(_))).count();
            assert_eq!(messages, 5, "seed {seed}, {style:?}");
            let lost: Vec<u64> = events
                .iter()
                .filter_map(|e| match e {
                    Incoming::PeerReset { peer, lost } if *peer == rank(1) => Some(*lost),
                    _ => None,
                })
                .collect();
            // If the two had met before the crash: one reset, and every message is accounted for.
            let met_again = second.borrow().iter().map(|g| g.1).collect::<Vec<_>>();
            match lost[..] {
                [] => assert_eq!(met_again, (1..=10).collect::<Vec<_>>(), "seed {seed}: they had not met"),
                [lost] => {
                    assert!(met_again.is_empty(), "seed {seed}: nothing of the old session");
                    assert!(delivered as u64 + lost >= 10, "seed {seed}: {delivered} and {lost}");
                }
                _ => panic!("seed {seed}: told {} times", lost.len()),
            }
        }
    }
}

#[test]
fn a_peer_that_restarted_in_silence_is_found_out() {
    for style in STYLES {
        let mut cluster = Cluster::new(2, 1, style);
        let mut inbox = cluster.members[0].mesh.open(CHANNEL).expect("nobody opened it");
        for (time, number) in [(ms(0), 1u32), (ms(50), 2)] {
            let mesh = cluster.members[0].mesh.clone();
            cluster.members[0].at(time, move || {
                mesh.send(rank(1), CHANNEL, &number.to_le_bytes()).expect("room");
            });
        }
        // The adapter takes the second message, and the program is gone before it has acknowledged it.
        cluster.run(ms(50) + us(20));
        cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
        cluster.run(us(20));
        cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
        cluster.run(us(20));
        assert_eq!(cluster.members[0].mesh.audit().unacked, 1);
        cluster.members[1] = cluster.start(1);
        cluster.run(ms(500));
        let told = inbox.try_recv();
        assert!(matches!(told, Some(Incoming::PeerReset { lost: 1, .. })), "{told:?}");
        assert_eq!(cluster.members[0].mesh.stats().probes, 1);
        cluster.assert_at_rest("found out");
    }
}

#[test]
fn an_acknowledgement_that_found_no_credit_goes_when_there_is_one() {
    for style in STYLES {
        let cluster = Cluster::new(2, 1, style);
        let [a, b] = [0, 1].map(|i| cluster.members[i].mesh.clone());
        let (first, flood) = (a.clone(), a.clone());
        cluster.members[0].at(ms(0), move || first.send(rank(1), CHANNEL, &[]).expect("room"));
        // The flood uses all credits but the reserve, and crosses the message that is to be acknowledged.
        cluster.members[0].at(ms(50), move || {
            (0..14).for_each(|_| flood.send(rank(1), CHANNEL, &[]).expect("room"));
        });
        let (answer, busy) = (b.clone(), cluster.members[1].rt.clone());
        cluster.members[1].at(ms(50), move || {
            answer.send(rank(0), CHANNEL, &[]).expect("room");
            // So busy that the other's acknowledgement falls due before the credits come back.
            busy.spend(Work::Compute(ms(1)));
        });
        cluster.run(ms(50) + us(900));
        assert_eq!((a.audit().unacked, b.audit().unacked), (14, 1), "{style:?}");
        assert_eq!(a.stats().control_frames, 0, "{style:?}: no credit");
        cluster.run(ms(200));
        cluster.assert_at_rest("late");
        assert_eq!(a.stats().control_frames, 1, "{style:?}");
    }
}

#[test]
fn a_message_to_oneself_does_not_touch_the_network() {
    let cluster = Cluster::new(1, 1, Wait::Notify);
    let got = receive(&cluster.members[0]);
    talk(&cluster.members[0], 0, 10, Nanos::ZERO);
    cluster.run(ms(10));
    assert_all_arrived(&got, &[0], 10, "self");
    assert_eq!(cluster.fabric.stats().packets, 0);
}

#[test]
fn what_came_before_the_channel_was_opened_is_kept_for_it() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    talk(&cluster.members[0], 1, 10, Nanos::ZERO);
    cluster.run(ms(50));
    let mesh = &cluster.members[1].mesh;
    let mut inbox = mesh.open(CHANNEL).expect("nobody opened it");
    assert_eq!(inbox.len(), 10);
    assert!(matches!(inbox.try_recv(), Some(Incoming::Message(m)) if m[0] == 1));
    assert!(mesh.open(CHANNEL).is_err(), "one inbox a channel");
}

#[test]
fn a_message_that_cannot_be_sent_is_refused_at_once() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let mesh = &cluster.members[0].mesh;
    let max = mesh.max_message();
    let long = vec![0; max as usize + 1];
    assert_eq!(mesh.send(rank(1), CHANNEL, &long), Err(SendError::TooLong { len: long.len(), max }));
    assert_eq!(mesh.send(rank(2), CHANNEL, &[]), Err(SendError::NoSuchPeer(rank(2))));
    let queued = 4_096;
    for _ in 0..queued {
        assert_eq!(mesh.send(rank(1), CHANNEL, &[]), Ok(()));
    }
    assert_eq!(mesh.send(rank(1), CHANNEL, &[]), Err(SendError::Full { to: rank(1), queued }));
    mesh.close();
    assert_eq!(mesh.send(rank(1), CHANNEL, &[]), Err(SendError::Closed));
    assert!(mesh.open(CHANNEL).is_err());
}

/// A repeated write is made from a copy. For want of memory for that each connection was given up as soon as it stood.
#[test]
fn a_repeated_write_that_lacks_memory_waits_for_it_and_the_connection_stands() {
    let cluster = Cluster::of_few_regions(2, 1, 1, |_| {});
    let [here, there] = &cluster.members[..] else { panic!("two of them") };
    let (got, answers) = (receive(there), receive(here));
    let memory = there.mesh.alloc(8_192, AccessFlags::all()).expect("there is memory");
    let to = memory.remote(0..8_192).expect("all of it");
    let mr = here.mesh.alloc(8_192, AccessFlags::LOCAL_WRITE).expect("there is memory");
    mr.write(0, &[7; 8_192]).expect("in it");
    here.mesh.send(rank(1), CHANNEL, &[1; 4]).expect("there is room");
    let cut = Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: Some(ms(10)) };
    cluster.plan(ms(5), cut);
    let mesh = here.mesh.clone();
    here.at(ms(6), move || {
        let from = BufferGuard::Range { mr, at: 0, len: 8_192 };
        drop(mesh.place(rank(1), from, to, CHANNEL, &[2; 4]).expect("it is kept"));
    });
    cluster.run(ms(10));
    assert_eq!(
        (got.borrow().len(), here.mesh.rail(rank(1))),
        (1, None),
        "it is posted, and the connection broken"
    );
    let regions = all_regions(&here.rt);
    let mesh = there.mesh.clone();
    there.at(ms(150), move || mesh.send(rank(0), CHANNEL, &[3; 4]).expect("there is room"));
    cluster.run(ms(190));
    assert_eq!(here.mesh.stats().reconnects, 1, "it stands");
    assert_eq!((answers.borrow().len(), there.mesh.audit().unacked), (1, 0), "and is used the other way");
    assert_eq!(got.borrow().len(), 1);
    drop(regions);
    cluster.run(ms(1));
    let mut bytes = [0; 8_192];
    memory.read(0, &mut bytes).expect("in it");
    assert!(got.borrow().len() == 2 && bytes == [7; 8_192], "it is there as soon as there is memory");
    assert_eq!((here.mesh.stats().reconnects, here.mesh.stats().places_repeated), (1, 1));
}

/// Two of these waits had no end, and a wait for a connection none that began after the mesh was closed.
#[test]
fn a_mesh_that_is_closed_ends_the_waits_for_refusals_guests_and_connections() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let Member { rt, mesh } = &cluster.members[0];
    let wait = |mut mailbox: Mailbox<Rank>| {
        rt.spawn(async move { assert!(mailbox.recv().await.is_err(), "it is over") })
    };
    let connects = |mesh: Mesh<Sim>| rt.spawn(async move { mesh.resumed().await });
    let before = [wait(mesh.refusals()), wait(mesh.admissions()), connects(mesh.clone())];
    cluster.run(ms(1));
    assert!(!before.iter().any(JoinHandle::is_finished));
    let closing = mesh.clone();
    cluster.members[0].at(ms(2), move || closing.close());
    cluster.run(ms(2));
    assert!(before.iter().all(JoinHandle::is_finished));
    let after = [wait(mesh.refusals()), wait(mesh.admissions()), connects(mesh.clone())];
    cluster.run(ms(1));
    assert!(after.iter().all(JoinHandle::is_finished));
}

/// The device still listened for the mesh that was closed, and refused the next one for ever.
#[test]
fn a_mesh_is_started_again_on_the_runtime_of_one_that_was_closed_as_a_new_incarnation() {
    for node in [0, 1] {
        let cluster = Cluster::new(2, 1, Wait::Poll);
        let [here, there] = [node, 1 - node].map(|index| &cluster.members[index]);
        let (got, next) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(None)));
        let (keep, mesh) = (Rc::clone(&got), there.mesh.clone());
        let mut inbox = mesh.open(CHANNEL).expect("nobody opened it");
        drop(there.rt.spawn(async move {
            while let Some(incoming) = inbox.recv().await {
                let Incoming::Message(message) = incoming else {
                    keep.borrow_mut().push(None);
                    continue;
                };
                keep.borrow_mut().push(Some(message[0]));
                mesh.send(message.from(), CHANNEL, &message).expect("there is room");
            }
        }));
        let (keep, rt, mesh) = (Rc::clone(&next), here.rt.clone(), here.mesh.clone());
        drop(here.rt.spawn(async move {
            mesh.send(rank(1 - node), CHANNEL, &[1]).expect("there is room");
            mesh.all_received().await;
            mesh.close();
            rt.yield_now().await;
            let mesh = Mesh::start(&rt, config(2, node as u32)).expect("nobody listens any more");
            let mut inbox = mesh.open(CHANNEL).expect("nobody opened it");
            mesh.send(rank(1 - node), CHANNEL, &[2]).expect("there is room");
            let answer = inbox.recv().await;
            *keep.borrow_mut() = Some((mesh, answer));
        }));
        cluster.run(ms(50));
        let (mesh, answer) = next.take().expect("it is answered");
        assert!(matches!(answer, Some(Incoming::Message(message)) if message[..] == [2]));
        assert_eq!(got.borrow()[..], [Some(1), None, Some(2)], "node {node} is another one than before");
        assert_ne!(mesh.incarnation(), here.mesh.incarnation());
        assert_eq!(there.mesh.incarnation_of(rank(node)), Some(mesh.incarnation()));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let cluster = Cluster::new(3, seed, Wait::Notify);
        cluster.fabric.set_log(weft_sim::log::Log::memory());
        let _got: Vec<Got> = cluster.members.iter().map(receive).collect();
        for (from, member) in cluster.members.iter().enumerate() {
            (0..3).filter(|to| *to != from).for_each(|to| talk(member, to, 30, us(100)));
        }
        disturb(&cluster, 3, &mut Dice::new(seed));
        cluster.run(ms(50));
        cluster.fabric.take_log()
    };
    assert!(!run(5).is_empty());
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn nobody_opens_the_channels_that_are_the_transport_s_own() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    for own in [252, 253, 255].map(Channel) {
        assert_eq!(cluster.members[0].mesh.open(own).err(), Some(TransportError::ChannelTaken(own)));
    }
}
