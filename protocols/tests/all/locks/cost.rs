//! What a lock costs on the paper's machines (ncosed.txt, 4.2): one request at a time, of a node that is not the
//! lock's home.

use super::cluster::Cluster;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{LockKey, LockStats, Mode, Scheme};
use weft_verbs::{Nanos, Wait};

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
        (Scheme::Dqnl, Wait::Poll, 14.02),
        (Scheme::Ncosed, Wait::Poll, 14.02),
        (Scheme::Srsl, Wait::Notify, 27.37),
        (Scheme::Dqnl, Wait::Notify, 19.6),
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

/// Table 2: SRSL locks by two messages (and unlocks by one behind the application's back), DQNL and N-CoSED
/// by one atomic without troubling the home's processor. Their exclusive unlock is another one.
#[test]
fn an_uncontended_lock_takes_what_the_cost_model_says() {
    for wait in [Wait::Poll, Wait::Notify] {
        for mode in Mode::ALL {
            let Cost { counts, .. } = cost(Scheme::Srsl, wait, mode);
            assert_eq!((counts.messages_sent, counts.compare_swaps), (3 * ROUNDS, 0));
        }
        for (scheme, mode) in
            [(Scheme::Dqnl, Mode::Shared), (Scheme::Dqnl, Mode::Exclusive), (Scheme::Ncosed, Mode::Exclusive)]
        {
            let Cost { counts, .. } = cost(scheme, wait, mode);
            assert_eq!((counts.compare_swaps, counts.fetch_adds, counts.messages_sent), (2 * ROUNDS, 0, 0));
        }
        let Cost { counts, .. } = cost(Scheme::Ncosed, wait, Mode::Shared);
        // The release is a message to the home, which resets the count.
        assert_eq!((counts.fetch_adds, counts.compare_swaps, counts.messages_sent), (ROUNDS, ROUNDS, ROUNDS));
    }
}

/// Sixteen nodes wait for a lock that another one holds exclusively, and each gives it back as soon as it has it
/// (4.3). Answers when the holder let go, when each was granted, and what the hand-overs took.
fn cascade(scheme: Scheme, wait: Wait, mode: Mode) -> (Nanos, Vec<Nanos>, LockStats) {
    const WAITERS: usize = 16;
    let nodes = WAITERS + 2;
    let cluster = Cluster::new(scheme, wait, nodes as u32, 1);
    let home = nodes - 1;
    let key = (0..).map(LockKey).find(|key| key.home(nodes as u32).index() == home).expect("its key");
    let at = |n: u64| Nanos::from_millis(100 * n);
    for n in 0..=WAITERS {
        let client = cluster.client(n);
        cluster.rt(n).spawn(async move {
            // The first requests connect everyone with the home, and with those before it in the queue.
            client.lock(key, mode).await.expect("a grant").unlock().await;
        });
    }
    let granted = Rc::new(RefCell::new(Vec::new()));
    let (rt, client, book) = (cluster.rt(0), cluster.client(0), Rc::clone(&granted));
    cluster.rt(0).spawn(async move {
        rt.sleep_until(at(3)).await;
        let grant = client.lock(key, Mode::Exclusive).await.expect("a grant");
        rt.sleep_until(at(10)).await;
        book.borrow_mut().push(rt.now());
        grant.unlock().await;
    });
    for n in 1..=WAITERS {
        let (rt, client, book) = (cluster.rt(n), cluster.client(n), Rc::clone(&granted));
        cluster.rt(n).spawn(async move {
            rt.sleep_until(at(5) + Nanos::from_millis(10 * n as u64)).await;
            let grant = client.lock(key, mode).await.expect("a grant");
            book.borrow_mut().push(rt.now());
            grant.unlock().await;
        });
    }
    cluster.fabric.run_until(at(9));
    let before = cluster.stats();
    cluster.fabric.run_until(at(20));
    cluster.judge();
    let mut times = granted.take();
    assert_eq!(times.len(), WAITERS + 1);
    (times.remove(0), times, cluster.stats() - before)
}

/// Figure 7: DQNL and N-CoSED hand an exclusive lock over by one message, SRSL by two. Shared waiters are all let
/// in at once by SRSL and N-CoSED, N-CoSED saving the message to the server; by DQNL one after the other.
#[test]
fn a_cascade_of_unlocks_takes_the_messages_that_the_paper_counts() {
    for wait in [Wait::Poll, Wait::Notify] {
        for mode in Mode::ALL {
            let [srsl, dqnl, ncosed] = Scheme::ALL.map(|scheme| {
                let (begin, times, counts) = cascade(scheme, wait, mode);
                let since = |t: Nanos| (t - begin).as_micros_f64();
                let last = since(*times.last().expect("waiters"));
                let mean = times.iter().map(|&t| since(t)).sum::<f64>() / times.len() as f64;
                println!("{scheme} {wait:?} {mode}: last grant {last:.1} us, mean {mean:.1} us");
                let expected = match (scheme, mode) {
                    // A release to the server and a grant, for each holder; the last one has no successor.
                    (Scheme::Srsl, _) => 16 + 17,
                    (Scheme::Dqnl, _) | (Scheme::Ncosed, Mode::Exclusive) => 16,
                    // A grant and a release each, and one request to retry the reset.
                    (Scheme::Ncosed, Mode::Shared) => 16 + 16 + 1,
                };
                assert_eq!(counts.messages_sent, expected, "{scheme} {wait:?} {mode}");
                last
            });
            assert!(srsl > ncosed, "{wait:?} {mode}: {srsl}, {ncosed}");
            match mode {
                Mode::Exclusive => assert!((dqnl / ncosed - 1.0).abs() < 0.01, "{wait:?}: {dqnl}, {ncosed}"),
                Mode::Shared => assert!(dqnl > 3.0 * ncosed, "{wait:?}: {dqnl}, {ncosed}"),
            }
        }
    }
}
