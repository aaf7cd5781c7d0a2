//! Exclusive holds that become shared ones.

use super::cluster::{Cluster, Job};
use super::each;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::{LockError, LockKey, Mode, Scheme};
use weft_verbs::{Nanos, Wait};

const KEY: LockKey = LockKey::named("downgraded");

fn at(n: u64) -> Nanos {
    Nanos::from_millis(100 * n)
}

/// What happened, in order: node, what it became, with which token.
type Diary = Rc<RefCell<Vec<(usize, Mode, Option<u64>)>>>;

/// A node that asks at a time and holds until another.
fn asks(cluster: &Cluster, diary: &Diary, node: usize, mode: Mode, from: u64, until: u64) {
    let (rt, client, diary) = (cluster.rt(node), cluster.client(node), Rc::clone(diary));
    cluster.rt(node).spawn(async move {
        rt.sleep_until(at(from)).await;
        let grant = client.lock(KEY, mode).await.expect("a grant");
        diary.borrow_mut().push((node, mode, grant.token().map(|t| t.0)));
        rt.sleep_until(at(until)).await;
        grant.unlock().await;
    });
}

/// Node 0 writes, reads what it wrote together with 1 and 2 and its own second application, and nobody writes
/// before they are done.
#[test]
fn a_downgrade_lets_in_those_who_share_and_no_writer() {
    each(|scheme, wait| {
        if !scheme.shares() {
            return;
        }
        let cluster = Cluster::new(scheme, wait, 4, 1);
        let diary = Diary::default();
        let (rt, client, book) = (cluster.rt(0), cluster.client(0), Rc::clone(&diary));
        cluster.rt(0).spawn(async move {
            let mut grant = client.lock(KEY, Mode::Exclusive).await.expect("a grant");
            book.borrow_mut().push((0, grant.mode(), grant.token().map(|t| t.0)));
            rt.sleep_until(at(5)).await;
            assert_eq!(book.borrow().len(), 1);
            grant.downgrade().await.expect("nodes share");
            grant.downgrade().await.expect("it is done already");
            book.borrow_mut().push((0, grant.mode(), grant.token().map(|t| t.0)));
            rt.sleep_until(at(8)).await;
            grant.unlock().await;
        });
        asks(&cluster, &diary, 1, Mode::Shared, 1, 7);
        asks(&cluster, &diary, 2, Mode::Shared, 2, 9);
        asks(&cluster, &diary, 0, Mode::Shared, 3, 6);
        asks(&cluster, &diary, 3, Mode::Exclusive, 4, 10);
        // Who is let in is let in while the one that downgraded still holds.
        cluster.fabric.run_until(at(5) + Nanos::from_millis(50));
        let mut seen = diary.borrow().clone();
        assert_eq!((seen[0].1, seen[1].1), (Mode::Exclusive, Mode::Shared));
        seen[1..].sort_unstable();
        let shared = seen[1].2;
        assert_eq!(seen[1..], [0, 0, 1, 2].map(|node| (node, Mode::Shared, shared)), "{scheme} {wait:?}");
        assert_eq!(shared.is_some(), scheme.has_tokens());
        cluster.fabric.run_until(at(8) + Nanos::from_millis(50));
        assert_eq!(diary.borrow().len(), seen.len(), "{scheme} {wait:?}");
        cluster.fabric.run_until(at(12));
        assert_eq!(diary.borrow().last().map(|s| (s.0, s.1)), Some((3, Mode::Exclusive)));
        assert_eq!(cluster.stats().downgrades, 1);
        cluster.judge();
    });
}

#[test]
fn where_nodes_do_not_share_a_downgrade_is_refused_and_the_hold_stays() {
    let cluster = Cluster::new(Scheme::Dqnl, Wait::Notify, 2, 1);
    let (rt, client) = (cluster.rt(0), cluster.client(0));
    cluster.rt(0).spawn(async move {
        let mut grant = client.lock(KEY, Mode::Exclusive).await.expect("a grant");
        let refused = grant.downgrade().await.expect_err("nodes do not share");
        assert_eq!(refused, LockError::Unsupported { what: "downgrade", scheme: Scheme::Dqnl });
        assert_eq!(refused.to_string(), "dqnl cannot downgrade");
        assert_eq!(grant.mode(), Mode::Exclusive);
        rt.sleep_until(at(3)).await;
        grant.unlock().await;
    });
    let diary = Diary::default();
    asks(&cluster, &diary, 1, Mode::Shared, 1, 4);
    cluster.fabric.run_until(at(2));
    assert!(diary.borrow().is_empty());
    cluster.fabric.run_until(at(5));
    assert_eq!(diary.borrow().len(), 1);
    cluster.judge();
}

#[test]
fn many_downgrades_exclude_and_leave_nothing() {
    each(|scheme, wait| {
        for seed in 0..5 {
            let job = Job { downgrade_percent: 60, keys: 2, rounds: 30, ..Job::new(scheme, wait, seed) };
            let cluster = Cluster::of(&job);
            cluster.run(Nanos::from_secs(2));
            cluster.judge();
            assert_eq!(cluster.stats().downgrades > 25, scheme.shares(), "{}", cluster.story());
        }
    });
}
