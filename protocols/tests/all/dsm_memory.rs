//! Shared memory where the adapters of a node refuse to register memory for a while.

use crate::common::{Cluster, all_regions, ms, rank, use_up};
use crate::dsm_told::Told;
use weft_protocols::dsm::{DsmConfig, Grain, Placement};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};

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
    told.cluster.run(ms(60));
    assert_eq!(loaded.take(), Some(Ok(7)));
}
