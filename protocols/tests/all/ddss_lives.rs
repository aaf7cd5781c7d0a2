//! Segments and the lives of nodes: what a user keeps of a home's earlier ones, and what a home that starts late takes of a user's.

use crate::common::{Cluster, all_regions, ms, rank, us};
use crate::ddss_crash::{MET, NODES, VALUE, begin, begin_of, joins};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::ddss::named::{Named, NamedError, Reply, Request};
use weft_protocols::ddss::{Ddss, DdssError, Name, Placement, Segment, Spec};
use weft_protocols::members::Members;
use weft_protocols::transport::Channel;
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// A node crashes, and its next boot has a mesh.
fn begins_anew(cluster: &mut Cluster, node: usize) {
    let id = NodeId(node as u32);
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: id });
    cluster.run(ms(1));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: id });
    cluster.run(Nanos(1));
    cluster.members[node] = cluster.start(id.0);
}

/// What each node has started.
type Started = Vec<(Members<Sim>, Ddss<Sim>)>;

/// Nodes that count their regions, and have met.
fn met() -> (Cluster, Started) {
    let cluster = Cluster::scarce(NODES, 1, 100, |_| ());
    let all = (0..NODES as usize).map(|node| begin(&cluster, node, ms(4))).collect();
    cluster.run(MET);
    (cluster, all)
}

/// So a program may begin anew without its process, again and again.
#[test]
fn of_a_node_that_has_closed_its_mesh_nothing_goes_on() {
    let (cluster, all) = met();
    let (ddss, name) = (all[2].1.clone(), Name(1));
    drop(cluster.members[2].rt.spawn(async move {
        let segment = ddss.open(name, VALUE).await.expect("it fits");
        let _held = ddss.lock(&segment).await;
    }));
    drop(all);
    cluster.run(ms(20));
    cluster.members[2].close_at(cluster.fabric.now() + us(1));
    cluster.run(ms(20));
    assert_eq!(cluster.members[2].rt.audit().tasks, 0);
}

const LIVES: usize = 6;

/// Each life of a home makes segments anew, of the same names or of others. The last ones are known by their names until they are asked for
/// again.
#[test]
fn a_user_keeps_no_memory_for_the_segments_of_a_home_that_died() {
    const SEGMENTS: usize = 4;
    let names = (0..).map(Name).filter(|name| name.home(NODES) == rank(2));
    let names: Vec<Name> = names.take(LIVES * SEGMENTS).collect();
    let same: [&[Name]; LIVES] = [&names[..SEGMENTS]; LIVES];
    let others: [&[Name]; LIVES] = std::array::from_fn(|life| &names[life * SEGMENTS..][..SEGMENTS]);
    for opened in [same, others] {
        let free = free_by_life(opened);
        assert!(free[5] + SEGMENTS >= free[1], "regions that are left, life by life: {free:?}");
    }
}

/// How many regions are left to a user in each life of a home in which it opens segments.
fn free_by_life(opened: [&[Name]; LIVES]) -> [usize; LIVES] {
    let (mut cluster, mut all) = met();
    opened.map(|names| {
        let done = Rc::new(Cell::new(0));
        let (tell, ddss, rt) = (Rc::clone(&done), all[1].1.clone(), cluster.members[1].rt.clone());
        let opened = names.to_vec();
        cluster.members[1].at(cluster.fabric.now() + us(1), move || {
            drop(rt.clone().spawn(async move {
                for name in opened {
                    // That the segment of the life before is gone is told first.
                    while let Err(why) = put(&ddss, name).await {
                        assert!(matches!(why, DdssError::Gone(_) | DdssError::Absent(_)), "{why}");
                        rt.sleep(ms(1)).await;
                    }
                    tell.set(tell.get() + 1);
                }
            }));
        });
        cluster.run(ms(100));
        assert_eq!(done.get(), names.len());
        let free = all_regions(&cluster.members[1].rt).len();
        begins_anew(&mut cluster, 2);
        all[2] = begin(&cluster, 2, ms(4));
        free
    })
}

