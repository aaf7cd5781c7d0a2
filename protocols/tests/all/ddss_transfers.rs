//! Puts to segments that are begun, and waited for later.

use crate::common::{Cluster, ms, rank};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, Model, Placement, Spec};
use weft_sim::Sim;
use weft_verbs::Wait;

/// The segments of two nodes.
fn both(cluster: &Cluster) -> [Ddss<Sim>; 2] {
    [0, 1].map(|node: usize| {
        let member = &cluster.members[node];
        Ddss::start(&member.rt, &member.mesh).expect("the channel is free")
    })
}

/// The task of the one that was begun first has not run yet when the other one is called.
#[test]
fn a_put_that_was_begun_is_carried_out_before_one_that_is_called_after_it() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let [ddss, _home] = both(&cluster);
    let found = Rc::new(Cell::new(None));
    let finds = Rc::clone(&found);
    drop(cluster.members[0].rt.spawn(async move {
        let spec = Spec { size: 8, model: Model::Write };
        let key = ddss.allocate(spec, Placement::On(rank(1))).await.expect("there is memory");
        let segment = ddss.attach(key).expect("it is there");
        let first = ddss.begin_put(&segment, vec![1; 8]);
        let second = ddss.put(&segment, &[2; 8]).await;
        let (mut value, first) = ([0; 8], first.wait().await);
        ddss.get(&segment, &mut value).await.expect("nobody releases it");
        finds.set(Some((first, second, value)));
    }));
    cluster.run(ms(20));
    assert_eq!(found.take(), Some((Ok(Some(1)), Ok(Some(2)), [2; 8])));
}

/// No completion has said so.
#[test]
fn a_lock_that_is_dropped_is_no_operation_of_unknown_outcome() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let [ddss, _home] = both(&cluster);
    let (calls, locked) = (ddss.clone(), Rc::new(Cell::new(0)));
    let counts = Rc::clone(&locked);
    drop(cluster.members[0].rt.spawn(async move {
        let spec = Spec { size: 8, model: Model::Strict };
        let key = calls.allocate(spec, Placement::On(rank(1))).await.expect("there is memory");
        let segment = calls.attach(key).expect("it is there");
        for _ in 0..10 {
            drop(calls.lock(&segment).await.expect("it is given back"));
            counts.set(counts.get() + 1);
        }
    }));
    cluster.run(ms(20));
    assert_eq!((locked.get(), ddss.stats().unknown_outcomes), (10, 0));
}
