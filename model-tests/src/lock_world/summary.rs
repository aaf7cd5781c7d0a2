//! Sums a run up.

use super::world::World;
use super::{FaultCount, ProtocolCounts, Report, Verdict, faults};
use crate::scenario::{FaultKind, WaitStyle};
use std::collections::BTreeMap;
use weft_protocols::locks::LockStats;
use weft_sim::fault::{FaultRecord, FaultState};

/// What the machines counted. Taken before they are shut down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    locks: LockStats,
    reconnects: u64,
    resent: u64,
    duplicates: u64,
}

impl World {
    /// Adds up what the machines have counted so far.
    pub(super) fn counted(&self) -> Counted {
        let mut sum = Counted::default();
        for machine in &self.machines {
            sum.locks += machine.locks.stats();
            let mesh = machine.mesh.stats();
            sum.reconnects += mesh.reconnects;
            sum.resent += mesh.messages_repeated;
            sum.duplicates += mesh.duplicates;
        }
        sum
    }

    /// The report of a run that has come to its end.
    pub(super) fn report(&self, counted: Counted) -> Report {
        let stats = self.fabric.stats();
        let requests = self.scribe.requests();
        let checks = self.scribe.judge(|judge| judge.checks());
        let held = checks.iter().all(|check| check.held);
        Report {
            title: self.scenario.title.clone(),
            seed: self.seed,
            scheme: self.scenario.workload.scheme.to_string(),
            nodes: self.scenario.cluster.nodes,
            profile: self.scenario.cluster.profile.clone(),
            wait: wait_name(self.scenario.cluster.wait).to_owned(),
            verdict: if held { Verdict::Held } else { Verdict::Violated },
            checks,
            violations: self.scribe.judge(|judge| judge.violations().to_vec()),
            requests,
            latency: self.scribe.latencies(),
            grants_per_second: rate(requests.granted, self.scribe.busy().as_secs_f64()),
            protocol: counted.protocol(),
            faults: fault_counts(&self.fabric.faults()),
            bypass: self.scribe.judge(|judge| judge.bypass()),
            virtual_ns: self.fabric.now().0,
            events: stats.events,
            packets: stats.packets,
            log_digest: format!("{:016x}", self.fabric.log(|log| log.digest())),
        }
    }
}

impl Counted {
    fn protocol(&self) -> ProtocolCounts {
        let Counted { locks, reconnects, resent, duplicates } = *self;
        ProtocolCounts {
            messages: locks.messages_sent,
            atomics: locks.compare_swaps + locks.fetch_adds,
            atomic_retries: locks.swap_misses,
            unknown_fates: locks.unknown_fates,
            downgrades: locks.downgrades,
            rebuilds: locks.rebuilds,
            reconnects,
            resent,
            duplicates,
        }
    }
}

fn wait_name(wait: WaitStyle) -> &'static str {
    match wait {
        WaitStyle::Poll => "poll",
        WaitStyle::Notify => "notify",
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Faults by kind, in the order in which the kinds are declared.
fn fault_counts(records: &[FaultRecord]) -> Vec<FaultCount> {
    let mut by_kind: BTreeMap<FaultKind, FaultCount> = BTreeMap::new();
    let injected =
        records.iter().filter(|record| matches!(record.state, FaultState::Active | FaultState::Over));
    for record in injected {
        let Some(kind) = faults::kind(&record.fault) else { continue };
        let count = by_kind.entry(kind).or_insert(FaultCount::none(kind));
        count.injected += 1;
        count.struck += u64::from(record.struck);
        count.packets_hit += record.packets_hit;
    }
    by_kind.into_values().collect()
}