/// The user comes when the home is there again that kept them: no view tells it who has died.
#[test]
fn a_user_keeps_no_memory_for_the_segments_of_a_home_that_died_before_it_came() {
    const SEGMENTS: usize = 8;
    let (mut cluster, mut all) = met();
    let keys = Rc::new(RefCell::new(Vec::new()));
    let (ddss, tells) = (all[2].1.clone(), Rc::clone(&keys));
    drop(cluster.members[2].rt.spawn(async move {
        for nth in 0..=SEGMENTS as u64 {
            let key = ddss.allocate(spec(Name(nth)), Placement::Local).await.expect("it fits");
            tells.borrow_mut().push(key);
        }
    }));
    cluster.run(ms(5));
    for node in [2, 1] {
        begins_anew(&mut cluster, node);
        all[node] = begin(&cluster, node, ms(4));
        cluster.run(MET + ms(80));
    }
    let keys = keys.take();
    // What one call takes is there after the first one.
    let free = [&keys[..1], &keys[1..]].map(|keys| {
        let (asked, got) = (keys.to_vec(), Rc::new(RefCell::new(Vec::new())));
        let (ddss, tells) = (all[1].1.clone(), Rc::clone(&got));
        drop(cluster.members[1].rt.spawn(async move {
            for key in asked {
                let segment = ddss.attach(key).expect("nobody has told this node");
                for _ in 0..2 {
                    let value = get(&ddss, segment.clone()).await;
                    tells.borrow_mut().push(value);
                }
            }
        }));
        cluster.run(ms(20));
        assert_eq!(got.take(), vec![Err(DdssError::Gone(rank(2))); 2 * keys.len()]);
        all_regions(&cluster.members[1].rt).len()
    });
    assert!(free[1] + SEGMENTS / 2 >= free[0], "regions that are left, before and after: {free:?}");
}

/// Each is of a length of its own: those of one length have memory for values together.
fn spec(name: Name) -> Spec {
    Spec { size: 64 * (1 + name.0 as u32), ..VALUE }
}

async fn put(ddss: &Ddss<Sim>, name: Name) -> Result<Option<u64>, DdssError> {
    let segment = ddss.open(name, spec(name)).await?;
    ddss.put(&segment, &vec![1; segment.spec().size as usize]).await
}

async fn get(ddss: &Ddss<Sim>, segment: Segment<Sim>) -> Result<u64, DdssError> {
    ddss.get(&segment, &mut vec![0; segment.spec().size as usize]).await
}

/// The first node has no segments yet when it is asked, and when who has asked begins anew.
#[test]
fn a_home_that_starts_late_heeds_a_node_that_began_anew_behind_what_its_last_boot_had_asked() {
    let mut cluster = Cluster::new(NODES, 1, Wait::Notify);
    let first = joins(&cluster, 0, ms(4));
    let mut others: Vec<_> = (1..NODES as usize).map(|node| begin(&cluster, node, ms(4))).collect();
    cluster.run(MET);
    let name = (0..).map(Name).find(|name| name.home(NODES) == rank(0)).expect("one is its own");
    let opens = |cluster: &Cluster, ddss: &Ddss<Sim>| {
        let (opened, ddss) = (Rc::new(RefCell::new(None)), ddss.clone());
        let tells = Rc::clone(&opened);
        drop(cluster.members[1].rt.spawn(async move {
            let segment = ddss.open(name, VALUE).await;
            *tells.borrow_mut() = Some(segment.map(drop));
        }));
        opened
    };
    let before = opens(&cluster, &others[0].1);
    cluster.run(ms(1));
    assert_eq!(before.take(), None, "nobody serves it yet");
    begins_anew(&mut cluster, 1);
    others[0] = begin(&cluster, 1, ms(4));
    cluster.run(MET + ms(80));
    let home = &cluster.members[0];
    assert_eq!(home.mesh.resets_of(rank(1)), 1);
    let home = Ddss::start_among(&home.rt, &home.mesh, &first).expect("the channel is free");
    let opened = opens(&cluster, &others[0].1);
    cluster.run(ms(50));
    assert_eq!(opened.take(), Some(Ok(())));
    assert_eq!(home.stats().segments, 1, "nobody had asked for it in this life but the one that is there");
}

