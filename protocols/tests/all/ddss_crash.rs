//! Segments whose nodes die: what only the dead kept is gone by name, a lock that a dead one had goes on once its lease has run out, and
//! nobody waits for ever.

use crate::common::{Cluster, Dice, ms, rank, seeds, us};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Held, Model, Name, Placement, Segment, Spec};
use weft_protocols::members::{Members, MembersConfig};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const NODES: u32 = 4;
/// Counters, and as many values.
const EACH: u64 = 4;
const CALLS: usize = 40;
/// All nodes have met by then.
const MET: Nanos = Nanos::from_millis(40);
/// Longer than it takes to find out that a node is silent.
const LEASE: Nanos = Nanos::from_millis(20);
const COUNTER: Spec = Spec { size: 8, model: Model::Null };
const VALUE: Spec = Spec { size: 64, model: Model::Write };

fn begin(cluster: &Cluster, node: usize, lease: Nanos) -> (Members<Sim>, Ddss<Sim>) {
    let member = &cluster.members[node];
    let config = MembersConfig { lease, drift: us(100), patience: ms(6), ..MembersConfig::new(NODES) };
    let members = Members::start(&member.rt, &member.mesh, config).expect("it starts");
    let ddss = Ddss::start_among(&member.rt, &member.mesh, &members).expect("the channel is free");
    (members, ddss)
}

/// Counts by one under the segment's lock: what stood there.
async fn count(ddss: &Ddss<Sim>, counter: u64) -> Result<u64, DdssError> {
    let segment = ddss.open(Name(counter), COUNTER).await?;
    let held = ddss.lock(&segment).await?;
    let mut word = [0; 8];
    held.get(&mut word).await?;
    let found = u64::from_ne_bytes(word);
    held.put(&(found + 1).to_ne_bytes()).await?;
    // What is written under the lock is there, whatever becomes of the lock.
    match held.unlock().await {
        Ok(()) | Err(DdssError::Gone(_)) => Ok(found),
        Err(why) => Err(why),
    }
}

/// What applications saw.
#[derive(Default)]
struct Seen {
    /// By counter.
    found: [Vec<u64>; EACH as usize],
    /// Nodes whose segments are gone.
    gone: BTreeSet<usize>,
    ended: usize,
    last: [Option<u64>; EACH as usize],
    wrong: Vec<String>,
}

impl Seen {
    fn failed(&mut self, why: DdssError) {
        match why {
            DdssError::Gone(node) => drop(self.gone.insert(node.index())),
            other => self.wrong.push(other.to_string()),
        }
    }
}

async fn calls(ddss: Ddss<Sim>, mut dice: Dice, mark: u64, seen: Rc<RefCell<Seen>>) {
    for call in 0..CALLS as u64 {
        let which = dice.below(EACH);
        if dice.below(2) == 0 {
            let counted = count(&ddss, which).await;
            match counted {
                Ok(found) => seen.borrow_mut().found[which as usize].push(found),
                Err(why) => seen.borrow_mut().failed(why),
            }
            continue;
        }
        let puts = dice.below(2) == 0;
        let called = async {
            let segment = ddss.open(Name(EACH + which), VALUE).await?;
            if puts {
                let word = (mark << 32 | call).to_ne_bytes();
                return ddss.put(&segment, word.repeat(8).as_slice()).await.map(drop);
            }
            let mut value = [0; 64];
            ddss.get(&segment, &mut value).await?;
            if value.chunks_exact(8).any(|word| word != &value[..8]) {
                seen.borrow_mut().wrong.push(format!("a torn value: {value:?}"));
            }
            Ok(())
        };
        if let Err(why) = called.await {
            seen.borrow_mut().failed(why);
        }
    }
    seen.borrow_mut().ended += 1;
}

async fn looks(ddss: Ddss<Sim>, seen: Rc<RefCell<Seen>>) {
    for counter in 0..EACH {
        // It takes the lock, so that it shows that nobody has it.
        match count(&ddss, counter).await {
            Ok(found) => seen.borrow_mut().last[counter as usize] = Some(found),
            Err(why) => seen.borrow_mut().failed(why),
        }
    }
}

#[derive(Default)]
struct Came {
    gone: usize,
    kept: usize,
    /// Counts that a node made and did not live to tell.
    untold: usize,
}

