//! The paper's figures of parallel files, measured on the simulated fabric.
//!
//! Repeats section 7.1, the concurrent reads and writes of 7.2, the creation and resizing of 7.3, the tiles of 7.4 and the dumps of
//! 7.5 of "Building a high performance parallel file system over Quadrics Elan4" (Yu, Liang and Panda, 2005) on the machines of profile `elan4-2005`: the
//! service by verbs beside the same by byte streams.

mod bandwidth;
mod cluster;
mod goals;
mod guests;
mod management;
mod notes;
mod present;
mod primitives;
mod shown;
mod streams;
#[cfg(test)]
mod tests;
mod tiles;

pub(super) use present::PRESENT;

use crate::paper::{Fitted, Paper, PaperError, Progress, Results, Row};
use std::collections::BTreeMap;
use weft_sim::profile::Profile;

/// The paper, as the registry has it.
pub(super) const PVFS2: Paper = Paper {
    name: "pvfs2",
    about: "Parallel files over Quadrics Elan4 (Yu et al., 2005)",
    details: "Repeats sections 7.1 to 7.5 of the paper on simulated machines of profile elan4-2005: the primitives of Table 2, \
              concurrent reads and writes of blocks of 4 MB by servers and clients, creation and resizing by PVFS2's own steps, tiles of an array and BT's dumps by lists, by verbs and by TCP. What misses the \
              paper's gains is said. Everything is in virtual time and the same in every run.",
    heading: "The figures of the paper on parallel files, repeated",
    title: "Building a high performance parallel file system over Quadrics Elan4 (Yu, Liang and Panda, 2005)",
    run: results,
};

/// Runs all experiments, and says how to show what they give.
fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let profile = Profile::builtin("elan4-2005")?;
    let mut rows: Vec<Row> = primitives::rows(&profile)?;
    progress(0.1, "primitives of Table 2");
    rows.extend(bandwidth::rows(&profile, |share| {
        progress(0.1 + 0.6 * share, "reads and writes of section 7.2")
    })?);
    rows.extend(management::rows(&profile, |share| {
        progress(0.7 + 0.05 * share, "creation and resizing of Table 3")
    })?);
    rows.extend(tiles::rows(&profile, |share| progress(0.75 + 0.25 * share, "tiles and dumps"))?);
    let fitted = Fitted::of(&profile).into_iter().chain(management::fitted()).collect();
    Ok(Results {
        setting: "Repeated on simulated machines of profile elan4-2005; times are virtual.".to_string(),
        facts: BTreeMap::new(),
        goals: goals::goals(&rows),
        fitted,
        notes: notes::notes().to_vec(),
        groups: shown::groups(&rows),
        plots: shown::plots(&rows),
        rows,
    })
}
