//! What a lock costs on the paper's machines (ncosed.txt, 4.2): one request at a time, of a node that is not the
//! lock's home.

use crate::cluster::Cluster;
use protocols::locks::{LockKey, LockStats, Mode, Scheme};
use std::cell::Cell;
use std::rc::Rc;
use verbs_trait::{Nanos, Wait};

const ROUNDS: u64 = 50;

/// What one request costs.
struct Cost {
    /// Mean time to lock, as the application sees it, in microseconds.
    lock: f64,
    /// Mean time to unlock, as the application sees it, in microseconds.
    unlock: f64,
    /// Of all requests but the first.
    counts: LockStats,
}

fn cost(scheme: Scheme, wait: Wait, mode: Mode) -> Cost {
    let cluster = Cluster::new(scheme, wait, 3, 1);
    let key = (0..).map(LockKey).find(|key| key.home(3).get() != 1).expect("a key with another home");
    let spent = Rc::new(Cell::new((Nanos::ZERO, Nanos::ZERO)));
    let (rt, client, sum) = (cluster.rt(0), cluster.client(0), Rc::clone(&spent));
    let warm = Nanos::from_secs(1);
    cluster.rt(0).spawn(async move {
        // The first one connects, and asks where the word is.
        client.lock(key, mode).await.expect("a grant").unlock().await;
        rt.sleep_until(warm).await;
        for _ in 0..ROUNDS {
            rt.sleep(Nanos::from_millis(5)).await;
            let begin = rt.now();
            let grant = client.lock(key, mode).await.expect("a grant");
            let held = rt.now();
            grant.unlock().await;
            let (lock, unlock) = sum.get();
            sum.set((lock + (held - begin), unlock + (rt.now() - held)));
        }
    });
    cluster.fabric.run_until(warm);
    let before = cluster.stats();
    cluster.fabric.run_until(warm * 10);
    cluster.judge();
    let mean = |sum: Nanos| sum.as_micros_f64() / ROUNDS as f64;
    let (lock, unlock) = spent.get();
    Cost { lock: mean(lock), unlock: mean(unlock), counts: cluster.stats() - before }
}

#[test]
fn serial_locks_cost_about_what_the_paper_measured() {
    let paper = [
        (Scheme::Srsl, Wait::Poll, 16.0),
        (Scheme::Ncosed, Wait::Poll, 14.02),
        (Scheme::Srsl, Wait::Notify, 27.37),
        (Scheme::Ncosed, Wait::Notify, 19.6),
    ];
    for (scheme, wait, expected) in paper {
        for mode in Mode::ALL {
            let Cost { lock, unlock, .. } = cost(scheme, wait, mode);
            println!("{scheme} {wait:?} {mode}: lock {lock:.2} us (paper {expected}), unlock {unlock:.2} us");
            assert!((lock / expected - 1.0).abs() < 0.2, "{scheme} {wait:?} {mode}: {lock} us");
            assert!((unlock - 1.1).abs() < 0.05, "{scheme} {wait:?} {mode}: unlock {unlock} us");
        }
    }
}

/// Table 2: SRSL locks by two messages (and unlocks by one behind the application's back), N-CoSED by one atomic
/// without troubling the home's processor. Its exclusive unlock is another one.
#[test]
fn an_uncontended_lock_takes_what_the_cost_model_says() {
    for wait in [Wait::Poll, Wait::Notify] {
        for mode in Mode::ALL {
            let Cost { counts, .. } = cost(Scheme::Srsl, wait, mode);
            assert_eq!((counts.messages_sent, counts.compare_swaps), (3 * ROUNDS, 0));
        }
        let Cost { counts, .. } = cost(Scheme::Ncosed, wait, Mode::Exclusive);
        assert_eq!((counts.compare_swaps, counts.fetch_adds, counts.messages_sent), (2 * ROUNDS, 0, 0));
        let Cost { counts, .. } = cost(Scheme::Ncosed, wait, Mode::Shared);
        // The release is a message to the home, which resets the count.
        assert_eq!((counts.fetch_adds, counts.compare_swaps, counts.messages_sent), (ROUNDS, ROUNDS, ROUNDS));
    }
}
