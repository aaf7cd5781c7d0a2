//! Memory that a node frees which dies meanwhile: those that live go on with that, and it is freed on all of them.

use crate::common::{Cluster, ms, rank};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::dsm::{Alive, Dsm, DsmConfig, DsmError, Grain, Placement, Repaired, Shared};
use weft_protocols::members::{Change, Member, View, ViewId};
use weft_protocols::rt::sync::mailbox;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::Wait;

fn words(dsm: &Dsm<Sim>) -> Shared<[u64]> {
    dsm.named(1, 8, Grain::Bytes(64), Placement::Node(rank(2))).expect("it fits")
}

/// The only one that was told of it manages the memory, and has none of it. The other one that lives has a copy.
#[test]
fn what_the_dead_was_freeing_is_freed_by_one_that_has_no_memory_of_it() {
    let cluster = Cluster::new(3, 1, Wait::Poll);
    let member =
        |node: usize| Member { rank: rank(node), incarnation: cluster.members[node].mesh.incarnation() };
    let view = |number: u64, nodes: &[usize]| View {
        id: ViewId { number, ..ViewId::default() },
        members: nodes.iter().map(|node| member(*node)).collect(),
        ..View::default()
    };
    let (first, then) = (view(1, &[0, 1, 2]), view(2, &[1, 2]));
    let (mut all, mut changes) = (Vec::new(), Vec::new());
    for at in &cluster.members {
        let (tells, told) = mailbox();
        let dsm =
            Dsm::start_under(&at.rt, &at.mesh, DsmConfig::default(), Alive::Told(&first, told), Repaired);
        all.push(dsm.expect("the channel is free"));
        changes.push(tells);
    }
    // Nothing goes from the one that frees it to the one that has it.
    let link = Link::Pair(NodeId(0), NodeId(1));
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::Both, lasts: None });
    let start = cluster.fabric.now();
    let loads = |node: usize, after| {
        let (dsm, found) = (all[node].clone(), Rc::new(RefCell::new(None)));
        let (finds, rt) = (Rc::clone(&found), cluster.members[node].rt.clone());
        drop(rt.clone().spawn(async move {
            rt.sleep(after).await;
            let loaded = dsm.thread().load(words(&dsm), 0).await;
            *finds.borrow_mut() = Some(loaded);
        }));
        found
    };
    let (before, after) = (loads(1, ms(0)), [1, 2].map(|node| loads(node, ms(40))));
    let (dsm, rt) = (all[0].clone(), cluster.members[0].rt.clone());
    drop(rt.clone().spawn(async move {
        rt.sleep(ms(6)).await;
        dsm.thread().free(words(&dsm)).await
    }));
    cluster.plan(start + ms(11), Fault::Crash { node: NodeId(0) });
    for node in [1, 2] {
        let (mesh, tells, dead) = (cluster.members[node].mesh.clone(), changes[node].clone(), member(0));
        let begins = Change::Begins { view: then.clone(), left: vec![dead] };
        cluster.members[node].at(start + ms(12), move || {
            mesh.expel(dead.rank, dead.incarnation);
            let _ = tells.send(begins);
        });
    }
    cluster.run(ms(5));
    assert_eq!(before.take(), Some(Ok(0)));
    cluster.run(ms(5));
    assert_eq!([0, 1, 2].map(|node| all[node].audit().freed.len()), [1, 0, 1], "one has heard of it");
    cluster.run(ms(40));
    let freed = Some(Err(DsmError::Freed(words(&all[1]).object())));
    assert_eq!(after.map(|found| found.take()), [freed.clone(), freed]);
    assert!(all[1].audit().held.is_empty() && all[2].audit().book.is_empty());
}
