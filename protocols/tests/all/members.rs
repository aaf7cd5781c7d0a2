//! Members on a mesh: views come, the dead leave, the restarted come in, and those who hung learn that they are out.

use crate::common::{Cluster, ms, rank, us};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::members::{Change, Members, MembersConfig};
use weft_protocols::transport::{Channel, SendError};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Short times, longer than a connection is away.
fn settings(nodes: u32) -> MembersConfig {
    MembersConfig { lease: ms(20), drift: ms(1), patience: ms(10), ..MembersConfig::new(nodes) }
}

fn begin(cluster: &Cluster, node: usize) -> Members<Sim> {
    let member = &cluster.members[node];
    Members::start(&member.rt, &member.mesh, settings(cluster.members.len() as u32)).expect("it starts")
}

fn ranks(members: &Members<Sim>) -> Vec<u32> {
    members.view().map_or_else(Vec::new, |view| view.members.iter().map(|m| m.rank.get()).collect())
}

/// Something on a node waits for another one, from a moment on.
fn watch_at(cluster: &Cluster, members: &Members<Sim>, node: usize, at: Nanos, whom: usize) {
    let members = members.clone();
    let kept = Rc::new(RefCell::new(None));
    cluster.members[node].at(at, move || {
        *kept.borrow_mut() = Some(members.watch(rank(whom)));
        std::mem::forget(kept);
    });
}

#[test]
fn all_come_into_a_view_and_then_nothing_is_sent() {
    for wait in [Wait::Poll, Wait::Notify] {
        let cluster = Cluster::new(3, 1, wait);
        let all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
        cluster.run(ms(100));
        for members in &all {
            assert_eq!((ranks(members), members.has_lease()), (vec![1, 2, 3], false));
            assert_eq!(members.view(), all[0].view());
        }
        let sent = |cluster: &Cluster| -> u64 {
            cluster.members.iter().map(|member| member.mesh.stats().messages_sent).sum()
        };
        let before = sent(&cluster);
        cluster.run(ms(1_000));
        assert_eq!(sent(&cluster), before, "nothing is held, and nobody waits");
    }
}

#[test]
fn a_member_that_dies_is_left_out_once_somebody_waits_for_it_and_comes_in_anew() {
    let mut cluster = Cluster::new(3, 1, Wait::Notify);
    let mut all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    let (dead, crash) = (all[2].me(), ms(100));
    let mut changes = all[0].changes();
    watch_at(&cluster, &all[0], 0, crash + ms(1), 2);
    cluster.plan(crash, Fault::Crash { node: NodeId(2) });
    cluster.run(crash + ms(30));
    for members in &all[..2] {
        assert_eq!(ranks(members), [1, 2]);
        let wait = members.grants_from();
        // One lease and the drift after the view, which came one patience after somebody waited.
        assert!((crash + ms(31)..crash + ms(45)).contains(&wait), "{wait} after {crash}");
    }
    let told = std::iter::from_fn(|| changes.try_recv()).last();
    assert!(matches!(&told, Some(Change::Begins { left, .. }) if *left == [dead]), "{told:?}");

    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(2) });
    cluster.run(ms(1));
    cluster.members[2] = cluster.start(2);
    all[2] = begin(&cluster, 2);
    cluster.run(ms(200));
    for members in &all {
        assert_eq!(ranks(members), [1, 2, 3]);
        assert_eq!(members.view().and_then(|view| view.of(rank(2))), Some(all[2].me()));
    }
    assert_ne!(all[2].me(), dead);
}

#[test]
fn a_lease_runs_while_something_is_held_and_ends_where_no_majority_is() {
    let cluster = Cluster::new(3, 1, Wait::Notify);
    let all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    let (members, hangs) = (all[2].clone(), ms(200));
    cluster.members[2].at(ms(100), move || std::mem::forget(members.hold()));
    watch_at(&cluster, &all[0], 0, hangs + ms(1), 2);
    cluster.run(hangs);
    assert!(all[2].has_lease());
    // It hangs: nothing comes through for long. The others go on without it, since they ask it in vain.
    let cut = Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: Some(ms(200)) };
    cluster.plan(hangs, cut);
    cluster.run(ms(60));
    assert_eq!(ranks(&all[0]), [1, 2]);
    assert!(!all[2].has_lease(), "a lease that nobody renews runs out");
    assert!(all[2].lease_until() + ms(1) <= all[0].grants_from(), "and before anybody grants anew");
    // It wakes up, asks for its lease, and learns that it is out.
    cluster.run(ms(1_000));
    assert!(all[2].is_out() && all[2].view().is_none());
}

