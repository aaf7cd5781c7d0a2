//! Calls at segments that wait for what does not come: for a node that died, or behind another task of their own node whose segment ends.

use crate::common::{Cluster, ms, rank, us};
use crate::ddss_crash::{MET, NODES, begin};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Held, Key, Model, Placement, Spec};
use weft_protocols::members::{Change, Member, Members, View};
use weft_protocols::rt::sync::mailbox;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Longer than it takes to find out that a node is silent.
const LEASE: Nanos = Nanos::from_millis(20);
/// When something happens to a node.
const HAPPENS: Nanos = Nanos::from_millis(45);

/// What a task had come to, once it had.
type Told<T> = Rc<RefCell<Option<T>>>;

/// Nodes of which the first keeps a segment, and the second has its lock and does nothing more.
struct Locked {
    cluster: Cluster,
    all: Vec<(Members<Sim>, Ddss<Sim>)>,
    key: Rc<Cell<Option<Key>>>,
    held: Rc<RefCell<Option<Held<Sim>>>>,
}

impl Locked {
    fn new(model: Model) -> Locked {
        let cluster = Cluster::new(NODES, 1, Wait::Notify);
        let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, LEASE)).collect();
        let (key, held) = (Rc::new(Cell::new(None)), Rc::new(RefCell::new(None)));
        let (keeps, has, ddss) = (Rc::clone(&key), Rc::clone(&held), all[1].1.clone());
        let rt = cluster.members[1].rt.clone();
        cluster.members[1].at(MET, move || {
            drop(rt.spawn(async move {
                let key = ddss.allocate(Spec { size: 8, model }, Placement::On(rank(0))).await;
                let key = key.expect("there is memory");
                let segment = ddss.attach(key).expect("it is there");
                has.replace(Some(ddss.lock(&segment).await.expect("nobody has it")));
                keeps.set(Some(key));
            }));
        });
        Locked { cluster, all, key, held }
    }

    /// What a node's call with the segment's key comes to, and when. It begins just after something has happened.
    fn calls<T: 'static>(
        &self,
        node: usize,
        at: Nanos,
        call: impl AsyncFnOnce(Ddss<Sim>, Key) -> T + 'static,
    ) -> Told<(Nanos, T)> {
        let (told, key) = (Told::default(), Rc::clone(&self.key));
        let (tells, ddss, rt) =
            (Rc::clone(&told), self.all[node].1.clone(), self.cluster.members[node].rt.clone());
        self.cluster.members[node].at(at, move || {
            drop(rt.clone().spawn(async move {
                let done = call(ddss, key.get().expect("it was made")).await;
                tells.replace(Some((rt.now(), done)));
            }));
        });
        told
    }
}

async fn puts(ddss: Ddss<Sim>, key: Key) -> Result<(), DdssError> {
    ddss.put(&ddss.attach(key)?, &[7; 8]).await.map(drop)
}

async fn gets(ddss: Ddss<Sim>, key: Key) -> Result<(), DdssError> {
    ddss.get(&ddss.attach(key)?, &mut [0; 8]).await.map(drop)
}

/// Nobody else locks anything, so that no lease is renewed: the home alone can find out that the holder is silent.
#[test]
fn a_call_waits_no_longer_than_the_lease_of_a_holder_that_died_also_where_its_home_calls_nothing() {
    for model in [Model::Write, Model::Strict, Model::Read] {
        let is_read = model == Model::Read;
        let locked = Locked::new(model);
        locked.cluster.plan(HAPPENS, Fault::Crash { node: NodeId(1) });
        let put = locked.calls(2, HAPPENS + us(100), puts);
        let got = (model != Model::Write).then(|| locked.calls(3, HAPPENS + us(200), gets));
        locked.cluster.run(HAPPENS + ms(140));
        for ended in [Some(put), got].into_iter().flatten() {
            let ended = ended.take();
            let Some((at, Ok(()))) = ended else { panic!("{model}: {ended:?}") };
            let after = at - HAPPENS;
            assert!(after < ms(50) && (after > LEASE || is_read), "{model}: {after}");
        }
    }
}

