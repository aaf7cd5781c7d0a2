//! What many runs came to. It does not depend on the order in which runs end.

use crate::args::RunArgs;
use crate::metrics::{Clock, group, title};
use crate::report;
use crate::table::{Table, count, micros, wrap};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use weft_check::Verdict;
use weft_check::metrics::{Metrics, Percentiles};
use weft_check::run::{FaultCount, Report, RunError, hit_nothing};
use weft_check::scenario::{Override, Scenario};
use weft_check::seeds::Summary;
use weft_verbs::Nanos;

/// Most failing seeds that are listed; the number of all of them is told.
const MOST_LISTED: usize = 20;

/// The sum of many runs of one scenario.
#[derive(Debug, Serialize)]
pub struct Sum {
    title: String,
    system: &'static str,
    #[serde(flatten, serialize_with = "weft_check::run::named")]
    variant: Option<(&'static str, String)>,
    nodes: u32,
    profile: String,
    first_seed: u64,
    end_seed: u64,
    /// Of all seeds, or of those that were run so far.
    verdict: Verdict,
    /// What is odd about the scenario, and about its runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(flatten)]
    summary: Summary,
    /// The lowest seeds that violated a check.
    failing_seeds: BTreeSet<u64>,
    /// The command that makes the first of those runs again.
    rerun: Option<String>,
    #[serde(flatten)]
    latencies: Tables,
    events: u64,
    packets: u64,
    #[serde(skip)]
    file: PathBuf,
    #[serde(skip)]
    set: Vec<Override>,
}

/// How the runs' percentiles spread: a table of times by the name of its lines.
#[derive(Debug, Default)]
struct Tables(Vec<TimeTable>);

/// One table of times.
#[derive(Debug)]
struct TimeTable {
    key: &'static str,
    title: &'static str,
    head: &'static str,
    rows: Vec<(&'static str, Spreads)>,
}

impl Serialize for Tables {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|of| (of.key, Rows(&of.rows))))
    }
}

/// Lines of a table as the fields of an object.
struct Rows<'a>(&'a [(&'static str, Spreads)]);

impl Serialize for Rows<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, of)| (name, of)))
    }
}

impl Tables {
    fn add(&mut self, metrics: &Metrics) {
        for of in &metrics.latencies {
            let place = self.0.iter().position(|known| known.key == of.key).unwrap_or_else(|| {
                let rows = of.rows.iter().map(|(name, _)| (*name, Spreads::default())).collect();
                self.0.push(TimeTable { key: of.key, title: of.title, head: of.heads[0], rows });
                self.0.len() - 1
            });
            for ((_, spreads), (_, times)) in self.0[place].rows.iter_mut().zip(&of.rows) {
                spreads.add(times);
            }
        }
    }
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
            system: scenario.workload.kind().name,
            variant: scenario.workload.variant(),
            nodes: scenario.cluster.nodes,
            profile: scenario.cluster.profile.clone(),
            first_seed: seeds.start,
            end_seed: seeds.end,
            verdict: Verdict::HeldSoFar,
            warnings: scenario.warnings(),
            summary: Summary::default(),
            failing_seeds: BTreeSet::new(),
            rerun: None,
            latencies: Tables::default(),
            events: 0,
            packets: 0,
            file: args.scenario.clone(),
            set: args.set.clone(),
        }
    }

    /// Adds one run.
    pub fn add(&mut self, report: Report) {
        self.events += report.events;
        self.packets += report.packets;
        self.latencies.add(&report.metrics);
        let (seed, held) = (report.seed, report.held());
        self.summary.add(seed, Ok(report));
        self.verdict = Verdict::of(self.violated() == 0, self.runs() == self.all());
        if !held {
            self.failing_seeds.insert(seed);
            if self.failing_seeds.len() > MOST_LISTED {
                self.failing_seeds.pop_last();
            }
            self.rerun = self
                .summary
                .first_failure
                .as_ref()
                .map(|first| report::rerun(&self.file, &self.set, first.seed));
        }
    }

    /// No run is added any more: says what is odd about all of them.
    pub fn conclude(&mut self) {
        let faults: Vec<FaultCount> = self.summary.faults.values().copied().collect();
        self.warnings.extend(hit_nothing(&faults));
    }

    /// Notes a run that could not be made, or that the range was left before its end.
    pub fn fail(&mut self, seed: u64, error: RunError) {
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

    /// How many seeds were asked for.
    fn all(&self) -> u64 {
        self.end_seed - self.first_seed
    }

    /// What came of all that were.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.verdict_in_words();
        report::warnings(&self.warnings, &mut text);
        report::title(&self.title, &mut text);
        self.runs_table().print(&mut text);
        let groups = &self.summary.metrics.groups;
        let (first, rest) = groups.split_at(groups.len().min(1));
        first.iter().for_each(|of| group(of).print(&mut text));
        self.latencies.0.iter().for_each(|of| of.table().print(&mut text));
        rest.iter().for_each(|of| group(of).print(&mut text));
        let faults: Vec<FaultCount> = self.summary.faults.values().copied().collect();
        if !faults.is_empty() {
            report::faults(&faults).print(&mut text);
        }
        text
    }

    fn verdict_in_words(&self) -> String {
        let (runs, all) = (count(self.runs()), count(self.all()));
        let Some(first) = &self.summary.first_failure else {
            let held = if self.verdict == Verdict::Held { "HELD" } else { "HELD SO FAR" };
            return format!("{held}: all checks in {runs} of {all} runs\n");
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
        let (what, name) = match &self.variant {
            Some((what, name)) => (*what, name.as_str()),
            None => ("system", self.system),
        };
        let struck = format!("in {} of {} runs", count(self.summary.runs_struck), count(self.runs()));
        let orders = count(self.summary.distinct_orders.len() as u64);
        table
            .row([what.into(), name.into()])
            .row(["nodes, profile".into(), format!("{}, {}", self.nodes, self.profile)])
            .row(["seeds".into(), format!("{} to {}", self.first_seed, self.end_seed - 1)])
            .row(["different orders of events".into(), orders])
            .row(["a fault struck an operation in flight".into(), struck])
            .row(["longest run in virtual time".into(), Nanos(self.summary.longest_ns).to_string()])
            .row(["packets".into(), count(self.packets)])
            .row(["events".into(), count(self.events)]);
        table
    }
}

impl TimeTable {
    fn table(&self) -> Table {
        let heads = [self.head, "of a run", "lowest run", "mean run", "highest run"];
        let mut table = Table::new(&title(self.title, Clock::Virtual), 2, &heads);
        for (name, of) in &self.rows {
            for (figure, spread) in [("median", &of.p50_ns), ("p99", &of.p99_ns), ("maximum", &of.max_ns)] {
                if spread.runs > 0 {
                    let [least, mean, most] = [spread.least, spread.mean, spread.most].map(micros);
                    table.row([(*name).into(), figure.into(), least, mean, most]);
                }
            }
        }
        table
    }
}
