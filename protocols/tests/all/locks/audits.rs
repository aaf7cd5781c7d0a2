//! An audit says what is there, not only that nothing is.

use super::cluster::Cluster;
use super::each;
use weft_protocols::locks::{Audit, LockConfig, LockKey, LockService, Mode, Scheme};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

/// The services of a cluster's nodes, to be looked at while applications run.
struct Services(Vec<LockService<Sim>>);

impl Services {
    fn of(cluster: &Cluster) -> Services {
        Services(cluster.nodes.iter().map(|(_, _, service)| service.clone()).collect())
    }

    fn sum(&self, what: impl Fn(&Audit) -> u64) -> u64 {
        self.0.iter().map(|service| what(&service.audit())).sum()
    }

    fn clean(&self) -> Vec<bool> {
        self.0.iter().map(|service| service.audit().is_clean()).collect()
    }
}

#[test]
fn an_audit_tells_a_hold_a_waiting_neighbour_and_the_lock_word() {
    each(|scheme, wait| {
        let cluster = Cluster::new(scheme, wait, 2, 1);
        let services = Services::of(&cluster);
        let (rt, client) = (cluster.rt(0), cluster.client(0));
        cluster.tell(0, async move {
            let key = LockKey::named("audited");
            let held = client.lock(key, Mode::Exclusive).await.expect("a grant");
            let waits = rt.spawn(async move {
                client.lock(key, Mode::Exclusive).await.expect("a grant").unlock().await;
            });
            rt.sleep(Nanos::from_millis(1)).await;
            assert_eq!((services.sum(|a| a.grants_held), services.sum(|a| a.requests_waiting)), (1, 1));
            assert_eq!((services.sum(|a| a.requesters_active), services.sum(|a| a.locks_known)), (1, 1));
            // SRSL's home keeps the queue, the others' a word.
            let srsl = u64::from(scheme == Scheme::Srsl);
            assert_eq!(services.sum(|a| a.home_entries), srsl);
            assert_eq!(
                (services.sum(|a| a.words_not_free), services.sum(|a| a.words_in_use)),
                (1 - srsl, 1 - srsl)
            );
            assert!(!services.clean()[0], "{scheme} {wait:?}");
            held.unlock().await;
            waits.await;
            rt.sleep(Nanos::from_millis(1)).await;
            assert_eq!(services.clean(), [true, true], "{scheme} {wait:?}");
        });
    });
}

#[test]
fn a_release_that_waits_for_the_others_of_its_count_is_told() {
    let cluster = Cluster::new(Scheme::Ncosed, Wait::Poll, 2, 1);
    let services = Services::of(&cluster);
    let (rt, clients) = (cluster.rt(0), [cluster.client(0), cluster.client(1)]);
    cluster.tell(0, async move {
        let key = LockKey::named("counted");
        let [first, second] = clients;
        let second = second.lock(key, Mode::Shared).await.expect("a grant");
        first.lock(key, Mode::Shared).await.expect("they share").unlock().await;
        rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!((services.sum(|a| a.releases_unspent), services.sum(|a| a.grants_held)), (1, 1));
        second.unlock().await;
    });
}

#[test]
fn who_waits_for_those_that_share_is_in_the_home_s_books() {
    let cluster = Cluster::new(Scheme::Ncosed, Wait::Poll, 2, 1);
    let services = Services::of(&cluster);
    let (key, at) = (LockKey::named("waited for"), |n: u64| Nanos::from_millis(100 * n));
    let (rt, second) = (cluster.rt(1), cluster.client(1));
    cluster.rt(1).spawn(async move {
        let shares = second.lock(key, Mode::Shared).await.expect("a grant");
        rt.sleep_until(at(3)).await;
        shares.unlock().await;
    });
    let (rt, first) = (cluster.rt(0), cluster.client(0));
    cluster.tell(0, async move {
        rt.sleep_until(at(1)).await;
        rt.spawn(async move { first.lock(key, Mode::Exclusive).await.expect("a grant").unlock().await });
        rt.sleep_until(at(2)).await;
        assert_eq!((services.sum(|a| a.home_entries), services.sum(|a| a.requesters_active)), (1, 2));
        rt.sleep_until(at(4)).await;
        assert_eq!((services.sum(|a| a.home_entries), services.sum(|a| a.requesters_active)), (0, 0));
    });
}

/// With a limit of one, whoever shares as the second one ends the word's epoch; the next one begins when both are done.
#[test]
fn a_word_that_is_being_rebuilt_and_one_that_was_given_up_are_told() {
    let config = |members| LockConfig { shared_limit: 1, ..LockConfig::new(Scheme::Ncosed, members) };
    let cluster = Cluster::with(2, Wait::Poll, 1, config);
    let services = Services::of(&cluster);
    let (rt, clients) = (cluster.rt(0), [cluster.client(0), cluster.client(1)]);
    cluster.tell(0, async move {
        let keys =
            [LockKey::named("given up"), LockKey::named("given up as well"), LockKey::named("left alone")];
        let words = || {
            let sum = |what: fn(&Audit) -> u64| services.sum(what);
            (sum(|a| a.words_in_use), sum(|a| a.words_retired), sum(|a| a.rebuilding))
        };
        let [first, second] = clients;
        first.lock(keys[2], Mode::Exclusive).await.expect("a grant").unlock().await;
        assert_eq!(words(), (1, 0, 0));
        let mut held = Vec::new();
        for key in &keys[..2] {
            held.push(first.lock(*key, Mode::Shared).await.expect("a grant"));
            held.push(second.lock(*key, Mode::Shared).await.expect("they share"));
        }
        rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(words(), (3, 0, 2));
        assert_eq!(services.sum(|a| a.home_entries), 4, "who holds is known to the home now");
        for grant in held {
            grant.unlock().await;
        }
        rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(words(), (3, 2, 0));
        assert_eq!(services.clean(), [true, true]);
    });
}
