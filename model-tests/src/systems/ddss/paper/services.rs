//! The paper's services and applications (sections 6.3 and 6.4): reconfiguration, version checks, check-pointing.
//!
//! The paper gives neither the steps of a reconfiguration (they stand in its references) nor the size of a checkpoint. Ours are
//! stated where they are carried out.

use super::super::published::{Published, Sequence};
use super::cluster::{Cluster, NODES, Way};
use crate::paper::{PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Channel, Incoming, OpError};
use weft_sim::Sim;
use weft_sim::choice::Rng;
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Work};

const ROUNDS: u32 = 10;
const BEGIN: Nanos = Nanos::from_millis(100);
const END: Nanos = Nanos::from_millis(600);

/// A random pause before a service does something again, in microseconds.
const PAUSE_US: u64 = 2_000;

/// Waits for a random time, so that services do not go in step.
async fn pause(rt: &Rt<Sim>, rng: &mut Rng) {
    rt.sleep(Nanos::from_micros(200 + rng.below(PAUSE_US))).await;
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// The segments of a reconfiguration as its manager sees them.
struct Servers {
    loaded: Published<Sim>,
    free: Published<Sim>,
    /// Which node serves which site; all nodes look at its version.
    map: Published<Sim>,
}

impl Servers {
    /// Moves the free server to the site of the loaded one: looks at the load, locks both, looks whether the other one is still
    /// free, tells both, tells everybody, and unlocks both. Nine calls.
    async fn reconfigure(&self, rt: &Rt<Sim>, way: Way) -> Result<(), OpError> {
        let Servers { loaded, free, map } = self;
        let mut state = [0; 64];
        way.call(rt, loaded.get(Sequence::Null, None, &mut state)).await?;
        way.call(rt, loaded.lock()).await?;
        way.call(rt, free.lock()).await?;
        way.call(rt, free.get(Sequence::Null, None, &mut state)).await?;
        way.call(rt, loaded.put(Sequence::Null, 0, &state)).await?;
        way.call(rt, free.put(Sequence::Null, 0, &state)).await?;
        way.call(rt, map.put(Sequence::Version, 0, &state)).await?;
        way.call(rt, free.unlock()).await?;
        way.call(rt, loaded.unlock()).await
    }
}

/// The mean time of a reconfiguration while so many servers are loaded, each with a manager of its own, in microseconds.
fn reconfiguration(profile: &Profile, loaded: u32, way: Way) -> Result<f64, PaperError> {
    let cluster = Cluster::new(profile, NODES)?;
    let map = cluster.segment(64)?;
    let results = Rc::new(RefCell::new(Vec::new()));
    for manager in 0..loaded {
        let seen = |of: u32| -> Result<Published<Sim>, PaperError> {
            Ok(cluster.segment_at(of, 64)?[manager as usize].clone())
        };
        // Three managers, three servers that may be loaded, and three that are free.
        let servers = Servers {
            loaded: seen(3 + manager)?,
            free: seen(6 + manager)?,
            map: map[manager as usize].clone(),
        };
        let (rt, book) = (cluster.machine(manager).rt, Rc::clone(&results));
        drop(rt.clone().spawn(async move {
            servers.reconfigure(&rt, way).await.ok()?;
            rt.sleep_until(BEGIN).await;
            let mut rng = Rng::from_seed(u64::from(manager));
            for _ in 0..ROUNDS {
                pause(&rt, &mut rng).await;
                let begin = rt.now();
                servers.reconfigure(&rt, way).await.ok()?;
                book.borrow_mut().push((rt.now() - begin).as_micros_f64());
            }
            Some(())
        }));
    }
    cluster.below.finish(END, &results, (loaded * ROUNDS) as usize).map(|times| mean(&times))
}

/// The mean time of a version check while so many threads compute at the home, by a one-sided read and by two messages, in
/// microseconds.
fn version_check(profile: &Profile, threads: u32, one_sided: bool) -> Result<f64, PaperError> {
    const CHANNEL: Channel = Channel(9);
    let cluster = Cluster::new(profile, 2)?;
    let segment = cluster.segment(64)?.remove(0);
    let (asker, home) = (cluster.machine(0), cluster.machine(1));
    for _ in 0..threads {
        let rt = home.rt.clone();
        drop(home.rt.spawn(async move {
            while rt.now() < END {
                rt.spend(Work::Compute(Nanos::from_micros(20)));
                rt.yield_now().await;
            }
        }));
    }
    let (mut answers, mut questions) =
        (asker.mesh.open(CHANNEL).map_err(refused)?, home.mesh.open(CHANNEL).map_err(refused)?);
    let answering = home.mesh.clone();
    drop(home.rt.spawn(async move {
        while let Some(incoming) = questions.recv().await {
            if let Incoming::Message(message) = incoming {
                // The asker waits for each answer, so that there is room.
                let _ = answering.send(message.from(), CHANNEL, message.bytes());
            }
        }
    }));
    let results = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&results);
    drop(asker.rt.clone().spawn(async move {
        let mut rng = Rng::from_seed(1);
        for round in 0..=ROUNDS {
            pause(&asker.rt, &mut rng).await;
            let begin = asker.rt.now();
            match one_sided {
                true => drop(segment.get(Sequence::Version, Some(0), &mut [0; 64]).await.ok()?),
                false => {
                    asker.mesh.send(home.mesh.me(), CHANNEL, &[0; 8]).ok()?;
                    answers.recv().await?;
                }
            }
            // The first one connects.
            if round > 0 {
                book.borrow_mut().push((asker.rt.now() - begin).as_micros_f64());
            }
        }
        Some(())
    }));
    cluster.below.finish(END, &results, ROUNDS as usize).map(|times| mean(&times))
}

