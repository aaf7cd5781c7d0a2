//! Segments where the adapters of a node refuse to register memory for a while.

use crate::common::{Cluster, all_regions, ms, rank, us, without_memory};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Placement, Spec};
use weft_protocols::members::{Change, Member, View};
use weft_protocols::rt::sync::mailbox;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::Wait;

/// The segments of the first nodes of a cluster, which have no others in their view.
fn among(cluster: &Cluster, nodes: usize) -> Vec<Ddss<Sim>> {
    let member = |node: usize| {
        let incarnation = cluster.members[node].mesh.incarnation();
        Member { rank: rank(node), incarnation }
    };
    let view = View { members: (0..nodes).map(member).collect(), ..View::default() };
    let start = |node: usize| {
        let (at, (tells, changes)) = (&cluster.members[node], mailbox());
        let begins = Change::Begins { view: view.clone(), left: Vec::new() };
        assert!(tells.send(begins).is_ok());
        Ddss::start_told(&at.rt, &at.mesh, changes).expect("the channel is free")
    };
    (0..nodes).map(start).collect()
}

/// The home has no memory to answer the second one. When it has some, it asks for that first to say that the segment goes.
#[test]
fn who_opens_a_segment_that_is_released_before_the_answer_can_be_sent_is_told_so() {
    let cluster = Cluster::of_few_regions(4, 1, 4, |_| ());
    cluster.plan(us(1), Fault::Cut { link: Link::Node(NodeId(3)), way: Way::Both, lasts: None });
    let nodes = among(&cluster, 3);
    let spec = Spec { size: 64, model: Model::Write };
    // The third one is the home of both.
    let (going, other) = (Name(2), Name(6));
    let (ddss, rt) = (nodes[0].clone(), cluster.members[0].rt.clone());
    drop(rt.clone().spawn(async move {
        let segment = ddss.open(going, spec).await.expect("there is memory");
        let before = ddss.open(other, spec).await.expect("there is memory");
        rt.sleep_until(ms(5)).await;
        ddss.release(before.key()).await.expect("nobody else releases it");
        rt.sleep_until(ms(20) + us(500)).await;
        ddss.release(segment.key()).await.expect("nobody else releases it");
    }));
    let told = Rc::new(RefCell::new(Vec::new()));
    let (ddss, rt, tells) = (nodes[1].clone(), cluster.members[1].rt.clone(), Rc::clone(&told));
    drop(rt.clone().spawn(async move {
        ddss.open(other, spec).await.expect("there is memory");
        for at in [ms(20), ms(40)] {
            rt.sleep_until(at).await;
            let opened = ddss.open(going, spec).await;
            tells.borrow_mut().push((rt.now(), opened.map(drop)));
        }
    }));
    let home = cluster.members[2].clone();
    drop(home.rt.clone().spawn(async move { without_memory(&home, 3, ms(19), ms(30) + us(300)).await }));
    cluster.run(ms(60));
    let [(answered, released), (_, anew)] = told.take().try_into().expect("both are answered");
    assert!((ms(31)..ms(32)).contains(&answered), "{answered}");
    assert_eq!((released, anew), (Err(DdssError::Released), Ok(())));
}

/// Memory is registered block by block. While the connection is made anew that lost the answer, a put to another segment has the only
/// block for a word.
#[test]
fn a_put_whose_answer_was_lost_ends_with_its_version_once_there_is_memory_to_look_for_it() {
    let cluster = Cluster::special(2, 1, 4, Wait::Poll, |config| config.chunk = 8);
    let start = |node: usize| {
        let at = &cluster.members[node];
        Ddss::start(&at.rt, &at.mesh).expect("the channel is free")
    };
    let [ddss, _home] = [0, 1].map(start);
    // After this one the node has what a new connection takes.
    let link = Link::Pair(NodeId(0), NodeId(1));
    cluster.plan(ms(5), Fault::Cut { link, way: Way::Both, lasts: Some(ms(3)) });
    cluster.plan(ms(20), Fault::LoseCompletion { node: NodeId(0), lasts: Some(ms(8)) });
    cluster.plan(ms(20), Fault::NoMemory { node: NodeId(0), lasts: Some(ms(20)) });
    let ended = [[2, 6, 21], [3, 12, 25]].map(|times| {
        let ended = Rc::new(RefCell::new(Vec::new()));
        let (ddss, rt, tells) = (ddss.clone(), cluster.members[0].rt.clone(), Rc::clone(&ended));
        drop(rt.clone().spawn(async move {
            rt.sleep_until(ms(times[0])).await;
            let spec = Spec { size: 64, model: Model::Write };
            let key = ddss.allocate(spec, Placement::On(rank(1))).await.expect("there is memory");
            let segment = ddss.attach(key).expect("it is there");
            for at in times {
                rt.sleep_until(ms(at)).await;
                let put = ddss.put(&segment, &[7; 64]).await;
                tells.borrow_mut().push(put);
            }
        }));
        ended
    });
    cluster.run(ms(80));
    let versions = vec![Ok(Some(1)), Ok(Some(2)), Ok(Some(3))];
    assert_eq!(ended.map(|ended| ended.take()), [versions.clone(), versions]);
    assert!(ddss.stats().unknown_outcomes > 0);
}

#[test]
fn segments_of_one_length_have_memory_for_values_together() {
    let cluster = Cluster::scarce(2, 1, 100, |_| ());
    let start = |node: usize| {
        let at = &cluster.members[node];
        Ddss::start(&at.rt, &at.mesh).expect("the channel is free")
    };
    let [ddss, _home] = [0, 1].map(start);
    let spec = Spec { size: 64, model: Model::Write };
    let left = [1, 8].map(|segments| {
        let puts = ddss.clone();
        let done = cluster.members[0].rt.spawn(async move {
            for _ in 0..segments {
                let key = puts.allocate(spec, Placement::On(rank(1))).await.expect("there is memory");
                let segment = puts.attach(key).expect("it is there");
                assert_eq!(puts.put(&segment, &[7; 64]).await, Ok(Some(1)));
            }
        });
        cluster.run(ms(5));
        assert!(done.is_finished());
        all_regions(&cluster.members[0].rt).len()
    });
    assert_eq!(left[0], left[1], "regions that are left");
}

/// Each is too long for the memory of the one before.
#[test]
fn a_segment_that_is_replaced_by_a_longer_one_again_and_again_leaves_no_memory_behind() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let start = |node: usize| {
        let at = &cluster.members[node];
        Ddss::start(&at.rt, &at.mesh).expect("the channel is free")
    };
    let [ddss, home] = [0, 1].map(start);
    let holdings = Rc::new(RefCell::new(None));
    let tells = Rc::clone(&holdings);
    drop(cluster.members[0].rt.spawn(async move {
        let mut before = None;
        for longer in 0..60 {
            let spec = Spec { size: 16_384 + 64 * longer, model: Model::Write };
            let key = ddss.allocate(spec, Placement::On(rank(1))).await.expect("there is memory");
            if let Some(before) = before.replace(key) {
                ddss.release(before).await.expect("nobody else releases it");
            }
        }
        tells.replace(Some(ddss.holdings(rank(1)).await.expect("it is there")));
    }));
    cluster.run(ms(40));
    let (holdings, kept) = (holdings.take().expect("it was told"), home.kept());
    let [(_, bytes)] = kept[..] else { panic!("the last one is kept: {kept:?}") };
    assert!(holdings.held <= 2 * bytes, "{} bytes are registered for {bytes}", holdings.held);
    assert_eq!((home.astray(), home.unfreed()), (0, 0));
}
