//! Lock requests: how many the simulator gets through, and what they take in virtual time.

use super::{BenchError, Took, process, rate, timed, within};
use crate::lock_world::{self, Latencies, ProtocolCounts, Report, RunOptions};
use crate::scenario::Scenario;
use serde::Serialize;
use weft_protocols::locks::Scheme;

/// A lock service to be measured: every node has one client that asks for one lock after the other, half of
/// them shared, by a skewed popularity. Runs as `weft run` runs it: every oracle looks on.
#[derive(Clone, Debug)]
pub struct LockBench {
    /// How many nodes, 1 to 1,024.
    pub nodes: u32,
    /// How many requests in all, 1 to 10^8; rounded up to as many of each node.
    pub requests: u64,
    /// The calibration profile's name.
    pub profile: String,
}

/// What was measured of one scheme.
#[derive(Clone, Debug, Serialize)]
pub struct LockFigures {
    /// The scheme.
    pub scheme: String,
    /// How many nodes.
    pub nodes: u32,
    /// Requests that were made; all were granted.
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
    /// Grants a second of virtual time.
    pub grants_per_virtual_second: f64,
    /// From the call of `lock` to its return, in virtual time.
    pub latency: Latencies,
    /// What the service and its transport did.
    pub protocol: ProtocolCounts,
    /// The most memory that the process has had so far, in bytes; `None` where the system does not say.
    pub peak_bytes: Option<u64>,
}

impl LockBench {
    /// Sixteen nodes and 20,000 requests on present-day machines.
    pub fn new() -> LockBench {
        LockBench { nodes: 16, requests: 20_000, profile: "present-day".to_string() }
    }

    /// Measures a scheme.
    pub fn run(&self, scheme: Scheme) -> Result<LockFigures, BenchError> {
        within("nodes", self.nodes, 1, 1_024)?;
        within("requests", self.requests, 1, 100_000_000)?;
        let scenario = self.scenario(scheme)?;
        let seed = scenario.run.seed;
        let (took, run) = timed(|| lock_world::run(&scenario, seed, RunOptions::default()));
        let report = run.map_err(BenchError::cluster)?;
        if !report.held() {
            return Err(BenchError::Broken(format!("{scheme} violated a check")));
        }
        Ok(figures(&report, took))
    }

    /// Written as a user would write it.
    fn scenario(&self, scheme: Scheme) -> Result<Scenario, BenchError> {
        let LockBench { nodes, requests, profile } = self;
        let each = requests.div_ceil(u64::from(*nodes));
        let text = format!(
            "[cluster]\nnodes = {nodes}\nprofile = {profile:?}\n\
             [workload]\nkind = \"locks\"\nscheme = \"{scheme}\"\nlocks = {nodes}\nkeys = {{ zipf = 0.99 }}\n\
             shared = 0.5\nrequests = {each}\nthink = {{ min = \"0us\", max = \"50us\" }}\nhold = \"2us\"\n\
             [run]\nlimit = \"60min\"\n"
        );
        Scenario::parse(&text).map_err(BenchError::cluster)
    }
}

impl Default for LockBench {
    fn default() -> LockBench {
        LockBench::new()
    }
}

fn figures(report: &Report, took: Took) -> LockFigures {
    LockFigures {
        scheme: report.scheme.clone(),
        nodes: report.nodes,
        requests: report.requests.made,
        requests_per_second: rate(report.requests.made, took.wall),
        wall_seconds: took.wall,
        cpu_seconds: took.cpu,
        virtual_seconds: report.virtual_ns as f64 / 1e9,
        events: report.events,
        events_per_second: rate(report.events, took.wall),
        packets: report.packets,
        grants_per_virtual_second: report.grants_per_second,
        latency: report.latency,
        protocol: report.protocol,
        peak_bytes: process::peak(),
    }
}
