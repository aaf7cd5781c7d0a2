//! What faults cost on machines of today: by hops, grain and copies, and what nodes fight over where words share minipages. No paper has
//! these figures; the goals are the specification's.

use super::cluster::{mean, shared};
use super::fault::{PAUSE, fault};
use crate::paper::{Goal, PaperError, Row, Wanted, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::dsm::{DsmError, DsmStats, Grain, Placement};
use weft_protocols::transport::Rank;
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Wait};

/// Bytes of a minipage.
const GRAINS: [u32; 3] = [128, 1_024, 4_096];

/// Who takes a read fault's order: three nodes, or the manager is the node that stored last.
const HOPS: [(&str, u32); 2] = [("3 hops", 1), ("2 hops", 2)];

/// How many nodes have a copy when one of them stores.
const READERS: [usize; 4] = [1, 7, 31, 63];

/// Nodes that store at random, and that count side by side.
const NODES: usize = 16;

/// Minipages that nodes store to at random, and threads of a node, so that some always wait.
const PAGES: usize = 4_096;
const THREADS: u64 = 16;

/// How long they do it: the first half connects.
const HALF: Nanos = Nanos::from_millis(5);

/// Additions of a node to its counter, and how far apart they are.
const ADDITIONS: u32 = 200;
const APART: Nanos = Nanos::from_micros(5);

pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (hops, manager) in HOPS {
        for grain in GRAINS {
            let took = fault(profile, [Wait::Poll; 3], grain, manager)?;
            rows.push(Row::new("Hops", hops, X::Number(grain.into()), "us", None, took));
        }
    }
    for readers in READERS {
        let took = upgrade(profile, readers)?;
        rows.push(Row::new("Copies", "upgrade", X::Number(readers as u64), "us", None, took));
    }
    for grain in [64, 4_096] {
        let Counted { took, faults } = counters(profile, grain)?;
        let mut row = |series: &str, unit, value| {
            rows.push(Row::new("Counters", series, X::Number(grain.into()), unit, None, value));
        };
        row("an addition", "us", took);
        row("faults of all nodes", "count", faults as f64);
    }
    let rate = uniform(profile)?;
    rows.push(Row::new("Uniform", "faults a second of a node", X::Number(NODES as u64), "1/s", None, rate));
    Ok(rows)
}

/// A store's mean time, in microseconds, where this node and so many others have a copy; one of those is the manager.
fn upgrade(profile: &Profile, readers: usize) -> Result<f64, PaperError> {
    /// When the first two stores are over, all have connected: to who has the bytes, and to who stores.
    const CONNECTED: u32 = 2;
    const ROUNDS: u32 = 4;
    let (cluster, nodes) = shared(profile, &vec![Wait::Poll; readers + 1])?;
    let placed = Placement::Node(Rank::from_index(1));
    let words = nodes[0].named::<u64>(0, 512, Grain::Bytes(4_096), placed).map_err(refused)?;
    let times: Rc<RefCell<Vec<Nanos>>> = Rc::default();
    for (node, dsm) in nodes.iter().enumerate() {
        let (rt, times) = (cluster.machines[node].rt.clone(), Rc::clone(&times));
        drop(dsm.spawn(async move |mut thread| {
            for round in 0..CONNECTED + ROUNDS {
                rt.sleep_until(PAUSE * round.into()).await;
                if node == 0 {
                    let begin = rt.now();
                    thread.store(words, 0, u64::from(round) + 1).await?;
                    times.borrow_mut().extend((round >= CONNECTED).then(|| rt.now() - begin));
                }
                rt.sleep_until(PAUSE * round.into() + PAUSE / 2).await;
                thread.load(words, 0).await?;
            }
            Ok::<_, DsmError>(())
        }));
    }
    let times = cluster.finish(Nanos::from_secs(1), &times, ROUNDS as usize)?;
    Ok(mean(times, ROUNDS))
}

/// What it took to count.
struct Counted {
    /// An addition, on average, in microseconds.
    took: f64,
    faults: u64,
}

