//! Many clients at once: Figure 6, and calls that are not waited for: Figure 7.

use super::super::published::{Published, Sequence};
use super::cluster::{Cluster, Machine, NODES, Way, message};
use super::latency::Call;
use crate::paper::{PaperError, Row, X};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::ddss::{Model, Name, Segment, Spec};
use weft_sim::Sim;
use weft_sim::choice::Rng;
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Work};

/// The clients of a full cluster: one on each node but the home.
const CLIENTS: u32 = NODES - 1;

/// How many calls each client makes.
const CALLS: u32 = 60;

/// When all are connected and begin.
const BEGIN: Nanos = Nanos::from_millis(100);
const END: Nanos = Nanos::from_secs(5);

/// The bytes of a segment in Figure 6; the paper does not say.
const SIZE: u32 = 64;

/// What a client of Figure 6 calls.
#[derive(Clone)]
enum Target {
    /// The paper's sequence.
    Published(Sequence, Published<Sim>),
    /// The models as they are here.
    Ours(Machine, Segment<Sim>),
}

impl Target {
    async fn call(&self, call: Call, version: &Cell<u64>, bytes: &mut [u8]) -> Option<()> {
        match (self, call) {
            (Target::Published(sequence, segment), Call::Put) => {
                version.set(segment.put(*sequence, version.get(), bytes).await.ok()?);
            }
            (Target::Published(sequence, segment), Call::Get) => {
                version.set(segment.get(*sequence, Some(version.get()), bytes).await.ok()?);
            }
            (Target::Ours(machine, segment), Call::Put) => drop(machine.ddss.put(segment, bytes).await.ok()?),
            (Target::Ours(machine, segment), Call::Get) => drop(machine.ddss.get(segment, bytes).await.ok()?),
        }
        Some(())
    }
}

/// What so many clients call: the paper's sequence or ours.
#[derive(Clone, Copy)]
enum Which {
    Published(Sequence),
    Ours(Model),
}

