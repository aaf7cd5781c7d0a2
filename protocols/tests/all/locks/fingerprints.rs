//! What explorers are told that a lock service knows: all that its future depends on, and the same of what has gone the
//! same way.

use super::cluster::Cluster;
use super::each;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::{LockClient, LockKey, LockService, Mode, Scheme};
use weft_protocols::rt::fingerprint::StateHasher;
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

fn now(service: &LockService<Sim>) -> Option<u128> {
    let mut digest = StateHasher::default();
    service.fingerprint(&mut digest).then(|| digest.whole())
}

/// Keys of locks that live on the second of two nodes.
fn away() -> [LockKey; 2] {
    let mut keys = (0..).map(LockKey).filter(|key| key.home(2).get() == 2);
    [(); 2].map(|()| keys.next().expect("every node is a home"))
}

/// Tells a story on the first of two nodes; it says when to look at both services.
fn told<F>(
    scheme: Scheme,
    wait: Wait,
    story: impl FnOnce(LockClient<Sim>, Looks) -> F,
) -> Vec<[Option<u128>; 2]>
where
    F: Future<Output = ()> + 'static,
{
    let cluster = Cluster::new(scheme, wait, 2, 1);
    let services = [0, 1].map(|n| cluster.nodes[n].2.clone());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let looks = Looks { rt: cluster.rt(0), services, seen: Rc::clone(&seen) };
    cluster.tell(0, story(cluster.client(0), looks));
    seen.take()
}

struct Looks {
    rt: weft_protocols::rt::Rt<Sim>,
    services: [LockService<Sim>; 2],
    seen: Rc<RefCell<Vec<[Option<u128>; 2]>>>,
}

impl Looks {
    /// Looks at both services once all that was begun has ended or waits.
    async fn look(&self) {
        self.rt.sleep(Nanos::from_millis(1)).await;
        self.seen.borrow_mut().push(self.services.each_ref().map(now));
    }
}

async fn round(client: &LockClient<Sim>, key: LockKey, mode: Mode) {
    client.lock(key, mode).await.expect("a grant").unlock().await;
}

#[test]
fn a_service_is_known_by_its_locks_and_by_how_many_requests_there_were() {
    each(|scheme, wait| {
        let story = |key| {
            told(scheme, wait, move |client, looks| async move {
                looks.look().await;
                for _ in 0..3 {
                    round(&client, key, Mode::Shared).await;
                    looks.look().await;
                }
                let held = client.lock(key, Mode::Exclusive).await.expect("a grant");
                looks.look().await;
                let waits = looks.rt.spawn(async move { round(&client, key, Mode::Exclusive).await });
                looks.look().await;
                held.unlock().await;
                waits.await;
                looks.look().await;
            })
        };
        let [one, other] = away().map(story);
        for (i, now) in one.iter().enumerate() {
            assert!(now[0].is_some() && one[..i].iter().all(|before| before[0] != now[0]), "{scheme} {i}");
        }
        assert_eq!(one, story(away()[0]), "what goes the same way is known as the same");
        assert_eq!(one[0], other[0]);
        for (one, other) in one.iter().zip(&other).skip(1) {
            assert!(one[0] != other[0] && one[1] != other[1], "{scheme}: of which lock that is is known");
        }
    });
}

/// The first node does nothing of which its home's own applications could know: its books and its words are all that
/// tells.
#[test]
fn a_home_is_known_by_its_books() {
    each(|scheme, wait| {
        let seen = told(scheme, wait, |client, looks| async move {
            looks.look().await;
            let [key, another] = away();
            let held = client.lock(key, Mode::Exclusive).await.expect("a grant");
            looks.look().await;
            let beside = client.lock(another, Mode::Exclusive).await.expect("a grant");
            looks.look().await;
            held.unlock().await;
            beside.unlock().await;
        });
        for (i, now) in seen.iter().enumerate() {
            assert!(now[1].is_some() && seen[..i].iter().all(|before| before[1] != now[1]), "{scheme} {i}");
        }
    });
}

/// What is kept back is in nobody's content, so nothing is said.
#[test]
fn a_service_that_keeps_messages_back_cannot_be_told() {
    each(|scheme, wait| {
        let cluster = Cluster::narrow(scheme, wait, 2, 1);
        let (rt, client, service) = (cluster.rt(0), cluster.client(0), cluster.nodes[0].2.clone());
        cluster.tell(0, async move {
            let keys = (0..).map(LockKey).filter(|key| key.home(2).get() == 2).take(12);
            assert!(now(&service).is_some());
            let requests: Vec<_> = keys
                .map(|key| {
                    let client = client.clone();
                    rt.spawn(async move { round(&client, key, Mode::Exclusive).await })
                })
                .collect();
            rt.sleep(Nanos::from_micros(100)).await;
            assert!(service.audit().messages_kept > 0, "{scheme} {wait:?}");
            assert_eq!(now(&service), None);
            for request in requests {
                request.await;
            }
            rt.sleep(Nanos::from_millis(500)).await;
            assert!(service.audit().messages_kept == 0 && now(&service).is_some());
        });
    });
}
