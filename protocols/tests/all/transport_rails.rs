//! Nodes of two adapters: connections go over to the other rail and come back, and nothing is lost.

use crate::common::{Cluster, STYLES, ms, rank, us};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use weft_protocols::rt::BufferGuard;
use weft_protocols::transport::{
    Channel, Incoming, Lost, Mesh, MeshConfig, NotExecuted, OpError, TransportError,
};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, SendOp, Service, VerbsError, Wait};

const CHANNEL: Channel = Channel(3);

/// Sends numbered messages from node 0 to node 1, one every so often, and keeps when each arrives.
fn stream(cluster: &Cluster, count: u32, every: Nanos) -> Rc<RefCell<Vec<(u32, Nanos)>>> {
    let arrived = Rc::new(RefCell::new(Vec::new()));
    let (to, keep) = (&cluster.members[1], Rc::clone(&arrived));
    let (mut inbox, clock) = (to.mesh.open(CHANNEL).expect("free"), to.rt.clone());
    drop(to.rt.spawn(async move {
        while let Some(Incoming::Message(message)) = inbox.recv().await {
            let number = u32::from_le_bytes(message.bytes().try_into().expect("four bytes"));
            keep.borrow_mut().push((number, clock.now()));
        }
    }));
    let (rt, mesh) = (cluster.members[0].rt.clone(), cluster.members[0].mesh.clone());
    drop(rt.clone().spawn(async move {
        for number in 0..count {
            mesh.send(rank(1), CHANNEL, &u32::to_le_bytes(number)).expect("there is room");
            rt.sleep(every).await;
        }
    }));
    arrived
}

fn in_order(arrived: &[(u32, Nanos)], count: u32) {
    assert_eq!(arrived.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
}

/// The longest time between two arrivals.
fn stall(arrived: &[(u32, Nanos)]) -> Nanos {
    arrived.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap_or_default()
}

#[test]
fn a_port_that_loses_its_link_moves_its_connections_at_once_and_back_after_the_hold_off() {
    for style in STYLES {
        for node in [0, 1] {
            let cluster = Cluster::railed(2, 2, 1, style);
            let arrived = stream(&cluster, 400, us(50));
            cluster.plan(ms(4), Fault::PortDown { node: NodeId(node), port: 1, lasts: Some(ms(2)) });
            cluster.run(ms(5));
            assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1), "over the other rail");
            cluster.run(us(1_500));
            assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1), "held off");
            cluster.run(ms(60));
            assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(0), "back");
            in_order(&arrived.borrow(), 400);
            assert!(stall(&arrived.borrow()) < us(700), "{style:?}: {}", stall(&arrived.borrow()));
            let stats = cluster.members[0].mesh.stats();
            assert_eq!((stats.failovers, stats.failbacks), (1, 1));
            let stats = cluster.fabric.stats();
            let alive: Vec<u32> = stats.alive.iter().map(|node| node.qps).collect();
            assert_eq!(
                alive,
                [2, 2],
                "the connection's queue pairs, one that stands by at each end, and no others"
            );
        }
    }
}

/// Two processes of one machine listen at two services: each calls the other at the other's.
#[test]
fn a_connection_goes_back_to_the_better_rail_where_the_two_ends_listen_at_different_services() {
    for style in STYLES {
        for node in [0, 1] {
            let cluster = Cluster::special(2, 2, 1, style, |config| {
                let (own, other) = if config.me == rank(0) { (7_001, 7_002) } else { (7_002, 7_001) };
                (config.service, config.calls) = (Service(own), Some(Service(other)));
            });
            let arrived = stream(&cluster, 400, us(50));
            cluster.plan(ms(4), Fault::PortDown { node: NodeId(node), port: 1, lasts: Some(ms(2)) });
            cluster.run(ms(5));
            assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1), "{style:?}: over the other rail");
            cluster.run(ms(60));
            assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(0), "{style:?}: back");
            in_order(&arrived.borrow(), 400);
        }
    }
}

