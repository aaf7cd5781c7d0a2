//! How fast the simulator is: the only part of this crate that looks at the wall clock.
//!
//! [`Ring::run`] measures messages on the fabric. Systems measure themselves in their rooms, with the same clocks.

mod process;
mod ring;
mod sessions;
mod stations;
mod system;
mod tasks;

pub use ring::{Ring, RingFigures, Stack};
pub use system::{SystemBench, SystemFigures};

use crate::run::RunError;
use std::time::Instant;

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// A number outside of its bounds.
    #[error("{what} is {value}, and must be from {least} to {most}")]
    Bounds {
        /// Which number.
        what: &'static str,
        /// What it was.
        value: u64,
        /// The smallest allowed.
        least: u64,
        /// The largest allowed.
        most: u64,
    },
    /// The system cannot be measured so.
    #[error("{0}")]
    Refused(String),
    /// The simulated cluster could not be built.
    #[error("the cluster cannot be built: {0}")]
    Cluster(String),
    /// A check was violated, so that the figures are worth nothing.
    #[error("{what} violated a check: {violation}; the same run again: {again}")]
    Violated {
        /// The system and its variant.
        what: String,
        /// What was violated.
        violation: String,
        /// The command that measures it again.
        again: String,
    },
    /// The run broke off, or did not do what was to be measured.
    #[error("nothing was measured: {0}")]
    Broken(String),
}

impl BenchError {
    fn cluster(why: impl std::fmt::Display) -> BenchError {
        BenchError::Cluster(why.to_string())
    }

    fn of_run(why: RunError) -> BenchError {
        match why {
            RunError::Cluster(why) => BenchError::Cluster(why),
            RunError::Interrupted { .. } => BenchError::Broken(why.to_string()),
        }
    }
}

/// Whether a number keeps to its bounds.
fn within(what: &'static str, value: impl Into<u64>, least: u64, most: u64) -> Result<(), BenchError> {
    let value = value.into();
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(BenchError::Bounds { what, value, least, most })
}

/// What something took, in seconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    /// Of wall clock.
    wall: f64,
    /// Of a processor, where the system says.
    cpu: Option<f64>,
}

/// Does something, and says what it took.
fn timed<T>(work: impl FnOnce() -> T) -> (Took, T) {
    let (begun, before) = (Instant::now(), process::on_processor());
    let result = work();
    let wall = begun.elapsed().as_secs_f64();
    let cpu = process::on_processor().zip(before).map(|(after, before)| after - before);
    (Took { wall, cpu }, result)
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests;