/// The bytes of a checkpoint.
const CHECKPOINT: u32 = 65_536;

/// What a process saves: its state under strict, then the number of the checkpoint under version.
#[derive(Clone)]
struct Saved {
    state: Published<Sim>,
    number: Published<Sim>,
}

/// The mean times of a checkpoint and of a restart among so many processes, in microseconds.
fn checkpoints(profile: &Profile, processes: u32) -> Result<[f64; 2], PaperError> {
    let cluster = Cluster::new(profile, NODES)?;
    let mut all = Vec::new();
    for process in 0..processes {
        let home = (process + 1) % NODES;
        all.push((cluster.segment_at(home, CHECKPOINT)?, cluster.segment_at(home, 8)?));
    }
    let results = Rc::new(RefCell::new(Vec::new()));
    for process in 0..processes {
        let saved = |of: &(Vec<Published<Sim>>, Vec<Published<Sim>>)| Saved {
            state: of.0[process as usize].clone(),
            number: of.1[process as usize].clone(),
        };
        let everybodys: Vec<Saved> = all.iter().map(saved).collect();
        let (rt, book) = (cluster.machine(process).rt, Rc::clone(&results));
        drop(rt.clone().spawn(async move {
            let own = everybodys[process as usize].clone();
            let (mut state, mut number) = (vec![1; CHECKPOINT as usize], 0);
            // The first calls connect, and register memory.
            for saved in &everybodys {
                saved.number.get(Sequence::Version, None, &mut [0; 8]).await.ok()?;
            }
            own.state.put(Sequence::Strict, 0, &state).await.ok()?;
            rt.sleep_until(BEGIN).await;
            let mut rng = Rng::from_seed(u64::from(process));
            for _ in 0..ROUNDS {
                pause(&rt, &mut rng).await;
                let begin = rt.now();
                Way::Daemon.call(&rt, own.state.put(Sequence::Strict, 0, &state)).await.ok()?;
                number =
                    Way::Daemon.call(&rt, own.number.put(Sequence::Version, number, &[1; 8])).await.ok()?;
                let saved = rt.now() - begin;
                pause(&rt, &mut rng).await;
                // A restart asks everybody for the number of its last checkpoint, and reads its own back.
                let begin = rt.now();
                for saved in &everybodys {
                    let mut number = [0; 8];
                    let get = saved.number.get(Sequence::Version, None, &mut number);
                    Way::Daemon.call(&rt, get).await.ok()?;
                }
                Way::Daemon.call(&rt, own.state.get(Sequence::Null, None, &mut state)).await.ok()?;
                let restarted = rt.now() - begin;
                book.borrow_mut().push([saved, restarted].map(Nanos::as_micros_f64));
            }
            Some(())
        }));
    }
    let times = cluster.below.finish(END, &results, (processes * ROUNDS) as usize)?;
    Ok([0, 1].map(|which| mean(&times.iter().map(|both| both[which]).collect::<Vec<f64>>())))
}

fn flat(figure: &'static str, series: &str, times: &[f64]) -> Row {
    let ratio = times[times.len() - 1] / times[0];
    Row::new(figure, series, X::Name("most / least"), "ratio", 1.0, ratio)
}

/// Figures 8 and 9(b).
pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    let mut times = Vec::new();
    for loaded in 1..=3 {
        let time = reconfiguration(profile, loaded, Way::Direct)?;
        rows.push(Row::new("Figure 8(a)", "reconfiguration", X::Number(loaded.into()), "us", 133.0, time));
        times.push(time);
    }
    rows.push(flat("Figure 8(a)", "reconfiguration", &times));
    let overhead = times[0] - reconfiguration(profile, 1, Way::Bare)?;
    rows.push(Row::new("Figure 8(a)", "overhead", X::Name("of the library"), "us", 3.0, overhead));
    let (mut one_sided, threads) = (Vec::new(), [0, 4, 8, 16, 32]);
    for threads in threads {
        let time = version_check(profile, threads, true)?;
        rows.push(Row::new("Figure 8(b)", "one-sided", X::Number(threads.into()), "us", None, time));
        one_sided.push(time);
    }
    for threads in threads {
        let time = version_check(profile, threads, false)?;
        rows.push(Row::new("Figure 8(b)", "two messages", X::Number(threads.into()), "us", None, time));
    }
    rows.push(flat("Figure 8(b)", "one-sided", &one_sided));
    let mut saves = Vec::new();
    for processes in [1, 2, 4, 8, 11] {
        let [save, restart] = checkpoints(profile, processes)?;
        let x = X::Number(processes.into());
        rows.push(Row::new("Figure 9(b)", "checkpoint", x.clone(), "us", 150.0, save));
        rows.push(Row::new("Figure 9(b)", "restart", x, "us", None, restart));
        saves.push(save);
    }
    rows.push(flat("Figure 9(b)", "checkpoint", &saves));
    Ok(rows)
}
