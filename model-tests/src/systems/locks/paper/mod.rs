//! The lock paper's figures, measured on the simulated fabric.
//!
//! [`Ncosed::run`] repeats every experiment of section 4 of "High Performance Distributed Lock Management
//! Services using Network-based Remote Atomic Operations" (Narravula et al., OSU-CISRC-4/07-TR29, 2007) on the
//! machines of profile `ncosed-2007`, for every scheme that there is, and lays what it measures beside what the
//! paper says.
//!
//! What goes in: the latencies of the primitives (Table 1, section 4.1), split into parts by the profile; and
//! what a daemon's bookkeeping takes, one constant for each wake-up style ([`Ncosed::fitted`]). All else comes out.

mod basic;
mod cascade;
mod cluster;
mod goals;
mod notes;
mod primitives;
mod rows;
#[cfg(test)]
mod tests;

pub use cascade::{Reading, Time};
pub use goals::{Goal, compared, goals};
pub use notes::{Note, notes};
pub use rows::{Row, X};

use serde::Serialize;
use weft_protocols::locks::Scheme;
use weft_sim::profile::{Profile, ProfileError};
use weft_verbs::Wait;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// The machines' profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The simulated cluster could not be built.
    #[error("the cluster cannot be built: {0}")]
    Cluster(String),
    /// An experiment did not come to its end.
    #[error("{0}")]
    Unfinished(String),
}

/// Most waiters of a cascade: the paper's 32 nodes less the first holder and the lock's home.
pub const MOST_WAITERS: u32 = 30;

/// The number of waiters at which the paper's percentages are compared.
pub const COMPARED_AT: u32 = 16;

/// The experiments.
#[derive(Clone, Debug)]
pub struct Ncosed {
    /// The machines.
    pub profile: Profile,
    /// The numbers of waiters for which cascades are measured, each from 1 to [`MOST_WAITERS`].
    pub waiters: Vec<u32>,
}

/// A constant that was fitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fitted {
    /// The figure's full name in the profile.
    pub name: String,
    /// Its value, in nanoseconds.
    pub value_ns: u64,
    /// To what it was fitted.
    pub source: String,
}

impl Ncosed {
    /// Everything, on the paper's machines.
    pub fn new() -> Result<Ncosed, PaperError> {
        let profile = Profile::builtin("ncosed-2007")?;
        Ok(Ncosed { profile, waiters: (1..=MOST_WAITERS).collect() })
    }

    /// Runs all experiments. `progress` is told the share that is done, from 0 to 1.
    pub fn run(&self, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
        let mut rows = primitives::rows(&self.profile)?;
        progress(0.02);
        rows.extend(basic::rows(&self.profile)?);
        progress(0.1);
        let rest = |done: f64| progress(0.1 + 0.9 * done);
        rows.extend(cascade::rows(&self.profile, &self.waiters, rest)?);
        Ok(rows)
    }

    /// The constants of the profile that were fitted to the paper's systems.
    pub fn fitted(&self) -> Vec<Fitted> {
        let figures = self.profile.figures().iter().filter(|figure| figure.fitted);
        let fitted = |figure: &weft_sim::profile::Figure| Fitted {
            name: figure.name.to_string(),
            value_ns: figure.value,
            source: figure.source.to_string(),
        };
        figures.map(fitted).collect()
    }
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
