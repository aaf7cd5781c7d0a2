//! Connections that somebody else made: the mesh takes them, uses them, and replaces them when they break.

use crate::common::{Cluster, Member, STYLES, ms, rank, us};
use std::result::Result;
use weft_protocols::transport::{
    AdoptError, Channel, Incoming, Mesh, MeshConfig, NotExecuted, OpError, Prepared,
};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::*;

const CHANNEL: Channel = Channel(3);

/// Connects two queue pairs as a launcher does that carries numbers between processes.
fn connect(cluster: &Cluster, ends: [(usize, &Prepared<Sim>); 2]) {
    for (i, (_, end)) in ends.iter().enumerate() {
        let (far_node, far) = &ends[1 - i];
        let gid = cluster.fabric.devices(NodeId(*far_node as u32))[0].open().and_then(|ctx| ctx.gid(1, 0));
        let modify = |change| end.qp().modify(&change).expect("the transition is lawful");
        modify(Modify::Rtr(ToRtr {
            dest_qp: far.qp().num(),
            rq_psn: Psn::new(7),
            path: Path::to(gid.expect("port 1 has a GID"), 1),
            mtu: Mtu::B1024,
            min_rnr_timer: RnrTimer::new(12).expect("a code"),
            max_dest_rd_atomic: 4,
            alt: None,
        }));
        modify(Modify::Rts(ToRts {
            sq_psn: Psn::new(7),
            timeout: AckTimeout::new(4).expect("an exponent"),
            retry: Retries::new(2).expect("a count"),
            rnr_retry: Retries::FOREVER,
            max_rd_atomic: 4,
            alt: None,
            migration: Migration::Migrated,
        }));
    }
}

/// A cluster whose nodes are connected to each other and to themselves before anything runs.
fn bootstrapped(nodes: usize, seed: u64, style: Wait) -> Cluster {
    let cluster = Cluster::new(nodes as u32, seed, style);
    let adopt = |end: Prepared<Sim>, introduction: &[u8]| end.adopt(introduction).expect("it fits");
    for a in 0..nodes {
        let mesh = |of: usize| &cluster.members[of].mesh;
        let [near, far] = mesh(a).prepare_loopback().expect("nothing stands");
        connect(&cluster, [(a, &near), (a, &far)]);
        let own = near.introduction();
        adopt(near, &own);
        adopt(far, &own);
        for b in a + 1..nodes {
            let near = mesh(a).prepare(rank(b)).expect("nothing stands");
            let far = mesh(b).prepare(rank(a)).expect("nothing stands");
            connect(&cluster, [(a, &near), (b, &far)]);
            let introductions = [near.introduction(), far.introduction()];
            adopt(near, &introductions[1]);
            adopt(far, &introductions[0]);
        }
    }
    cluster
}

fn numbers(mesh: &Mesh<Sim>) -> weft_protocols::transport::Inbox {
    mesh.open(CHANNEL).expect("nobody opened it")
}

fn say(member: &Member, to: usize, at: Nanos, number: u32) {
    let mesh = member.mesh.clone();
    member.at(at, move || mesh.send(rank(to), CHANNEL, &number.to_le_bytes()).expect("there is room"));
}