#[test]
fn a_cut_that_nobody_tells_of_is_found_by_the_retries_and_a_rail_that_stays_dead_is_not_gone_back_to() {
    for style in STYLES {
        let cluster = Cluster::railed(2, 2, 2, style);
        let arrived = stream(&cluster, 600, us(50));
        let link = Link::Port(NodeId(1), 1);
        cluster.plan(ms(4), Fault::Cut { link, way: Way::Both, lasts: None });
        cluster.run(ms(200));
        in_order(&arrived.borrow(), 600);
        assert!(stall(&arrived.borrow()) < ms(3), "{style:?}: {}", stall(&arrived.borrow()));
        let stats = cluster.members[0].mesh.stats();
        assert_eq!((stats.failovers, stats.failbacks, stats.reconnects), (1, 0, 1));
        assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1));
    }
}

/// The higher rank gave it up as its port lost its link, and the lower one, which makes them, made none, or went on holding its own end.
#[test]
fn a_connection_that_stands_by_is_there_when_its_rail_has_its_link_again() {
    for (node, lasts) in [(0, ms(5)), (1, ms(5)), (1, Nanos::from_secs(80))] {
        let cluster = Cluster::railed(2, 2, 1, Wait::Notify);
        let arrived = stream(&cluster, 20, us(50));
        cluster.plan(ms(4), Fault::PortDown { node: NodeId(node), port: 2, lasts: Some(lasts) });
        cluster.run(lasts + ms(50));
        in_order(&arrived.borrow(), 20);
        let queues = || cluster.fabric.stats().alive.iter().map(|node| node.qps).collect::<Vec<_>>();
        assert_eq!(queues(), [2, 2], "n{node}, {lasts}: one is in use, and one stands by");
        cluster.plan(cluster.fabric.now(), Fault::PortDown { node: NodeId(0), port: 1, lasts: None });
        cluster.run(us(100));
        assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1), "n{node}, {lasts}: it is used");
    }
}

/// The lower rank, whose port has its link, asked over the dead rail, and turned the other one down until its connection manager gave up.
#[test]
fn two_that_ask_at_once_over_different_rails_meet_over_the_one_that_works() {
    let cluster = Cluster::railed(2, 2, 1, Wait::Notify);
    cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(1), port: 1, lasts: None });
    let met = Rc::new(Cell::new(0));
    for (me, member) in cluster.members.iter().enumerate() {
        let (rt, mesh, met) = (member.rt.clone(), member.mesh.clone(), Rc::clone(&met));
        drop(member.rt.spawn(async move {
            let mut inbox = mesh.open(CHANNEL).expect("free");
            rt.sleep_until(ms(1)).await;
            mesh.send(rank(1 - me), CHANNEL, &[1]).expect("there is room");
            assert!(matches!(inbox.recv().await, Some(Incoming::Message(_))));
            met.set(met.get() + 1);
        }));
    }
    cluster.run(ms(5));
    assert_eq!((met.get(), cluster.members[0].mesh.rail(rank(1))), (2, Some(1)));
}

