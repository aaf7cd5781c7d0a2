//! Segments where the adapters of a node refuse to register memory for a while.

use crate::common::{Cluster, ms, rank, us, without_memory};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Spec};
use weft_protocols::members::{Change, Member, View};
use weft_protocols::rt::sync::mailbox;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};

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
