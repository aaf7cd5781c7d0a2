//! What an exploration came to.

use super::choices::Choices;
use super::options::{Options, Reduction};
use super::system::{Coverage, Fingerprint, Violation};
use crate::Verdict;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weft_sim::explore::FaultSet;

/// What an exploration came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The world.
    pub world: String,
    /// Whether everything was explored: nothing was cut off by a limit or left out after a violation.
    pub exhaustive: bool,
    /// How it was explored.
    pub reduction: Reduction,
    /// The most faults in one execution.
    pub faults: u32,
    /// How many executions were run to their end.
    pub executions: u64,
    /// How many of them broke another promise than the one that is looked for, and were not followed further.
    pub passed_over: u64,
    /// How many were cut off because they had as many events as are allowed.
    pub too_deep: u64,
    /// By kind of fault that the model was explored under: how often one struck. Each is an outcome of the event that it hits, so each
    /// strikes something; a kind that could and never did is there with 0.
    pub struck: BTreeMap<&'static str, u64>,
    /// How many more were given up because all that could happen had been explored elsewhere.
    pub redundant: u64,
    /// How many events were executed, those that repeat the beginning of an execution included.
    pub transitions: u64,
    /// The states: different ones if states are cached, else the nodes of the search tree.
    pub states: u64,
    /// The events of the longest execution.
    pub deepest: u64,
    /// How often a footprint did not say what had enabled an event, so that everything was tried instead. A world
    /// whose footprints are right has none.
    pub imprecise: u64,
    /// How long it took on the wall clock, in seconds.
    pub seconds: f64,
    /// How many executions reached each interesting branch.
    pub coverage: BTreeMap<&'static str, u64>,
    /// What stopped it before its end.
    pub stopped: Option<Stopped>,
    /// The first violation.
    pub counterexample: Option<Counterexample>,
    /// The fingerprints of all end states, if they were collected.
    #[serde(skip)]
    pub ends: BTreeSet<Fingerprint>,
}

/// Why an exploration ended before everything was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// A violation was found.
    Violation,
    /// Its time was over.
    Time,
    /// Executions had as many events as are allowed.
    Depth,
    /// Enough executions were run.
    Executions,
    /// The states no longer fit into the memory that it was given.
    Memory,
    /// The caller asked for it.
    Asked,
}

/// A run that broke a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counterexample {
    /// The promise.
    pub violation: Violation,
    /// What happened.
    pub choices: Choices,
}

impl Report {
    /// A report of nothing yet.
    pub(super) fn new(world: &str, options: &Options) -> Report {
        let Options { reduction, faults, .. } = *options;
        let kinds = options.faults_of(FaultSet::ALL, faults);
        Report {
            world: world.to_string(),
            exhaustive: false,
            reduction,
            faults,
            executions: 0,
            passed_over: 0,
            too_deep: 0,
            struck: kinds.iter().map(|kind| (kind.name(), 0)).collect(),
            redundant: 0,
            transitions: 0,
            states: 0,
            deepest: 0,
            imprecise: 0,
            seconds: 0.0,
            coverage: BTreeMap::new(),
            stopped: None,
            counterexample: None,
            ends: BTreeSet::new(),
        }
    }

    /// Whether no promise was broken.
    pub fn held(&self) -> bool {
        self.counterexample.is_none()
    }

    /// Whether promises were kept, and whether everything was explored.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.held(), self.exhaustive)
    }

    /// The branches that no execution reached.
    pub fn unreached(&self) -> impl Iterator<Item = &'static str> {
        self.coverage.iter().filter(|(_, reached)| **reached == 0).map(|(name, _)| *name)
    }

    pub(super) fn violated(&mut self, violation: Violation, choices: Choices) {
        self.counterexample.get_or_insert(Counterexample { violation, choices });
    }

    /// Adds what another part of the same exploration came to.
    pub(super) fn add(&mut self, part: Report) {
        self.executions += part.executions;
        self.passed_over += part.passed_over;
        self.too_deep += part.too_deep;
        for (kind, struck) in part.struck {
            *self.struck.entry(kind).or_default() += struck;
        }
        self.redundant += part.redundant;
        self.transitions += part.transitions;
        self.states += part.states;
        self.deepest = self.deepest.max(part.deepest);
        self.imprecise += part.imprecise;
        for (name, reached) in part.coverage {
            *self.coverage.entry(name).or_default() += reached;
        }
        self.ends.extend(part.ends);
        self.exhaustive &= part.exhaustive;
        if let Some(Counterexample { violation, choices }) = part.counterexample {
            self.violated(violation, choices);
        }
    }

    pub(super) fn cover(&mut self, coverage: &Coverage) {
        self.coverage = coverage.branches().collect();
    }
}
