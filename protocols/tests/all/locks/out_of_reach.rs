//! Locks among members some of which do not reach each other, or are away for long: nobody else waits for what only those can say.

use super::members::{ask, at_home_of, come_back, crash, for_ever, longest, start_of};
use crate::common::{Cluster, ms};
use weft_protocols::locks::Scheme;
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::Nanos;

/// Cuts the path between two nodes for so long; for good, if nothing is said.
fn cut(cluster: &Cluster, one: usize, other: usize, lasts: Option<Nanos>) {
    let link = Link::Pair(NodeId(one as u32), NodeId(other as u32));
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::Both, lasts });
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
