//! One request at a time: Figures 5 and 6, Table 2, and what an unlock takes (sections 4.1 and 4.2).

use super::cluster::{BOOKKEEPING, Cluster, IPC, without};
use super::{in_the_paper, style};
use crate::paper::{PaperError, Row, X};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{LockStats, Mode, Scheme};
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Wait};

/// How often each request is made; all take the same time, but for coincidences.
const ROUNDS: u64 = 20;

/// Between two requests: as long as it takes for all that a release does behind its holder's back.
const PAUSE: Nanos = Nanos::from_millis(5);

/// What one request takes, and one release.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Mean times as the application sees them, in microseconds.
    lock: f64,
    unlock: f64,
    /// What is used from the request to the grant, on average.
    messages: f64,
    atomics: f64,
}

/// A node that is not the lock's home locks and unlocks.
fn cost(profile: &Profile, scheme: Scheme, wait: Wait, mode: Mode) -> Result<Cost, PaperError> {
    let cluster = Rc::new(Cluster::new(profile, scheme, wait, 3)?);
    let key = cluster.key_of(2);
    let (rt, client) = cluster.application(0);
    let (spent, used) = (Rc::new(Cell::new([Nanos::ZERO; 2])), Rc::new(RefCell::new(LockStats::default())));
    let (times, counts, all) = (Rc::clone(&spent), Rc::clone(&used), Rc::downgrade(&cluster));
    drop(rt.clone().spawn(async move {
        let stats = || all.upgrade().map(|cluster| cluster.stats()).unwrap_or_default();
        // The first one connects, and asks where the word is.
        client.lock(key, mode).await.ok()?.unlock().await;
        for _ in 0..ROUNDS {
            rt.sleep(PAUSE).await;
            let (before, begin) = (stats(), rt.now());
            let grant = client.lock(key, mode).await.ok()?;
            let held = rt.now();
            *counts.borrow_mut() += stats() - before;
            grant.unlock().await;
            let [lock, unlock] = times.get();
            times.set([lock + (held - begin), unlock + (rt.now() - held)]);
        }
        Some(())
    }));
    cluster.finish(PAUSE * (ROUNDS + 10) + Nanos::from_secs(1))?;
    let (counts, [lock, unlock]) = (*used.borrow(), spent.get());
    if counts.grants != ROUNDS {
        return Err(PaperError::Unfinished(format!("{scheme} granted {} of {ROUNDS}", counts.grants)));
    }
    let mean = |sum: Nanos| sum.as_micros_f64() / ROUNDS as f64;
    let each = |sum: u64| sum as f64 / ROUNDS as f64;
    Ok(Cost {
        lock: mean(lock),
        unlock: mean(unlock),
        messages: each(counts.messages_sent),
        atomics: each(counts.compare_swaps + counts.fetch_adds),
    })
}

/// The paper's Figure 5, in microseconds.
fn figure_5(scheme: Scheme, wait: Wait) -> Option<f64> {
    in_the_paper(scheme).then_some(match (scheme, wait) {
        (Scheme::Srsl, Wait::Poll) => 16.0,
        (Scheme::Srsl, Wait::Notify) => 27.37,
        (_, Wait::Poll) => 14.02,
        (_, Wait::Notify) => 19.6,
    })
}

/// The network's part by Table 2 from Table 1, in microseconds.
fn by_the_cost_model(scheme: Scheme, wait: Wait) -> Option<f64> {
    in_the_paper(scheme).then_some(match (scheme, wait) {
        (Scheme::Srsl, Wait::Poll) => 2.0 * 4.07,
        (Scheme::Srsl, Wait::Notify) => 2.0 * 11.18,
        (_, Wait::Poll) => 5.78,
        (_, Wait::Notify) => 12.97,
    })
}

pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let network_only = without(profile, &[&IPC[..], &BOOKKEEPING[..]].concat())?;
    let no_ipc = without(profile, &IPC)?;
    let (mut basic, mut parts, mut unlocks, mut models) = (vec![], vec![], vec![], vec![]);
    for (figure, wait) in [("Figure 5(a)", Wait::Poll), ("Figure 5(b)", Wait::Notify)] {
        let mut exclusive = Vec::new();
        for scheme in Scheme::ALL {
            for (mode, x) in [(Mode::Exclusive, X::Name("exclusive")), (Mode::Shared, X::Name("shared"))] {
                let whole = cost(profile, scheme, wait, mode)?;
                basic.push(Row::new(figure, scheme.name(), x, "us", figure_5(scheme, wait), whole.lock));
                if mode == Mode::Exclusive {
                    let network = cost(&network_only, scheme, wait, mode)?.lock;
                    parts.extend(breakup(scheme, wait, network, whole.lock));
                    unlocks.push(unlock(scheme, wait, whole.unlock));
                    if wait == Wait::Poll {
                        let ipc =
                            (whole.lock - cost(&no_ipc, scheme, wait, mode)?.lock) / micros(profile.ipc());
                        models.extend(model(scheme, &whole, ipc, profile));
                    }
                    exclusive.push((scheme, whole.lock));
                }
            }
        }
        basic.extend(ratio(figure, wait, &exclusive));
    }
    Ok([basic, parts, unlocks, models].concat())
}

/// The figure that the paper stresses: how far SRSL is above N-CoSED.
fn ratio(figure: &'static str, wait: Wait, exclusive: &[(Scheme, f64)]) -> Option<Row> {
    let ours = |wanted| exclusive.iter().find(|(scheme, _)| *scheme == wanted).map(|(_, time)| *time);
    let paper = figure_5(Scheme::Srsl, wait)? / figure_5(Scheme::Ncosed, wait)?;
    let measured = ours(Scheme::Srsl)? / ours(Scheme::Ncosed)?;
    Some(Row::new(figure, "srsl / ncosed", X::Name("exclusive"), "ratio", paper, measured))
}

fn breakup(scheme: Scheme, wait: Wait, network: f64, whole: f64) -> [Row; 2] {
    let paper = by_the_cost_model(scheme, wait);
    let rest = figure_5(scheme, wait).zip(paper).map(|(whole, network)| whole - network);
    let row = |part: &str, paper, measured| {
        Row::new("Figure 6", format!("{scheme}, {part}"), X::Name(style(wait)), "us", paper, measured)
    };
    [row("network", paper, network), row("IPC and bookkeeping", rest, whole - network)]
}

fn unlock(scheme: Scheme, wait: Wait, measured: f64) -> Row {
    let paper = in_the_paper(scheme).then_some(1.1);
    Row::new("Section 4.2, unlock", scheme.name(), X::Name(style(wait)), "us", paper, measured)
}

/// Table 2: what is used, counted; IPC by the share of the latency that goes with its price.
fn model(scheme: Scheme, cost: &Cost, ipc: f64, profile: &Profile) -> [Row; 4] {
    let known = |n: f64| in_the_paper(scheme).then_some(n);
    let (sends, atomics) = if scheme == Scheme::Srsl { (2.0, 0.0) } else { (0.0, 1.0) };
    let initiations = cost.unlock / micros(Nanos(profile.cpu.ipc_send_ns));
    let row = |what: &str, x, paper, measured| {
        let mut row = Row::new("Table 2", format!("{scheme}, {what}"), X::Name(x), "count", paper, measured);
        // Nothing is so many percent of nothing.
        row.deviation_percent = row.deviation_percent.filter(|percent| percent.is_finite());
        if row.paper == Some(row.measured) {
            row.deviation_percent = Some(0.0);
        }
        row
    };
    [
        row("messages", "lock", known(sends), cost.messages),
        row("atomics", "lock", known(atomics), cost.atomics),
        row("IPC messages", "lock", known(2.0), ipc),
        row("IPC initiations", "unlock", known(1.0), initiations),
    ]
}

fn micros(time: Nanos) -> f64 {
    time.as_micros_f64()
}
