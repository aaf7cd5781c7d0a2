//! Cascading unlocks: Figure 7 (section 4.3).
//!
//! A node holds a lock exclusively and others wait for it; it lets go, and each that is granted the lock gives it
//! back at once.

use super::cluster::{Cluster, IPC, without};
use super::{COMPARED_AT, MOST_WAITERS, primitives, style};
use crate::paper::{PaperError, Row, X};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::{LockStats, Mode, Scheme};
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Wait};

/// Which time of a cascade is meant. All begin with the first holder's unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Until the first holder has heard of the last grant by one more message: what one clock can measure.
    LastHeard,
    /// Until the last grant.
    Last,
    /// Until a grant, on average.
    Mean,
}

impl Time {
    /// All of them.
    pub(super) const ALL: [Time; 3] = [Time::LastHeard, Time::Last, Time::Mean];

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Time::LastHeard => "last grant heard of",
            Time::Last => "last grant",
            Time::Mean => "mean grant",
        }
    }
}

/// How a cascade's measurement can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// How nodes learn of completions.
    pub(super) wait: Wait,
    /// Whether messages between application and daemon take their time.
    pub(super) ipc: bool,
    /// Which time counts.
    pub(super) time: Time,
}

impl Reading {
    /// The reading that agrees with the paper's percentages; see [`notes`](super::notes).
    pub(super) const COMPARED: Reading = Reading { wait: Wait::Poll, ipc: false, time: Time::LastHeard };

    /// In words.
    pub(super) fn words(self) -> String {
        let ipc = if self.ipc { "with IPC" } else { "no IPC" };
        format!("{}, {}, {ipc}", self.time.words(), style(self.wait))
    }

    /// The name of the series that says how far a scheme is above N-CoSED.
    pub(super) fn series(self, scheme: Scheme) -> String {
        match self == Reading::COMPARED {
            true => format!("{scheme} / ncosed"),
            false => format!("{scheme} / ncosed, {}", self.words()),
        }
    }
}

/// One cascade.
struct Cascade {
    /// From the unlock to each grant, in microseconds, in the order of the grants.
    grants: Vec<f64>,
    /// What one more message would take, in microseconds.
    message: f64,
    /// What the services did from the unlock on.
    used: LockStats,
}

impl Cascade {
    fn time(&self, time: Time) -> f64 {
        let last = self.grants.last().copied().unwrap_or_default();
        match time {
            Time::LastHeard => last + self.message,
            Time::Last => last,
            Time::Mean => self.grants.iter().sum::<f64>() / self.grants.len() as f64,
        }
    }
}

/// When what happens: everyone is connected by the first requests, the holder takes the lock, waiters queue one
/// after the other, the holder lets go.
const HELD: Nanos = Nanos::from_millis(200);
const QUEUE: Nanos = Nanos::from_millis(300);
const APART: Nanos = Nanos::from_millis(5);
const RELEASE: Nanos = Nanos::from_millis(600);
const END: Nanos = Nanos::from_millis(900);

fn cascade(
    profile: &Profile,
    scheme: Scheme,
    wait: Wait,
    mode: Mode,
    waiters: u32,
) -> Result<Cascade, PaperError> {
    let cluster = Cluster::new(profile, scheme, wait, MOST_WAITERS + 2)?;
    let key = cluster.key_of(MOST_WAITERS + 1);
    let times: Rc<RefCell<Vec<Nanos>>> = Rc::default();
    for node in 0..=waiters {
        let (rt, client) = cluster.application(node);
        let book = Rc::clone(&times);
        drop(rt.clone().spawn(async move {
            client.lock(key, mode).await.ok()?.unlock().await;
            match node {
                0 => {
                    rt.sleep_until(HELD).await;
                    let grant = client.lock(key, Mode::Exclusive).await.ok()?;
                    rt.sleep_until(RELEASE).await;
                    book.borrow_mut().push(rt.now());
                    grant.unlock().await;
                }
                _ => {
                    rt.sleep_until(QUEUE + APART * u64::from(node)).await;
                    let grant = client.lock(key, mode).await.ok()?;
                    book.borrow_mut().push(rt.now());
                    grant.unlock().await;
                }
            }
            Some(())
        }));
    }
    cluster.below.run_until(RELEASE - Nanos(1));
    let before = cluster.stats();
    cluster.finish(END)?;
    let times = times.take();
    if times.len() as u32 != waiters + 1 {
        return Err(PaperError::Unfinished(format!("{scheme}: {} of {waiters} were granted", times.len())));
    }
    let grants = times[1..].iter().map(|&time| (time - times[0]).as_micros_f64()).collect();
    Ok(Cascade { grants, message: primitives::send(profile, wait)?, used: cluster.stats() - before })
}

