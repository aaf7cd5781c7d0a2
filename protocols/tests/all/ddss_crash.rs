//! Segments whose nodes die: what only the dead kept is gone by name, a lock that a dead one had goes on once its lease has run out, and
//! nobody waits for ever.

use crate::common::{Cluster, Dice, ms, rank, seeds, us};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Held, Key, Model, Name, Placement, Segment, Spec};
use weft_protocols::members::{Members, MembersConfig};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

pub const NODES: u32 = 4;
/// Counters, and as many values.
const EACH: u64 = 4;
const CALLS: usize = 40;
/// All nodes have met by then.
pub const MET: Nanos = Nanos::from_millis(40);
/// Longer than it takes to find out that a node is silent.
const LEASE: Nanos = Nanos::from_millis(20);
const COUNTER: Spec = Spec { size: 8, model: Model::Null };
pub const VALUE: Spec = Spec { size: 64, model: Model::Write };
const VERSIONS: Spec = Spec { size: 64, model: Model::Delta(1) };

pub fn joins(cluster: &Cluster, node: usize, lease: Nanos) -> Members<Sim> {
    joins_of(NODES, cluster, node, lease)
}

fn joins_of(nodes: u32, cluster: &Cluster, node: usize, lease: Nanos) -> Members<Sim> {
    let member = &cluster.members[node];
    let config = MembersConfig { lease, drift: us(100), patience: ms(6), ..MembersConfig::new(nodes) };
    Members::start(&member.rt, &member.mesh, config).expect("it starts")
}

pub fn begin(cluster: &Cluster, node: usize, lease: Nanos) -> (Members<Sim>, Ddss<Sim>) {
    begin_of(NODES, cluster, node, lease)
}

/// The same of so many nodes.
pub fn begin_of(nodes: u32, cluster: &Cluster, node: usize, lease: Nanos) -> (Members<Sim>, Ddss<Sim>) {
    let (member, members) = (&cluster.members[node], joins_of(nodes, cluster, node, lease));
    let ddss = Ddss::start_among(&member.rt, &member.mesh, &members).expect("the channel is free");
    (members, ddss)
}

/// What tells a segment from those that had its name before.
type Life = [u8; Key::BYTES];

/// Counts by one under the segment's lock: what stood there, and in which segment.
async fn count(ddss: &Ddss<Sim>, counter: u64) -> Result<(Life, u64), DdssError> {
    let segment = ddss.open(Name(counter), COUNTER).await?;
    let mut held = ddss.lock(&segment).await?;
    let mut word = [0; 8];
    held.get(&mut word).await?;
    let found = u64::from_ne_bytes(word);
    held.put(&(found + 1).to_ne_bytes()).await?;
    // What is written under the lock is there, whatever becomes of the lock.
    match held.unlock().await {
        Ok(()) | Err(DdssError::Gone(_)) => Ok((segment.key().to_bytes(), found)),
        Err(why) => Err(why),
    }
}

/// What applications saw.
#[derive(Default)]
struct Seen {
    /// By counter.
    found: BTreeMap<Life, Vec<u64>>,
    /// Nodes whose segments are gone.
    gone: BTreeSet<usize>,
    ended: usize,
    last: [Option<(Life, u64)>; EACH as usize],
    /// By node.
    wrong: Vec<(usize, String)>,
    /// What the look at the end was told instead of a counter.
    looked: Vec<String>,
}

impl Seen {
    fn failed(&mut self, at: usize, why: DdssError) {
        match why {
            // Absent: a node that is back is connected, and no view has it yet.
            DdssError::Gone(node) | DdssError::Absent(node) => drop(self.gone.insert(node.index())),
            other => self.wrong.push((at, other.to_string())),
        }
    }
}

/// Puts a value, or gets one and looks whether it is whole; under delta the version before it as well.
async fn value(ddss: &Ddss<Sim>, which: u64, put: Option<u64>) -> Result<Option<String>, DdssError> {
    let spec = if which < EACH { VALUE } else { VERSIONS };
    let segment = ddss.open(Name(EACH + which), spec).await?;
    if let Some(word) = put {
        ddss.put(&segment, word.to_ne_bytes().repeat(8).as_slice()).await?;
        return Ok(None);
    }
    let mut value = [0; 64];
    let whole = |value: &[u8; 64]| value.chunks_exact(8).all(|word| word == &value[..8]);
    let mut versions = vec![ddss.get(&segment, &mut value).await?];
    let mut torn = !whole(&value);
    for back in 0..=spec.model.behind() {
        if which >= EACH {
            versions.push(ddss.get_earlier(&segment, back, &mut value).await?);
            torn |= !whole(&value);
        }
    }
    Ok(torn.then(|| format!("a torn value at versions {versions:?}: {value:?}")))
}