/// A fuzzer found it: a client of files whose server died while they were connected over the other rail probed it for ever, and each probe
/// ended well without a packet.
#[test]
fn an_operation_of_no_bytes_finds_out_whether_the_peer_is_there_over_whatever_rail() {
    for style in STYLES {
        let cluster = Cluster::railed(2, 2, 2, style);
        let arrived = stream(&cluster, 20, us(50));
        cluster.plan(us(500), Fault::PortDown { node: NodeId(1), port: 1, lasts: None });
        let ended = Rc::new(RefCell::new(Vec::new()));
        let (rt, mesh, keep) =
            (cluster.members[0].rt.clone(), cluster.members[0].mesh.clone(), Rc::clone(&ended));
        drop(rt.clone().spawn(async move {
            let mr = mesh.alloc(8, AccessFlags::LOCAL_WRITE).expect("there is memory");
            for at in [ms(5), ms(15)] {
                rt.sleep_until(at).await;
                let end = mesh.write(rank(1), RemoteSlice::default(), &[]).await;
                keep.borrow_mut().push(end.is_ok());
                // Also of memory that is the other rail's.
                let nothing_of_it = BufferGuard::Range { mr: mr.clone(), at: 0, len: 0 };
                let in_place = mesh.write_from(rank(1), RemoteSlice::default(), nothing_of_it).await;
                keep.borrow_mut().push(in_place.is_ok());
            }
        }));
        cluster.run(ms(10));
        in_order(&arrived.borrow(), 20);
        assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1));
        assert_eq!(ended.borrow()[..], [true, true], "{style:?}: it is there");
        cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
        cluster.run(ms(30));
        assert_eq!(ended.borrow()[..], [true, true, false], "{style:?}: it is not");
    }
}

#[test]
fn with_both_rails_dead_messages_wait_for_the_first_that_comes_back() {
    for back in [1, 2] {
        let cluster = Cluster::railed(2, 2, 3, Wait::Poll);
        let arrived = stream(&cluster, 100, us(50));
        for port in [1, 2] {
            let lasts = Some(if port == back { ms(10) } else { ms(200) });
            cluster.plan(ms(2), Fault::PortDown { node: NodeId(0), port, lasts });
        }
        cluster.run(ms(100));
        in_order(&arrived.borrow(), 100);
        assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(back - 1));
        cluster.run(ms(200));
    }
}

#[test]
fn operations_reach_the_memory_of_a_dead_rail_and_additions_of_all_are_counted() {
    for style in STYLES {
        let cluster = Cluster::railed(3, 2, 4, style);
        let memory = cluster.members[1].mesh.alloc(1_024, AccessFlags::all()).expect("there is memory");
        let at = memory.remote(0..1_024).expect("all of it");
        let done = Rc::new(Cell::new(0));
        // Node 1's own additions go over its connection to itself, node 2's over rail 0, and node 0 loses that.
        for member in &cluster.members {
            let (mesh, done) = (member.mesh.clone(), Rc::clone(&done));
            drop(member.rt.spawn(async move {
                for _ in 0..100 {
                    let added = mesh.fetch_add(rank(1), at.word(0).expect("in it"), 1).await;
                    added.expect("nothing is lost while nothing is under way");
                }
                done.set(done.get() + 1);
            }));
        }
        cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(0), port: 1, lasts: Some(ms(100)) });
        let (mesh, ended) = (cluster.members[0].mesh.clone(), Rc::clone(&done));
        drop(cluster.members[0].rt.spawn(async move {
            let (bytes, place) = (vec![7; 700], at.slice(100..800).expect("in it"));
            mesh.write(rank(1), place, &bytes).await.expect("it is carried");
            let mut back = vec![0; 700];
            mesh.read(rank(1), place, &mut back).await.expect("it is carried");
            assert_eq!(back, bytes);
            assert_eq!(mesh.compare_swap(rank(1), at.word(904).expect("in it"), 0, 5).await, Ok(0));
            ended.set(ended.get() + 1);
        }));
        cluster.run(ms(50));
        assert_eq!(done.get(), 4, "{style:?}");
        assert_eq!(memory.load(0), Ok(300), "{style:?}");
        assert_eq!(
            (cluster.members[0].mesh.rail(rank(1)), cluster.members[2].mesh.rail(rank(1))),
            (Some(1), Some(0))
        );
        assert!(cluster.members[0].mesh.stats().carried > 100);
        assert_eq!(cluster.members[2].mesh.stats().carried, 0);
        cluster.run(ms(200));
        cluster.assert_at_rest("after the operations");
    }
}