fn heard(inbox: &mut weft_protocols::transport::Inbox) -> Vec<(usize, u32)> {
    let message = |incoming| match incoming {
        Incoming::Message(m) => (m.from().index(), u32::from_le_bytes(m[..4].try_into().expect("4 bytes"))),
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(|| inbox.try_recv()).map(message).collect()
}

#[test]
fn adopted_connections_carry_messages_and_operations_and_nobody_is_asked_for_more() {
    for style in STYLES {
        let cluster = bootstrapped(3, 1, style);
        let mut inboxes: Vec<_> = cluster.members.iter().map(|m| numbers(&m.mesh)).collect();
        let words = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC;
        let word = cluster.members[0].mesh.alloc(8, words).expect("memory");
        let at = word.remote(0..8).expect("a word");
        for (node, member) in cluster.members.iter().enumerate() {
            // More than the credits of one connection, so that they must come back.
            (0..40).for_each(|n| say(member, (node + 1) % 3, us(n), n as u32));
            let mesh = member.mesh.clone();
            drop(member.rt.spawn(async move { mesh.fetch_add(rank(0), at, 1).await.expect("it executes") }));
        }
        cluster.run(ms(5));
        for (node, inbox) in inboxes.iter_mut().enumerate() {
            let all: Vec<_> = (0..40).map(|n| ((node + 2) % 3, n)).collect();
            assert_eq!(heard(inbox), all, "{style:?}");
        }
        assert_eq!(word.load(0), Ok(3), "a node's own atomics take its connection to itself");
        for member in &cluster.members {
            let stats = member.mesh.stats();
            assert_eq!((stats.reconnects, stats.fences, member.mesh.audit().connections), (0, 0, 3));
        }
        cluster.assert_at_rest("adopted");
    }
}

#[test]
fn an_adopted_connection_that_breaks_is_made_anew_by_the_connection_manager() {
    for style in STYLES {
        for seed in 0..20 {
            let cluster = bootstrapped(2, seed, style);
            let mut inbox = numbers(&cluster.members[1].mesh);
            (0..100).for_each(|n| say(&cluster.members[0], 1, us(10 * n), n as u32));
            let link = Link::Pair(NodeId(0), NodeId(1));
            cluster.plan(us(200 + 7 * seed), Fault::Cut { link, way: Way::Both, lasts: Some(ms(1)) });
            cluster.run(ms(50));
            let all: Vec<_> = (0..100).map(|n| (0, n)).collect();
            assert_eq!(heard(&mut inbox), all, "{style:?}, seed {seed}");
            assert_eq!(cluster.members[0].mesh.stats().reconnects, 1);
            cluster.assert_at_rest("made anew");
        }
    }
}

#[test]
fn what_arrives_before_the_adoption_is_delivered_after_it() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let mut inbox = numbers(&cluster.members[1].mesh);
    let near = cluster.members[0].mesh.prepare(rank(1)).expect("nothing stands");
    let far = cluster.members[1].mesh.prepare(rank(0)).expect("nothing stands");
    connect(&cluster, [(0, &near), (1, &far)]);
    let introduction = near.introduction();
    near.adopt(&far.introduction()).expect("it fits");
    say(&cluster.members[0], 1, us(0), 7);
    cluster.run(us(100));
    assert!(inbox.is_empty());
    cluster.members[1].at(us(100), move || far.adopt(&introduction).expect("it fits"));
    cluster.run(ms(10));
    assert_eq!(heard(&mut inbox), [(0, 7)]);
    cluster.assert_at_rest("late adoption");
}

#[test]
fn a_bootstrap_that_one_side_gave_up_leaves_the_connection_manager_in_charge() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let mut inbox = numbers(&cluster.members[0].mesh);
    let near = cluster.members[0].mesh.prepare(rank(1)).expect("nothing stands");
    let far = cluster.members[1].mesh.prepare(rank(0)).expect("nothing stands");
    connect(&cluster, [(0, &near), (1, &far)]);
    near.adopt(&far.introduction()).expect("it fits");
    // Its process has died, say, and another one takes its place that was not part of the bootstrap.
    drop(far);
    say(&cluster.members[1], 0, us(0), 7);
    cluster.run(ms(50));
    assert_eq!(heard(&mut inbox), [(1, 7)]);
    cluster.assert_at_rest("given up");
}