/// The user has found the segment by its name, and used it by its key.
#[test]
fn who_opens_the_name_of_a_segment_that_died_with_its_home_is_told_once_however_it_was_opened_before() {
    let (mut cluster, mut all) = met();
    let name = (0..).map(Name).find(|name| name.home(NODES) == rank(2)).expect("one is its own");
    let ddss = all[0].1.clone();
    drop(cluster.members[0].rt.spawn(async move { put(&ddss, name).await.expect("its home is there") }));
    cluster.run(ms(5));
    let told = Rc::new(RefCell::new(Vec::new()));
    let (ddss, tells) = (all[1].1.clone(), Rc::clone(&told));
    drop(cluster.members[1].rt.spawn(async move {
        let key = ddss.lookup(name).await.expect("its home is there").expect("it was opened by its name");
        let got = async { get(&ddss, ddss.attach(key)?).await }.await;
        tells.borrow_mut().push(got);
    }));
    cluster.run(ms(5));
    begins_anew(&mut cluster, 2);
    all[2] = begin(&cluster, 2, ms(4));
    cluster.run(MET + ms(80));
    let (ddss, tells) = (all[1].1.clone(), Rc::clone(&told));
    drop(cluster.members[1].rt.spawn(async move {
        for _ in 0..2 {
            let got = async { get(&ddss, ddss.open(name, spec(name)).await?).await };
            let got = got.await;
            tells.borrow_mut().push(got);
        }
    }));
    cluster.run(ms(20));
    assert_eq!(told.take(), [Ok(1), Err(DdssError::Gone(rank(2))), Ok(0)]);
}

/// Three of the nodes begin, and the fourth never comes.
#[test]
fn what_is_released_is_not_kept_for_a_node_that_has_never_been_there() {
    const ROOM: u32 = 64;
    let cluster = Cluster::narrow(NODES, 1, Wait::Notify, ROOM);
    cluster.plan(Nanos(1), Fault::Crash { node: NodeId(3) });
    let all: Vec<_> = (0..3).map(|node| begin(&cluster, node, ms(4))).collect();
    let released = Rc::new(Cell::new(0));
    let (ddss, counts) = (all[0].1.clone(), Rc::clone(&released));
    drop(cluster.members[0].rt.spawn(async move {
        for _ in 0..ROOM {
            let key = ddss.allocate(VALUE, Placement::On(rank(1))).await.expect("its home is there");
            ddss.release(key).await.expect("nobody else releases it");
            counts.set(counts.get() + 1);
        }
    }));
    cluster.run(MET + ms(100));
    assert_eq!(released.get(), ROOM);
    // There is room for a first message.
    assert_eq!(cluster.members[1].mesh.send(rank(3), Channel(90), &[7]), Ok(()));
}

