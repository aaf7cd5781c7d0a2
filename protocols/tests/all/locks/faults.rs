//! Many applications at once, and what the fabric may do to them.

use super::cluster::{Cluster, Job};
use super::{STYLES, each};
use weft_protocols::locks::Scheme;
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{Nanos, Wait};

/// An adapter may acknowledge what its processor does not see yet. No scheme reads memory that a peer writes without a
/// completion that says it is there.
#[test]
fn locks_hold_where_processors_see_data_late() {
    each(|scheme, wait| {
        for seed in 0..10 {
            let job = Job { visibility: Nanos::from_micros(40), ..Job::new(scheme, wait, seed) };
            let cluster = Cluster::of(&job);
            cluster.run(Nanos::from_secs(2));
            cluster.judge();
            assert_eq!(cluster.book.borrow().clients_done, job.nodes * job.clients, "{}", cluster.story());
        }
    });
}

#[test]
fn without_faults_every_request_is_granted_and_nothing_is_left() {
    each(|scheme, wait| {
        for seed in 0..5 {
            let job = Job::new(scheme, wait, seed);
            let cluster = Cluster::of(&job);
            cluster.run(Nanos::from_secs(1));
            cluster.judge();
            let book = cluster.book.borrow();
            assert_eq!(book.grants, u64::from(job.nodes * job.clients * job.rounds), "{scheme} {wait:?}");
            assert_eq!(cluster.stats().rebuilds, 0);
        }
    });
}

#[test]
fn cut_links_and_lost_completions_cost_time_and_nothing_else() {
    let mut rebuilds = 0;
    for scheme in Scheme::ALL {
        for seed in 0..20 {
            let wait = STYLES[seed as usize % 2];
            let job = Job { rounds: 40, downgrade_percent: 20, ..Job::new(scheme, wait, seed) };
            let cluster = Cluster::of(&job);
            plan_faults(&cluster, job.nodes, seed);
            cluster.run(Nanos::from_secs(20));
            cluster.judge();
            rebuilds += cluster.stats().rebuilds;
        }
    }
    assert!(rebuilds > 5, "{rebuilds} rebuilds");
}

fn plan_faults(cluster: &Cluster, nodes: u32, seed: u64) {
    let node = |i: u64| NodeId(((seed + i) % u64::from(nodes)) as u32);
    let at = |i: u64| Nanos::from_micros(300 + 700 * i + 97 * seed);
    for i in 0..6 {
        let fault = match (seed + i) % 3 {
            0 => Fault::LoseCompletion { node: node(i), lasts: Some(Nanos::from_millis(8)) },
            1 => Fault::Cut {
                link: Link::Pair(node(i), node(i + 1)),
                way: Way::Both,
                lasts: Some(Nanos::from_millis(8)),
            },
            _ => Fault::Flap {
                link: Link::Node(node(i)),
                down: Nanos::from_millis(4),
                up: Nanos::from_millis(1),
                times: 2,
            },
        };
        cluster.fabric.plan(at(i), fault).expect("a fault of this fabric");
    }
}

#[test]
fn a_shared_count_at_its_limit_is_no_trouble() {
    let job = Job { shared_percent: 100, rounds: 60, keys: 1, ..Job::new(Scheme::Ncosed, Wait::Poll, 3) };
    let cluster = Cluster::of_limited(&job, 3);
    cluster.run(Nanos::from_secs(2));
    cluster.judge();
    assert!(cluster.stats().rebuilds > 0, "{}", cluster.story());
}