async fn calls(node: usize, ddss: Ddss<Sim>, mut dice: Dice, mark: u64, seen: Rc<RefCell<Seen>>) {
    for call in 0..CALLS as u64 {
        let which = dice.below(EACH);
        if dice.below(2) == 0 {
            let counted = count(&ddss, which).await;
            match counted {
                Ok((life, found)) => seen.borrow_mut().found.entry(life).or_default().push(found),
                Err(why) => seen.borrow_mut().failed(node, why),
            }
            continue;
        }
        let puts = (dice.below(2) == 0).then_some(mark << 32 | call);
        match value(&ddss, which + EACH * dice.below(2), puts).await {
            Ok(torn) => seen.borrow_mut().wrong.extend(torn.map(|torn| (node, torn))),
            Err(why) => seen.borrow_mut().failed(node, why),
        }
    }
    seen.borrow_mut().ended += 1;
}

async fn looks(node: usize, ddss: Ddss<Sim>, seen: Rc<RefCell<Seen>>) {
    for counter in 0..EACH {
        // It takes the lock, so that it shows that nobody has it. The first call may be told that the segment died.
        for _ in 0..2 {
            match count(&ddss, counter).await {
                Ok(found) => {
                    seen.borrow_mut().last[counter as usize] = Some(found);
                    break;
                }
                Err(why) => {
                    seen.borrow_mut().looked.push(format!("n{node}, counter {counter}: {why}"));
                    seen.borrow_mut().failed(node, why);
                }
            }
        }
    }
}

#[derive(Default)]
struct Came {
    gone: usize,
    kept: usize,
    /// Counts that a node made and did not live to tell.
    untold: usize,
    /// Counters that began again at a home that was back.
    anew: usize,
    /// Nodes that live and were left out.
    left_out: usize,
}

/// A cluster on which applications count and put.
struct Storm {
    cluster: Cluster,
    all: Vec<(Members<Sim>, Ddss<Sim>)>,
    /// What those saw that lived, and those that did not.
    seen: Rc<RefCell<Seen>>,
    dying: Rc<RefCell<Seen>>,
    seed: u64,
}

impl Storm {
    fn calls(&self, node: usize, life: u64, at: Nanos, seen: &Rc<RefCell<Seen>>) {
        for task in 0..2 {
            let mark = life << 8 | (node as u64) << 4 | task;
            let (rt, ddss) = (self.cluster.members[node].rt.clone(), self.all[node].1.clone());
            let (dice, seen) = (Dice::new(self.seed << 16 | mark), Rc::clone(seen));
            self.cluster.members[node].at(at, move || drop(rt.spawn(calls(node, ddss, dice, mark, seen))));
        }
    }

    /// Nodes that live and that the members have left out all the same: they do so where a link is cut for longer than they are patient. One that
    /// asks nobody does not know it.
    fn left_out(&self, dies: usize, deaths: u64) -> BTreeSet<usize> {
        let views = self.all.iter().filter_map(|(members, _)| members.view());
        let latest = views.max_by_key(|view| view.id.number);
        let is_out = |members: &Members<Sim>| {
            members.is_out() || latest.as_ref().is_some_and(|view| !view.contains(members.me()))
        };
        let lives = |node: &usize| *node != dies || deaths > 0;
        (0..NODES as usize).filter(lives).filter(|node| is_out(&self.all[*node].0)).collect()
    }

    /// In which view each node acts.
    fn views(&self) -> String {
        let view = |members: &Members<Sim>| members.view().map(|view| (view.id.number, view.members));
        self.all.iter().map(|(members, _)| format!("{:?} {}\n", view(members), members.is_out())).collect()
    }

    /// A node that died is there again after a while.
    fn comes_back(&mut self, node: usize, away: Nanos) {
        self.cluster.run(away);
        self.cluster.plan(self.cluster.fabric.now(), Fault::Restart { node: NodeId(node as u32) });
        self.cluster.run(Nanos(1));
        self.cluster.members[node] = self.cluster.start(node as u32);
        self.all[node] = begin(&self.cluster, node, ms(4));
    }
}

