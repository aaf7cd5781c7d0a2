//! A system's requests: how many the simulator gets through, and what they take in virtual time.

use super::{BenchError, Took, process, rate, timed, within};
use crate::fields::Span;
use crate::metrics::Metrics;
use crate::oracle::Oracles;
use crate::run::{Report, RunOptions, World};
use crate::scenario::{Cluster, Run, Scenario, Transport, Workload};
use crate::system::System;
use serde::Serialize;
use weft_verbs::Nanos;

/// A system to be measured, without faults: every node has one client that makes one request after the other. Runs as
/// `weft run` runs it: every oracle looks on.
#[derive(Clone, Debug)]
pub struct SystemBench {
    /// How many nodes, 1 to 1,024.
    pub nodes: u32,
    /// How many requests in all, 1 to 10^8; rounded up to as many of each node.
    pub requests: u64,
    /// The calibration profile's name.
    pub profile: String,
}

/// What was measured of one variant of a system.
#[derive(Clone, Debug, Serialize)]
pub struct SystemFigures {
    /// The system.
    pub system: &'static str,
    /// The variant; empty if there are none.
    pub variant: &'static str,
    /// How many nodes.
    pub nodes: u32,
    /// Requests that were made; all have ended.
    pub requests: u64,
    /// Requests a second of wall clock.
    pub requests_per_second: f64,
    /// How long the run took in wall-clock time.
    pub wall_seconds: f64,
    /// For how long of that the thread had a processor; `None` where the system does not say.
    pub cpu_seconds: Option<f64>,
    /// How long it took in virtual time.
    pub virtual_seconds: f64,
    /// Events that the fabric processed.
    pub events: u64,
    /// Events a second of wall clock.
    pub events_per_second: f64,
    /// Packets that the fabric carried.
    pub packets: u64,
    /// The system's own figures, in virtual time.
    pub metrics: Metrics,
    /// The most memory that the process has had so far, in bytes; `None` where the system does not say.
    pub peak_bytes: Option<u64>,
}

impl Default for SystemBench {
    /// Sixteen nodes and 20,000 requests on present-day machines.
    fn default() -> SystemBench {
        SystemBench { nodes: 16, requests: 20_000, profile: "present-day".to_string() }
    }
}

impl SystemBench {
    /// Measures a variant of a system.
    ///
    /// # Errors
    ///
    /// A number is out of its bounds, the cluster cannot be built, the run broke off, or a check was violated.
    pub fn run<S: System>(&self, variant: &'static str) -> Result<SystemFigures, BenchError> {
        within("nodes", self.nodes, 1, 1_024)?;
        within("requests", self.requests, 1, 100_000_000)?;
        let scenario = self.scenario::<S>(variant);
        scenario.check().map_err(|broken| BenchError::Refused(broken.problem))?;
        let (took, run) = timed(|| {
            let mut world = World::<S>::seeded(&scenario, 0).map_err(BenchError::of_run)?;
            world.start_clients();
            let recorder = world.recorder().clone();
            let report = world.run(RunOptions::default()).map_err(BenchError::of_run)?;
            Ok((report, recorder.judge(|judge| judge.oracles().ended())))
        });
        let (report, requests) = run?;
        if !report.held() {
            return Err(self.violated(S::KIND, variant, &report));
        }
        let Took { wall, cpu } = took;
        Ok(SystemFigures {
            system: S::KIND,
            variant,
            nodes: report.nodes,
            requests,
            requests_per_second: rate(requests, wall),
            wall_seconds: wall,
            cpu_seconds: cpu,
            virtual_seconds: report.virtual_ns as f64 / 1e9,
            events: report.events,
            events_per_second: rate(report.events, wall),
            packets: report.packets,
            metrics: report.metrics,
            peak_bytes: process::peak(),
        })
    }

    fn violated(&self, kind: &str, variant: &str, report: &Report) -> BenchError {
        let SystemBench { nodes, requests, profile } = self;
        let (variant, only) = match variant.is_empty() {
            true => (String::new(), String::new()),
            false => (format!(" {variant}"), format!(" --variant {variant}")),
        };
        BenchError::Violated {
            what: format!("{kind}{variant}"),
            violation: report.violations.iter().map(ToString::to_string).next().unwrap_or_default(),
            again: format!(
                "weft bench {kind}{only} --nodes {nodes} --requests {requests} --profile {profile}"
            ),
        }
    }

    fn scenario<S: System>(&self, variant: &str) -> Scenario {
        let SystemBench { nodes, requests, ref profile } = *self;
        let each = requests.div_ceil(u64::from(nodes)) as u32;
        let cluster = Cluster { profile: profile.clone(), ..Cluster::exact(nodes) };
        Scenario {
            title: String::new(),
            cluster,
            transport: Transport::default(),
            workload: Workload::of::<S>(S::bench(nodes, each, variant)),
            quits: None,
            // What the machine has is what it may take.
            run: Run { limit: Span(Nanos::from_secs(3_600)), memory: u32::MAX, ..Run::default() },
            faults: Vec::new(),
        }
    }
}
