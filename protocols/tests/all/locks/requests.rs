//! What one application may ask for, and what becomes of it.

use super::cluster::{Cluster, Job};
use super::each;
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::locks::{LockConfig, LockError, LockKey, LockService, Mode, Scheme};
use weft_verbs::{Nanos, Wait};

#[test]
fn a_deadline_that_fires_leaks_nothing() {
    each(|scheme, wait| {
        for seed in 0..5 {
            // The first requests fail while connections are made; later ones are granted now and then.
            let gives_up_after = Some(Nanos::from_micros(150));
            let job = Job {
                gives_up_after,
                rounds: 100,
                keys: 1,
                shared_percent: 30,
                ..Job::new(scheme, wait, seed)
            };
            let cluster = Cluster::of(&job);
            cluster.run(Nanos::from_secs(2));
            cluster.judge();
            let book = cluster.book.borrow();
            assert!(book.timeouts > 10 && book.grants > 10, "{}", cluster.story());
        }
    });
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
            match client.try_lock(key, Mode::Shared).await {
                Ok(grant) if scheme.shares() => grant.unlock().await,
                other => assert_eq!((other.err(), scheme.shares()), (busy, false)),
            }
            end.set(end.get() + 1);
        });
        cluster.fabric.run_until(at(10));
        assert_eq!(ended.get(), 2, "{scheme} {wait:?}");
        cluster.judge();
    });
}

#[test]
fn a_request_whose_future_is_dropped_is_withdrawn() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let (rt, client) = (cluster.rt(0), cluster.client(0));
        cluster.tell(0, async move {
            let key = LockKey::named("dropped");
            let held = client.lock(key, Mode::Exclusive).await.expect("a grant");
            let soon = rt.now() + Nanos::from_millis(1);
            assert!(rt.deadline(soon, client.lock(key, Mode::Exclusive)).await.is_err());
            held.unlock().await;
            client.lock(key, Mode::Exclusive).await.expect("nobody is before us").unlock().await;
        });
        assert_eq!(cluster.stats().abandoned, 1);
    });
}

/// Who has left is not served by a grant that comes later: it is passed on, and counted.
#[test]
fn a_grant_for_which_nobody_waits_any_more_is_passed_on_and_counted() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let at = |n: u64| Nanos::from_millis(100 * n);
        let key = LockKey::named("too late");
        let (rt, holder) = (cluster.rt(1), cluster.client(1));
        cluster.rt(1).spawn(async move {
            let held = holder.lock(key, Mode::Exclusive).await.expect("a grant");
            rt.sleep_until(at(3)).await;
            held.unlock().await;
        });
        let (rt, client) = (cluster.rt(0), cluster.client(0));
        cluster.tell(0, async move {
            rt.sleep_until(at(1)).await;
            let late = client.lock_until(key, Mode::Exclusive, at(2)).await;
            assert_eq!(late.err(), Some(LockError::Deadline));
            rt.sleep_until(at(4)).await;
        });
        let stats = cluster.stats();
        assert_eq!((stats.grants, stats.late_grants, stats.abandoned), (1, 1, 1), "{scheme} {wait:?}");
    });
}

#[test]
fn a_grant_that_is_dropped_is_given_back() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let client = cluster.client(0);
        cluster.tell(0, async move {
            let key = LockKey::named("dropped");
            drop(client.lock(key, Mode::Exclusive).await.expect("a grant"));
            client.lock(key, Mode::Exclusive).await.expect("it was given back").unlock().await;
        });
    });
}

#[test]
fn neighbours_share_one_request_in_the_network() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let (rt, client) = (cluster.rt(0), cluster.client(0));
        cluster.tell(0, async move {
            let key = LockKey::named("shared");
            let first = client.lock(key, Mode::Exclusive).await.expect("a grant");
            let waiting: Vec<_> = (0..5)
                .map(|_| {
                    let client = client.clone();
                    rt.spawn(async move {
                        let grant = client.lock(key, Mode::Shared).await.expect("a grant");
                        grant.unlock().await;
                    })
                })
                .collect();
            rt.sleep(Nanos::from_millis(10)).await;
            first.unlock().await;
            for one in waiting {
                one.await;
            }
        });
        assert_eq!((cluster.stats().grants, cluster.stats().local_grants), (6, 4));
    });
}

