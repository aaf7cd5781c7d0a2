//! Shared memory where the adapters of a node refuse to register memory for a while.

use crate::common::{Cluster, NOBODYS, all_regions, ms, rank, us, use_up, without_memory};
use crate::dsm_told::Told;
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::dsm::{Dsm, DsmConfig, Grain, Placement};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::Nanos;

/// The last one is cut off, and acknowledges nothing of what the first one has used its memory for.
#[test]
fn a_node_reports_what_it_has_once_there_is_memory_for_that() {
    let told = Told::of(Cluster::of_few_regions(4, 1, 4, |_| ()), DsmConfig::default());
    let (link, lasts) = (Link::Node(NodeId(3)), Some(ms(25)));
    told.cluster.plan(ms(5), Fault::Cut { link, way: Way::Both, lasts });
    let word = told.all[0].named::<u64>(1, 1, Grain::Bytes(64), Placement::Node(rank(1))).expect("it fits");
    let stored = told.call(ms(1), 0, move |dsm| async move { dsm.thread().store(word, 0, 7).await });
    let (uses, rt) = (use_up(&told.cluster.members[0], 3), told.cluster.members[0].rt.clone());
    drop(told.cluster.members[0].rt.spawn(async move {
        rt.sleep_until(ms(9)).await;
        let regions = all_regions(&rt);
        uses();
        rt.sleep_until(ms(20)).await;
        drop(regions);
    }));
    [0, 1, 3].iter().for_each(|node| told.tell(ms(10), *node, &[0, 1, 3]));
    let loaded = told.load(ms(12), 1, word);
    told.cluster.run(ms(19));
    assert_eq!((stored.take(), loaded.take()), (Some(Ok(())), None), "there is no memory for the report");
    told.cluster.run(ms(200));
    assert_eq!(loaded.take(), Some(Ok(7)));
}

/// Two nodes add to a word of a minipage that no message carries, the second one at a moment. The first one has a copy of it, which it
/// may have to give up when it has asked to write itself: there is no memory then for what it sends. Says when the second one is done.
fn adds_in_a_wide_minipage(second: Nanos) -> Nanos {
    let cluster = Cluster::of_few_regions(3, 1, 4, |_| ());
    let dsms: Vec<_> = cluster.members.iter().map(|at| Dsm::start(&at.rt, &at.mesh).expect("free")).collect();
    let words = dsms[0].named::<u64>(1, 1_024, Grain::Pages(2), Placement::Node(rank(2))).expect("it fits");
    let ends = [0, 2].map(|_| Rc::new(Cell::new(None)));
    let add = |node: usize, at: Nanos, end: &Rc<Cell<Option<Nanos>>>| {
        let (rt, dsm, end) = (cluster.members[node].rt.clone(), dsms[node].clone(), Rc::clone(end));
        drop(rt.clone().spawn(async move {
            rt.sleep_until(at).await;
            dsm.thread().fetch_add(words, 0, 1).await.expect("all live");
            end.set(Some(rt.now()));
        }));
    };
    add(0, ms(1), &ends[0]);
    add(0, ms(10), &ends[0]);
    add(2, second, &ends[1]);
    let found = Rc::new(Cell::new([None; 2]));
    for (nth, at) in [ms(5), ms(30)].into_iter().enumerate() {
        let (rt, dsm, finds) = (cluster.members[1].rt.clone(), dsms[1].clone(), Rc::clone(&found));
        drop(rt.clone().spawn(async move {
            rt.sleep_until(at).await;
            let word = dsm.thread().load(words, 0).await.expect("all live");
            let mut all = finds.get();
            all[nth] = Some(word);
            finds.set(all);
        }));
    }
    let rt = cluster.members[0].rt.clone();
    drop(rt.clone().spawn(async move {
        rt.sleep_until(ms(9)).await;
        let regions = all_regions(&rt);
        rt.sleep_until(ms(20)).await;
        drop(regions);
    }));
    cluster.run(ms(40));
    assert_eq!(found.get(), [Some(1), Some(3)], "{second:?}");
    let [first, second] = ends.map(|end| end.get().expect("it was added"));
    assert!(first < ms(22) && second < ms(22), "{first:?}, {second:?}");
    second
}

#[test]
fn a_minipage_that_no_message_carries_is_handed_over_once_there_is_memory_for_a_copy() {
    let waited = (0..9).map(|step| adds_in_a_wide_minipage(us(9_998) + Nanos(500 * step)));
    assert!(waited.filter(|end| *end > ms(20)).count() > 0, "there was always memory");
}

/// The reader, which manages the memory itself, has lost the adapter of the first rail. The last one is cut off later, as above.
#[test]
fn a_pull_that_messages_carry_waits_for_memory_for_them() {
    let config = DsmConfig { pulls: true, ..DsmConfig::default() };
    let told = Told::of(Cluster::of_few_regions(4, 2, 4, |_| ()), config);
    let words = told.all[0].named::<u64>(1, 16, Grain::Bytes(64), Placement::Node(rank(2))).expect("it fits");
    let stored = told.call(ms(1), 0, move |dsm| async move { dsm.thread().store(words, 0, 7).await });
    let other = told.call(ms(2), 2, move |dsm| async move { dsm.thread().load(words, 8).await });
    let first = told.load(ms(5), 1, words);
    told.cluster.plan(ms(30), Fault::PortDown { node: NodeId(2), port: 1, lasts: None });
    for at in [ms(2), ms(32)] {
        let mesh = told.cluster.members[2].mesh.clone();
        told.cluster.members[2].at(at, move || {
            [1, 3].iter().for_each(|node| mesh.send(rank(*node), NOBODYS, &[0]).expect("there is room"));
        });
    }
    told.cluster.plan(ms(45), Fault::Cut { link: Link::Node(NodeId(3)), way: Way::Both, lasts: None });
    let reader = told.cluster.members[2].clone();
    drop(reader.rt.clone().spawn(async move { without_memory(&reader, 3, ms(50), ms(60)).await }));
    let pulled = told.load(ms(51), 2, words);
    let written = told.call(ms(55), 0, move |dsm| async move { dsm.thread().store(words, 0, 9).await });
    told.cluster.run(ms(49));
    assert_eq!((stored.take(), other.take(), first.take()), (Some(Ok(())), Some(Ok(0)), Some(Ok(7))));
    assert_eq!(told.cluster.members[2].mesh.rail(rank(1)), Some(1), "messages carry a read over that one");
    told.cluster.run(ms(10));
    assert_eq!((pulled.take(), written.take()), (None, None), "there is no memory for the messages");
    told.cluster.run(ms(100));
    assert_eq!((pulled.take(), written.take()), (Some(Ok(7)), Some(Ok(()))));
    assert_eq!(told.all[2].stats().pulls, 1);
}