#[test]
fn what_cannot_be_adopted_is_refused_by_its_reason() {
    let cluster = Cluster::new(3, 1, Wait::Notify);
    let [a, b, c] = [0, 1, 2].map(|node| cluster.members[node].mesh.clone());
    let refused = |end: Result<Prepared<Sim>, AdoptError>| end.err();
    assert_eq!(refused(a.prepare(rank(3))), Some(AdoptError::NoSuchPeer(rank(3))));

    let pair = || {
        let (near, far) = (a.prepare(rank(1)).expect("free"), b.prepare(rank(0)).expect("free"));
        connect(&cluster, [(0, &near), (1, &far)]);
        (near, far.introduction())
    };
    let (near, good) = pair();
    assert_eq!(near.adopt(&good[1..]), Err(AdoptError::Unreadable));
    let stranger = c.prepare(rank(0)).expect("free").introduction();
    let (got, want) = (rank(2), rank(1));
    assert_eq!(pair().0.adopt(&stranger), Err(AdoptError::Stranger { got, want }));
    // Bytes 28 and 32 of an introduction: the peer's receive buffers and its longest message.
    for (at, field) in [(28, "recv_buffers"), (32, "max_message")] {
        let (near, mut odd) = pair();
        odd[at] = 3;
        let value = u32::from_le_bytes(odd[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!(near.adopt(&odd), Err(AdoptError::Mismatch { field, value }));
    }
    let unconnected = a.prepare(rank(1)).expect("free");
    assert_eq!(unconnected.adopt(&good), Err(AdoptError::NotReady(QpState::Init)));

    let (older, _) = pair();
    let (newer, good) = pair();
    assert_eq!(older.adopt(&good), Err(AdoptError::Superseded(rank(1))));
    assert_eq!(newer.adopt(&good), Ok(()));
    assert_eq!(refused(a.prepare(rank(1))), Some(AdoptError::Connected(rank(1))));
    let (late, _) = (c.prepare(rank(0)).expect("free"), a.close());
    assert_eq!(refused(a.prepare(rank(2))), Some(AdoptError::Closed));
    c.close();
    assert_eq!(late.adopt(&good), Err(AdoptError::Closed));
}

#[test]
fn a_mesh_of_another_message_length_is_not_adopted() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let other = MeshConfig { max_message: 512, service: Service(9), ..crate::common::config(2, 1) };
    let other = Mesh::start(&cluster.members[1].rt, other).expect("it starts");
    let near = cluster.members[0].mesh.prepare(rank(1)).expect("free");
    let introduction = other.prepare(rank(0)).expect("free").introduction();
    let field = "max_message";
    assert_eq!(near.adopt(&introduction), Err(AdoptError::Mismatch { field, value: 512 }));
}

/// The connection stands by other means, and nobody has looked at it yet.
#[test]
fn one_who_is_expelled_right_after_its_connection_was_adopted_is_gone_and_does_nothing_over_it() {
    for style in STYLES {
        let cluster = bootstrapped(2, 1, style);
        let [here, there] = &cluster.members[..] else { panic!("two of them") };
        let memory = [here, there].map(|member| member.mesh.alloc(64, AccessFlags::all()).expect("memory"));
        let words = [0, 1].map(|of: usize| memory[of].remote(0..8).expect("in bounds"));
        here.mesh.expel(rank(1), there.mesh.incarnation());
        let (mesh, word) = (there.mesh.clone(), words[0]);
        drop(there.rt.spawn(async move { mesh.fetch_add(rank(0), word, 1).await }));
        let (mesh, word) = (here.mesh.clone(), words[1]);
        let ended = std::rc::Rc::new(std::cell::Cell::new(None));
        let keep = std::rc::Rc::clone(&ended);
        drop(here.rt.spawn(async move { keep.set(Some(mesh.fetch_add(rank(1), word, 1).await)) }));
        cluster.run(ms(100));
        assert_eq!(ended.get(), Some(Err(OpError::NotExecuted(NotExecuted::PeerGone(rank(1))))));
        assert!(here.mesh.is_gone(rank(1)));
        assert_eq!([0, 1].map(|of: usize| memory[of].load(0)), [Ok(0), Ok(0)]);
    }
}
