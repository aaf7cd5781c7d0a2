//! Sums a run up.

use super::world::World;
use super::{FaultCount, Report, faults, hit_nothing};
use crate::metrics::Metrics;
use crate::scenario::{FaultKind, WaitStyle};
use crate::system::{Measured, System};
use crate::{MeshCounts, Verdict};
use std::collections::BTreeMap;
use weft_sim::fault::{FaultRecord, FaultState};

impl<S: System> World<S> {
    /// The system's figures so far. Taken before the machines are shut down.
    pub(super) fn metrics(&self) -> Metrics {
        let (mut counts, mut mesh) = (S::Counts::default(), MeshCounts::default());
        for machine in &self.machines {
            counts += S::counts(&machine.service);
            mesh += machine.place.mesh.stats().into();
        }
        let (work, busy) = (&self.work, self.recorder.busy());
        self.recorder
            .measured(|meter, oracles| S::metrics(Measured { work, oracles, meter, counts, mesh, busy }))
    }

    /// The report of a run that has come to its end.
    pub(super) fn report(&self, metrics: Metrics) -> Report {
        let stats = self.fabric.stats();
        let checks = self.recorder.judge(|judge| judge.checks());
        let held = checks.iter().all(|check| check.held);
        let faults = fault_counts(
            self.scenario.faults.iter().map(|fault| fault.kind),
            &self.fabric.faults(),
            &self.crashes,
        );
        let warnings = self.scenario.warnings().into_iter().chain(hit_nothing(&faults));
        Report {
            title: self.scenario.title.clone(),
            seed: self.seed,
            system: S::KIND,
            variant: S::variant(&self.work),
            nodes: self.scenario.cluster.nodes,
            profile: self.scenario.cluster.profile.clone(),
            wait: wait_name(self.scenario.cluster.wait).to_owned(),
            verdict: Verdict::of(held, true),
            checks,
            violations: self.recorder.judge(|judge| judge.violations().to_vec()),
            metrics,
            warnings: warnings.collect(),
            log_error: None,
            throughput: self.throughput(),
            faults,
            virtual_ns: self.fabric.now().0,
            events: stats.events,
            packets: stats.packets,
            order_digest: format!("{:016x}", self.fabric.log(|log| log.order())),
            log_digest: format!("{:016x}", self.fabric.log(|log| log.digest())),
        }
    }
}

fn wait_name(wait: WaitStyle) -> &'static str {
    match wait {
        WaitStyle::Poll => "poll",
        WaitStyle::Notify => "notify",
    }
}

/// Faults by kind, in the order in which the kinds are declared: of each kind that was asked for, and of what else there was.
fn fault_counts(
    asked_for: impl Iterator<Item = FaultKind>,
    records: &[FaultRecord],
    crashes: &[FaultKind],
) -> Vec<FaultCount> {
    let mut crashes = crashes.iter().copied();
    let mut by_kind: BTreeMap<FaultKind, FaultCount> =
        asked_for.map(|kind| (kind, FaultCount::none(kind))).collect();
    let injected =
        records.iter().filter(|record| matches!(record.state, FaultState::Active | FaultState::Over));
    for record in injected {
        let Some(kind) = faults::kind(&record.fault, &mut crashes) else { continue };
        let count = by_kind.entry(kind).or_insert(FaultCount::none(kind));
        count.injected += 1;
        count.struck += u64::from(record.struck);
        count.packets_hit += record.packets_hit;
    }
    by_kind.into_values().collect()
}
