//! What arrived over time, beside the faults that struck: where a stall is seen.

use super::World;
use crate::system::System;
use serde::Serialize;
use weft_sim::RunEnd;
use weft_sim::fault::FaultState;
use weft_verbs::Nanos;

/// Bytes that arrived at users in equal spans of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Throughput {
    /// How long a span is.
    pub every_ns: u64,
    /// By span, from the beginning of the run: bytes that arrived at users of all nodes.
    pub bytes: Vec<u64>,
    /// The faults that struck meanwhile, in the order in which they did.
    pub faults: Vec<Struck>,
}

/// When a fault was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Struck {
    /// Its kind.
    pub kind: &'static str,
    /// From when.
    pub from_ns: u64,
    /// Until when, if it ended by itself.
    pub until_ns: Option<u64>,
}

/// The samples of a run.
pub(super) struct Samples {
    every: Nanos,
    next: Nanos,
    /// Of all nodes, in all, at the last sample.
    before: u64,
    bytes: Vec<u64>,
    /// The system tells what has arrived.
    told: bool,
}

impl Samples {
    pub fn new(every: Nanos) -> Samples {
        Samples { every, next: every, before: 0, bytes: Vec::new(), told: false }
    }

    /// A node that restarts counts anew: what others got meanwhile is less than nothing then, and shown as nothing.
    fn add(&mut self, in_all: u64) {
        self.bytes.push(in_all.saturating_sub(self.before));
        self.before = in_all;
        self.next += self.every;
    }
}

impl<S: System> World<S> {
    /// Goes on until a time, with a look at what has arrived at the end of each span.
    pub(super) fn go_on_until(&mut self, until: Nanos) -> RunEnd {
        loop {
            let sample = self.samples.as_ref().map(|samples| samples.next).filter(|next| *next <= until);
            let end = self.fabric.run_until(sample.unwrap_or(until));
            if end != RunEnd::Reached || sample.is_none() {
                return end;
            }
            let arrived: Vec<u64> =
                self.machines.iter().filter_map(|machine| S::arrived(&machine.service)).collect();
            if let Some(samples) = &mut self.samples {
                samples.told |= !arrived.is_empty();
                samples.add(arrived.into_iter().sum());
            }
        }
    }

    /// What was sampled, with the faults.
    pub(super) fn throughput(&self) -> Option<Throughput> {
        let samples = self.samples.as_ref().filter(|samples| samples.told)?;
        let faults = self.fabric.faults();
        let there = faults.iter().filter(|of| matches!(of.state, FaultState::Active | FaultState::Over));
        let struck = there.map(|of| Struck {
            kind: of.fault.kind().name(),
            from_ns: of.at.0,
            until_ns: of.fault.lasts().map(|lasts| (of.at + lasts).0),
        });
        Some(Throughput { every_ns: samples.every.0, bytes: samples.bytes.clone(), faults: struck.collect() })
    }
}
