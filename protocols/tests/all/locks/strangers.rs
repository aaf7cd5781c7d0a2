//! Messages that no member of this version would send: they are counted, and nothing else comes of them.

use super::cluster::Cluster;
use super::each;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::{LockConfig, LockKey, Mode, Scheme};
use weft_verbs::{Nanos, Wait};

/// The first bytes of a message: version, scheme, kind, zero, and the lock.
fn message(scheme: Scheme, kind: u8, key: LockKey, rest: &[u8]) -> Vec<u8> {
    let scheme = match scheme {
        Scheme::Srsl => 1,
        Scheme::Ncosed => 2,
        Scheme::Dqnl => 3,
    };
    [&[1, scheme, kind, 0], &key.0.to_le_bytes()[..], rest].concat()
}

/// The first lock from this number on that lives on a node, from 0, of two.
fn at_home(node: u32, from: u64) -> LockKey {
    (from..).map(LockKey).find(|key| key.home(2).index() == node as usize).expect("every node is a home")
}

const OPEN: u8 = 1;
const SRSL_REQUEST: u8 = 1;

/// Node 1 says these to node 0; how many of them were found malformed, how many out of turn, and how many locks node 0
/// keeps then.
fn heard(scheme: Scheme, wait: Wait, messages: Vec<Vec<u8>>) -> (u64, u64, u64) {
    let cluster = Cluster::new(scheme, wait, 2, 1);
    let channel = LockConfig::new(scheme, 2).channel;
    let (rt, mesh, to) = (cluster.rt(1), cluster.nodes[1].1.clone(), cluster.nodes[0].1.me());
    let (service, key) = (cluster.nodes[0].2.clone(), at_home(1, 0));
    let (found, client) = (Rc::new(RefCell::new(None)), cluster.client(0));
    let book = Rc::clone(&found);
    let own = cluster.rt(0);
    // Node 0 has used one lock, which lives on node 1.
    cluster.rt(0).spawn(async move {
        client.lock(key, Mode::Exclusive).await.expect("a grant").unlock().await;
        own.sleep_until(Nanos::from_millis(300)).await;
        let (stats, audit) = (service.stats(), service.audit());
        book.replace(Some((stats.malformed, stats.out_of_turn, audit.locks_kept)));
    });
    rt.clone().spawn(async move {
        rt.sleep_until(Nanos::from_millis(200)).await;
        for message in messages {
            mesh.send(to, channel, &message).expect("there is room");
        }
    });
    cluster.fabric.run_until(Nanos::from_millis(400));
    found.take().expect("it has looked")
}

#[test]
fn what_is_no_message_is_counted_as_malformed() {
    each(|scheme, wait| {
        let key = at_home(0, 0);
        let whole = match scheme {
            Scheme::Srsl => message(scheme, SRSL_REQUEST, key, &[1, 0]),
            _ => message(scheme, OPEN, key, &[]),
        };
        let other = Scheme::ALL.into_iter().find(|other| *other != scheme).expect("there are three");
        let mut longer = whole.clone();
        longer.push(0);
        let broken = vec![
            vec![],
            whole[..whole.len() - 1].to_vec(),
            longer,
            message(other, OPEN, key, &[]),
            message(scheme, 99, key, &[]),
        ];
        assert_eq!(heard(scheme, wait, broken), (5, 0, 0), "{scheme} {wait:?}");
        // One that is whole is heard, so that the others were refused for what they are.
        assert_eq!(heard(scheme, wait, vec![whole]), (0, 0, 1), "{scheme} {wait:?}");
    });
}

#[test]
fn who_asks_a_node_for_a_lock_that_lives_elsewhere_is_not_heard() {
    each(|scheme, wait| {
        let elsewhere = at_home(1, 0);
        let asks = match scheme {
            Scheme::Srsl => message(scheme, SRSL_REQUEST, elsewhere, &[1, 0]),
            _ => message(scheme, OPEN, elsewhere, &[]),
        };
        assert_eq!(heard(scheme, wait, vec![asks.clone(), asks]), (0, 2, 0), "{scheme} {wait:?}");
    });
}

#[test]
fn a_release_of_what_nobody_holds_is_out_of_turn_at_the_home() {
    each(|scheme, wait| {
        let key = at_home(0, 0);
        let release = match scheme {
            Scheme::Srsl => message(scheme, 4, key, &[]),
            _ => message(scheme, 8, key, &1u32.to_le_bytes()),
        };
        assert_eq!(heard(scheme, wait, vec![release]), (0, 1, 1), "{scheme} {wait:?}");
    });
}

#[test]
fn a_grant_that_was_not_asked_for_is_out_of_turn_be_the_lock_known_or_not() {
    each(|scheme, wait| {
        let (known, unknown) = (at_home(1, 0), at_home(1, at_home(1, 0).0 + 1));
        let grant = |key| match scheme {
            Scheme::Srsl => message(scheme, 2, key, &256u64.to_le_bytes()),
            _ => message(scheme, 6, key, &1u32.to_le_bytes()),
        };
        for key in [known, unknown] {
            assert_eq!(heard(scheme, wait, vec![grant(key)]), (0, 1, 0), "{scheme} {wait:?}");
        }
    });
}
