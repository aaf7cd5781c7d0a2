//! Scenario files: a cluster, a workload, faults, and how long all that may take.
//!
//! [`load`](crate::load) reads one; what it accepts is described on the fields of [`Scenario`] and its parts. A
//! file that cannot be run is refused with one line that names the file, the line, the field, the value, the
//! bound and what to do; nothing is run by half.

mod check;
mod error;
mod jitter;
mod locate;
mod membership;
mod overrides;
mod quits;
mod schema;
mod settle;
mod swarm;
mod targets;
mod warnings;
mod workload;

pub use crate::fields::{Rate, Share, Span, Spread};
pub use error::{Place, ScenarioError, nearest};
pub use jitter::Jitter;
pub use membership::Membership;
pub use overrides::Override;
pub use quits::{Quits, Quitter};
pub use schema::{
    Cluster, Connect, FAULT_KINDS, FaultSpec, Keys, Pair, Pick, Run, Scenario, Topology, Transport,
    WaitStyle, WaySpec,
};
pub(crate) use swarm::some_nodes;
pub use swarm::{seeded as seeded_swarm, swarm};
pub use weft_sim::fault::FaultKind;
pub use workload::{Kind, Workload};

#[cfg(test)]
mod tests;

use crate::fields::{Rule, Step};
use locate::Document;
use schema::Body;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;
use weft_sim::profile::Profile;

impl Scenario {
    /// Reads a scenario file and checks it, with the fields that are given instead of the file's. `kinds` are the systems
    /// that there are.
    pub fn load_with(
        path: impl AsRef<Path>,
        overrides: &[Override],
        kinds: &[Kind],
    ) -> Result<Scenario, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let bytes = read_bounded(path)
            .map_err(|error| ScenarioError::Unreadable { file: file.clone(), why: error.to_string() })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            ScenarioError::NotUtf8 { file: file.clone(), line }
        })?;
        Scenario::parse_in(path.parent(), &file, text, overrides, kinds)
    }

    /// Reads a scenario from text; errors name it `file`.
    pub fn parse_with(
        file: &str,
        text: &str,
        overrides: &[Override],
        kinds: &[Kind],
    ) -> Result<Scenario, ScenarioError> {
        Scenario::parse_in(None, file, text, overrides, kinds)
    }

    /// Reads a scenario that stands in a folder, where a profile's file may be.
    fn parse_in(
        folder: Option<&Path>,
        file: &str,
        text: &str,
        overrides: &[Override],
        kinds: &[Kind],
    ) -> Result<Scenario, ScenarioError> {
        let read = |overrides: &[Override]| Scenario::read_in(folder, file, text, overrides, kinds);
        let with = |field: Override| read(&[overrides, &[field]].concat()).err();
        read(overrides).map_err(|error| error::bounded(error, with))
    }

    fn read_in(
        folder: Option<&Path>,
        file: &str,
        text: &str,
        overrides: &[Override],
        kinds: &[Kind],
    ) -> Result<Scenario, ScenarioError> {
        let document = Document::new(file, text, overrides)?;
        let told = |error: toml::de::Error| error::from_toml(&document, &error);
        let Body { title, mut cluster, transport, _workload: _, quits, run, faults } =
            Body::deserialize(document.deserializer()).map_err(told)?;
        // A file is looked for beside the scenario, and then where the program runs.
        let beside = folder.map(|folder| folder.join(&cluster.profile));
        if let Some(beside) = beside.filter(|path| Profile::is_file(&cluster.profile) && path.is_file()) {
            cluster.profile = beside.display().to_string();
        }
        let workload = workload(&document, kinds)?;
        let scenario = Scenario { title, cluster, transport, workload, quits, run, faults };
        scenario.check().map_err(|broken| error::from_rule(&document, broken))?;
        Ok(scenario)
    }

    /// The rules that its types cannot express.
    pub(crate) fn check(&self) -> Rule {
        check::check(self)
    }
}

/// Reads `[workload]` as the system does that its `kind` names.
fn workload(document: &Document<'_>, kinds: &[Kind]) -> Result<Workload, ScenarioError> {
    let refused =
        |path: Vec<Step>, problem| error::from_rule(document, crate::fields::Broken { path, problem });
    let at_kind = || crate::fields::in_section("workload", "kind");
    let known = || {
        let names: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", kind.name)).collect();
        names.join(", ")
    };
    let section = document.value("workload");
    let Some(DeValue::Table(table)) = section.map(Spanned::get_ref) else {
        return Err(refused(vec![Step::Field("workload".into())], "expected a section with fields".into()));
    };
    let named = match table.get("kind").map(Spanned::get_ref) {
        Some(DeValue::String(name)) => name,
        Some(_) => return Err(refused(at_kind(), "expected text in quotes".into())),
        None => {
            return Err(refused(at_kind(), format!("write which system it is about; there are {}", known())));
        }
    };
    let Some(kind) = kinds.iter().find(|kind| kind.name == named.as_ref()) else {
        return Err(refused(at_kind(), format!("no such choice; there are {}", known())));
    };
    let mut own = table.clone();
    own.remove("kind");
    let span = section.map_or(0..0, Spanned::span);
    kind.read(Spanned::new(span, own)).map_err(|why| match error::from_toml(document, &why) {
        ScenarioError::UnknownField { at, field, nearest, mut known } => {
            known.insert(0, "kind".into());
            ScenarioError::UnknownField { at, field, nearest, known }
        }
        ScenarioError::Missing { at, field, hint } if hint == error::NO_DEFAULT => {
            ScenarioError::Missing { at, field, hint: format!("for example {}", kind.example) }
        }
        other => other,
    })
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