/// Applications of four nodes count and put; one node dies, and mostly a link between two others is cut about then. Mostly it comes back,
/// and sometimes that one dies, too, and the next one comes.
fn run(seed: u64) -> Result<Came, String> {
    let mut dice = Dice::new(seed);
    let wait = if dice.below(2) == 0 { Wait::Poll } else { Wait::Notify };
    let cluster = Cluster::new(NODES, seed, wait);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, ms(4))).collect();
    let (seen, dying) = (Rc::new(RefCell::new(Seen::default())), Rc::new(RefCell::new(Seen::default())));
    let mut storm = Storm { cluster, all, seen: Rc::clone(&seen), dying: Rc::clone(&dying), seed };
    let dies = dice.below(NODES.into()) as usize;
    let lives: Vec<usize> = (0..NODES as usize).filter(|node| *node != dies).collect();
    for node in 0..NODES as usize {
        let seen = if node == dies { &storm.dying } else { &storm.seen };
        storm.calls(node, 0, MET, seen);
    }
    let crash = MET + us(dice.below(1_000));
    storm.cluster.plan(crash, Fault::Crash { node: NodeId(dies as u32) });
    if dice.below(4) > 0 {
        // Not of the one that proposes views: the members go on for as long as the link is cut.
        let link = Link::Pair(NodeId(lives[1] as u32), NodeId(lives[2] as u32));
        let at = Nanos(crash.0.saturating_sub(dice.below(300_000)).max(1));
        let lasts = Some(us(500 + dice.below(12_000)));
        storm.cluster.plan(at, Fault::Cut { link, way: Way::Both, lasts });
    }
    storm.cluster.run(crash);
    let deaths = [0, 1, 1, 2][dice.below(4) as usize];
    for life in 1..=deaths {
        storm.comes_back(dies, us(1 + dice.below(10_000)));
        let (now, is_last) = (storm.cluster.fabric.now(), life == deaths);
        storm.calls(dies, life, now + us(1), if is_last { &storm.seen } else { &storm.dying });
        if !is_last {
            // While what the first left is taken away, or after that.
            let again = us(100 + dice.below(15_000));
            storm.cluster.plan(now + again, Fault::Crash { node: NodeId(dies as u32) });
            storm.cluster.run(again);
        }
    }
    // Planned for all, since one that sleeps sees nothing from outside: the first that the members have not left out looks.
    let all: Rc<[_]> = lives.iter().map(|node| (*node, storm.all[*node].clone())).collect();
    for node in lives {
        let (rt, saw, all) = (storm.cluster.members[node].rt.clone(), Rc::clone(&seen), Rc::clone(&all));
        storm.cluster.members[node].at(ms(300), move || {
            // One that was left out and has asked nobody since does not know it: its calls end with that.
            let views = all.iter().filter_map(|(_, (members, _))| members.view());
            let Some(latest) = views.max_by_key(|view| view.id.number) else { return };
            let takes_part = |members: &Members<Sim>| latest.contains(members.me());
            let Some((first, (_, ddss))) = all.iter().find(|(_, (members, _))| takes_part(members)) else {
                return;
            };
            if *first == node {
                drop(rt.spawn(looks(node, ddss.clone(), saw)));
            }
        });
    }
    storm.cluster.run(ms(400));
    judge(&storm, dies, deaths).map_err(|why| format!("n{dies} died and came back {deaths} times: {why}"))
}