/// A list whose second request is this one, from so many bytes of memory: how it ends.
async fn list_of(mesh: &Mesh<Sim>, at: RemoteSlice, op: SendOp<'static, Sim>, len: u32) -> Option<OpError> {
    let pool = mesh.pool(128);
    let guard = |len| BufferGuard::Block { block: pool.alloc().expect("there is memory"), len };
    let first = SendOp::Write { to: at, imm: None };
    mesh.post_list(rank(1), [(first, guard(8)), (op, guard(len))]).await.err()
}

/// A read of more bytes than its range has read them over one rail, and over the other nothing at all.
#[test]
fn a_list_with_what_no_operation_is_or_has_room_for_is_refused_in_whole_over_either_rail() {
    for other in [false, true] {
        let cluster = Cluster::railed(2, 2, 1, Wait::Poll);
        if other {
            cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(0), port: 1, lasts: None });
        }
        let memory = cluster.members[1].mesh.alloc(128, AccessFlags::all()).expect("there is memory");
        memory.store(0, 5).expect("in it");
        let all = memory.remote(0..128).expect("all of it");
        let mesh = cluster.members[0].mesh.clone();
        let ended = Rc::new(RefCell::new(None));
        let keep = Rc::clone(&ended);
        drop(cluster.members[0].rt.spawn(async move {
            let at = all.slice(0..64).expect("in it");
            let short = all.slice(0..4).expect("in it");
            let old = mesh.fetch_add(rank(1), all.word(64).expect("in it"), 1).await;
            let ends = [
                list_of(&mesh, at, SendOp::Read { from: at }, 100).await,
                list_of(&mesh, at, SendOp::Write { to: at, imm: None }, 100).await,
                list_of(&mesh, at, SendOp::FetchAdd { at: short, add: 1 }, 8).await,
                list_of(&mesh, at, SendOp::CompareSwap { at: short, compare: 5, swap: 6 }, 8).await,
                list_of(&mesh, at, SendOp::Send { imm: None }, 8).await,
                list_of(&mesh, at, SendOp::Write { to: at, imm: Some(1) }, 8).await,
            ];
            let new = mesh.fetch_add(rank(1), all.word(64).expect("in it"), 1).await;
            *keep.borrow_mut() = Some((ends, [old, new]));
        }));
        cluster.run(ms(50));
        let (ends, words) = ended.take().expect("it ends");
        let length = |need, have| Some(OpError::NotExecuted(NotExecuted::Length { need, have }));
        assert_eq!(ends[..4], [length(100, 64), length(100, 64), length(8, 4), length(8, 4)], "{other}");
        for end in &ends[4..] {
            let refused =
                matches!(end, Some(OpError::NotExecuted(NotExecuted::Refused(VerbsError::Invalid(_)))));
            assert!(refused, "{other}: {end:?}");
        }
        assert_eq!((words, memory.load(0)), ([Ok(0), Ok(1)], Ok(5)), "{other}: nothing of them was executed");
        let stats = cluster.members[0].mesh.stats();
        assert_eq!(
            (stats.carried > 0, cluster.members[0].mesh.rail(rank(1))),
            (other, Some(u8::from(other)))
        );
        assert_eq!(
            (stats.messages_sent, stats.messages_received),
            (0, 0),
            "{other}: what carries operations is no message of its user's"
        );
    }
}