/// Its home has died before the node came that is asked for it.
#[test]
fn a_value_that_died_with_its_home_is_put_anew_and_its_name_removed_by_a_node_that_came_later() {
    const FIVE: u32 = 5;
    let mut cluster = Cluster::new(FIVE, 1, Wait::Notify);
    let mut all: Vec<_> = (0..FIVE as usize).map(|node| begin_of(FIVE, &cluster, node, ms(4))).collect();
    cluster.run(MET);
    let asks = |cluster: &Cluster, node: usize, ddss: &Ddss<Sim>, requests: Vec<Request>| {
        let (named, told) = (Named::new(&cluster.members[node].rt, ddss), Rc::new(RefCell::new(Vec::new())));
        let tells = Rc::clone(&told);
        drop(cluster.members[node].rt.spawn(async move {
            for request in requests {
                let reply = named.serve(request).await;
                tells.borrow_mut().push(reply);
            }
        }));
        cluster.run(ms(50));
        told.take()
    };
    let put = |name: &str, home| Request::Put {
        name: name.into(),
        size: None,
        model: None,
        home,
        value: b"1".to_vec(),
    };
    // Names that a node keeps which stays there.
    let names = (0..40).map(|number| format!("load-{number}"));
    let made = asks(&cluster, 1, &all[1].1, names.clone().map(|name| put(&name, None)).collect());
    let made: Vec<_> = names.zip(made).collect();
    let kept = |by: usize| {
        let is_kept = move |made: &Result<Reply, NamedError>| matches!(made, Ok(Reply::Put { home, .. }) if *home == rank(by));
        made.iter().filter(move |(_, made)| is_kept(made)).map(|(name, _)| name.clone())
    };
    let names: Vec<String> = kept(2).take(2).chain(kept(4).take(1)).collect();
    let [anew, removed, fresh] = &names[..] else { panic!("they are {names:?}") };
    let remove = |name: &String| Request::Remove { name: name.clone() };
    let dies = rank(4);
    let requests = [anew, removed].map(|name| [remove(name), put(name, Some(dies))]);
    let moved = asks(&cluster, 1, &all[1].1, requests.concat());
    assert!(moved.iter().all(Result::is_ok), "{moved:?}");
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(4) });
    cluster.run(ms(1));
    let get = Request::Get { name: anew.clone(), known: None, wait: Nanos::ZERO };
    // It is left out once somebody asks for it.
    assert_eq!(asks(&cluster, 1, &all[1].1, vec![get.clone()]), [Err(NamedError::Gone(dies))]);
    // Nobody says that a value has died of a name that is to be looked up there, nor of one that is to be kept there.
    let requests = vec![put(fresh, None), remove(fresh), put("another", Some(dies))];
    assert_eq!(asks(&cluster, 1, &all[1].1, requests), [0; 3].map(|_| Err(NamedError::Down(dies))));
    begins_anew(&mut cluster, 0);
    all[0] = begin_of(FIVE, &cluster, 0, ms(4));
    cluster.run(MET + ms(80));
    let told = asks(&cluster, 0, &all[0].1, vec![get.clone(), put(anew, None), get, remove(removed)]);
    assert_eq!(told[0], Err(NamedError::Gone(dies)));
    assert!(matches!(told[1], Ok(Reply::Put { home, .. }) if home == rank(2)), "{:?}", told[1]);
    assert!(matches!(told[2], Ok(Reply::Value { .. })), "{:?}", told[2]);
    assert_eq!(told[3], Ok(Reply::Removed));
}

/// A majority of its view has died, so that its lease is over. Two are heard of once more, and die again before there is another view, which
/// takes three.
#[test]
fn who_waits_for_a_lease_to_take_a_lock_is_told_when_the_view_is_lost() {
    let (mut cluster, all) = met();
    let ends = [false, true].map(|tries| {
        let (ddss, rt, told) = (all[0].1.clone(), cluster.members[0].rt.clone(), Rc::new(RefCell::new(None)));
        let tells = Rc::clone(&told);
        drop(cluster.members[0].rt.spawn(async move {
            let key = ddss.allocate(VALUE, Placement::Local).await.expect("it fits");
            let segment = ddss.attach(key).expect("it is there");
            rt.sleep(ms(40)).await;
            let locked = match tries {
                true => ddss.try_lock(&segment).await.map(drop),
                false => ddss.lock(&segment).await.map(drop),
            };
            tells.replace(Some(locked));
        }));
        told
    });
    cluster.run(ms(5));
    let others = 1..NODES as usize;
    for node in others {
        cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(node as u32) });
    }
    cluster.run(ms(60));
    let back = 1..3;
    assert_eq!(ends.each_ref().map(|end| end.take()), [None, None], "there is no lease");
    for node in back.clone() {
        cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(node as u32) });
    }
    cluster.run(Nanos(1));
    let mut again = Vec::new();
    for node in back.clone() {
        cluster.members[node] = cluster.start(node as u32);
        again.push(joins(&cluster, node, ms(4)));
    }
    let heard = (0..1_000).any(|_| {
        cluster.run(us(20));
        all[0].1.is_out()
    });
    assert!(heard, "they say that they have no view");
    back.for_each(|node| cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(node as u32) }));
    cluster.run(ms(100));
    assert!(all[0].0.view().is_none() && again.iter().all(|members| members.view().is_none()));
    assert_eq!(ends.map(|end| end.take()), [(); 2].map(|()| Some(Err(DdssError::Out))));
}
