//! What a run came to, for people and for programs.

use super::Throughput;
use crate::Verdict;
use crate::metrics::Metrics;
use crate::oracle::{Check, Violation};
use crate::scenario::FaultKind;
use serde::Serialize;

/// The report of one run. Times are virtual; `_ns` fields are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scenario's title.
    pub title: String,
    /// The seed that the run was made from.
    pub seed: u64,
    /// The system.
    pub system: &'static str,
    /// Which of its kinds: a name for what varies, and its value.
    #[serde(flatten, serialize_with = "named")]
    pub variant: Option<(&'static str, String)>,
    /// How many machines.
    pub nodes: u32,
    /// The calibration profile.
    pub profile: String,
    /// How machines learnt of completions: `poll` or `notify`.
    pub wait: String,
    /// Whether every promise was kept.
    pub verdict: Verdict,
    /// Each oracle with its result, in a fixed order.
    pub checks: Vec<Check>,
    /// The broken promises, in the order in which they were noticed; at most 100.
    pub violations: Vec<Violation>,
    /// The system's figures.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// What is odd about the scenario or its faults, so that its verdict says less than one might think.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the event log could not be written, if it was asked for and could not. The verdict stands without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_error: Option<String>,
    /// What arrived over time, if that was asked for and the system tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// The faults that were injected, by kind; none of a kind that the scenario has is told as well.
    pub faults: Vec<FaultCount>,
    /// When the run ended.
    pub virtual_ns: u64,
    /// How many events the fabric processed.
    pub events: u64,
    /// How many packets the fabric carried.
    pub packets: u64,
    /// A digest of the order in which packets and steps came to each node: runs that differ in times alone have the same.
    /// Sixteen hexadecimal digits.
    pub order_digest: String,
    /// A digest of the event log: two runs that are the same to the byte have the same. Sixteen hexadecimal
    /// digits.
    pub log_digest: String,
}

impl Report {
    /// Whether every promise was kept.
    pub fn held(&self) -> bool {
        self.verdict == Verdict::Held
    }
}

/// The faults of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FaultCount {
    /// The kind.
    pub kind: FaultKind,
    /// How many were injected.
    pub injected: u64,
    /// How many of them struck an operation in flight. A fault that hits nothing tests nothing.
    pub struck: u64,
    /// How many packets they hit.
    pub packets_hit: u64,
}

impl FaultCount {
    /// No fault of this kind.
    pub const fn none(kind: FaultKind) -> FaultCount {
        FaultCount { kind, injected: 0, struck: 0, packets_hit: 0 }
    }
}

impl std::ops::AddAssign for FaultCount {
    fn add_assign(&mut self, other: FaultCount) {
        self.injected += other.injected;
        self.struck += other.struck;
        self.packets_hit += other.packets_hit;
    }
}

/// Whether a fault of a kind does nothing but to packets. What another one does is not counted, as to a disk.
fn acts_on_packets_alone(kind: FaultKind) -> bool {
    use FaultKind::{Corrupt, Cut, Delay, Duplicate, Flap, LoseCompletion, Loss};
    matches!(kind, Cut | Flap | Loss | Delay | Duplicate | Corrupt | LoseCompletion)
}

/// That none of the faults that were asked for hit anything, in one run or in many, if so: the verdict says nothing of them then.
pub fn hit_nothing(faults: &[FaultCount]) -> Option<String> {
    let hit =
        |fault: &FaultCount| fault.struck > 0 || fault.packets_hit > 0 || !acts_on_packets_alone(fault.kind);
    let none_hit = !faults.iter().any(|fault| fault.injected > 0 && hit(fault));
    (none_hit && !faults.is_empty()).then(|| {
        let injected: u64 = faults.iter().map(|fault| fault.injected).sum();
        let what = match injected {
            0 => "No fault was injected: all clients were through, or the limit was reached, before the first one.".to_owned(),
            1 => "The one fault hit nothing.".to_owned(),
            _ => format!("None of the {injected} faults hit anything."),
        };
        format!("{what} Let them come earlier or oftener, or let clients make more requests.")
    })
}

/// What varies as a field of its own name.
pub fn named<S: serde::Serializer>(
    variant: &Option<(&'static str, String)>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(variant.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunOptions;

    #[test]
    fn of_every_kind_of_fault_that_is_asked_for_it_is_told_that_none_struck() {
        let run = |at: &str| {
            let faults = format!(
                "[[faults]]\nkind = \"restart\"\nat = \"{at}\"\nlasts = \"1ms\"\n[[faults]]\nkind = \"cut\"\nat = \"{at}\"\n"
            );
            let text =
                format!("[cluster]\nnodes = 2\n[workload]\nkind = \"messages\"\nmessages = 5\n{faults}");
            crate::run(&crate::parse(&text).expect("a scenario"), 1, RunOptions::default()).expect("it runs")
        };
        let late = run("60min");
        assert_eq!(late.faults, [FaultKind::Cut, FaultKind::Restart].map(FaultCount::none));
        assert!(
            matches!(&late.warnings[..], [told] if told.contains("No fault was injected")),
            "{:?}",
            late.warnings
        );
        let early = run("10us");
        assert!(early.faults.iter().all(|fault| fault.injected == 1), "{:?}", early.faults);
        assert_eq!(early.warnings, [""; 0]);
    }
}
