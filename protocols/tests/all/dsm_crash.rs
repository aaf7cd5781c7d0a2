//! Shared memory whose nodes die: what only the dead had is lost by name, no update of anything else is lost, and those that live
//! go on.

use crate::common::{Cluster, Dice, NOBODYS, ms, rank, seeds, us};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_protocols::dsm::{
    Alive, BarrierId, Decision, Dsm, DsmConfig, DsmError, DsmStats, Grain, Otherwise, Placement, Reading,
    Repaired, Shared,
};
use weft_protocols::members::{Members, MembersConfig};
use weft_protocols::transport::{Channel, Incoming};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const NODES: u32 = 4;
/// Minipages, each with one counter.
const COUNTERS: usize = 12;
/// Words of a minipage.
const APART: usize = 8;
const ADDS: usize = 60;
/// All nodes have met by then.
const MET: Nanos = Nanos::from_millis(40);

fn begin(cluster: &Cluster, node: usize, pulls: bool, reading: Reading) -> (Members<Sim>, Dsm<Sim>) {
    let member = &cluster.members[node];
    let config = MembersConfig { lease: ms(4), drift: us(100), patience: ms(6), ..MembersConfig::new(NODES) };
    let members = Members::start(&member.rt, &member.mesh, config).expect("it starts");
    let config = DsmConfig { pulls, ..DsmConfig::default() };
    let dsm = Dsm::start_under(&member.rt, &member.mesh, config, Alive::Members(&members), reading)
        .expect("the channel is free");
    (members, dsm)
}

fn counters(dsm: &Dsm<Sim>) -> Shared<[u64]> {
    dsm.named(1, COUNTERS * APART, Grain::Bytes(64), Placement::RoundRobin).expect("it fits")
}

/// What threads saw: by counter, what additions found; and which counters are lost.
#[derive(Default)]
struct Seen {
    found: BTreeMap<usize, Vec<u64>>,
    lost: BTreeSet<usize>,
    /// Threads whose additions are done.
    ended: usize,
    /// At the end, by counter.
    last: BTreeMap<usize, u64>,
    errors: Vec<DsmError>,
}

impl Seen {
    /// Some minipages may be lost; nothing else may go wrong.
    fn failed(&mut self, which: usize, why: DsmError) {
        match why {
            DsmError::Lost { .. } => drop(self.lost.insert(which)),
            other => self.errors.push(other),
        }
    }
}

async fn adds(dsm: Dsm<Sim>, mut dice: Dice, seen: Rc<RefCell<Seen>>, of: usize) {
    let (all, mut thread) = (counters(&dsm), dsm.thread());
    for _ in 0..ADDS {
        let which = dice.below(of as u64) as usize;
        if dice.below(3) == 0 {
            if let Err(why) = thread.load(all, which * APART).await {
                seen.borrow_mut().failed(which, why);
            }
            continue;
        }
        match thread.fetch_add(all, which * APART, 1).await {
            Ok(found) => seen.borrow_mut().found.entry(which).or_default().push(found),
            Err(why) => seen.borrow_mut().failed(which, why),
        }
    }
    seen.borrow_mut().ended += 1;
}

async fn looks(dsm: Dsm<Sim>, seen: Rc<RefCell<Seen>>) {
    let (all, mut thread) = (counters(&dsm), dsm.thread());
    for which in 0..COUNTERS {
        match thread.load(all, which * APART).await {
            Ok(value) => drop(seen.borrow_mut().last.insert(which, value)),
            Err(why) => seen.borrow_mut().failed(which, why),
        }
    }
}

/// What a run came to.
#[derive(Default)]
struct Came {
    lost: usize,
    kept: usize,
    fenced: u64,
    epochs: u64,
    stale: u64,
}

