//! How a world is explored, for how long, and what came of it.

use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use weft_sim::explore::Outcome;

/// For how long each world is explored, in seconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// In every order, without faults and with each kind of them.
    pub check: f64,
    /// By walks.
    pub walks: f64,
}

/// How a world is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every order, without faults.
    Quiet,
    /// Every order, with one fault of a kind at any point.
    Fault(Outcome),
    /// Walks at random, with up to two faults of any kind that leaves nodes as they are. (Two crashes leave no majority of three.)
    Walks,
    /// Walks at random, with one node that crashes, restarts or is slow.
    MortalWalks,
    /// Scripts that are drawn.
    Drawn,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Quiet => f.write_str("no fault"),
            How::Fault(outcome) => f.write_str(outcome.name()),
            How::Walks => f.write_str("walks"),
            How::MortalWalks => f.write_str("walks with a crash"),
            How::Drawn => f.write_str("drawn"),
        }
    }
}

impl Serialize for How {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// An exploration: a world, and how it was explored.
#[derive(Clone, Debug, Serialize)]
pub struct Explored {
    /// The world.
    pub world: String,
    /// How it was, for who explores the same once more.
    #[serde(flatten)]
    pub plan: Plan,
    /// How many executions there were.
    pub executions: u64,
    /// Whether one of them broke a promise.
    pub violated: bool,
    /// Whether there were no more.
    pub exhaustive: bool,
    /// The mutants whose places were executed, if the program has some.
    #[serde(skip)]
    pub met: BTreeSet<usize>,
}

impl Explored {
    /// Whether there were no faults.
    pub fn is_quiet(&self) -> bool {
        self.plan.how == How::Quiet
    }
}

/// How a world is explored, and for how long at most.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The kind of the one fault in an execution, if there is any; or walks.
    pub how: How,
    /// The kinds that its faults may be of, as the command line has them.
    #[serde(skip)]
    pub kinds: String,
    /// For how long.
    #[serde(skip)]
    pub seconds: f64,
}

/// What a run takes beyond the time that it is given: it may end what it has begun, and find a failure again.
const PATIENCE: Duration = Duration::from_secs(60);

impl Plan {
    /// Scripts that are drawn for the worlds of each of these systems, for so many seconds altogether. (Members by themselves have no
    /// scripts.)
    pub fn drawn(systems: &[String], seconds: f64) -> Vec<(String, Plan)> {
        let scripted = systems.iter().filter(|system| *system != "members");
        let kinds: Vec<String> = match systems {
            [] => vec!["worlds".into()],
            _ => scripted.map(|system| format!("worlds-{system}")).collect(),
        };
        let each = seconds / kinds.len().max(1) as f64;
        let plan = Plan { how: How::Drawn, kinds: String::new(), seconds: each };
        kinds.into_iter().filter(|_| each > 0.0).map(|kind| (kind, plan.clone())).collect()
    }

    /// How long a run of it may take before it is killed.
    ///
    /// # Errors
    ///
    /// It is given no such time.
    pub fn patience(&self) -> Result<Duration, String> {
        let given = Duration::try_from_secs_f64(self.seconds).map_err(|why| why.to_string())?;
        Ok(given.saturating_add(PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(systems: &[&str], seconds: f64) -> Vec<(String, f64)> {
        let systems: Vec<String> = systems.iter().map(|system| (*system).to_owned()).collect();
        Plan::drawn(&systems, seconds).into_iter().map(|(kind, plan)| (kind, plan.seconds)).collect()
    }

    #[test]
    fn scripts_are_drawn_of_the_systems_that_have_some_and_were_asked_for() {
        assert_eq!(drawn(&[], 8.0), [("worlds".to_owned(), 8.0)]);
        assert_eq!(drawn(&["members", "dsm"], 8.0), [("worlds-dsm".to_owned(), 8.0)]);
        let both = ["dsm", "sdp"].map(|system| (format!("worlds-{system}"), 4.0));
        assert_eq!(drawn(&["dsm", "sdp"], 8.0), both);
        assert!(drawn(&["members"], 8.0).is_empty() && drawn(&[], 0.0).is_empty());
    }

    #[test]
    fn a_run_has_the_time_that_it_is_given_and_more_to_end_in() {
        let plan = |seconds| Plan { how: How::Walks, kinds: String::new(), seconds };
        assert_eq!(plan(100.0).patience(), Ok(Duration::from_secs(160)));
        assert!([-1.0, f64::NAN, f64::INFINITY].into_iter().all(|wrong| plan(wrong).patience().is_err()));
    }
}