#[test]
fn a_member_that_left_asks_nobody_for_a_connection_any_more() {
    let cluster = Cluster::new(5, 1, Wait::Notify);
    let all: Vec<_> = (0..5).map(|node| begin(&cluster, node)).collect();
    let crash = ms(100);
    watch_at(&cluster, &all[0], 0, crash + ms(1), 4);
    cluster.plan(crash, Fault::Crash { node: NodeId(4) });
    // It has something to say to the dead one and to a living one, and leaves.
    let (mesh, members) = (cluster.members[3].mesh.clone(), all[3].clone());
    cluster.members[3].at(crash + ms(1), move || {
        mesh.send(rank(4), Channel(3), &[1; 8]).expect("it is kept");
        members.leave();
    });
    cluster.run(crash + ms(1_000));
    assert_eq!(ranks(&all[0]), [1, 2, 3]);
    assert!(all[3].is_out());
    let (mesh, rt) = (cluster.members[3].mesh.audit(), cluster.members[3].rt.audit());
    assert_eq!((mesh.unacked, mesh.outstanding, mesh.waiting, rt.timers), (0, 0, 0, 0));
    // Nor does a member that stays ask for one who is out.
    let before: Vec<u64> =
        cluster.members[..4].iter().map(|member| member.mesh.stats().messages_sent).collect();
    cluster.run(ms(1_000));
    for (member, before) in cluster.members[..4].iter().zip(before) {
        assert_eq!((member.mesh.stats().messages_sent, member.rt.audit().timers), (before, 0));
    }
}

/// The lowest rank proposes: a view without itself, too, of which nobody else knows that it was decided.
#[test]
fn a_member_that_decides_the_view_without_itself_tells_the_others_before_it_retires() {
    let cluster = Cluster::new(4, 1, Wait::Notify);
    let all: Vec<_> = (0..4).map(|node| begin(&cluster, node)).collect();
    let members = all[0].clone();
    cluster.members[0].at(ms(101), move || members.leave());
    watch_at(&cluster, &all[1], 1, ms(107), 3);
    // Too few of the view before are left to find out by themselves that another one was decided.
    cluster.plan(ms(105), Fault::Crash { node: NodeId(3) });
    cluster.run(ms(106));
    assert!(all[0].is_out());
    assert_eq!([ranks(&all[1]), ranks(&all[2])], [vec![2, 3, 4], vec![2, 3, 4]]);
    cluster.run(ms(200));
    // (A view never has fewer than a majority of the nodes: these two stay with the dead one.)
    assert_eq!((ranks(&all[1]), all[1].is_out()), (vec![2, 3, 4], false));
}

/// A node that is out and expels those who left it, on no grounds but its own.
#[test]
fn a_node_that_is_out_takes_nobody_along() {
    let cluster = Cluster::new(4, 1, Wait::Notify);
    let all: Vec<_> = (0..4).map(|node| begin(&cluster, node)).collect();
    let (members, mesh) = (all[3].clone(), cluster.members[3].mesh.clone());
    let others: Vec<_> = all[..3].iter().map(Members::me).collect();
    cluster.members[3].at(ms(101), move || {
        members.leave();
        others.iter().for_each(|other| mesh.expel(other.rank, other.incarnation));
    });
    // They ask it for a connection, and are refused; who has been by then is told so.
    for (node, member) in cluster.members[..3].iter().enumerate() {
        let mesh = member.mesh.clone();
        member.at(ms(102), move || {
            let said = mesh.send(rank(3), Channel(3), &[1; 8]);
            assert!(matches!(said, Ok(()) | Err(SendError::PeerGone(_))), "{said:?}");
        });
        watch_at(&cluster, &all[node], node, ms(102), 3);
    }
    cluster.run(ms(600));
    for members in &all[..3] {
        assert_eq!((ranks(members), members.is_out()), (vec![1, 2, 3], false));
    }
    let told = cluster.members[..3].iter().filter(|member| member.mesh.is_expelled()).count();
    assert!(told > 0, "nobody was told that it is expelled");
}

/// Somebody gave another machine the rank and the names of this cluster: two clusters with one name look so to each other.
#[test]
fn of_two_machines_that_go_by_one_rank_one_is_a_member_and_the_other_learns_that_it_is_out() {
    let mut cluster = Cluster::new(4, 1, Wait::Notify);
    let all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    let (members, kept) = (all[1].clone(), Rc::new(RefCell::new(None)));
    let holds = Rc::clone(&kept);
    cluster.members[1].at(ms(100), move || *holds.borrow_mut() = Some(members.hold()));
    cluster.run(ms(150));
    assert_eq!((ranks(&all[0]), all[1].has_lease()), (vec![1, 2, 3], true));
    // The fourth machine begins anew, by the name of the second.
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(3) });
    cluster.run(ms(1));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(3) });
    cluster.run(ms(1));
    cluster.members[3] = cluster.start_as(3, 1);
    let other = begin(&cluster, 3);
    let mut both = Vec::new();
    for _ in 0..1_000 {
        cluster.run(ms(1));
        let own = [&all[1], &other].map(|of| of.view().is_some_and(|view| view.contains(of.me())));
        let rules = all[0].grants_from() <= cluster.fabric.now();
        both.push(rules && all[1].has_lease() && other.has_lease());
        if own == [false, true] && all[1].is_out() {
            break;
        }
    }
    assert!(!both.contains(&true), "at no time both have a right");
    assert!(all[1].is_out() && !all[1].has_lease() && !other.is_out());
    let view = all[0].view().expect("the others go on");
    assert_eq!((ranks(&all[0]), view.of(rank(1))), (vec![1, 2, 3], Some(other.me())));
}

