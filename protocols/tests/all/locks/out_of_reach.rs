//! Locks among members some of which do not reach each other, or are away for long: nobody else waits for what only those can say.

use super::members::{Node, ask, at_home_of, come_back, crash, for_ever, longest, start_of};
use crate::common::{Cluster, ms};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::locks::{LockError, LockKey, Mode, Scheme};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::Nanos;

/// Cuts the path between two nodes for so long; for good, if nothing is said.
fn cut(cluster: &Cluster, one: usize, other: usize, lasts: Option<Nanos>) {
    let link = Link::Pair(NodeId(one as u32), NodeId(other as u32));
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::Both, lasts });
}

/// Of five members the last one comes to reach none but the first, which is the lock's home, proposes the views and vouches for it. Too few
/// renew its lease.
fn reaches_the_home_alone(cluster: &Cluster, nodes: &[Node], lasts: Option<Nanos>) {
    (1..4).for_each(|other| cut(cluster, 4, other, lasts));
    cluster.run(longest());
    assert!(!nodes[4].0.has_lease());
}

/// It is a member all the same.
fn is_still_a_member(nodes: &[Node]) {
    assert_eq!(nodes[0].0.view().map(|view| view.members.len()), Some(5));
    assert!(!nodes[4].0.is_out() && !nodes[4].0.has_lease());
}

fn five(scheme: Scheme) -> (Cluster, Vec<Node>, LockKey) {
    let (cluster, nodes) = start_of(5, scheme);
    cluster.run(ms(50));
    (cluster, nodes, at_home_of(5, 0))
}

/// The others lose power while a request is under way to a home that stays away. Those who come back begin anew with the one that asks, and
/// grant it the lock.
#[test]
fn who_asks_a_home_that_never_comes_back_is_granted_the_lock_by_the_next_view_and_gives_it_back() {
    for scheme in Scheme::ALL {
        let (mut cluster, mut nodes) = start_of(4, scheme);
        cluster.run(ms(50));
        let key = at_home_of(4, 1);
        assert!(ask(&cluster, &nodes, 0, key, |grant| grant.unlock()).granted_at().is_some());
        (1..4).for_each(|node| crash(&cluster, node));
        let first = ask(&cluster, &nodes, 0, key, |grant| grant.unlock());
        [2, 3].into_iter().for_each(|node| come_back(&mut cluster, &mut nodes, node, scheme));
        cluster.run(longest() * 2);
        assert!(first.granted_at().is_some(), "{scheme}");
        assert!(ask(&cluster, &nodes, 2, key, for_ever).granted_at().is_some(), "{scheme}");
    }
}

#[test]
fn who_asks_a_home_that_it_does_not_reach_any_more_is_granted_the_lock_by_the_next_home() {
    for scheme in Scheme::ALL {
        let (mut cluster, mut nodes) = start_of(5, scheme);
        crash(&cluster, 2);
        cluster.run(ms(100));
        let key = at_home_of(5, 2);
        assert!(ask(&cluster, &nodes, 1, key, |grant| grant.unlock()).granted_at().is_some());
        cut(&cluster, 1, 3, None);
        let first = ask(&cluster, &nodes, 1, key, |grant| grant.unlock());
        cluster.run(ms(20));
        assert_eq!(first.granted_at(), None, "{scheme}");
        come_back(&mut cluster, &mut nodes, 2, scheme);
        cluster.run(longest() * 2);
        assert!(first.granted_at().is_some(), "{scheme}");
        assert!(ask(&cluster, &nodes, 4, key, for_ever).granted_at().is_some(), "{scheme}");
    }
}

