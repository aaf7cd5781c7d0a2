//! Memory that a node frees which dies meanwhile: those that live go on with that, and it is freed on all of them.

use crate::common::{Cluster, ms, rank, us};
use crate::dsm_told::Told;
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::dsm::{Dsm, DsmError, DsmStats, Grain, Placement, Shared};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

fn words(dsm: &Dsm<Sim>) -> Shared<[u64]> {
    dsm.named(1, 8, Grain::Bytes(64), Placement::Node(rank(2))).expect("it fits")
}

/// The only one that was told of it manages the memory, and has none of it. The other one that lives has a copy.
#[test]
fn what_the_dead_was_freeing_is_freed_by_one_that_has_no_memory_of_it() {
    let told = Told::new(3);
    let (cluster, all) = (&told.cluster, &told.all);
    // Nothing goes from the one that frees it to the one that has it.
    let link = Link::Pair(NodeId(0), NodeId(1));
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::Both, lasts: None });
    let start = cluster.fabric.now();
    let before = told.load(start, 1, words(&all[1]));
    let after = [1, 2].map(|node| told.load(start + ms(40), node, words(&all[node])));
    let _ = told.call(start + ms(6), 0, |dsm| async move { dsm.thread().free(words(&dsm)).await });
    cluster.plan(start + ms(11), Fault::Crash { node: NodeId(0) });
    [1, 2].iter().for_each(|node| told.tell(start + ms(12), *node, &[1, 2]));
    cluster.run(ms(5));
    assert_eq!(before.take(), Some(Ok(0)));
    cluster.run(ms(5));
    assert_eq!([0, 1, 2].map(|node| all[node].audit().freed.len()), [1, 0, 1], "one has heard of it");
    cluster.run(ms(40));
    let freed = Some(Err(DsmError::Freed(words(&all[1]).object())));
    assert_eq!(after.map(|found| found.take()), [freed.clone(), freed]);
    assert!(all[1].audit().held.is_empty() && all[2].audit().book.is_empty());
}

/// One that lives was told to forget the memory, and reports nothing of it. Who gave it up for that one reports so, and forgets it before
/// its manager does; or that was the dead.
#[test]
fn nothing_is_lost_nor_out_of_turn_of_memory_that_some_have_forgotten_when_another_one_dies_that_frees_it() {
    for gives in [0, 3] {
        let told = Told::new(4);
        let (cluster, shared) = (&told.cluster, words(&told.all[0]));
        let stored =
            told.call(ms(1), gives, move |dsm| async move { dsm.thread().store(shared, 0, 1).await });
        let rt = cluster.members[1].rt.clone();
        let claimed = told.call(ms(2), 1, move |dsm| async move {
            let mut thread = dsm.thread();
            let _claim = thread.claim_mut(shared, 0..1, Nanos::MAX).await?;
            rt.sleep_until(ms(10)).await;
            Ok::<_, DsmError>(())
        });
        let _ = told.call(ms(6), 0, move |dsm| async move { dsm.thread().free(shared).await });
        for node in [2, 3].map(NodeId) {
            let link = Link::Pair(NodeId(0), node);
            cluster.plan(ms(8), Fault::Cut { link, way: Way::Both, lasts: None });
        }
        cluster.plan(ms(11), Fault::Crash { node: NodeId(0) });
        [(3, 12), (2, 13), (1, 13)].iter().for_each(|(node, at)| told.tell(ms(*at), *node, &[1, 2, 3]));
        cluster.run(ms(10) + us(500));
        assert_eq!((stored.take(), claimed.take()), (Some(Ok(())), Some(Ok(()))));
        let forgot = [1, 2, 3].map(|node| told.all[node].audit().held.is_empty());
        assert_eq!(forgot, [true; 3], "the one that had it has forgotten it");
        cluster.run(ms(30));
        for dsm in &told.all[1..] {
            let DsmStats { epochs, lost, out_of_turn, .. } = dsm.stats();
            assert_eq!((epochs, lost, out_of_turn), (1, 0, 0), "{gives} gave it up");
            assert!(dsm.unfinished().iter().all(|(_, open)| *open == 0) && dsm.audit().book.is_empty());
        }
    }
}

/// A claim of two objects has the second one already when another node stores to that and frees it, and waits for the first one, which the
/// other node lets go at any moment of that.
#[test]
fn memory_is_freed_when_a_claim_of_it_has_ended_that_waits_for_other_memory_first() {
    for (home, after) in (0..80).map(|step| (step % 2, Nanos(500 * step as u64))) {
        let cluster = Cluster::new(2, 1, Wait::Poll);
        let start = |node: usize| {
            let member = &cluster.members[node];
            Dsm::start(&member.rt, &member.mesh).expect("the channel is free")
        };
        let [claims, frees] = [0, 1].map(start);
        let named = move |dsm: &Dsm<Sim>, name| {
            dsm.named::<u64>(name, 8, Grain::Bytes(64), Placement::Node(rank(home))).expect("it fits")
        };
        let ended = Rc::new(Cell::new(None));
        let (ends, rt) = (Rc::clone(&ended), cluster.members[0].rt.clone());
        drop(rt.clone().spawn(async move {
            rt.sleep(ms(1)).await;
            let mut thread = claims.thread();
            let of = [(named(&claims, 1), 0..1), (named(&claims, 2), 0..1)];
            let claim = thread.claim_all_mut(of, Nanos::MAX).await;
            let found = claim.map(|mut claim| claim.slices_mut().map(|words| words[0]));
            ends.set(Some((found, rt.now())));
        }));
        let (keeps, rt) = (frees.clone(), cluster.members[1].rt.clone());
        drop(rt.clone().spawn(async move {
            let (mut thread, first) = (keeps.thread(), named(&keeps, 1));
            let claim = thread.claim_mut(first, 0..1, Nanos::MAX).await.expect("nobody frees it");
            rt.sleep_until(ms(2) + after).await;
            drop(claim);
        }));
        let freed = Rc::new(Cell::new(None));
        let (done, rt) = (Rc::clone(&freed), cluster.members[1].rt.clone());
        drop(rt.clone().spawn(async move {
            rt.sleep_until(ms(2)).await;
            let (mut thread, second) = (frees.thread(), named(&frees, 2));
            thread.store(second, 0, 7).await.expect("nobody frees it yet");
            thread.free(second).await.expect("nobody else frees it");
            done.set(Some(rt.now()));
        }));
        cluster.run(ms(10));
        let (found, at) = ended.take().unwrap_or_else(|| panic!("{after:?}: the claim waits"));
        assert_eq!(found, Ok([0, 7]), "{after:?}");
        assert!(
            freed.get().is_some_and(|freed| freed > at),
            "{after:?}: freed at {freed:?}, ended at {at:?}"
        );
    }
}