/// Threads of four nodes add to counters; one node dies, and mostly a link between two others is cut about then. An error if an
/// addition is lost and not by name, or is found by two, or if something does not end.
fn run(seed: u64, reading: Reading) -> Result<Came, String> {
    let mut dice = Dice::new(seed);
    let wait = if dice.below(2) == 0 { Wait::Poll } else { Wait::Notify };
    let cluster = Cluster::new(NODES, seed, wait);
    let pulls = dice.below(2) == 0;
    let of = [COUNTERS, 3][dice.below(2) as usize];
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, pulls, reading)).collect();
    let seen = Rc::new(RefCell::new(Seen::default()));
    for (node, (_, dsm)) in all.iter().enumerate() {
        for thread in 0..2 {
            let dice = Dice::new(seed << 8 | (node as u64) << 4 | thread);
            let (rt, dsm, seen) = (cluster.members[node].rt.clone(), dsm.clone(), Rc::clone(&seen));
            // A node that dies before all have met keeps the memory from beginning.
            let met = move || drop(rt.spawn(adds(dsm, dice, seen, of)));
            cluster.members[node].at(MET, met);
        }
    }
    let dies = dice.below(NODES.into()) as u32;
    let lives: Vec<usize> = (0..NODES as usize).filter(|node| *node != dies as usize).collect();
    let crash = MET + us(dice.below(1_000));
    cluster.plan(crash, Fault::Crash { node: NodeId(dies) });
    if dice.below(4) > 0 {
        // Not of the one that proposes views: the members go on for as long as the link is cut.
        let link = Link::Pair(NodeId(lives[1] as u32), NodeId(lives[2] as u32));
        let at = Nanos(crash.0.saturating_sub(dice.below(300_000)).max(1));
        cluster.plan(at, Fault::Cut { link, way: Way::Both, lasts: Some(us(500 + dice.below(12_000))) });
    }
    let (dsm, rt, saw) = (all[lives[0]].1.clone(), cluster.members[lives[0]].rt.clone(), Rc::clone(&seen));
    cluster.members[lives[0]].at(ms(300), move || drop(rt.spawn(looks(dsm, saw))));
    cluster.run(ms(350));
    let seen = seen.borrow();
    if !seen.errors.is_empty() {
        return Err(format!("{:?}", seen.errors));
    }
    let mut came = Came::default();
    for node in lives {
        let dsm = &all[node].1;
        let DsmStats { out_of_turn, malformed, fenced, epochs, stale, .. } = dsm.stats();
        let open = dsm.unfinished().into_iter().filter(|(_, open)| *open > 0).collect::<Vec<_>>();
        if (out_of_turn, malformed) != (0, 0) || !open.is_empty() {
            return Err(format!("n{node}: {out_of_turn} out of turn, {malformed} malformed, open: {open:?}"));
        }
        (came.fenced, came.epochs, came.stale) =
            (came.fenced + fenced, came.epochs + epochs, came.stale + stale);
    }
    if seen.ended < 6 {
        return Err(format!("{} of 6 threads have ended", seen.ended));
    }
    for which in 0..COUNTERS {
        let found = seen.found.get(&which).map_or(&[][..], Vec::as_slice);
        let distinct: BTreeSet<u64> = found.iter().copied().collect();
        if distinct.len() < found.len() {
            return Err(format!("counter {which}: two additions found the same: {found:?}"));
        }
        match seen.last.get(&which) {
            Some(last) if *last == found.len() as u64 => came.kept += 1,
            Some(last) => return Err(format!("counter {which} is {last}, after {found:?}")),
            None if seen.lost.contains(&which) => came.lost += 1,
            None => return Err(format!("counter {which} is nowhere")),
        }
    }
    Ok(came)
}

#[test]
fn no_update_is_lost_but_by_name_when_a_node_dies_while_links_fail() {
    let mut all = Came::default();
    for seed in seeds(60) {
        let came = run(seed, Repaired).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let Came { lost, kept, fenced, epochs, stale } = came;
        (all.lost, all.kept, all.fenced) = (all.lost + lost, all.kept + kept, all.fenced + fenced);
        (all.epochs, all.stale) = (all.epochs + epochs, all.stale + stale);
    }
    let Came { lost, kept, fenced, epochs, stale } = all;
    let reached = format!("{lost} lost, {kept} kept, {fenced} fenced, {epochs} epochs, {stale} stale");
    println!("{reached}");
    assert!(lost > 0 && kept > lost && fenced > 0 && epochs > 0 && stale > 0, "{reached}");
}