/// Its own applications want nothing, so that it asks nobody for a lease. The other one it has never heard.
#[test]
fn a_home_that_one_who_comes_in_does_not_reach_asks_whether_it_lives_and_goes_on_without_it() {
    for scheme in Scheme::ALL {
        let (mut cluster, mut nodes) = start_of(3, scheme);
        cluster.run(ms(50));
        crash(&cluster, 2);
        let before = ask(&cluster, &nodes, 1, at_home_of(3, 1), |grant| grant.unlock());
        cluster.run(longest());
        assert!(before.granted_at().is_some(), "{scheme}");
        cut(&cluster, 0, 2, None);
        come_back(&mut cluster, &mut nodes, 2, scheme);
        let lets_it_in =
            |node: usize| nodes[node].0.view().is_some_and(|view| view.contains(nodes[2].0.me()));
        let late = cluster.fabric.now() + ms(30);
        while !lets_it_in(0) && cluster.fabric.now() < late {
            cluster.run(ms(1));
        }
        assert!(lets_it_in(0), "{scheme}: by the word of the other one");
        let waits = ask(&cluster, &nodes, 1, at_home_of(3, 0), |grant| grant.unlock());
        cluster.run(longest() * 2);
        assert!(waits.granted_at().is_some(), "{scheme}");
    }
}

#[test]
fn what_is_unlocked_is_given_back_though_the_lease_has_run_out() {
    for scheme in Scheme::ALL {
        let (cluster, nodes, key) = five(scheme);
        let rt = cluster.members[4].rt.clone();
        let held = ask(&cluster, &nodes, 4, key, move |grant| async move {
            rt.sleep(ms(200)).await;
            assert!(!grant.counts());
            grant.unlock().await;
        });
        let next = ask(&cluster, &nodes, 0, key, for_ever);
        reaches_the_home_alone(&cluster, &nodes, None);
        assert!(held.granted_at().is_some() && next.granted_at().is_none(), "{scheme}");
        cluster.run(ms(200));
        assert!(next.granted_at().is_some(), "{scheme}");
        is_still_a_member(&nodes);
    }
}

#[test]
fn what_is_granted_without_a_lease_to_one_who_has_given_up_is_given_back() {
    for scheme in Scheme::ALL {
        let (cluster, nodes, key) = five(scheme);
        reaches_the_home_alone(&cluster, &nodes, None);
        let (rt, client) = (cluster.members[4].rt.clone(), nodes[4].1.client());
        let answer = Rc::new(Cell::new(None));
        let (at, of) = (rt.now() + ms(30), Rc::clone(&answer));
        let gives_up = async move { of.set(client.lock_until(key, Mode::Exclusive, at).await.err()) };
        drop(rt.spawn(gives_up));
        cluster.run(ms(10));
        let next = ask(&cluster, &nodes, 0, key, for_ever);
        assert_eq!(next.granted_at(), None, "{scheme}");
        cluster.run(ms(30));
        assert_eq!(answer.take(), Some(LockError::Deadline), "{scheme}");
        assert!(next.granted_at().is_some(), "{scheme}");
        is_still_a_member(&nodes);
    }
}

#[test]
fn a_downgrade_lets_other_nodes_in_though_the_lease_has_run_out_and_its_own_once_it_is_back() {
    for scheme in [Scheme::Srsl, Scheme::Ncosed] {
        let (cluster, nodes, key) = five(scheme);
        let rt = cluster.members[4].rt.clone();
        let held = ask(&cluster, &nodes, 4, key, move |mut grant| async move {
            rt.sleep(ms(200)).await;
            grant.downgrade().await.expect("nodes share");
            grant.lost().await;
        });
        let shares = |node: usize| {
            let (client, granted) = (nodes[node].1.client(), Rc::new(Cell::new(false)));
            let of = Rc::clone(&granted);
            drop(cluster.members[node].rt.spawn(async move {
                let grant = client.lock(key, Mode::Shared).await.expect("it is granted");
                of.set(true);
                grant.lost().await;
            }));
            granted
        };
        let (own, other) = (shares(4), shares(0));
        reaches_the_home_alone(&cluster, &nodes, Some(ms(400)));
        assert!(held.granted_at().is_some() && !other.get(), "{scheme}");
        cluster.run(ms(200));
        assert!(other.get() && !own.get(), "{scheme}: that takes a lease");
        is_still_a_member(&nodes);
        cluster.run(ms(300));
        assert!(own.get(), "{scheme}");
    }
}
