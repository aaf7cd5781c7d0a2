//! Cases, verdicts, and the table of them.

use super::{Failure, Harness, HarnessCaps, Outcome, TestBed};
use crate::Caps;
use std::fmt;

/// One promise, and the code that tests it.
pub struct Case<H: Harness> {
    /// The group it belongs to.
    pub group: &'static str,
    /// Its name, which is the promise.
    pub name: &'static str,
    /// Where the InfiniBand Architecture (volume 1), or the contract, makes the promise.
    pub clause: &'static str,
    /// What the backend must have for it.
    pub needs: Caps,
    /// What the harness must be able to do for it.
    pub harness_caps: HarnessCaps,
    pub(super) run: fn(&mut TestBed<'_, H>) -> Outcome,
}

impl<H: Harness> Case<H> {
    /// Runs it.
    pub fn run(&self, harness: &mut H) -> Verdict {
        let caps = self.needs - harness.capabilities();
        let harness_caps = self.harness_caps - harness.harness_caps();
        if !caps.is_empty() || !harness_caps.is_empty() {
            return Verdict::Lacking { caps, harness_caps };
        }
        match (self.run)(&mut TestBed::new(harness)) {
            Ok(()) => Verdict::Passed,
            Err(Failure::Lacking { caps, harness_caps }) => Verdict::Lacking { caps, harness_caps },
            Err(failure) => Verdict::Failed(failure),
        }
    }
}

/// Lists a module's cases: name, clause, and what each needs of the backend and of the harness.
macro_rules! cases {
    ($group:literal: $($name:ident, $clause:literal $(, needs $caps:expr)? $(, with $harness_caps:expr)?;)*) => {
        pub(crate) fn cases<H: $crate::conformance::Harness>() -> Vec<$crate::conformance::Case<H>> {
            vec![$($crate::conformance::Case {
                group: $group,
                name: stringify!($name),
                clause: $clause,
                needs: $crate::Caps::empty() $(| $caps)?,
                harness_caps: $crate::conformance::HarnessCaps::empty() $(| $harness_caps)?,
                run: $name::<H>,
            }),*]
        }
    };
}

pub(crate) use cases;

/// How a case ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The promise was kept.
    Passed,
    /// It could not be put to the test.
    Lacking {
        /// What the backend lacks.
        caps: Caps,
        /// What the harness lacks.
        harness_caps: HarnessCaps,
    },
    /// It was broken.
    Failed(Failure),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Passed => f.pad("passed"),
            Verdict::Lacking { caps, harness_caps } => {
                Failure::Lacking { caps: *caps, harness_caps: *harness_caps }.fmt(f)
            }
            Verdict::Failed(failure) => write!(f, "FAILED: {failure}"),
        }
    }
}

/// A case and its verdict.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case's group.
    pub group: &'static str,
    /// The case's name.
    pub case: &'static str,
    /// Where the promise is made.
    pub clause: &'static str,
    /// How it ended.
    pub verdict: Verdict,
}

/// The table of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One row a case, in the suite's order.
    pub rows: Vec<Row>,
}

impl Report {
    /// How many passed, lacked something, and failed.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Verdict) -> bool| self.rows.iter().filter(|r| wanted(&r.verdict)).count();
        (
            count(|v| matches!(v, Verdict::Passed)),
            count(|v| matches!(v, Verdict::Lacking { .. })),
            count(|v| matches!(v, Verdict::Failed(_))),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.rows.iter().map(|r| r.case.len()).max().unwrap_or(0);
        let clause = self.rows.iter().map(|r| r.clause.len()).max().unwrap_or(0);
        let mut group = "";
        for row in &self.rows {
            if row.group != group {
                group = row.group;
                writeln!(f, "{group}")?;
            }
            writeln!(f, "  {:wide$}  {:clause$}  {}", row.case.replace('_', " "), row.clause, row.verdict)?;
        }
        let (passed, lacking, failed) = self.counts();
        writeln!(f, "{passed} passed, {lacking} lacking, {failed} failed")
    }
}