/// One of some seeds must find what goes wrong under a reading.
fn is_found(otherwise: Decision) {
    let found = seeds(400).find_map(|seed| Some((seed, run(seed, Otherwise(otherwise)).err()?)));
    println!("{found:?}");
    assert!(found.is_some(), "no seed finds it");
}

#[test]
fn a_write_that_lands_after_a_view_change_is_found() {
    is_found(Decision::ReportsWhenFenced);
}

#[test]
fn what_was_said_in_an_epoch_that_is_over_does_harm() {
    is_found(Decision::ViewsChecked);
}

#[test]
fn an_older_version_in_the_place_of_a_lost_one_is_found() {
    is_found(Decision::LostWithReceiver);
}

#[test]
fn a_barrier_fails_by_the_name_of_the_dead_once_for_each_thread_and_then_counts_those_who_live() {
    let cluster = Cluster::new(NODES, 7, Wait::Notify);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, false, Repaired)).collect();
    let told = Rc::new(RefCell::new(Vec::new()));
    for (node, (_, dsm)) in all.iter().take(3).enumerate() {
        let (dsm, rt, told) = (dsm.clone(), cluster.members[node].rt.clone(), Rc::clone(&told));
        drop(cluster.members[node].rt.spawn(async move {
            let mut thread = dsm.thread();
            // One of them comes when the others have failed already.
            rt.sleep(ms(50 * node as u64)).await;
            let first = thread.barrier(BarrierId(3), 4).await;
            let then = thread.barrier(BarrierId(3), 3).await;
            told.borrow_mut().push((first, then));
        }));
    }
    cluster.plan(ms(20), Fault::Crash { node: NodeId(3) });
    cluster.run(ms(300));
    assert_eq!(*told.borrow(), vec![(Err(DsmError::Died(rank(3))), Ok(())); 3]);
}

/// `weft fuzz swarm-16-dsm-members` panicked here: the claim is let go of after the memory.
#[test]
fn a_node_that_crashes_amid_a_claim_loses_by_name_what_it_had_claimed() {
    let cluster = Cluster::new(NODES, 11, Wait::Notify);
    let all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, false, Repaired)).collect();
    let (dsm, rt) = (all[2].1.clone(), cluster.members[2].rt.clone());
    let claims = async move {
        let (shared, mut thread) = (counters(&dsm), dsm.thread());
        let mut claim = thread.claim_mut(shared, 0..APART + 1, Nanos::MAX).await.expect("all live");
        claim.fill(1);
        rt.sleep(ms(1_000)).await;
    };
    let of = cluster.members[2].rt.clone();
    cluster.members[2].at(MET, move || drop(of.spawn(claims)));
    cluster.plan(MET + ms(20), Fault::Crash { node: NodeId(2) });
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (dsm, rt, saw) = (all[0].1.clone(), cluster.members[0].rt.clone(), Rc::clone(&seen));
    cluster.members[0].at(MET + ms(30), move || drop(rt.spawn(looks(dsm, saw))));
    cluster.run(ms(2_000));
    let seen = seen.borrow();
    // The two that it claimed, and those that begin with it and that nobody asked for before.
    assert_eq!((&seen.lost, &seen.errors), (&BTreeSet::from([0, 1, 2, 6, 10]), &Vec::new()));
    assert!(seen.last.len() == COUNTERS - 5 && seen.last.values().all(|value| *value == 0));
    let counted = [0, 1, 3].map(|node| all[node].1.stats().lost);
    assert_eq!(counted.iter().sum::<u64>(), 5, "by their managers: {counted:?}");
}