/// Each had expelled an earlier boot of the other's before they met: what a third one tells them of each other is enough. (`weft fuzz
/// swarm-16-dsm-members` found two that waited for each other for ever, seed 93613.)
#[test]
fn two_members_that_took_each_other_for_gone_before_they_met_can_talk_once_a_view_has_both() {
    let cluster = Cluster::new(3, 1, Wait::Notify);
    for (node, other) in [(1, 2), (2, 1)] {
        cluster.members[node].mesh.expel(rank(other), 77);
    }
    let all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    cluster.run(ms(100));
    let views: Vec<_> = all.iter().map(ranks).collect();
    assert_eq!(views, [[1, 2, 3], [1, 2, 3], [1, 2, 3]]);
    let mesh = cluster.members[1].mesh.clone();
    let now = cluster.fabric.now();
    cluster.members[1].at(now, move || mesh.send(rank(2), Channel(3), &[1; 8]).expect("it is kept"));
    cluster.run(ms(100));
    assert_eq!(cluster.members[1].mesh.incarnation_of(rank(2)), Some(all[2].me().incarnation));
    assert!(!cluster.members[2].mesh.is_gone(rank(1)));
}

/// It holds nothing and waits for nobody, as a server does that nobody asks.
#[test]
fn a_member_that_is_idle_and_was_cut_off_learns_that_it_is_out() {
    let cluster = Cluster::new(3, 1, Wait::Notify);
    let all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    watch_at(&cluster, &all[0], 0, ms(101), 2);
    let cut = Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: Some(ms(100)) };
    cluster.plan(ms(100), cut);
    cluster.run(ms(180));
    assert_eq!((ranks(&all[0]), ranks(&all[2])), (vec![1, 2], vec![1, 2, 3]));
    cluster.run(ms(1_000));
    assert!(all[2].is_out());
}

/// It is taken in and left out again while nothing reaches it, and has nothing to say. (`weft fuzz swarm-16-srsl-members` found one that
/// waited for ever, seed 321843.)
#[test]
fn a_node_without_a_view_that_missed_the_one_it_was_in_learns_that_it_is_out() {
    let mut cluster = Cluster::new(3, 1, Wait::Notify);
    let mut all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    let (restarts, apart) = (ms(200), Link::Pair(NodeId(0), NodeId(1)));
    watch_at(&cluster, &all[0], 0, ms(101), 2);
    cluster.plan(ms(100), Fault::Crash { node: NodeId(2) });
    // The two others hear that it is back, and can decide nothing until they reach each other.
    cluster.plan(restarts - ms(1), Fault::Cut { link: apart, way: Way::Both, lasts: Some(ms(20)) });
    cluster.plan(restarts, Fault::Restart { node: NodeId(2) });
    cluster.run(restarts + us(1));
    assert_eq!(ranks(&all[0]), [1, 2]);
    cluster.members[2] = cluster.start(2);
    all[2] = begin(&cluster, 2);
    cluster.run(ms(15));
    let link = Link::Node(NodeId(2));
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::Both, lasts: Some(ms(80)) });
    cluster.run(ms(80));
    let view = all[0].view().expect("the others are in one");
    assert_eq!(
        (ranks(&all[0]), &view.left[..]),
        (vec![1, 2], &[all[2].me()][..]),
        "it was in one, and is left out"
    );
    assert!(!all[2].is_out() && all[2].view().is_none());
    cluster.run(ms(1_000));
    assert!(all[2].is_out());
}

#[test]
fn a_closed_mesh_leaves_no_task_of_its_member_behind() {
    let cluster = Cluster::new(3, 1, Wait::Notify);
    let all: Vec<_> = (0..3).map(|node| begin(&cluster, node)).collect();
    cluster.members.iter().for_each(|member| member.close_at(ms(50)));
    cluster.run(ms(200));
    drop(all);
    for member in &cluster.members {
        assert_eq!(member.rt.audit().tasks, 0);
    }
}
