//! What many runs came to. Sums do not depend on the order in which runs end.

use crate::args::RunArgs;
use crate::table::{Table, count, micros};
use crate::{report, run};
use model_tests::lock_world::{FaultCount, Percentiles, ProtocolCounts, Report, Requests};
use model_tests::scenario::{FaultKind, Scenario};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;

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
    /// Seeds that were run to their end.
    pub runs: u64,
    /// How many of them violated a check.
    pub violated: u64,
    /// The lowest seeds that did.
    failing_seeds: BTreeSet<u64>,
    /// The report of the lowest.
    first_failure: Option<Box<Report>>,
    /// The command that makes that run again.
    rerun: Option<String>,
    /// Runs in which some fault struck an operation in flight.
    runs_struck: u64,
    requests: Requests,
    latency: Modes,
    protocol: ProtocolCounts,
    #[serde(serialize_with = "values")]
    faults: BTreeMap<FaultKind, FaultCount>,
    virtual_ns: u64,
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
            runs: 0,
            violated: 0,
            failing_seeds: BTreeSet::new(),
            first_failure: None,
            rerun: None,
            runs_struck: 0,
            requests: Requests::default(),
            latency: Modes::default(),
            protocol: ProtocolCounts::default(),
            faults: BTreeMap::new(),
            virtual_ns: 0,
            events: 0,
            packets: 0,
            file: args.scenario.clone(),
        }
    }

    /// Adds one run.
    pub fn add(&mut self, report: Report) {
        self.runs += 1;
        self.runs_struck += u64::from(report.faults.iter().any(|fault| fault.struck > 0));
        self.virtual_ns += report.virtual_ns;
        self.events += report.events;
        self.packets += report.packets;
        self.latency.exclusive.add(&report.latency.exclusive);
        self.latency.shared.add(&report.latency.shared);
        add_requests(&mut self.requests, &report.requests);
        add_protocol(&mut self.protocol, &report.protocol);
        for fault in &report.faults {
            let sum = self.faults.entry(fault.kind).or_insert(FaultCount {
                injected: 0,
                struck: 0,
                packets_hit: 0,
                ..*fault
            });
            sum.injected += fault.injected;
            sum.struck += fault.struck;
            sum.packets_hit += fault.packets_hit;
        }
        if !report.held() {
            self.violate(report);
        }
    }

    fn violate(&mut self, report: Report) {
        self.violated += 1;
        self.failing_seeds.insert(report.seed);
        if self.failing_seeds.len() > MOST_LISTED {
            self.failing_seeds.pop_last();
        }
        if self.failing_seeds.first() == Some(&report.seed) {
            self.rerun = Some(run::rerun(&self.file, &report));
            self.first_failure = Some(Box::new(report));
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.verdict();
        report::title(&self.title, &mut text);
        self.runs_table().print(&mut text);
        report::requests(&self.requests).print(&mut text);
        self.latency_table().print(&mut text);
        report::protocol(&self.protocol).print(&mut text);
        let faults: Vec<FaultCount> = self.faults.values().copied().collect();
        if !faults.is_empty() {
            report::faults(&faults).print(&mut text);
        }
        text
    }

    fn verdict(&self) -> String {
        let Some(first) = &self.first_failure else {
            return format!("HELD: all checks, in {} of {} runs\n", count(self.runs), count(self.runs));
        };
        let mut text = format!("VIOLATED: in {} of {} runs\n", count(self.violated), count(self.runs));
        let seeds: Vec<String> = self.failing_seeds.iter().map(u64::to_string).collect();
        let more = if self.violated > seeds.len() as u64 { ", ..." } else { "" };
        let _ = writeln!(text, "  seeds {}{more}", seeds.join(", "));
        if let Some(violation) = first.violations.first() {
            let _ = writeln!(text, "  seed {}: {violation}", first.seed);
        }
        if let Some(rerun) = &self.rerun {
            let _ = writeln!(text, "The first again: {rerun}");
        }
        text
    }

    fn runs_table(&self) -> Table {
        let mut table = Table::facts("Runs");
        let last = self.end_seed - 1;
        let struck = format!("{} of {} runs", count(self.runs_struck), count(self.runs));
        table
            .row(["scheme".into(), self.scheme.clone()])
            .row(["nodes, profile".into(), format!("{}, {}", self.nodes, self.profile)])
            .row(["seeds".into(), format!("{} to {last}", self.first_seed)])
            .row(["a fault struck an operation in flight".into(), format!("in {struck}")])
            .row(["virtual time".into(), verbs_trait::Nanos(self.virtual_ns).to_string()])
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

fn add_requests(sum: &mut Requests, new: &Requests) {
    let Requests { made, granted, timed_out, refused, failed, unended } = *new;
    sum.made += made;
    sum.granted += granted;
    sum.timed_out += timed_out;
    sum.refused += refused;
    sum.failed += failed;
    sum.unended += unended;
}

fn add_protocol(sum: &mut ProtocolCounts, new: &ProtocolCounts) {
    let ProtocolCounts {
        messages,
        atomics,
        atomic_retries,
        unknown_fates,
        rebuilds,
        reconnects,
        resent,
        duplicates,
    } = *new;
    sum.messages += messages;
    sum.atomics += atomics;
    sum.atomic_retries += atomic_retries;
    sum.unknown_fates += unknown_fates;
    sum.rebuilds += rebuilds;
    sum.reconnects += reconnects;
    sum.resent += resent;
    sum.duplicates += duplicates;
}

fn values<S: serde::Serializer>(of: &BTreeMap<FaultKind, FaultCount>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(of.values())
}