const FIGURES: [(&str, Mode); 2] = [("Figure 7(a)", Mode::Shared), ("Figure 7(b)", Mode::Exclusive)];

pub(super) fn rows(
    profile: &Profile,
    waiters: &[u32],
    mut progress: impl FnMut(f64),
) -> Result<Vec<Row>, PaperError> {
    let no_ipc = without(profile, &IPC)?;
    let (mut lines, mut compared) = (Vec::new(), Vec::new());
    for (part, (figure, mode)) in FIGURES.into_iter().enumerate() {
        for (nth, &waiters) in waiters.iter().enumerate() {
            for scheme in Scheme::ALL {
                let Reading { wait, time, .. } = Reading::COMPARED;
                let cascade = cascade(&no_ipc, scheme, wait, mode, waiters)?;
                let x = X::Number(waiters.into());
                lines.push(Row::new(figure, scheme.name(), x, "us", None, cascade.time(time)));
            }
            progress((part as f64 + nth as f64 / FIGURES.len() as f64) / 2.0);
        }
        compared.extend(comparison(figure, mode, [profile, &no_ipc])?);
    }
    lines.extend(compared);
    Ok(lines)
}

/// How far the schemes are above N-CoSED with sixteen waiters, in every reading, and what a hand-over takes.
fn comparison(figure: &'static str, mode: Mode, profiles: [&Profile; 2]) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for wait in [Wait::Poll, Wait::Notify] {
        for (profile, ipc) in [(profiles[1], false), (profiles[0], true)] {
            let run = |scheme| cascade(profile, scheme, wait, mode, COMPARED_AT);
            let all = Scheme::ALL.map(|scheme| run(scheme).map(|cascade| (scheme, cascade)));
            let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
            for time in Time::ALL {
                rows.extend(ratios(figure, mode, Reading { wait, ipc, time }, &all));
            }
            if (wait, ipc) == (Reading::COMPARED.wait, Reading::COMPARED.ipc) {
                rows.extend(all.iter().map(|(scheme, cascade)| hand_over(figure, mode, *scheme, cascade)));
            }
        }
    }
    Ok(rows)
}

fn ratios(figure: &'static str, mode: Mode, reading: Reading, all: &[(Scheme, Cascade)]) -> Vec<Row> {
    let time = |cascade: &Cascade| cascade.time(reading.time);
    let base = all.iter().find(|(scheme, _)| *scheme == Scheme::Ncosed).map(|(_, base)| time(base));
    let others = all.iter().filter(|(scheme, _)| *scheme != Scheme::Ncosed);
    let row = |(scheme, cascade): &(Scheme, Cascade)| {
        let (paper, measured) = (paper_ratio(*scheme, mode), time(cascade) / base?);
        Some(Row::new(
            figure,
            reading.series(*scheme),
            X::Number(COMPARED_AT.into()),
            "ratio",
            paper,
            measured,
        ))
    };
    others.filter_map(row).collect()
}

/// What the paper's text says of Figure 7.
fn paper_ratio(scheme: Scheme, mode: Mode) -> Option<f64> {
    match (scheme, mode) {
        (Scheme::Dqnl, Mode::Shared) => Some(4.17),
        (Scheme::Srsl, Mode::Shared) => Some(1.25),
        (Scheme::Dqnl, Mode::Exclusive) => Some(1.0),
        _ => None,
    }
}

/// How many messages there are from the unlock to the last grant and to rest, for each grant.
fn hand_over(figure: &'static str, mode: Mode, scheme: Scheme, cascade: &Cascade) -> Row {
    let paper = match (scheme, mode) {
        (Scheme::Srsl, Mode::Exclusive) => Some(2.0),
        (_, Mode::Exclusive) => Some(1.0),
        (_, Mode::Shared) => None,
    };
    let measured = cascade.used.messages_sent as f64 / f64::from(COMPARED_AT);
    let series = format!("{scheme}, messages");
    Row::new(figure, series, X::Number(COMPARED_AT.into()), "count", paper, measured)
}