fn judge(storm: &Storm, dies: usize, deaths: u64) -> Result<Came, String> {
    let (seen, dying) = (storm.seen.borrow(), storm.dying.borrow());
    let left_out = storm.left_out(dies, deaths);
    let may_be_gone = |node: &usize| *node == dies || left_out.contains(node);
    // The answer to a put may be lost with a link, and nobody can know what became of it.
    let is_excused = |(node, why): &(usize, String)| {
        *why == DdssError::Unknown.to_string()
            || left_out.contains(node) && *why == DdssError::Out.to_string()
    };
    if !seen.wrong.iter().all(is_excused) || !seen.gone.iter().all(may_be_gone) {
        return Err(format!("{:?}, gone: {:?}, left out: {left_out:?}", seen.wrong, seen.gone));
    }
    let live: Vec<usize> = (0..NODES as usize).filter(|node| *node != dies || deaths > 0).collect();
    if seen.ended < 2 * live.len() {
        return Err(format!("{} of {} applications have ended", seen.ended, 2 * live.len()));
    }
    for node in &live {
        let ddss = &storm.all[*node].1;
        let left = (ddss.unanswered(), ddss.waiting(), ddss.stats().malformed, ddss.stats().out_of_turn);
        if left != (0, 0, 0, 0) {
            return Err(format!("n{node}: unanswered, waiting, malformed, out of turn: {left:?}"));
        }
    }
    let mut came = Came { left_out: left_out.len(), ..Came::default() };
    let mut told = BTreeMap::<Life, Vec<u64>>::new();
    for (life, found) in seen.found.iter().chain(&dying.found) {
        told.entry(*life).or_default().extend(found);
    }
    for found in told.values_mut() {
        found.sort_unstable();
        if found.windows(2).any(|two| two[0] == two[1]) {
            return Err(format!("two counted from the same: {found:?}"));
        }
    }
    for (counter, last) in seen.last.iter().enumerate() {
        let home = Name(counter as u64).home(NODES).index();
        let Some((life, last)) = last else {
            if !left_out.contains(&home) && (home != dies || deaths > 0) {
                return Err(format!("counter {counter} is nowhere: {:?}; {}", seen.looked, storm.views()));
            }
            came.gone += 1;
            continue;
        };
        // Each life has two applications that may have had no time to say that they counted.
        let told = told.get(life).map_or(0, Vec::len) as u64;
        let lives = deaths.max(1) + left_out.len() as u64;
        if !(told..=told + 2 * lives).contains(last) {
            return Err(format!("counter {counter} is {last} after {told}"));
        }
        came.untold += (last - told) as usize;
        if home == dies { came.anew += 1 } else { came.kept += 1 }
    }
    Ok(came)
}