#[test]
fn a_node_hands_a_lock_around_only_so_often_while_another_waits() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let key = LockKey::named("handed around");
        let served = Rc::new(Cell::new(0));
        let before_the_other = Rc::new(Cell::new(0));
        let (rt, client) = (cluster.rt(0), cluster.client(0));
        let first = client.clone();
        cluster.rt(0).spawn(async move {
            // The first requests of both nodes connect them.
            first.lock(key, Mode::Exclusive).await.expect("a grant").unlock().await;
        });
        for _ in 0..20 {
            let (rt, client, served) = (rt.clone(), client.clone(), Rc::clone(&served));
            cluster.rt(0).spawn(async move {
                rt.sleep_until(Nanos::from_millis(100)).await;
                let grant = client.lock(key, Mode::Exclusive).await.expect("a grant");
                served.set(served.get() + 1);
                // Long enough for the other node to be in the queue when the first hold ends.
                rt.sleep(Nanos::from_micros(500)).await;
                grant.unlock().await;
            });
        }
        let (rt, other) = (cluster.rt(1), cluster.client(1));
        let before = Rc::clone(&before_the_other);
        cluster.tell(1, async move {
            other.lock(key, Mode::Exclusive).await.expect("a grant").unlock().await;
            rt.sleep_until(Nanos::from_millis(100) + Nanos::from_micros(200)).await;
            let grant = other.lock(key, Mode::Exclusive).await.expect("a grant");
            before.set(served.get());
            grant.unlock().await;
        });
        // One from the network and four handed over, of the twenty that waited.
        let default = LockConfig::new(scheme, 2).local_hand_offs;
        assert_eq!(before_the_other.get(), 1 + default, "{scheme} {wait:?}");
    });
}

/// A lock that is known and not used costs memory, and no task; of the tasks that many locks at once took, few are
/// kept.
#[test]
fn tasks_are_as_many_as_locks_are_in_use() {
    each(|scheme, wait| {
        const KEYS: u64 = 300;
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let tasks = || cluster.nodes.iter().map(|(rt, _, _)| rt.audit().tasks).collect::<Vec<_>>();
        let before = tasks();
        let client = cluster.client(0);
        cluster.tell(0, async move {
            for key in 0..KEYS {
                client.lock(LockKey(key), Mode::Shared).await.expect("a grant").unlock().await;
            }
        });
        // A connection's, one that serves, one that answers for a home.
        assert!(tasks().iter().zip(&before).all(|(now, before)| now <= &(before + 8)), "{:?}", tasks());
        let audit = cluster.audit();
        assert_eq!((audit[0].locks_known, audit[1].locks_known), (KEYS, 0));
        assert_eq!(audit.iter().map(|a| a.locks_kept).sum::<u64>(), KEYS);
    });
    let cluster = Cluster::new(Scheme::Ncosed, Wait::Poll, 2, 1);
    let before = cluster.rt(0).audit().tasks;
    let (rt, client) = (cluster.rt(0), cluster.client(0));
    cluster.tell(0, async move {
        let mut grants = Vec::new();
        for key in 0..200 {
            grants.push(client.lock(LockKey(key), Mode::Exclusive).await.expect("a grant"));
        }
        assert!(rt.audit().tasks >= 200);
        for grant in grants {
            grant.unlock().await;
        }
    });
    let kept = cluster.rt(0).audit().tasks - before;
    assert!((8..=2 * 64 + 8).contains(&kept), "{kept}");
}

/// Twelve locks at once through a mesh with room for one message, taken twice: all are given back and asked for again at
/// the same moment. A home that heard a request before the release that it follows would say so.
#[test]
fn messages_that_find_no_room_are_kept_and_sent_in_order() {
    each(|scheme, wait| {
        let cluster = Cluster::narrow(scheme, wait, 2, 1);
        let (rt, client, service) = (cluster.rt(0), cluster.client(0), cluster.nodes[0].2.clone());
        let again = Nanos::from_millis(500);
        cluster.tell(0, async move {
            let away = (0..).map(LockKey).filter(|key| key.home(2).get() == 2);
            let locked_twice = |key| {
                let (sleep, client) = (rt.sleep_until(again), client.clone());
                rt.spawn(async move {
                    let first = client.lock(key, Mode::Exclusive).await.expect("a grant");
                    sleep.await;
                    first.unlock().await;
                    // Shared: an exclusive hold would be handed over within the node.
                    client.lock(key, Mode::Shared).await.expect("a grant").unlock().await;
                })
            };
            let requests: Vec<_> = away.take(12).map(locked_twice).collect();
            rt.sleep(Nanos::from_micros(100)).await;
            assert!(service.audit().messages_kept > 0, "{scheme} {wait:?}");
            for request in requests {
                request.await;
            }
        });
        assert_eq!(cluster.stats().grants, 24, "{scheme} {wait:?}");
    });
}

#[test]
fn a_misfit_configuration_is_refused() {
    let cluster = Cluster::new(Scheme::Srsl, Wait::Poll, 2, 1);
    let (rt, mesh, _) = &cluster.nodes[0];
    let start = |config| LockService::start(rt, mesh, config).err();
    assert!(matches!(
        start(LockConfig::new(Scheme::Srsl, 3)),
        Some(LockError::Config { field: "members", .. })
    ));
    assert!(
        matches!(start(LockConfig::new(Scheme::Srsl, 2)), Some(LockError::Transport(_))),
        "channel taken"
    );
}