/// The first task keeps the lock, whatever becomes of the segment.
#[test]
fn what_waits_behind_another_task_of_its_node_hears_of_the_segments_end() {
    let home_dies = |locked: &Locked| locked.cluster.plan(HAPPENS, Fault::Crash { node: NodeId(0) });
    let is_released = |locked: &Locked| {
        let release = async |ddss: Ddss<Sim>, key| ddss.release(key).await.expect("nobody else releases it");
        drop(locked.calls(2, HAPPENS, release));
    };
    let is_left_out = |locked: &Locked| {
        let cut = Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: Some(ms(60)) };
        locked.cluster.plan(HAPPENS, cut);
        // Nobody leaves out what nobody waits for.
        drop(locked.calls(2, HAPPENS + us(100), async |ddss, _| ddss.holdings(rank(1)).await));
    };
    type Happens<'a> = &'a dyn Fn(&Locked);
    let ends: [(Happens<'_>, DdssError); 3] = [
        (&home_dies, DdssError::Gone(rank(0))),
        (&is_released, DdssError::Released),
        (&is_left_out, DdssError::Out),
    ];
    for (happens, why) in ends {
        let locked = Locked::new(Model::Strict);
        let waiting = [
            locked.calls(1, HAPPENS - us(100), puts),
            locked.calls(1, HAPPENS - us(100), gets),
            locked.calls(1, HAPPENS - us(100), puts),
        ];
        happens(&locked);
        locked.cluster.run(HAPPENS + ms(140));
        let ended = waiting.map(|told| told.take().map(|(_, end)| end));
        assert!(locked.held.borrow().is_some(), "the first task has the lock");
        assert_eq!(ended, [const { None }; 3].map(|_: Option<()>| Some(Err(why.clone()))), "{why}");
    }
}

#[test]
fn a_rank_beyond_the_cluster_is_refused_at_once() {
    let locked = Locked::new(Model::Write);
    let asked = locked.calls(2, HAPPENS, async |ddss, key: Key| {
        let nobody = rank(NODES as usize);
        let spec = key.spec();
        let allocated = ddss.allocate(spec, Placement::On(nobody)).await.map(drop);
        [allocated, ddss.holdings(nobody).await.map(drop)]
    });
    locked.cluster.run(HAPPENS + us(1));
    let no_node = Err(DdssError::NoSuchNode(rank(NODES as usize)));
    assert_eq!(asked.take().map(|(_, refused)| refused), Some([no_node.clone(), no_node]));
}

/// No home answers within a microsecond.
#[test]
fn who_has_the_lock_gets_the_value_however_slowly_its_home_answers() {
    let locked = Locked::new(Model::Temporal(1));
    let (held, told) = (Rc::clone(&locked.held), Told::default());
    let (tells, rt) = (Rc::clone(&told), locked.cluster.members[1].rt.clone());
    locked.cluster.members[1].at(HAPPENS, move || {
        let held = held.take().expect("it has the lock");
        drop(rt.spawn(async move {
            let got = held.get(&mut [0; 8]).await;
            tells.replace(Some(got));
        }));
    });
    let other = locked.calls(2, HAPPENS, gets);
    locked.cluster.run(HAPPENS + ms(20));
    assert_eq!(told.take(), Some(Ok(0)));
    assert_eq!(other.take().map(|(_, got)| got), Some(Err(DdssError::Slow)), "its value may be superseded");
}

/// A majority of its view died at once, and the rest begins anew with it.
#[test]
fn a_node_whose_view_was_lost_is_out_also_in_the_view_that_comes_then() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (at, (tells, changes)) = (&cluster.members[0], mailbox());
    let members = vec![Member { rank: rank(0), incarnation: at.mesh.incarnation() }];
    let begins =
        || Change::Begins { view: View { members: members.clone(), ..View::default() }, left: Vec::new() };
    let ddss = Ddss::start_told(&at.rt, &at.mesh, changes).expect("the channel is free");
    let allocates = || {
        let (told, ddss) = (Told::default(), ddss.clone());
        let tells = Rc::clone(&told);
        drop(at.rt.spawn(async move {
            let key = ddss.allocate(Spec { size: 8, model: Model::Write }, Placement::Local).await;
            tells.replace(Some(key.map(drop)));
        }));
        cluster.run(MET);
        told.take()
    };
    assert!(tells.send(begins()).is_ok());
    assert_eq!((allocates(), ddss.is_out()), (Some(Ok(())), false));
    assert!(tells.send(Change::Lost).is_ok() && tells.send(begins()).is_ok());
    assert_eq!((allocates(), ddss.is_out()), (Some(Err(DdssError::Out)), true));
}
