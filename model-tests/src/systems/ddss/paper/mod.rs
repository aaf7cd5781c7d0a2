//! The paper's figures of shared segments, measured on the simulated fabric.
//!
//! Repeats the experiments of section 6 of "DDSS: A Low-Overhead Distributed Data Sharing Substrate for Cluster-Based
//! Data-Centers over Modern Interconnects" (Vaidyanathan, Narravula and Panda, OSU-CISRC-1/06-TR06, 2006) on the machines of
//! profile `ddss-2006`. The figures are of the paper's own sequences (`published`); the models as they are here stand
//! beside them.
//!
//! What goes in: what library and daemon add (Table 2), two constants that are fitted to the puts
//! under null and write, and one that is fitted to a record select at one size.

mod cluster;
mod contention;
mod goals;
mod latency;
mod notes;
mod services;
mod shown;
mod staleness;
mod storm;
#[cfg(test)]
mod tests;

use crate::paper::{Fitted, Paper, PaperError, Progress, Results, Row};
use std::collections::BTreeMap;
use weft_sim::profile::Profile;

/// The paper, as the registry has it.
pub(super) const DDSS: Paper = Paper {
    name: "ddss",
    about: "Shared data segments by one-sided get and put (Vaidyanathan et al., 2006)",
    details: "Repeats section 6 of OSU-CISRC-1/06-TR06 on simulated machines of profile ddss-2006: puts and gets by \
              model and size, what library and daemon add, clients on different portions and on one segment, asynchronous \
              transfers, reconfiguration, version checks, a record select, check-pointing. The paper's own sequences are measured, and the models as they are here beside them. Says which \
              constants were fitted. Everything is in virtual time and the same in every run.",
    heading: "The figures of the paper on shared segments, repeated",
    title: "DDSS: A Low-Overhead Distributed Data Sharing Substrate for Cluster-Based Data-Centers over Modern Interconnects \
            (Vaidyanathan, Narravula and Panda, OSU-CISRC-1/06-TR06, 2006)",
    run: results,
};

/// Runs all experiments. `progress` is told the share that is done, from 0 to 1.
fn rows(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<(Vec<Row>, Fitted), PaperError> {
    let mut rows = latency::rows(profile, |share| progress(0.5 * share))?;
    rows.extend(latency::overheads(profile)?);
    rows.extend(contention::portions(profile)?);
    rows.extend(contention::contention(profile, |share| progress(0.6 + 0.35 * share))?);
    rows.extend(contention::asynchronous(profile)?);
    rows.extend(services::rows(profile)?);
    let (select, fitted) = storm::rows(profile)?;
    rows.extend(select);
    rows.extend(staleness::rows(profile)?);
    Ok((rows, fitted))
}

/// Runs all experiments, and says how to show what they give.
fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let profile = Profile::builtin("ddss-2006")?;
    let (rows, processing) = rows(&profile, |share| progress(share, "experiments of section 6"))?;
    Ok(Results {
        setting: "Repeated on simulated machines of profile ddss-2006; times are virtual.".to_string(),
        facts: BTreeMap::new(),
        goals: goals::goals(&rows),
        fitted: Fitted::of(&profile).into_iter().chain([processing]).collect(),
        notes: notes::notes().to_vec(),
        groups: shown::groups(&rows),
        plots: shown::plots(&rows),
        rows,
    })
}
