//! Memory that a node of the cluster is to manage.

use crate::common::{Cluster, Member, ms, rank};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::dsm::{Dsm, DsmError, Grain, Placement, Shared};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

/// Also where the name comes in bytes: nobody would answer the first access.
#[test]
fn memory_that_is_placed_at_a_node_which_is_not_there_is_refused() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let start = |node: usize| {
        let member = &cluster.members[node];
        Dsm::start(&member.rt, &member.mesh).expect("the channel is free")
    };
    let [dsm, _other] = [0, 1].map(start);
    let grain = Grain::Bytes(64);
    let nowhere = Placement::Node(rank(2));
    let refused = DsmError::Placement { rank: rank(2), nodes: 2 };
    assert_eq!(dsm.alloc::<u64>(8, grain, nowhere).map(drop), Err(refused.clone()));
    assert_eq!(dsm.named::<u64>(1, 8, grain, nowhere).map(drop), Err(refused.clone()));
    let last = dsm.named::<u64>(1, 8, grain, Placement::Node(rank(1))).expect("it is there");
    let mut name = last.to_bytes();
    name[16] = 3;
    let name = Shared::<[u64]>::from_bytes(name).expect("another cluster may have that node");
    let found = Rc::new(RefCell::new(None));
    let (finds, rt) = (Rc::clone(&found), cluster.members[0].rt.clone());
    drop(rt.spawn(async move {
        let loaded = dsm.thread().load(name, 0).await;
        *finds.borrow_mut() = Some((loaded, dsm.thread().load(last, 0).await));
    }));
    cluster.run(ms(5));
    assert_eq!(found.take(), Some((Err(refused), Ok(0))));
}

/// Nobody could transfer such a minipage: who asked second waited for ever, and so did all that asked after it.
#[test]
fn of_nodes_that_make_a_name_in_other_grains_the_second_is_told_and_the_first_goes_on() {
    for rails in [1, 2] {
        let cluster = Cluster::railed(3, rails, 1, Wait::Poll);
        let start = |member: &Member| Dsm::start(&member.rt, &member.mesh).expect("the channel is free");
        let all: Vec<Dsm<Sim>> = cluster.members.iter().map(start).collect();
        let made = |node: usize, grain| {
            all[node].named::<u64>(1, 32, Grain::Bytes(grain), Placement::Node(rank(2))).expect("it fits")
        };
        let [fine, coarse] = [made(0, 64), made(1, 128)];
        let (first, second) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        let (found, mut thread, rt) = (Rc::clone(&first), all[0].thread(), cluster.members[0].rt.clone());
        drop(rt.clone().spawn(async move {
            let stored = thread.store(fine, 0, 7).await;
            rt.sleep_until(ms(10)).await;
            let loaded = thread.load(fine, 0).await;
            found.borrow_mut().extend([stored.map(|()| 0), loaded]);
        }));
        let (found, mut thread, rt) = (Rc::clone(&second), all[1].thread(), cluster.members[1].rt.clone());
        drop(rt.clone().spawn(async move {
            rt.sleep_until(ms(5)).await;
            let loaded = thread.load(coarse, 0).await;
            let claimed = thread.claim_mut(coarse, 0..32, Nanos::MAX).await.map(|claim| claim[0]);
            found.borrow_mut().extend([loaded, claimed]);
        }));
        cluster.run(ms(20));
        let otherwise = || Err(DsmError::Otherwise(fine.object()));
        assert_eq!(
            (first.take(), second.take()),
            (vec![Ok(0), Ok(7)], vec![otherwise(), otherwise()]),
            "{rails} rails"
        );
        assert!(all.iter().all(|dsm| dsm.unfinished().iter().all(|(_, open)| *open == 0)), "{rails} rails");
    }
}
