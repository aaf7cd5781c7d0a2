//! Guests at a server: who is admitted, and who is forgotten.

use crate::common::{Cluster, ms, rank, us};
use std::cell::Cell;
use weft_protocols::transport::{Cause, Channel, GuestConfig, Mesh, MeshConfig, Rejection};
use weft_sim::fault::{Fault, Link, PacketClass, Rule, Verdict, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait, Work};

const CHANNEL: Channel = Channel(3);

thread_local! {
    /// The lease of the server that is started next.
    static LEASE: Cell<Nanos> = const { Cell::new(Nanos::MAX) };
}

/// A node of a cluster of which the first one is the server, and of which the third one takes itself for its peer.
fn with_a_stranger(config: &mut MeshConfig) {
    if config.me != rank(2) {
        special(config);
    }
}

/// A node of a cluster of which the first one is the server.
fn special(config: &mut MeshConfig) {
    let whole = config.clone();
    let guests = GuestConfig { lease: LEASE.get(), ..GuestConfig::default() };
    *config = match config.me == rank(0) {
        true => whole.with_guests(1, guests),
        false => whole.as_guest_of(1),
    };
}

fn with_guests(guests: u32, lease: Nanos) -> Cluster {
    LEASE.set(lease);
    Cluster::special(1 + guests, 1, 1, Wait::Notify, special)
}

#[test]
fn a_guest_that_only_holds_something_connects() {
    let cluster = with_guests(1, ms(30));
    let _held = cluster.members[1].mesh.hold(rank(0));
    cluster.run(ms(100));
    let guests = cluster.members[0].mesh.guests();
    assert_eq!((guests.known, guests.forgotten), (1, 0));
}

/// More guests gave signs of life meanwhile than the server looks at in one go.
#[test]
fn a_server_that_did_nothing_for_longer_than_a_lease_forgets_nobody_who_was_not_silent() {
    let cluster = with_guests(40, ms(30));
    let (server, guests) = (&cluster.members[0], &cluster.members[1..]);
    let _held: Vec<_> = guests.iter().map(|guest| guest.mesh.hold(rank(0))).collect();
    let (rt, mesh) = (server.rt.clone(), server.mesh.clone());
    server.at(ms(20), move || {
        assert_eq!(mesh.guests().known, 40);
        rt.spend(Work::Compute(ms(40)));
    });
    cluster.run(ms(200));
    assert_eq!((server.mesh.guests().known, server.mesh.guests().forgotten), (40, 0));
}

#[test]
fn a_guest_gives_signs_of_life_as_often_as_its_server_s_present_life_wants_them() {
    let mut cluster = with_guests(1, ms(3_000));
    let _held = cluster.members[1].mesh.hold(rank(0));
    cluster.run(ms(5));
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(0) });
    cluster.run(ms(1));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(0) });
    cluster.run(ms(1));
    LEASE.set(ms(20));
    cluster.members[0] = cluster.start(0);
    let mesh = cluster.members[1].mesh.clone();
    cluster.members[1].at(cluster.fabric.now() + us(10), move || {
        mesh.send(rank(0), CHANNEL, &[1; 8]).expect("it is kept");
    });
    cluster.run(ms(200));
    let guests = cluster.members[0].mesh.guests();
    assert_eq!((guests.known, guests.forgotten), (1, 0));
}

/// Its first message is there before the connection stands, and the link is cut before another one comes. On the next connection no message is there
/// so early.
#[test]
fn slots_that_were_granted_on_a_connection_that_broke_do_not_count_on_the_next_one() {
    let cluster = with_guests(1, Nanos::MAX);
    let late = Rule::new(Verdict::Late(us(30))).src(NodeId(1)).class(PacketClass::Request);
    cluster.fabric.rules(|rules| rules.push(late.after(1)));
    let cut = Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: Some(ms(2)) };
    cluster.plan(us(300), cut);
    let (server, guest) = (&cluster.members[0], &cluster.members[1]);
    let say = |at: Nanos, times: u32| {
        let mesh = guest.mesh.clone();
        guest.at(at, move || {
            (0..times).for_each(|_| mesh.send(rank(0), CHANNEL, &[1; 8]).expect("it is kept"));
        });
    };
    say(us(1), 64);
    say(ms(50), 1);
    cluster.run(ms(100));
    assert_eq!((guest.mesh.audit().unacked, server.mesh.guests().lent), (0, 0));
    assert_eq!(server.mesh.stats().reconnects, 1, "what it gives back it had");
}

/// It has a longer list of servers than this one, and its place there is a guest's place here.
#[test]
fn a_named_node_that_a_server_does_not_know_takes_no_guest_s_place() {
    LEASE.set(Nanos::MAX);
    let cluster = Cluster::special(3, 1, 1, Wait::Notify, with_a_stranger);
    let [server, guest, stranger] = &cluster.members[..] else { panic!("three of them") };
    let says = |mesh: &Mesh<Sim>| mesh.send(rank(0), CHANNEL, &[1; 8]).expect("it is kept");
    let (early, late, strange) = (guest.mesh.clone(), guest.mesh.clone(), stranger.mesh.clone());
    guest.at(us(1), move || says(&early));
    stranger.at(ms(5), move || says(&strange));
    guest.at(ms(50), move || says(&late));
    cluster.run(ms(100));
    assert_eq!((guest.mesh.audit().unacked, server.mesh.stats().messages_received), (0, 2));
    assert_eq!((server.mesh.guests().admitted, server.mesh.stats().peer_resets), (1, 0));
    let troubles: Vec<_> = stranger.mesh.troubles().iter().map(|trouble| trouble.cause).collect();
    assert_eq!(troubles, [Cause::Rejected(Rejection::Stranger)]);
}

/// That it draws no more receives from those that guests share is news for the mesh's task, which ends with the mesh.
#[test]
fn a_mesh_that_is_closed_while_a_guest_s_queue_pair_drains_leaves_nothing_behind() {
    let cluster = with_guests(1, Nanos::MAX);
    let server = &cluster.members[0];
    let _held = cluster.members[1].mesh.hold(rank(0));
    cluster.run(ms(10));
    let (rt, mesh) = (server.rt.clone(), server.mesh.clone());
    drop(server.rt.spawn(async move {
        mesh.retire();
        rt.yield_now().await;
        mesh.close();
    }));
    cluster.run(ms(100));
    assert_eq!(server.rt.audit().tasks, 0);
}

/// Its memory goes with its last task, and on hardware that is pinned memory. No time passes.
#[test]
fn a_mesh_that_is_closed_has_no_task_left_that_waits_out_a_lease() {
    let cluster = with_guests(1, ms(30_000));
    let (server, guest) = (&cluster.members[0], &cluster.members[1]);
    let held = guest.mesh.hold(rank(0));
    cluster.run(ms(10));
    assert_eq!(server.mesh.guests().known, 1);
    drop(held);
    for member in [guest, server] {
        assert!(member.rt.audit().tasks > 0, "its mesh is at work");
        let mesh = member.mesh.clone();
        drop(member.rt.spawn(async move { mesh.close() }));
        cluster.run(us(1));
        assert_eq!(member.rt.audit().tasks, 0);
    }
}
