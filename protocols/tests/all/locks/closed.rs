//! A node that closes its mesh: what it held counts no more, who waits there is told so, and nothing of its lock service goes on.

use super::members::{at_home_of, settings};
use crate::common::{Cluster, ms, us};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{LockConfig, LockError, LockKey, LockService, Mode, Scheme};
use weft_protocols::members::Members;
use weft_sim::Sim;
use weft_verbs::Wait;

const NODES: u32 = 3;

/// Three nodes with a lock service each, among members or not.
fn start(scheme: Scheme, among_members: bool) -> (Cluster, Vec<LockService<Sim>>) {
    let cluster = Cluster::new(NODES, 1, Wait::Poll);
    let config = LockConfig::new(scheme, NODES);
    let services = cluster.members.iter().map(|member| match among_members {
        false => LockService::start(&member.rt, &member.mesh, config),
        true => {
            let members = Members::start(&member.rt, &member.mesh, settings(NODES)).expect("it starts");
            LockService::start_with(&member.rt, &member.mesh, config, &members)
        }
    });
    let services = services.collect::<Result<Vec<_>, _>>().expect("they start");
    cluster.run(ms(50));
    (cluster, services)
}

/// A hold on a node, until it is lost: whether it has come, and whether it was lost and counted no more.
fn holds(cluster: &Cluster, services: &[LockService<Sim>], node: usize, key: LockKey) -> [Rc<Cell<bool>>; 2] {
    let client = services[node].client();
    let told: [Rc<Cell<bool>>; 2] = Default::default();
    let [granted, lost] = told.clone();
    drop(cluster.members[node].rt.spawn(async move {
        let grant = client.lock(key, Mode::Exclusive).await.expect("it is granted");
        granted.set(grant.counts());
        grant.lost().await;
        lost.set(!grant.counts());
    }));
    cluster.run(ms(2));
    told
}

/// What a request on a node ends with.
fn asks(
    cluster: &Cluster,
    services: &[LockService<Sim>],
    node: usize,
    key: LockKey,
) -> Rc<RefCell<Option<LockError>>> {
    let (client, told) = (services[node].client(), Rc::new(RefCell::new(None)));
    let of = Rc::clone(&told);
    drop(cluster.members[node].rt.spawn(async move {
        *of.borrow_mut() = client.lock(key, Mode::Exclusive).await.err();
    }));
    cluster.run(ms(2));
    told
}

/// It is the home of a lock, holds one, waits for another, and has used a fourth, which its node keeps itself.
#[test]
fn of_a_lock_service_whose_mesh_is_closed_nothing_goes_on_and_who_waits_is_told() {
    for scheme in Scheme::ALL {
        for among_members in [false, true] {
            let (cluster, services) = start(scheme, among_members);
            let case = format!("{scheme}, among members: {among_members}");
            let keys = [0, 1, 2].map(|home| at_home_of(NODES, home));
            let _of_others = holds(&cluster, &services, 0, keys[1]);
            let [granted, lost] = holds(&cluster, &services, 2, keys[0]);
            let waits = asks(&cluster, &services, 2, keys[1]);
            let kept = asks(&cluster, &services, 2, keys[2]);
            assert!(granted.get() && !lost.get(), "{case}");
            assert_eq!((waits.take(), kept.take()), (None, None), "{case}");
            cluster.members[2].close_at(cluster.fabric.now() + us(1));
            cluster.run(ms(20));
            assert!(lost.get(), "{case}");
            assert_eq!(waits.take(), Some(LockError::Closed), "{case}");
            let later = asks(&cluster, &services, 2, keys[2]);
            assert_eq!(later.take(), Some(LockError::Closed), "{case}");
            drop(services);
            cluster.run(ms(20));
            assert_eq!(cluster.members[2].rt.audit().tasks, 0, "{case}");
        }
    }
}
