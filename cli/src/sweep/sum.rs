//! What many runs came to. It does not depend on the order in which runs end.

use crate::args::RunArgs;
use crate::table::{Table, count, micros, wrap};
use crate::{report, run};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use weft_check::lock_world::{FaultCount, Percentiles, Report, RunError};
use weft_check::scenario::Scenario;
use weft_check::seeds::Summary;
use weft_verbs::Nanos;

/// Most failing seeds that are listed; the number of all of them is told.
const MOST_LISTED: usize = 20;

/// The sum of many runs of one scenario.
#[derive(Debug, Serialize)]
pub struct Sum {
    title: String,
    scheme: String,
    nodes: u32,
    profile: String,
    first_seed: u64,
    end_seed: u64,
    #[serde(flatten)]
    summary: Summary,
    /// The lowest seeds that violated a check.
    failing_seeds: BTreeSet<u64>,
    /// The command that makes the first of those runs again.
    rerun: Option<String>,
    latency: Modes,
    events: u64,
    packets: u64,
    #[serde(skip)]
    file: PathBuf,
}

/// How the runs' percentiles spread, by mode.
#[derive(Debug, Default, Serialize)]
struct Modes {
    exclusive: Spreads,
    shared: Spreads,
}

#[derive(Debug, Default, Serialize)]
struct Spreads {
    p50_ns: Spread,
    p99_ns: Spread,
    max_ns: Spread,
}

/// The smallest, the mean and the largest of a figure over the runs that have it.
#[derive(Debug, Default, Serialize)]
struct Spread {
    runs: u64,
    least: u64,
    mean: u64,
    most: u64,
    #[serde(skip)]
    sum: u128,
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.least = if self.runs == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.runs += 1;
        self.sum += u128::from(value);
        self.mean = (self.sum / u128::from(self.runs)) as u64;
    }
}

impl Spreads {
    fn add(&mut self, of: &Percentiles) {
        if of.count > 0 {
            self.p50_ns.add(of.p50_ns);
            self.p99_ns.add(of.p99_ns);
            self.max_ns.add(of.max_ns);
        }
    }
}

impl Sum {
    /// Of no run yet.
    pub fn new(args: &RunArgs, scenario: &Scenario, seeds: &Range<u64>) -> Sum {
        Sum {
            title: scenario.title.clone(),
            scheme: scenario.workload.scheme.to_string(),
            nodes: scenario.cluster.nodes,
            profile: scenario.cluster.profile.clone(),
            first_seed: seeds.start,
            end_seed: seeds.end,
            summary: Summary::default(),
            failing_seeds: BTreeSet::new(),
            rerun: None,
            latency: Modes::default(),
            events: 0,
            packets: 0,
            file: args.scenario.clone(),
        }
    }

    /// Adds one run.
    pub fn add(&mut self, report: Report) {
        self.events += report.events;
        self.packets += report.packets;
        self.latency.exclusive.add(&report.latency.exclusive);
        self.latency.shared.add(&report.latency.shared);
        let (seed, held) = (report.seed, report.held());
        self.summary.add(seed, Ok(report));
        if !held {
            self.failing_seeds.insert(seed);
            if self.failing_seeds.len() > MOST_LISTED {
                self.failing_seeds.pop_last();
            }
            self.rerun = self.summary.first_failure.as_ref().map(|first| run::rerun(&self.file, first));
        }
    }

    /// Notes a run that could not be made, or that the range was left before its end.
    pub fn fail(&mut self, seed: u64, error: RunError) {
        self.summary.stopped |= matches!(error, RunError::Interrupted { .. });
        self.summary.add(seed, Err(error));
    }

    /// How many seeds were run to their end.
    pub fn runs(&self) -> u64 {
        self.summary.runs
    }

    /// How many of them violated a check.
    pub fn violated(&self) -> u64 {
        self.summary.violated
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.verdict();
        report::title(&self.title, &mut text);
        self.runs_table().print(&mut text);
        report::requests(&self.summary.requests).print(&mut text);
        self.latency_table().print(&mut text);
        report::protocol(&self.summary.protocol).print(&mut text);
        let faults: Vec<FaultCount> = self.summary.faults.values().copied().collect();
        if !faults.is_empty() {
            report::faults(&faults).print(&mut text);
        }
        text
    }

    fn verdict(&self) -> String {
        let (runs, all) = (count(self.runs()), count(self.end_seed - self.first_seed));
        let Some(first) = &self.summary.first_failure else {
            return format!("HELD: all checks in {runs} runs of {all}\n");
        };
        let violated = self.violated();
        let mut text = format!("VIOLATED: in {} of {runs} runs\n", count(violated));
        let seeds: Vec<String> = self.failing_seeds.iter().map(u64::to_string).collect();
        let more = if violated > seeds.len() as u64 { ", ..." } else { "" };
        let _ = writeln!(text, "  seeds {}{more}", seeds.join(", "));
        if let Some(violation) = first.violations.first() {
            wrap(&format!("seed {}: {violation}", first.seed), 2, &mut text);
        }
        if let Some(rerun) = &self.rerun {
            let _ = writeln!(text, "The first of them again: {rerun}");
        }
        text
    }

    fn runs_table(&self) -> Table {
        let mut table = Table::facts("Runs");
        let struck = format!("in {} of {} runs", count(self.summary.runs_struck), count(self.runs()));
        table
            .row(["scheme".into(), self.scheme.clone()])
            .row(["nodes, profile".into(), format!("{}, {}", self.nodes, self.profile)])
            .row(["seeds".into(), format!("{} to {}", self.first_seed, self.end_seed - 1)])
            .row(["a fault struck an operation in flight".into(), struck])
            .row(["longest run in virtual time".into(), Nanos(self.summary.longest_ns).to_string()])
            .row(["packets".into(), count(self.packets)])
            .row(["events".into(), count(self.events)]);
        table
    }

    fn latency_table(&self) -> Table {
        let title = "Time from request to grant, in microseconds of virtual time";
        let mut table = Table::new(title, 2, &["mode", "of a run", "lowest run", "mean run", "highest run"]);
        for (mode, of) in [("exclusive", &self.latency.exclusive), ("shared", &self.latency.shared)] {
            for (name, spread) in [("median", &of.p50_ns), ("p99", &of.p99_ns), ("maximum", &of.max_ns)] {
                if spread.runs > 0 {
                    let [least, mean, most] = [spread.least, spread.mean, spread.most].map(micros);
                    table.row([mode.into(), name.into(), least, mean, most]);
                }
            }
        }
        table
    }
}