/// Applications of four nodes count and put; one node dies, and mostly a link between two others is cut about then.
fn run(seed: u64) -> Result<Came, String> {
    let mut dice = Dice::new(seed);
    let wait = if dice.below(2) == 0 { Wait::Poll } else { Wait::Notify };
    let cluster = Cluster::new(NODES, seed, wait);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, ms(4))).collect();
    let (seen, dying) = (Rc::new(RefCell::new(Seen::default())), Rc::new(RefCell::new(Seen::default())));
    let dies = dice.below(NODES.into()) as usize;
    let lives: Vec<usize> = (0..NODES as usize).filter(|node| *node != dies).collect();
    for (node, (_, ddss)) in all.iter().enumerate() {
        for task in 0..2 {
            let mark = (node as u64) << 4 | task;
            let (rt, ddss, dice) =
                (cluster.members[node].rt.clone(), ddss.clone(), Dice::new(seed << 8 | mark));
            let seen = Rc::clone(if node == dies { &dying } else { &seen });
            cluster.members[node].at(MET, move || drop(rt.spawn(calls(ddss, dice, mark, seen))));
        }
    }
    let crash = MET + us(dice.below(1_000));
    cluster.plan(crash, Fault::Crash { node: NodeId(dies as u32) });
    if dice.below(4) > 0 {
        // Not of the one that proposes views: the members go on for as long as the link is cut.
        let link = Link::Pair(NodeId(lives[1] as u32), NodeId(lives[2] as u32));
        let at = Nanos(crash.0.saturating_sub(dice.below(300_000)).max(1));
        cluster.plan(at, Fault::Cut { link, way: Way::Both, lasts: Some(us(500 + dice.below(12_000))) });
    }
    let (ddss, rt, saw) = (all[lives[0]].1.clone(), cluster.members[lives[0]].rt.clone(), Rc::clone(&seen));
    cluster.members[lives[0]].at(ms(300), move || drop(rt.spawn(looks(ddss, saw))));
    cluster.run(ms(350));
    let (seen, dying) = (seen.borrow(), dying.borrow());
    if !seen.wrong.is_empty() || seen.gone.iter().any(|node| *node != dies) {
        return Err(format!("n{dies} died: {:?}, gone: {:?}", seen.wrong, seen.gone));
    }
    if seen.ended < 6 {
        return Err(format!("{} of 6 applications have ended", seen.ended));
    }
    for node in &lives {
        let ddss = &all[*node].1;
        let left = (ddss.unanswered(), ddss.waiting(), ddss.stats().malformed);
        if left != (0, 0, 0) {
            return Err(format!("n{node}: unanswered, waiting, malformed: {left:?}"));
        }
    }
    let mut came = Came::default();
    for counter in 0..EACH as usize {
        let mut found = [&seen.found[counter][..], &dying.found[counter]].concat();
        found.sort_unstable();
        found.dedup();
        let told = seen.found[counter].len() + dying.found[counter].len();
        if found.len() < told {
            return Err(format!("counter {counter}: two counted from the same: {found:?}"));
        }
        let home = Name(counter as u64).home(NODES).index();
        match seen.last[counter] {
            None if home == dies => came.gone += 1,
            None => return Err(format!("counter {counter} is nowhere")),
            // One or two of the node that died, whose applications had no time to say so.
            Some(last) if (told as u64..=told as u64 + 2).contains(&last) => {
                came.kept += 1;
                came.untold += last as usize - told;
            }
            Some(last) => return Err(format!("counter {counter} is {last} after {told}: {found:?}")),
        }
    }
    Ok(came)
}

#[test]
fn nobody_waits_for_a_node_that_died_and_no_count_of_another_is_lost() {
    let mut all = Came::default();
    for seed in seeds(60) {
        let Came { gone, kept, untold } = run(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        (all.gone, all.kept, all.untold) = (all.gone + gone, all.kept + kept, all.untold + untold);
    }
    let Came { gone, kept, untold } = all;
    println!("{gone} gone, {kept} kept, {untold} untold");
    assert!(gone > 0 && kept > gone && untold > 0, "{gone} gone, {kept} kept, {untold} untold");
}

/// A counter on node 0, opened at another node.
async fn counter(ddss: &Ddss<Sim>) -> Segment<Sim> {
    let name = (0..).map(Name).find(|name| name.home(NODES) == rank(0)).expect("there are many names");
    ddss.open(name, COUNTER).await.expect("its home is there")
}

/// A node has a lock when it is cut off; another one waits for it, and gets it. Returns when that was, and whether the lock of the first
/// counted at that moment.
fn cut_off(dies: bool) -> (Nanos, bool, Result<u64, DdssError>) {
    let cluster = Cluster::new(NODES, 1, Wait::Notify);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, LEASE)).collect();
    let had: Rc<RefCell<Option<Held<Sim>>>> = Rc::default();
    let (keep, ddss, rt) = (Rc::clone(&had), all[1].1.clone(), cluster.members[1].rt.clone());
    cluster.members[1].at(MET, move || {
        drop(rt.spawn(async move {
            let held = ddss.lock(&counter(&ddss).await).await.expect("nobody has it");
            keep.replace(Some(held));
        }));
    });
    let cut = MET + ms(5);
    let fault = if dies {
        Fault::Crash { node: NodeId(1) }
    } else {
        Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: Some(ms(60)) }
    };
    cluster.plan(cut, fault);
    let got = Rc::new(Cell::new(None));
    let (tell, first, ddss, rt) =
        (Rc::clone(&got), Rc::clone(&had), all[2].1.clone(), cluster.members[2].rt.clone());
    cluster.members[2].at(cut + us(100), move || {
        let asks = rt.clone();
        drop(rt.spawn(async move {
            let held = ddss.lock(&counter(&ddss).await).await.expect("it is granted");
            let counted = first.borrow().as_ref().is_some_and(Held::is_valid);
            tell.set(Some((asks.now(), counted)));
            held.put(&7_u64.to_ne_bytes()).await.expect("its home is there");
            held.unlock().await.expect("its home is there");
        }));
    });
    // The one that was cut off wakes up and puts.
    let late = Rc::new(RefCell::new(None));
    if !dies {
        let (tell, rt) = (Rc::clone(&late), cluster.members[1].rt.clone());
        cluster.members[1].at(cut + ms(80), move || {
            drop(rt.spawn(async move {
                let held = had.borrow_mut().take().expect("it had the lock");
                let put = held.put(&1_u64.to_ne_bytes()).await;
                tell.replace(Some((held.is_valid(), put)));
            }));
        });
    }
    let last = Rc::new(RefCell::new(Err(DdssError::Closed)));
    let (tell, ddss, rt) = (Rc::clone(&last), all[3].1.clone(), cluster.members[3].rt.clone());
    cluster.members[3].at(cut + ms(120), move || {
        drop(rt.spawn(async move {
            let mut word = [0; 8];
            let got = ddss.get(&counter(&ddss).await, &mut word).await;
            drop(tell.replace(got.map(|_| u64::from_ne_bytes(word))));
        }));
    });
    cluster.run(cut + ms(140));
    if !dies {
        assert_eq!(late.take(), Some((false, Err(DdssError::Out))), "the stale holder is told");
    }
    let (at, counted) = got.get().expect("it is granted");
    (at - cut, counted, last.replace(Err(DdssError::Closed)))
}

