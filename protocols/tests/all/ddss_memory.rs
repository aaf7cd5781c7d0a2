//! Segments where the adapters of a node refuse to register memory for a while.

use crate::common::{Cluster, all_regions, ms, rank, us, use_up};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Placement, Spec};
use weft_protocols::members::{Change, Member, View};
use weft_protocols::rt::sync::mailbox;
use weft_protocols::transport::MeshConfig;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::Nanos;

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
    let (uses, rt) = (use_up(&cluster.members[2], 3), cluster.members[2].rt.clone());
    drop(rt.clone().spawn(async move {
        rt.sleep_until(ms(19)).await;
        let regions = all_regions(&rt);
        uses();
        rt.sleep_until(ms(30) + us(300)).await;
        drop(regions);
    }));
    cluster.run(ms(60));
    let [(answered, released), (_, anew)] = told.take().try_into().expect("both are answered");
    assert!((ms(31)..ms(32)).contains(&answered), "{answered}");
    assert_eq!((released, anew), (Err(DdssError::Released), Ok(())));
}

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
