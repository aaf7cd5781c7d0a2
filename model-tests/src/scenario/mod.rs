//! Scenario files: a cluster, a workload, faults, and how long all that may take.
//!
//! [`Scenario::load`] reads one; what it accepts is described on the fields of [`Scenario`] and its parts. A
//! file that cannot be run is refused with one line that names the file, the line, the field, the value, the
//! bound and what to do; nothing is run by half.

mod check;
mod error;
mod locate;
mod schema;
mod scheme;
mod swarm;
mod targets;
mod units;

pub use error::{Place, ScenarioError};
pub use schema::{
    Cluster, Connect, FaultKind, FaultSpec, Keys, Pair, Pick, Run, Scenario, Topology, Transport, WaitStyle,
    WaySpec, Workload, WorkloadKind,
};
pub use swarm::{swarm, swarm_by, swarm_of};
pub use units::{Rate, Share, Span, Spread};
/// A lock scheme, by its name in scenario files.
pub use weft_protocols::locks::Scheme;

#[cfg(test)]
mod tests;

use locate::Document;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

impl Scenario {
    /// Reads a scenario file and checks it.
    pub fn load(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let bytes = read_bounded(path)
            .map_err(|error| ScenarioError::Unreadable { file: file.clone(), why: error.to_string() })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            ScenarioError::NotUtf8 { file: file.clone(), line }
        })?;
        Scenario::parse_named(&file, text)
    }

    /// Reads a scenario from text that has no file; errors name it `scenario`.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_named("scenario", text)
    }

    /// Reads a scenario from text; errors name it `file`.
    pub fn parse_named(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let document = Document::new(file, text)?;
        let scenario: Scenario = toml::from_str(text).map_err(|error| error::from_toml(&document, &error))?;
        check::check(&scenario).map_err(|broken| error::from_rule(&document, broken))?;
        Ok(scenario)
    }
}

/// The largest scenario file. One has a few kilobytes; a device such as `/dev/zero` has no end.
const MOST_BYTES: u64 = 1 << 20;

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it is larger than a megabyte"));
    }
    Ok(bytes)
}