#[test]
fn a_node_that_restarts_is_told_that_the_memory_has_gone_on_without_it() {
    let mut cluster = Cluster::new(NODES, 9, Wait::Notify);
    let mut all: Vec<_> = (0..NODES as usize).map(|node| begin(&cluster, node, false, Repaired)).collect();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let add = |cluster: &Cluster, dsm: &Dsm<Sim>, node: usize| {
        let dice = Dice::new(node as u64);
        drop(cluster.members[node].rt.spawn(adds(dsm.clone(), dice, Rc::clone(&seen), 1)));
    };
    add(&cluster, &all[0].1, 0);
    cluster.plan(ms(20), Fault::Crash { node: NodeId(2) });
    cluster.run(ms(25));
    // Somebody waits for the dead, so it is noticed.
    add(&cluster, &all[1].1, 1);
    let (dsm, members) = (all[0].1.clone(), all[0].0.clone());
    drop(cluster.members[0].rt.spawn(async move {
        let _watch = members.watch(rank(2));
        let _ = dsm.thread().barrier(BarrierId(2), 4).await;
    }));
    cluster.run(ms(100));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(2) });
    cluster.run(ms(1));
    cluster.members[2] = cluster.start(2);
    all[2] = begin(&cluster, 2, false, Repaired);
    let (dsm, end) = (all[2].1.clone(), Rc::new(RefCell::new((None, None))));
    let told = Rc::clone(&end);
    drop(cluster.members[2].rt.spawn(async move {
        let (all, mut thread) = (counters(&dsm), dsm.thread());
        told.borrow_mut().0 = Some(thread.load(all, APART).await);
        told.borrow_mut().1 = Some(dsm.begun().await);
    }));
    let (dsm, awaits) = (all[2].1.clone(), Rc::new(RefCell::new(None)));
    let begun = Rc::clone(&awaits);
    drop(cluster.members[2].rt.spawn(async move { *begun.borrow_mut() = Some(dsm.begun().await) }));
    cluster.run(ms(300));
    let why = DsmError::PeerReset(rank(2));
    assert_eq!(end.take(), (Some(Err(why.clone())), Some(Err(why.clone()))));
    assert_eq!(awaits.take(), Some(Err(why)), "it waits for a memory that does not begin");
    assert_eq!(seen.borrow().ended, 2);
}

/// The other node gives back the word that it is there, behind one by which the first node closes its mesh: it has both when it looks.
#[test]
fn a_memory_that_begins_when_its_mesh_is_closed_ends_and_so_does_who_waits_at_a_barrier() {
    let cluster = Cluster::new(2, 8, Wait::Notify);
    let [here, there] = &cluster.members[..] else { return };
    let member = |node: usize| {
        let at = &cluster.members[node];
        let config = MembersConfig { lease: ms(4), drift: us(100), patience: ms(6), ..MembersConfig::new(2) };
        Members::start(&at.rt, &at.mesh, config).expect("it starts")
    };
    let members = [0, 1].map(member);
    let dsm = Dsm::start_among(&here.rt, &here.mesh, DsmConfig::default(), &members[0]).expect("it is free");
    let ended = Rc::new(RefCell::new(None));
    let ends = Rc::clone(&ended);
    drop(dsm.spawn(|mut thread| async move {
        let left = thread.barrier(BarrierId(0), 2).await;
        ends.replace(Some(left));
    }));
    let (mut told, closes) = (here.mesh.open(NOBODYS).expect("it is free"), here.mesh.clone());
    drop(here.rt.spawn(async move {
        drop(told.recv().await);
        closes.close();
    }));
    let (mut inbox, says) = (there.mesh.open(Channel(5)).expect("it is free"), there.mesh.clone());
    drop(there.rt.spawn(async move {
        if let Some(Incoming::Message(word)) = inbox.recv().await {
            says.send(rank(0), NOBODYS, &[0]).expect("there is room");
            says.send(rank(0), Channel(5), word.bytes()).expect("there is room");
        }
    }));
    cluster.run(ms(200));
    assert_eq!(ended.take(), Some(Err(DsmError::Closed)));
}
