//! Memory that a node of the cluster is to manage.

use crate::common::{Cluster, ms, rank};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::dsm::{Dsm, DsmError, Grain, Placement, Shared};
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
        let start = |node: usize| {
            let member = &cluster.members[node];
            Dsm::start(&member.rt, &member.mesh).expect("the channel is free")
        };
        let all = [0, 1, 2].map(start);
        let made = |node: usize, grain| {
            all[node].named::<u64>(1, 32, Grain::Bytes(grain), Placement::Node(rank(2))).expect("it fits")
        };
        let ([fine, coarse], rt) = ([made(0, 64), made(1, 128)], cluster.members[0].rt.clone());
        let ([first, second], found) =
            ([0, 1].map(|node: usize| all[node].clone()), Rc::new(RefCell::new(None)));
        let finds = Rc::clone(&found);
        drop(rt.spawn(async move {
            let (mut first, mut second) = (first.thread(), second.thread());
            let stored = first.store(fine, 0, 7).await;
            let loaded = second.load(coarse, 0).await;
            let claimed = second.claim_mut(coarse, 0..32, Nanos::MAX).await.map(drop);
            *finds.borrow_mut() = Some((stored, loaded, claimed, first.load(fine, 0).await));
        }));
        cluster.run(ms(5));
        let otherwise = DsmError::Otherwise(fine.object());
        let told = (Ok(()), Err(otherwise.clone()), Err(otherwise), Ok(7));
        assert_eq!(found.take(), Some(told), "{rails} rails");
        assert!(all.iter().all(|dsm| dsm.unfinished().iter().all(|(_, open)| *open == 0)), "{rails} rails");
    }
}
