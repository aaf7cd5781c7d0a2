//! What an exploration is to do, and within which limits.

use super::system::{Described, Violation};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use weft_sim::explore::FaultSet;

/// Which of the orders that differ in nothing that matters are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    /// None: every order of every event. The measure of the others, for the smallest worlds.
    None,
    /// Sleep sets: each trace (orders that differ only in what commutes are one trace) is run to its end once, but
    /// many runs begin in vain.
    Sleep,
    /// Source-set dynamic partial-order reduction with sleep sets: the same traces, few begun in vain.
    #[default]
    Dpor,
    /// Depth-first, leaving out what follows on a state that was seen before, known by its fingerprint.
    Cache,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Reduction; 4] = [Reduction::None, Reduction::Sleep, Reduction::Dpor, Reduction::Cache];

    /// Its name, as the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::None => "none",
            Reduction::Sleep => "sleep",
            Reduction::Dpor => "dpor",
            Reduction::Cache => "cache",
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reduction {
    type Err = String;

    fn from_str(name: &str) -> Result<Reduction, String> {
        Reduction::ALL
            .into_iter()
            .find(|reduction| reduction.name() == name)
            .ok_or_else(|| format!("there are: {}", Reduction::ALL.map(Reduction::name).join(", ")))
    }
}

/// How to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is left out.
    pub reduction: Reduction,
    /// The most faults in one execution.
    pub faults: u32,
    /// The kinds of faults; `None` is those that the model has [usually](super::Described::usual_faults).
    pub kinds: Option<FaultSet>,
    /// The oracle whose violation is looked for; `None` is any. What breaks another promise ends its execution, and is
    /// counted.
    pub oracle: Option<String>,
    /// An execution of so many events is reported as a possible livelock.
    pub livelock: u32,
    /// The most events of an execution that is explored: one that goes on is cut off, which is a limit of the exploration and
    /// no violation. `None` is no limit. All that comes before is explored, but not by [`Reduction::Dpor`], which learns from later
    /// events which orders to try.
    pub max_depth: Option<u32>,
    /// The most time for all of it; `None` is no limit.
    pub max_time: Option<Duration>,
    /// The most executions; `None` is no limit.
    pub max_executions: Option<u64>,
    /// The most memory for the states that an exploration remembers, in bytes. One that caches them ends there; another one goes
    /// on without remembering more.
    pub max_cache: u64,
    /// Whether what follows on a quiescent state is explored once: with faults, by [`Reduction::Sleep`] and
    /// [`Reduction::Dpor`], where the world has fingerprints.
    pub merge: bool,
    /// Whether programs are memoised where the model can do that and the reduction gains by it. It changes nothing but the time.
    pub memoise: bool,
    /// Whether a run by a list of choices ends where it comes back to a state, since no fault went between the two: a possible livelock.
    pub circles: bool,
    /// Whether to go on after a violation; only the first is kept.
    pub go_on: bool,
    /// Whether to collect the fingerprints of all end states.
    pub collect_ends: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            reduction: Reduction::default(),
            faults: 0,
            kinds: None,
            oracle: None,
            livelock: 2_000,
            max_depth: None,
            max_time: None,
            max_executions: None,
            max_cache: 4 << 30,
            merge: true,
            memoise: true,
            circles: false,
            go_on: false,
            collect_ends: false,
        }
    }
}

impl Options {
    /// The events of a random run that is reported as a possible livelock: it has no reduction, and the longest executions of some worlds
    /// have some thousand events.
    pub const WALK: u32 = 20_000;

    /// Whether a violation is one that is looked for.
    pub fn looks_for(&self, violation: &Violation) -> bool {
        self.oracle.as_ref().is_none_or(|oracle| *oracle == violation.oracle)
    }

    /// The same for runs that are to break a promise as it was broken.
    #[must_use]
    pub fn to_repeat(&self, violation: &Violation) -> Options {
        Options { circles: violation.is_circle(), ..self.clone() }
    }

    /// Whether quiescent states are compared. Without faults nearly all of them are ends; and the other reductions are there to
    /// compare no state, or every one.
    pub(super) fn merges(&self) -> bool {
        self.merge && self.faults > 0 && matches!(self.reduction, Reduction::Sleep | Reduction::Dpor)
    }

    /// The kinds of faults that a model is run under.
    pub(super) fn kinds_of(&self, model: &(impl Described + ?Sized)) -> FaultSet {
        self.kinds.map_or_else(|| model.usual_faults(), |kinds| kinds.and(model.faults()))
    }

    /// The faults that an event could end in while `left` more are allowed.
    pub(super) fn faults_of(&self, faults: FaultSet, left: u32) -> FaultSet {
        if left == 0 { FaultSet::NONE } else { self.kinds.map_or(faults, |kinds| faults.and(kinds)) }
    }
}