/// The mean time of a call of so many clients, of whose calls so many percent put, in microseconds.
fn mean(profile: &Profile, which: Which, clients: u32, puts: u64, apart: bool) -> Result<f64, PaperError> {
    let cluster = Cluster::new(profile, NODES)?;
    let shared = cluster.segment(SIZE)?;
    let results = Rc::new(RefCell::new(Vec::new()));
    for client in 0..clients {
        let machine = cluster.machine(client);
        let own = if apart { cluster.segment(SIZE)? } else { shared.clone() };
        let (segment, book) = (own[client as usize].clone(), Rc::clone(&results));
        drop(machine.rt.clone().spawn(async move {
            let rt = machine.rt.clone();
            let target = match which {
                Which::Published(sequence) => Target::Published(sequence, segment),
                Which::Ours(model) => {
                    // Segments of one home.
                    let name = Name(u64::from(CLIENTS + if apart { client * NODES } else { 0 }));
                    let segment = machine.ddss.open(name, Spec { size: SIZE, model }).await.ok()?;
                    Target::Ours(machine, segment)
                }
            };
            let (mut bytes, version) = (vec![1; SIZE as usize], Cell::new(0));
            for call in [Call::Put, Call::Get] {
                target.call(call, &version, &mut bytes).await?;
            }
            rt.sleep_until(BEGIN).await;
            let mut rng = Rng::from_seed(u64::from(client));
            let begin = rt.now();
            for _ in 0..CALLS {
                let call = if rng.below(100) < puts { Call::Put } else { Call::Get };
                Way::Daemon.call(&rt, target.call(call, &version, &mut bytes)).await?;
            }
            book.borrow_mut().push((rt.now() - begin).as_micros_f64() / f64::from(CALLS));
            Some(())
        }));
    }
    let times = cluster.below.finish(END, &results, clients as usize)?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

/// Figure 6(a): puts to different portions of one node's memory, by the number of clients.
pub(super) fn portions(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    let mut times = Vec::new();
    for clients in 1..=CLIENTS {
        let time = mean(profile, Which::Published(Sequence::Null), clients, 100, true)?;
        rows.push(Row::new("Figure 6(a)", "null", X::Number(clients.into()), "us", None, time));
        times.push(time);
    }
    let ratio = times[times.len() - 1] / times[0];
    rows.push(Row::new("Figure 6(a)", "null, 11 clients / 1", X::Name("put"), "ratio", 1.0, ratio));
    Ok(rows)
}

/// The shares of puts that Figure 6(b) has, in percent.
const SHARES: [u64; 6] = [0, 20, 40, 60, 80, 100];

/// Figure 6(b): gets and puts of one segment, by the share of puts.
pub(super) fn contention(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (nth, puts) in SHARES.into_iter().enumerate() {
        let x = X::Number(puts);
        for sequence in
            [Sequence::Null, Sequence::Version, Sequence::Delta, Sequence::Write, Sequence::Strict]
        {
            let time = mean(profile, Which::Published(sequence), CLIENTS, puts, false)?;
            rows.push(Row::new("Figure 6(b)", sequence.name(), x.clone(), "us", None, time));
        }
        for (name, model) in [("ours, write", Model::Write), ("ours, strict", Model::Strict)] {
            let time = mean(profile, Which::Ours(model), CLIENTS, puts, false)?;
            rows.push(Row::new("Figure 6(b)", name, x.clone(), "us", None, time));
        }
        progress((nth + 1) as f64 / SHARES.len() as f64);
    }
    Ok(rows)
}

/// How many transfers Figure 7 makes in a row; the paper does not say.
const TRANSFERS: u64 = 16;

/// The sizes of Figure 7, in bytes; the paper does not say.
const SIZES: [u32; 4] = [64, 4_096, 16_384, 65_536];

/// The time of a transfer that is one of a row, in microseconds.
fn transfer(profile: &Profile, call: Call, size: u32, waits: bool) -> Result<f64, PaperError> {
    let cluster = Cluster::new(profile, 2)?;
    let (segment, rt) = (cluster.segment(size)?.remove(0), cluster.machine(0).rt);
    let results = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&results);
    drop(rt.clone().spawn(async move {
        let once = |segment: Published<Sim>| async move {
            let mut bytes = vec![1; size as usize];
            match call {
                Call::Put => segment.put(Sequence::Null, 0, &bytes).await.ok(),
                Call::Get => segment.get(Sequence::Null, None, &mut bytes).await.ok(),
            }
        };
        once(segment.clone()).await?;
        rt.sleep_until(BEGIN).await;
        let (begin, mut begun) = (rt.now(), Vec::new());
        for _ in 0..TRANSFERS {
            match waits {
                true => drop(Way::Daemon.call(&rt, once(segment.clone())).await?),
                false => {
                    message(&rt);
                    begun.push(rt.spawn(once(segment.clone())));
                }
            }
        }
        if !waits {
            // One call waits for all.
            rt.spend(Work::IpcSend);
        }
        for transfer in begun {
            transfer.await??;
        }
        if !waits {
            message(&rt);
        }
        book.borrow_mut().push((rt.now() - begin).as_micros_f64() / TRANSFERS as f64);
        Some(())
    }));
    cluster.below.finish(END, &results, 1).map(|mut all| all.remove(0))
}

/// Figure 7: calls that wait for each transfer, and calls that wait for all of a row.
pub(super) fn asynchronous(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (name, call) in [("put", Call::Put), ("get", Call::Get)] {
        for size in SIZES {
            for (way, waits) in [("", true), (", asynchronous", false)] {
                let time = transfer(profile, call, size, waits)?;
                let series = format!("{name}{way}");
                rows.push(Row::new("Figure 7", series, X::Number(size.into()), "us", None, time));
            }
        }
    }
    Ok(rows)
}