/// The answer to the first part was there, and its owner was expelled before the call had looked at it: the next part went to nobody.
#[test]
fn a_carried_operation_in_parts_ends_when_its_owner_is_expelled_between_two_of_them() {
    for reads in [false, true] {
        let cluster = Cluster::railed(2, 2, 1, Wait::Poll);
        cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(0), port: 1, lasts: None });
        let memory = cluster.members[1].mesh.alloc(8 * 1_024, AccessFlags::all()).expect("there is memory");
        let at = memory.remote(0..8 * 1_024).expect("all of it");
        let ended = Rc::new(RefCell::new(None));
        let (mesh, there, keep) =
            (cluster.members[0].mesh.clone(), cluster.members[1].mesh.incarnation(), Rc::clone(&ended));
        drop(cluster.members[0].rt.spawn(async move {
            mesh.fetch_add(rank(1), at.word(0).expect("in it"), 1).await.expect("it is carried");
            let before = mesh.heard(rank(1));
            let mut bytes = vec![7; at.len as usize];
            let mut call = Box::pin(async {
                match reads {
                    true => mesh.read(rank(1), at, &mut bytes).await,
                    // The last part waits for the one before it.
                    false => mesh.write(rank(1), at.slice(0..300).expect("in it"), &bytes[..300]).await,
                }
            });
            let end = poll_fn(|cx| {
                if mesh.heard(rank(1)) > before && !mesh.is_gone(rank(1)) {
                    mesh.expel(rank(1), there);
                }
                call.as_mut().poll(cx)
            });
            let end = end.await;
            *keep.borrow_mut() = Some(end);
        }));
        cluster.run(ms(100));
        let end = ended.take().expect("it ends");
        let of_peer = match reads {
            true => OpError::NotExecuted(NotExecuted::PeerGone(rank(1))),
            false => OpError::Unknown(Lost::AtPeer(rank(1))),
        };
        assert_eq!(end, Err(of_peer));
    }
}

/// The last part of a write is asked for once the others are answered. Who had resolved outcomes meanwhile did not wait for it.
#[test]
fn no_part_of_a_carried_write_is_executed_once_its_outcome_is_resolved() {
    let cluster = Cluster::unwatched(2, 2, 1, |_| {});
    cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(0), port: 1, lasts: None });
    let memory = cluster.members[1].mesh.alloc(1_024, AccessFlags::all()).expect("there is memory");
    let at = memory.remote(0..1_024).expect("all of it");
    let resolved = Rc::new(Cell::new(false));
    let (rt, mesh, keep) =
        (cluster.members[0].rt.clone(), cluster.members[0].mesh.clone(), Rc::clone(&resolved));
    drop(rt.clone().spawn(async move {
        mesh.fetch_add(rank(1), at.word(1_016).expect("in it"), 1).await.expect("it is carried");
        rt.sleep_until(ms(20)).await;
        let (place, to) = (at.slice(0..1_000).expect("in it"), mesh.clone());
        let written = rt.spawn(async move { to.write(rank(1), place, &[1; 1_000]).await });
        // Most parts are asked for now, and none can have been answered.
        rt.sleep(Nanos(200)).await;
        assert_eq!(mesh.resolve_outcomes(rank(1)).await, Ok(()));
        keep.set(true);
        written.await.expect("it ends").expect("it is carried");
    }));
    let bytes_now = || {
        let mut bytes = [0; 1_000];
        memory.read(0, &mut bytes).expect("in it");
        bytes
    };
    cluster.run(ms(20));
    while !resolved.get() {
        assert!(cluster.fabric.now() < ms(21), "it is resolved");
        cluster.run(Nanos(100));
    }
    let before = bytes_now();
    cluster.run(ms(1));
    assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1));
    assert!(bytes_now() == [1; 1_000], "it was executed");
    assert!(before == bytes_now(), "nothing of it came later");
}

#[test]
fn a_mesh_of_more_rails_than_devices_or_with_names_missing_is_refused() {
    let cluster = Cluster::railed(2, 2, 1, Wait::Poll);
    let names =
        |count: usize| -> std::sync::Arc<[String]> { (0..count).map(|n| format!("n{n}.2")).collect() };
    for other_rails in [vec![names(2); 2], vec![names(1)]] {
        let config = MeshConfig {
            service: Service(99),
            other_rails,
            ..MeshConfig::new(rank(0), vec!["n0".into(), "n1".into()])
        };
        let refused = Mesh::start(&cluster.members[0].rt, config).err();
        assert!(matches!(refused, Some(TransportError::Config { field: "other_rails", .. })), "{refused:?}");
    }
}