#[test]
fn nobody_waits_for_a_node_that_died_and_no_count_of_another_is_lost_also_when_it_is_back() {
    let (mut all, mut failed, mut storms) = (Came::default(), Vec::new(), 0);
    for seed in seeds(60) {
        storms += 1;
        let came = match run(seed) {
            Ok(came) => came,
            Err(why) => {
                failed.push(format!("seed {seed}: {why}"));
                continue;
            }
        };
        (all.gone, all.kept) = (all.gone + came.gone, all.kept + came.kept);
        (all.untold, all.anew) = (all.untold + came.untold, all.anew + came.anew);
        all.left_out += came.left_out;
    }
    assert!(failed.is_empty(), "{} of {storms} storms: {}", failed.len(), failed.join("\n"));
    let Came { gone, kept, untold, anew, left_out } = all;
    let came = format!("{gone} gone, {kept} kept, {untold} untold, {anew} anew, {left_out} left out alive");
    println!("{came}");
    assert!(gone > 0 && kept > gone && untold > 0 && anew > gone && left_out * 20 <= storms, "{came}");
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
            let mut held = ddss.lock(&counter(&ddss).await).await.expect("it is granted");
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
                let mut held = had.borrow_mut().take().expect("it had the lock");
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

/// A node puts a value and takes its lock, and dies; whoever asks it meanwhile is told so. It comes back at once, and has a part in the
/// segments again: what it does first waits until its lock is free.
#[test]
fn a_node_that_is_back_uses_segments_again_once_its_lock_has_gone_on_and_what_it_kept_is_gone_by_name() {
    let mut cluster = Cluster::new(NODES, 1, Wait::Notify);
    let mut all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, LEASE)).collect();
    let keys = Rc::new(Cell::new(None));
    let (tell, ddss, rt) = (Rc::clone(&keys), all[2].1.clone(), cluster.members[2].rt.clone());
    cluster.members[2].at(MET, move || {
        drop(rt.spawn(async move {
            let key = ddss.allocate(VALUE, Placement::On(rank(0))).await.expect("it fits");
            let own = ddss.allocate(VALUE, Placement::Local).await.expect("it fits");
            for key in [key, own] {
                ddss.put(&ddss.attach(key).expect("a key is a key"), &[5; 64]).await.expect("it is there");
            }
            let held = ddss.lock(&ddss.attach(key).expect("a key is a key")).await.expect("nobody has it");
            tell.set(Some((key, own)));
            ddss.bind(Name(8), own).await.expect("its name is free");
            std::future::pending::<()>().await;
            drop(held);
        }));
    });
    let crash = MET + ms(5);
    cluster.plan(crash, Fault::Crash { node: NodeId(2) });
    // Somebody waits for the dead one: a call to it ends by name.
    let gone = Rc::new(RefCell::new(Vec::new()));
    let (tell, ddss, rt) = (Rc::clone(&gone), all[1].1.clone(), cluster.members[1].rt.clone());
    cluster.members[1].at(crash + ms(1), move || {
        drop(rt.spawn(async move {
            let asked = ddss.holdings(rank(2)).await;
            tell.borrow_mut().push(asked.map(drop));
        }));
    });
    cluster.run(crash + ms(2));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(2) });
    cluster.run(Nanos(1));
    cluster.members[2] = cluster.start(2);
    all[2] = begin(&cluster, 2, LEASE);
    let (key, own) = keys.get().expect("they were allocated");
    let ends = Rc::new(RefCell::new(Vec::new()));
    let (tell, ddss, rt) = (Rc::clone(&ends), all[2].1.clone(), cluster.members[2].rt.clone());
    cluster.members[2].at(cluster.fabric.now() + us(1), move || {
        let (asks, rt) = (rt.clone(), rt);
        drop(rt.spawn(async move {
            let segment = ddss.attach(key).expect("a key is a key");
            let first = ddss.put(&segment, &[6; 64]).await;
            let when = asks.now();
            let second = ddss.put(&segment, &[7; 64]).await;
            let held = ddss.lock(&segment).await.map(|held| held.is_valid());
            tell.borrow_mut().push((when, first, second, held));
        }));
    });
    // Others find its value, and what it kept gone, also by its name.
    let (tell, ddss, rt) = (Rc::clone(&gone), all[3].1.clone(), cluster.members[3].rt.clone());
    let found = Rc::new(Cell::new([0; 64]));
    let saw = Rc::clone(&found);
    cluster.members[3].at(crash + ms(90), move || {
        drop(rt.spawn(async move {
            let mut value = [0; 64];
            ddss.get(&ddss.attach(key).expect("a key is a key"), &mut value).await.expect("it is kept");
            saw.set(value);
            let named = ddss.lookup(Name(8)).await.expect("its keeper is there").expect("it was bound");
            for key in [own, named] {
                let got = async { ddss.get(&ddss.attach(key)?, &mut value).await };
                let got = got.await.map(drop);
                tell.borrow_mut().push(got);
            }
            // The node that is back keeps segments again, at the same place maybe, and released ones go without its earlier incarnation.
            let another = ddss.allocate(VALUE, Placement::On(rank(2))).await.expect("it is there");
            let got = ddss.get(&ddss.attach(another).expect("a key is a key"), &mut value).await;
            assert_eq!((got, value), (Ok(0), [0; 64]));
            for key in [key, another] {
                let released = ddss.release(key).await;
                tell.borrow_mut().push(released);
            }
            let bound = ddss.bind_instead(Name(8), Some(another), Some(own)).await;
            tell.borrow_mut().push(bound);
        }));
    });
    cluster.run(ms(150));
    let ends = ends.take();
    let [(when, first, second, held)] = &ends[..] else { panic!("it has no part: {ends:?}") };
    assert_eq!((first, second, held), (&Ok(Some(2)), &Ok(Some(3)), &Ok(true)));
    assert!(*when - crash > LEASE && *when - crash < ms(60), "{}", *when - crash);
    assert_eq!(found.get(), [7; 64]);
    let dead = Err(DdssError::Gone(rank(2)));
    assert_eq!(gone.take(), [dead.clone(), dead.clone(), dead, Ok(()), Ok(()), Ok(())]);
}

#[test]
fn round_robin_passes_over_a_node_that_died() {
    let cluster = Cluster::new(NODES, 1, Wait::Notify);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, LEASE)).collect();
    cluster.plan(MET, Fault::Crash { node: NodeId(2) });
    let homes = Rc::new(RefCell::new(Vec::new()));
    let (tell, ddss, rt) = (Rc::clone(&homes), all[0].1.clone(), cluster.members[0].rt.clone());
    cluster.members[0].at(MET + ms(10), move || {
        drop(rt.spawn(async move {
            for _ in 0..6 {
                let key = ddss.allocate(VALUE, Placement::RoundRobin).await;
                tell.borrow_mut().push(key.map(|key| key.home()));
            }
        }));
    });
    cluster.run(MET + ms(80));
    assert_eq!(homes.take(), [1, 3, 0, 1, 3, 0].map(|node| Ok(rank(node))));
}