#[test]
fn a_lock_is_granted_on_once_the_lease_of_a_holder_that_is_silent_has_run_out_and_it_does_no_harm() {
    for dies in [true, false] {
        let (after, counted, value) = cut_off(dies);
        println!("granted {after} after the cut");
        assert!(!counted || dies, "two held the lock");
        assert!(after > LEASE && after < ms(50), "{after}");
        assert_eq!(value, Ok(7));
    }
}

#[test]
fn a_node_that_died_and_begins_anew_is_refused_and_a_release_does_not_wait_for_it() {
    let mut cluster = Cluster::new(NODES, 1, Wait::Notify);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, LEASE)).collect();
    let key = Rc::new(Cell::new(None));
    let (tell, ddss, rt) = (Rc::clone(&key), all[0].1.clone(), cluster.members[0].rt.clone());
    cluster.members[0].at(MET, move || {
        drop(rt.spawn(async move {
            let key = ddss.allocate(VALUE, Placement::Local).await.expect("it fits");
            ddss.put(&ddss.attach(key).expect("its own"), &[5; 64]).await.expect("it is there");
            tell.set(Some(key));
        }));
    });
    cluster.plan(MET + ms(5), Fault::Crash { node: NodeId(2) });
    // Somebody waits for the dead one: a call to it ends by name.
    let gone = Rc::new(RefCell::new(None));
    let (tell, ddss, rt) = (Rc::clone(&gone), all[1].1.clone(), cluster.members[1].rt.clone());
    cluster.members[1].at(MET + ms(6), move || {
        drop(rt.spawn(async move {
            let asked = ddss.holdings(rank(2)).await;
            tell.replace(Some(asked));
        }));
    });
    let released = Rc::new(RefCell::new(None));
    let (tell, ddss, rt, whose) =
        (Rc::clone(&released), all[3].1.clone(), cluster.members[3].rt.clone(), Rc::clone(&key));
    cluster.members[3].at(MET + ms(130), move || {
        drop(rt.spawn(async move {
            let (key, mut value) = (whose.get().expect("it was allocated"), [0; 64]);
            let got = ddss.get(&ddss.attach(key).expect("a key is a key"), &mut value).await;
            let released = ddss.release(key).await;
            tell.replace(Some((got.map(drop), value, released)));
        }));
    });
    cluster.run(MET + ms(60));
    assert_eq!(gone.take(), Some(Err(DdssError::Gone(rank(2)))));
    let refused = Rc::new(RefCell::new(Vec::new()));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(2) });
    cluster.run(ms(1));
    cluster.members[2] = cluster.start(2);
    let (_, ddss) = begin(&cluster, 2, LEASE);
    let (tell, rt, key) = (Rc::clone(&refused), cluster.members[2].rt.clone(), Rc::clone(&key));
    cluster.members[2].at(cluster.fabric.now() + ms(50), move || {
        drop(rt.spawn(async move {
            let segment = ddss.attach(key.get().expect("it was allocated")).expect("a key is a key");
            let put = ddss.put(&segment, &[6; 64]).await;
            tell.borrow_mut().push(put.map(drop));
            let name = (0..).map(Name).find(|name| name.home(NODES) == rank(0)).expect("there are many");
            let opened = ddss.open(name, VALUE).await;
            tell.borrow_mut().push(opened.map(drop));
        }));
    });
    cluster.run(ms(80));
    assert_eq!(refused.take(), [Err(DdssError::Out), Err(DdssError::Out)]);
    // The value is what it was, and the release ends.
    assert_eq!(released.take(), Some((Ok(()), [5; 64], Ok(()))));
}
