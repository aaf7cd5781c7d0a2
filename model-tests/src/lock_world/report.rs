//! What a run came to, for people and for programs.

use crate::oracle::{Check, MostBypassed, Violation};
use crate::scenario::FaultKind;
use serde::Serialize;

/// The report of one run. Times are virtual; `_ns` fields are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scenario's title.
    pub title: String,
    /// The seed that the run was made from.
    pub seed: u64,
    /// The lock scheme.
    pub scheme: String,
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
    /// The broken promises, in the order in which they were noticed; at most
    /// [`Judge::MOST_VIOLATIONS`](crate::oracle::Judge::MOST_VIOLATIONS).
    pub violations: Vec<Violation>,
    /// What became of the requests.
    pub requests: Requests,
    /// From the call of `lock` to its return, for requests that were granted.
    pub latency: Latencies,
    /// Grants a second of virtual time, from the first request to the last request's end.
    pub grants_per_second: f64,
    /// What the lock service and its transport did.
    pub protocol: ProtocolCounts,
    /// The faults that were injected, by kind.
    pub faults: Vec<FaultCount>,
    /// How unfair it was.
    pub bypass: MostBypassed,
    /// When the run ended.
    pub virtual_ns: u64,
    /// How many events the fabric processed.
    pub events: u64,
    /// How many packets the fabric carried.
    pub packets: u64,
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

/// Whether every promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All were kept.
    Held,
    /// An oracle was violated.
    Violated,
}

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// How many were made.
    pub made: u64,
    /// How many were granted.
    pub granted: u64,
    /// How many gave up at their deadline.
    pub timed_out: u64,
    /// How many only tried and found the lock taken.
    pub refused: u64,
    /// How many ended in an error.
    pub failed: u64,
    /// How many had not ended when the run did.
    pub unended: u64,
}

/// Latencies by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// Of shared requests.
    pub shared: Percentiles,
    /// Of exclusive requests.
    pub exclusive: Percentiles,
}

/// A distribution, to three significant digits; all zero if it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many values it has.
    pub count: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The value that 90 % do not exceed.
    pub p90_ns: u64,
    /// The value that 99 % do not exceed.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// What the lock service and its transport did, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProtocolCounts {
    /// Messages between peers.
    pub messages: u64,
    /// Remote atomics that were posted.
    pub atomics: u64,
    /// Atomics that had to be posted again with another guess, because the word had changed.
    pub atomic_retries: u64,
    /// Atomics whose completion said that they may have been executed.
    pub unknown_fates: u64,
    /// Exclusive holds that became shared ones.
    pub downgrades: u64,
    /// Lock words that were rebuilt because an atomic's fate stayed unknown.
    pub rebuilds: u64,
    /// Connections that were made anew after one broke.
    pub reconnects: u64,
    /// Messages that were sent again on a new connection.
    pub resent: u64,
    /// Messages that arrived a second time and were dropped.
    pub duplicates: u64,
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

/// Adds up what many runs counted, field by field.
macro_rules! sums {
    ($type:ty: $($field:ident),*) => {
        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: $type) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

sums!(Requests: made, granted, timed_out, refused, failed, unended);
sums!(ProtocolCounts: messages, atomics, atomic_retries, unknown_fates, downgrades, rebuilds, reconnects, resent, duplicates);
sums!(FaultCount: injected, struck, packets_hit);
