//! Segments where the adapters of a node refuse to register memory for a while.

use crate::common::{Cluster, all_regions, ms, rank, us};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Model, Placement, Spec};
use weft_protocols::transport::MeshConfig;
use weft_verbs::Nanos;

/// A node gets a value with the segment's lock, and has memory for the four requests of that and no more. Another one asks for the lock at
/// a moment of that, and waits in the home's line if it comes too late to take it: then the first one has to give it back by a request
/// more. Says what the first one is told. The other one has the lock in the end.
fn gets_while_another_one_asks_for_the_lock(asks: Nanos) -> Result<u64, DdssError> {
    let spec = Spec { size: 512 * 1024, model: Model::Read };
    // Pools register three words at a time, and one block of anything larger. A request is sent when the one before it is answered.
    let scarce = |config: &mut MeshConfig| (config.chunk, config.rd_atomic) = (24, 1);
    let cluster = Cluster::scarce(3, 4, 200, scarce);
    let start = |node: usize| {
        let member = &cluster.members[node];
        (Ddss::start(&member.rt, &member.mesh).expect("the channel is free"), member.rt.clone())
    };
    let [(home, at_home), (gets, rt), (locks, other)] = [0, 1, 2].map(start);
    drop(at_home.spawn(async move {
        // It is connected with itself by then, and lets others wait without delay.
        let key = home.allocate(spec, Placement::Local).await.expect("there is memory");
        let segment = home.attach(key).expect("it is there");
        home.lock(&segment).await.expect("nobody has it").unlock().await.expect("it is there");
    }));
    let (key, got, unlocked) =
        (Rc::new(Cell::new(None)), Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
    let (tells, finds) = (Rc::clone(&key), Rc::clone(&got));
    drop(rt.clone().spawn(async move {
        let key = gets.allocate(spec, Placement::On(rank(0))).await.expect("there is memory");
        let segment = gets.attach(key).expect("it is there");
        let mut value = vec![0; spec.size as usize];
        gets.get(&segment, &mut value).await.expect("there is memory");
        tells.set(Some(key));
        rt.sleep_until(ms(19)).await;
        let regions = all_regions(&rt);
        rt.sleep_until(ms(20)).await;
        finds.set(Some(gets.get(&segment, &mut value).await));
        rt.sleep_until(ms(30)).await;
        drop(regions);
    }));
    let ends = Rc::clone(&unlocked);
    drop(other.clone().spawn(async move {
        other.sleep_until(ms(15)).await;
        let segment = locks.attach(key.get().expect("it is allocated")).expect("it is there");
        // It has a part in the segment, and is connected.
        locks.lock(&segment).await.expect("nobody has it").unlock().await.expect("the home is there");
        other.sleep_until(asks).await;
        locks.lock(&segment).await.expect("it is given back").unlock().await.expect("the home is there");
        ends.set(true);
    }));
    cluster.run(ms(80));
    assert!(unlocked.get(), "{asks:?}: the lock stays with a node that does not have it");
    got.take().expect("the call ends")
}

#[test]
fn a_lock_that_there_is_no_memory_to_give_back_is_given_back_all_the_same() {
    let told = (0..10).map(|step| gets_while_another_one_asks_for_the_lock(ms(20) + us(step)));
    let failed = told.filter(|got| got.is_err()).inspect(|got| {
        assert!(matches!(got, Err(DdssError::Verbs(_))), "{got:?}");
    });
    assert!(failed.count() > 0, "there was always memory");
}
