//! Shared memory whose users drop calls where they wait, as time-outs and `select` do it: nobody else waits for that, and nobody is counted
//! twice.

use crate::common::{Cluster, begins, ms, us};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::dsm::{BarrierId, Dsm, DsmError, Grain, Placement, Shared};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

const BARRIER: BarrierId = BarrierId(0);

/// Two nodes that share memory.
fn two() -> (Cluster, [Dsm<Sim>; 2]) {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let start = |node: usize| {
        let member = &cluster.members[node];
        Dsm::start(&member.rt, &member.mesh).expect("the channel is free")
    };
    let both = [0, 1].map(start);
    (cluster, both)
}

fn words(dsm: &Dsm<Sim>) -> Shared<[u64]> {
    dsm.named(1, 8, Grain::Bytes(64), Placement::RoundRobin).expect("it fits")
}

#[test]
fn what_is_being_freed_is_though_nobody_waits_for_it_any_more() {
    let (cluster, [dsm, other]) = two();
    let mut thread = other.thread();
    let stores = async move { thread.store(words(thread.dsm()), 0, 7).await.expect("nobody frees it yet") };
    drop(cluster.members[1].rt.spawn(stores));
    let (here, freed_again) = (dsm.clone(), Rc::new(Cell::new(false)));
    let again = Rc::clone(&freed_again);
    let rt = cluster.members[0].rt.clone();
    drop(rt.clone().spawn(async move {
        rt.sleep(ms(2)).await;
        let (mut thread, words) = (here.thread(), words(&here));
        begins(pin!(thread.free(words))).await;
        // It is freed already, for this node's threads from the call on.
        let freed = Err(DsmError::Freed(words.object()));
        again.set(thread.free(words).await == freed && thread.load(words, 0).await.map(drop) == freed);
    }));
    cluster.run(ms(1));
    assert_eq!(other.copy(words(&other), 0), Some(7));
    cluster.run(ms(9));
    assert!(freed_again.get());
    for dsm in [&dsm, &other] {
        let audit = dsm.audit();
        assert_eq!((audit.freed.len(), audit.held.len(), audit.book.len()), (1, 0, 0));
        assert_eq!(dsm.copy(words(dsm), 0), None, "its memory is kept");
        assert!(dsm.unfinished().iter().all(|(_, count)| *count == 0), "{:?}", dsm.unfinished());
    }
}

#[test]
fn a_thread_that_drops_its_wait_at_a_barrier_and_calls_again_is_counted_once() {
    let (cluster, [dsm, other]) = two();
    let (left, rt) = (Rc::new(Cell::new(0)), cluster.members[0].rt.clone());
    let leaves = Rc::clone(&left);
    drop(rt.clone().spawn(async move {
        let mut thread = dsm.thread();
        for _ in 0..3 {
            begins(pin!(thread.barrier(BARRIER, 2))).await;
        }
        thread.barrier(BARRIER, 2).await.expect("the other one comes");
        leaves.set(leaves.get() + 1);
        // The next round, which has ended when it is called again.
        begins(pin!(thread.barrier(BARRIER, 2))).await;
        rt.sleep(ms(5)).await;
        thread.barrier(BARRIER, 2).await.expect("the other one has come");
        leaves.set(leaves.get() + 1);
    }));
    let rt = cluster.members[1].rt.clone();
    let enters = async move {
        rt.sleep(ms(6)).await;
        let mut thread = other.thread();
        for _ in 0..2 {
            thread.barrier(BARRIER, 2).await.expect("nobody dies");
        }
    };
    drop(cluster.members[1].rt.spawn(enters));
    cluster.run(ms(5));
    assert_eq!(left.get(), 0, "the other thread has not come");
    cluster.run(ms(20));
    assert_eq!(left.get(), 2);
}

