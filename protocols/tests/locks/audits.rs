//! An audit says what is there, not only that nothing is.

use crate::cluster::Cluster;
use crate::each;
use protocols::locks::{Audit, LockKey, LockService, Mode, Scheme};
use sim_backend::Sim;
use verbs_trait::{Nanos, Wait};

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
            assert_eq!((services.sum(|a| a.seats_taken), services.sum(|a| a.locks_known)), (1, 1));
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
