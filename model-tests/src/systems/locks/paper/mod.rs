//! The lock paper's figures, measured on the simulated fabric.
//!
//! [`Ncosed::run`] repeats every experiment of section 4 of "High Performance Distributed Lock Management
//! Services using Network-based Remote Atomic Operations" (Narravula et al., OSU-CISRC-4/07-TR29, 2007) on the
//! machines of profile `ncosed-2007`, for every scheme that there is, and lays what it measures beside what the
//! paper says.
//!
//! What goes in: the latencies of the primitives (Table 1, section 4.1), split into parts by the profile; and
//! what a daemon's bookkeeping takes, one constant for each wake-up style ([`Fitted`]). All else comes out.

mod basic;
mod cascade;
mod cluster;
mod goals;
mod groups;
mod notes;
mod plots;
mod primitives;
#[cfg(test)]
mod tests;

use crate::paper::{Fitted, Paper, PaperError, Progress, Results, Row};
use cascade::{Reading, Time};
use std::collections::BTreeMap;
use weft_protocols::locks::Scheme;
use weft_sim::profile::Profile;
use weft_verbs::Wait;

/// The paper, as the registry has it.
pub(super) const NCOSED: Paper = Paper {
    name: "ncosed",
    about: "Distributed locks by remote atomics (Narravula et al., 2007): schemes srsl, dqnl and ncosed",
    details: "Repeats section 4 of OSU-CISRC-4/07-TR29 on simulated machines of profile ncosed-2007: primitives, \
              basic latencies and their parts, what an operation uses, cascades of unlocks from 1 to 30 waiters. Says \
              which constants were fitted. Everything is in virtual time and the same in every run.",
    heading: "The lock paper's figures, repeated",
    title: "High Performance Distributed Lock Management Services using Network-based Remote Atomic Operations \
            (Narravula et al., OSU-CISRC-4/07-TR29, 2007)",
    run: results,
};

/// Most waiters of a cascade: the paper's 32 nodes less the first holder and the lock's home.
const MOST_WAITERS: u32 = 30;

/// The number of waiters at which the paper's percentages are compared.
const COMPARED_AT: u32 = 16;

/// The experiments.
#[derive(Clone, Debug)]
struct Ncosed {
    /// The machines.
    profile: Profile,
    /// The numbers of waiters for which cascades are measured, each from 1 to [`MOST_WAITERS`].
    waiters: Vec<u32>,
}

impl Ncosed {
    /// Everything, on the paper's machines.
    fn new() -> Result<Ncosed, PaperError> {
        let profile = Profile::builtin("ncosed-2007")?;
        Ok(Ncosed { profile, waiters: (1..=MOST_WAITERS).collect() })
    }

    /// Runs all experiments. `progress` is told the share that is done, from 0 to 1.
    fn run(&self, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
        let mut rows = primitives::rows(&self.profile)?;
        progress(0.02);
        rows.extend(basic::rows(&self.profile)?);
        progress(0.1);
        let rest = |done: f64| progress(0.1 + 0.9 * done);
        rows.extend(cascade::rows(&self.profile, &self.waiters, rest)?);
        Ok(rows)
    }
}

/// Runs all experiments, and says how to show what they give.
fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let experiments = Ncosed::new()?;
    let rows = experiments.run(|share| progress(share, "experiments of section 4"))?;
    Ok(Results {
        setting: "Repeated on simulated machines of profile ncosed-2007; times are virtual.".to_string(),
        // The paper's percentages of Figure 7 are compared with this reading of it.
        facts: BTreeMap::from([("cascades_compared", Reading::COMPARED.words())]),
        goals: goals::goals(&rows),
        fitted: Fitted::of(&experiments.profile),
        notes: notes::notes().to_vec(),
        groups: groups::groups(&rows),
        plots: plots::plots(&rows),
        rows,
    })
}

fn style(wait: Wait) -> &'static str {
    match wait {
        Wait::Poll => "polling",
        Wait::Notify => "notification",
    }
}

/// What a scheme has that the paper measured.
fn in_the_paper(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Srsl | Scheme::Dqnl | Scheme::Ncosed)
}