/// Its wait for another thread's claim was the last thing that kept the memory; then no message comes that would be looked at.
#[test]
fn a_claim_that_is_dropped_while_it_waits_for_another_one_holds_up_nobody_who_frees() {
    let (cluster, [dsm, other]) = two();
    let rt = cluster.members[0].rt.clone();
    let claims = {
        let rt = rt.clone();
        async move {
            let (mut first, mut second, words) = (dsm.thread(), dsm.thread(), words(&dsm));
            let claim = first.claim_mut(words, 0..1, Nanos::MAX).await.expect("nobody frees it yet");
            {
                let mut waits = pin!(second.claim_mut(words, 0..1, Nanos::MAX));
                begins(waits.as_mut()).await;
                rt.sleep(ms(2)).await;
                drop(claim);
                rt.sleep(ms(1)).await;
            }
        }
    };
    drop(rt.spawn(claims));
    let freed = Rc::new(Cell::new(false));
    let frees = Rc::clone(&freed);
    let rt = cluster.members[1].rt.clone();
    drop(rt.clone().spawn(async move {
        rt.sleep(ms(1)).await;
        let mut thread = other.thread();
        thread.free(words(&other)).await.expect("nobody else frees it");
        frees.set(true);
    }));
    cluster.run(ms(10));
    assert!(freed.get());
}

/// It waits for memory that another node has claimed, and has pinned nothing yet; then no message comes that would be looked at.
#[test]
fn a_claim_that_is_dropped_while_it_waits_for_other_memory_holds_up_nobody_who_frees() {
    let (cluster, [dsm, other]) = two();
    let named = |dsm: &Dsm<Sim>, name| {
        dsm.named::<u64>(name, 8, Grain::Bytes(64), Placement::RoundRobin).expect("it fits")
    };
    let (keeps, rt) = (other.clone(), cluster.members[1].rt.clone());
    drop(rt.clone().spawn(async move {
        let (mut thread, first) = (keeps.thread(), named(&keeps, 1));
        let claim = thread.claim_mut(first, 0..1, Nanos::MAX).await.expect("nobody frees it");
        rt.sleep(ms(20)).await;
        drop(claim);
    }));
    let rt = cluster.members[0].rt.clone();
    drop(rt.clone().spawn(async move {
        rt.sleep(ms(1)).await;
        let mut thread = dsm.thread();
        let of = [(named(&dsm, 1), 0..1), (named(&dsm, 2), 0..1)];
        let mut waits = pin!(thread.claim_all_mut(of, Nanos::MAX));
        begins(waits.as_mut()).await;
        rt.sleep(ms(4)).await;
    }));
    let freed = Rc::new(Cell::new(None));
    let (frees, rt) = (Rc::clone(&freed), cluster.members[1].rt.clone());
    drop(rt.clone().spawn(async move {
        rt.sleep(ms(2)).await;
        let mut thread = other.thread();
        thread.free(named(&other, 2)).await.expect("nobody else frees it");
        frees.set(Some(rt.now()));
    }));
    cluster.run(ms(10));
    assert!(freed.get().is_some_and(|at| at > ms(5)), "it is not freed when the claim has ended: {freed:?}");
}

/// Each is woken when it is the first in line, and otherwise when the memory ends.
#[test]
fn threads_that_wait_for_one_minipage_have_it_in_turn_past_those_that_give_up_or_are_all_told_of_the_end() {
    const GIVE_UP: [usize; 3] = [1, 2, 4];
    for ends in [false, true] {
        let (cluster, [dsm, _other]) = two();
        let came = Rc::new(RefCell::new(Vec::new()));
        for nth in 0..7 {
            let (rt, dsm, tells) = (cluster.members[0].rt.clone(), dsm.clone(), Rc::clone(&came));
            drop(cluster.members[0].rt.spawn(async move {
                // The first one has it when the others come.
                rt.sleep_until(if nth == 0 { us(1) } else { ms(2) + us(nth as u64) }).await;
                let deadline = if GIVE_UP.contains(&nth) { ms(4) } else { Nanos::MAX };
                let (mut thread, words) = (dsm.thread(), words(&dsm));
                let claim = thread.claim_mut(words, 0..1, deadline).await;
                tells.borrow_mut().push((nth, claim.as_ref().err().cloned()));
                rt.sleep(ms(if nth == 0 { 10 } else { 0 })).await;
                drop(claim);
            }));
        }
        if ends {
            cluster.members[0].close_at(ms(6));
        }
        cluster.run(ms(20));
        let (late, end) = (Some(DsmError::Deadline), ends.then_some(DsmError::Closed));
        let had = [3, 5, 6].map(|nth| (nth, end.clone()));
        let gave_up = GIVE_UP.map(|nth| (nth, late.clone()));
        assert_eq!(*came.borrow(), [&[(0, None)], &gave_up[..], &had].concat());
    }
}
