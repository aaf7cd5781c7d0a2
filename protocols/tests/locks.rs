//! Both schemes on the simulated fabric, in both wake-up styles, with and without faults.

mod support;

use protocols::locks::{LockConfig, LockError, LockKey, Mode, Scheme};
use sim_backend::NodeId;
use sim_backend::fault::{Fault, Link, Way};
use std::cell::Cell;
use std::rc::Rc;
use support::{Cluster, Job};
use verbs_trait::{Nanos, Wait};

const STYLES: [Wait; 2] = [Wait::Poll, Wait::Notify];

fn each(run: impl Fn(Scheme, Wait)) {
    for scheme in Scheme::ALL {
        for wait in STYLES {
            run(scheme, wait);
        }
    }
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
            let job = Job { rounds: 40, ..Job::new(scheme, wait, seed) };
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
fn a_deadline_that_fires_leaks_nothing() {
    each(|scheme, wait| {
        for seed in 0..5 {
            // The first requests fail while connections are made; later ones are granted now and then.
            let patience = Some(Nanos::from_micros(150));
            let job =
                Job { patience, rounds: 100, keys: 1, shared_percent: 30, ..Job::new(scheme, wait, seed) };
            let cluster = Cluster::of(&job);
            cluster.run(Nanos::from_secs(2));
            cluster.judge();
            let book = cluster.book.borrow();
            assert!(book.timeouts > 10 && book.grants > 10, "{}", cluster.story());
        }
    });
}

#[test]
fn a_shared_count_at_its_limit_is_no_trouble() {
    let job = Job { shared_percent: 100, rounds: 60, keys: 1, ..Job::new(Scheme::Ncosed, Wait::Poll, 3) };
    let cluster = Cluster::of_limited(&job, 3);
    cluster.run(Nanos::from_secs(2));
    cluster.judge();
    assert!(cluster.stats().rebuilds > 0, "{}", cluster.story());
}

#[test]
fn a_try_takes_what_is_free_and_is_refused_what_is_not() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 3, 1);
        let ended = Rc::new(Cell::new(0));
        let at = |n: u64| Nanos::from_millis(100 * n);
        let key = LockKey::named("tried");
        let busy = Some(LockError::WouldBlock);

        let (rt, client, end) = (cluster.rt(0), cluster.client(0), Rc::clone(&ended));
        cluster.rt(0).spawn(async move {
            let grant = client.try_lock(key, Mode::Exclusive).await.expect("it is free");
            rt.sleep_until(at(2)).await;
            grant.unlock().await;
            rt.sleep_until(at(3)).await;
            let grant = client.try_lock(key, Mode::Shared).await.expect("it is free again");
            rt.sleep_until(at(5)).await;
            grant.unlock().await;
            end.set(end.get() + 1);
        });
        let (rt, client, end) = (cluster.rt(1), cluster.client(1), Rc::clone(&ended));
        cluster.rt(1).spawn(async move {
            rt.sleep_until(at(1)).await;
            assert_eq!(client.try_lock(key, Mode::Shared).await.err(), busy);
            assert_eq!(client.try_lock(key, Mode::Exclusive).await.err(), busy);
            rt.sleep_until(at(4)).await;
            assert_eq!(client.try_lock(key, Mode::Exclusive).await.err(), busy);
            client.try_lock(key, Mode::Shared).await.expect("others share it").unlock().await;
            end.set(end.get() + 1);
        });
        cluster.fabric.run_until(at(10));
        assert_eq!(ended.get(), 2, "{scheme} {wait:?}");
        cluster.judge();
    });
}

#[test]
fn a_misfit_configuration_is_refused() {
    let cluster = Cluster::new(Scheme::Srsl, Wait::Poll, 2, 1);
    let (rt, mesh, _) = &cluster.nodes[0];
    let start = |config| protocols::locks::LockService::start(rt, mesh, config).err();
    assert!(matches!(
        start(LockConfig::new(Scheme::Srsl, 3)),
        Some(LockError::Config { field: "members", .. })
    ));
    assert!(
        matches!(start(LockConfig::new(Scheme::Srsl, 2)), Some(LockError::Transport(_))),
        "channel taken"
    );
}