/// Each node adds to a counter of its own. They are 64 bytes apart.
fn counters(profile: &Profile, grain: u32) -> Result<Counted, PaperError> {
    let (cluster, nodes) = shared(profile, &[Wait::Poll; NODES])?;
    let each = Placement::default();
    let words = nodes[0].named::<u64>(0, NODES * 8, Grain::Bytes(grain), each).map_err(refused)?;
    let times: Rc<RefCell<Vec<Nanos>>> = Rc::default();
    for (node, dsm) in nodes.iter().enumerate() {
        let (rt, times) = (cluster.machines[node].rt.clone(), Rc::clone(&times));
        drop(dsm.spawn(async move |mut thread| {
            let mut took = Nanos::ZERO;
            for _ in 0..ADDITIONS {
                let begin = rt.now();
                thread.fetch_add(words, node * 8, 1).await?;
                took += rt.now() - begin;
                rt.sleep(APART).await;
            }
            times.borrow_mut().push(took);
            Ok::<_, DsmError>(())
        }));
    }
    let times = cluster.finish(Nanos::from_secs(10), &times, NODES)?;
    let faults = nodes.iter().map(|node| faults(&node.stats())).sum();
    Ok(Counted { took: mean(times, NODES as u32 * ADDITIONS), faults })
}

fn faults(stats: &DsmStats) -> u64 {
    stats.read_faults + stats.write_faults
}

/// Faults a second of a node, where all threads of all nodes store to minipages of 4 KiB at random.
fn uniform(profile: &Profile) -> Result<f64, PaperError> {
    let (cluster, nodes) = shared(profile, &[Wait::Poll; NODES])?;
    let each = Placement::default();
    let words = nodes[0].named::<u64>(0, PAGES * 512, Grain::Bytes(4_096), each).map_err(refused)?;
    for (node, dsm) in (0..).zip(&nodes) {
        for index in 0..THREADS {
            drop(dsm.spawn(async move |mut thread| {
                // Knuth's multiplier for 64 bits, and its high bits: which minipage is next is all that it is for.
                let mut state: u64 = node * THREADS + index + 1;
                loop {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let page = (state >> 33) as usize % PAGES;
                    if thread.store(words, page * 512, state).await.is_err() {
                        return;
                    }
                }
            }));
        }
    }
    let counted = || nodes.iter().map(|node| faults(&node.stats())).sum::<u64>();
    cluster.run_until(HALF);
    let before = counted();
    cluster.run_until(HALF * 2);
    let seconds = HALF.0 as f64 / 1e9;
    Ok((counted() - before) as f64 / NODES as f64 / seconds)
}

/// The specification's goals: 4 KiB from a writer in 7 us by three hops and in 6 by two, 128 bytes in 6.5, an upgrade over 63 readers in 16; 300,000 minipages a
/// second a node; and counters in minipages of their own need no message after each node's first fault.
pub(super) fn goals(rows: &[Row]) -> Vec<Goal> {
    let goals = [
        ("4 KiB from a writer, 3 hops (present-day)", "Hops", "3 hops", 4_096, Wanted::AtMost(7.0)),
        ("4 KiB from a writer, 2 hops (present-day)", "Hops", "2 hops", 4_096, Wanted::AtMost(6.0)),
        ("128 bytes from a writer, 3 hops (present-day)", "Hops", "3 hops", 128, Wanted::AtMost(6.5)),
        ("upgrade over 63 readers (present-day)", "Copies", "upgrade", 63, Wanted::AtMost(16.0)),
        (
            "counters 64 bytes apart: faults of 16 nodes",
            "Counters",
            "faults of all nodes",
            64,
            Wanted::AtMost(NODES as f64),
        ),
        (
            "16 nodes at random: faults of a node",
            "Uniform",
            "faults a second of a node",
            NODES as u64,
            Wanted::AtLeast(300_000.0),
        ),
    ];
    let judged = |(what, figure, series, x, wanted)| {
        let is_it = |row: &&Row| row.figure == figure && row.series == series && row.x == X::Number(x);
        rows.iter().find(is_it).map(|row| Goal::limited(row, what, wanted))
    };
    goals.into_iter().filter_map(judged).collect()
}
