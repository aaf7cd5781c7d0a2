//! What arrived over time, beside the faults that struck: where a stall is seen.

use super::World;
use super::faults::kind;
use crate::scenario::FaultKind;
use crate::system::System;
use serde::Serialize;
use weft_sim::RunEnd;
use weft_sim::fault::{Fault, FaultRecord, FaultState};
use weft_verbs::Nanos;

/// Bytes that arrived at users in equal spans of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Throughput {
    /// How long a span is.
    pub every_ns: u64,
    /// By span, from the beginning of the run: bytes that arrived at users of all nodes. Of the last span there may be a part.
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
    /// Until when: it ended by itself, or all faults stopped, or its node was there again.
    pub until_ns: u64,
}

/// Most samples that are kept. Clients may rest for a day between two requests.
const MOST: usize = 4_096;

/// The samples of a run.
pub(super) struct Samples {
    every: Nanos,
    next: Nanos,
    /// Of all nodes, in all, at the last sample.
    before: u64,
    bytes: Vec<u64>,
    /// When faults stopped.
    pub healed: Nanos,
}

impl Samples {
    pub fn new(every: Nanos) -> Samples {
        Samples { every, next: every, before: 0, bytes: Vec::new(), healed: Nanos::MAX }
    }

    /// Where there are many spans, two are one from now on. A node that restarts counts anew: what others got meanwhile is less than
    /// nothing then, and shown as nothing.
    fn add(&mut self, in_all: u64) {
        self.bytes.push(in_all.saturating_sub(self.before));
        self.before = in_all;
        if self.bytes.len() == MOST {
            self.bytes = self.bytes.chunks(2).map(|two| two.iter().sum()).collect();
            self.every = self.every * 2;
        }
        self.next += self.every;
    }
}

impl<S: System> World<S> {
    /// Samples what arrives from now on, if the system tells it.
    pub(super) fn sample(&mut self, every: Option<Nanos>) {
        let tells = self.machines.iter().any(|machine| S::arrived(&machine.service).is_some());
        self.samples = every.filter(|_| tells).map(Samples::new);
    }

    /// Goes on until a time, with a look at what has arrived at the end of each span.
    pub(super) fn go_on_until(&mut self, until: Nanos) -> RunEnd {
        loop {
            let sample = self.samples.as_ref().map(|samples| samples.next).filter(|next| *next <= until);
            let end = self.fabric.run_until(sample.unwrap_or(until));
            if end != RunEnd::Reached || sample.is_none() {
                return end;
            }
            let arrived = self.arrived();
            if let Some(samples) = &mut self.samples {
                samples.add(arrived);
            }
        }
    }

    /// Of all nodes, in all.
    fn arrived(&self) -> u64 {
        self.machines.iter().filter_map(|machine| S::arrived(&machine.service)).sum()
    }

    /// No fault strikes any more, and what lasts ends.
    pub(super) fn stop_faults(&mut self) {
        self.fabric.stop_faults();
        if let Some(samples) = &mut self.samples {
            samples.healed = self.fabric.now();
        }
    }

    /// Takes the last sample, of a part of a span, if something has come in it. Before the machines are shut down.
    pub(super) fn sample_the_rest(&mut self) {
        let arrived = self.arrived();
        if let Some(samples) = self.samples.as_mut().filter(|samples| arrived > samples.before) {
            samples.add(arrived);
        }
    }

    /// What was sampled, with the faults.
    pub(super) fn throughput(&self) -> Option<Throughput> {
        let samples = self.samples.as_ref()?;
        let faults = struck(&self.fabric.faults(), &self.crashes, samples.healed);
        Some(Throughput { every_ns: samples.every.0, bytes: samples.bytes.clone(), faults })
    }
}

/// When each fault was there that struck, of which all stopped at a time. A node that crashed is there again by a fault of its own.
fn struck(records: &[FaultRecord], crashes: &[FaultKind], healed: Nanos) -> Vec<Struck> {
    let back = |crash: &FaultRecord, node| {
        let is = |of: &&FaultRecord| of.id > crash.id && of.fault == Fault::Restart { node };
        records.iter().find(is).map(|of| of.at)
    };
    let mut crashes = crashes.iter().copied();
    let there = records.iter().filter(|of| matches!(of.state, FaultState::Active | FaultState::Over));
    let struck = there.filter_map(|of| {
        let until = match of.fault {
            Fault::Crash { node } => back(of, node),
            _ => of.fault.lasts().map(|lasts| of.at + lasts),
        };
        let until_ns = until.unwrap_or(Nanos::MAX).min(healed.max(of.at)).0;
        Some(Struck { kind: kind(&of.fault, &mut crashes)?.name(), from_ns: of.at.0, until_ns })
    });
    struck.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunOptions;
    use weft_sim::NodeId;
    use weft_sim::fault::FaultId;

    const EVERY: Nanos = Nanos::from_micros(100);

    fn sampled(text: &str) -> Option<Throughput> {
        let scenario = crate::parse(text).expect("a good scenario");
        let options = RunOptions { sample: Some(EVERY), ..RunOptions::default() };
        let report = crate::run(&scenario, 1, options).expect("it runs");
        assert!(report.held(), "{:?}", report.violations);
        report.throughput
    }

    const SOCKETS: &str = "[cluster]\nnodes = 2\n[workload]\nkind = \"sdp\"\nbytes = 100000\n";

    #[test]
    fn a_fault_is_there_until_it_ends_or_all_faults_stop() {
        let faults = "[run]\nlimit = \"20ms\"\n[[faults]]\nkind = \"cut\"\nat = \"2ms\"\nnode = 1\nlasts = \"1ms\"\n\
                      [[faults]]\nkind = \"slow-node\"\nat = \"12ms\"\nnode = 1\npercent = 110\n\
                      [[faults]]\nkind = \"port-down\"\nat = \"15ms\"\nnode = 1\nlasts = \"1s\"\n";
        let throughput = sampled(&format!("{SOCKETS}requests = 500\n{faults}")).expect("sockets tell");
        let struck: Vec<_> = throughput.faults.iter().map(|of| (of.kind, of.from_ns, of.until_ns)).collect();
        let ms = 1_000_000;
        let expected =
            [("cut", 2 * ms, 3 * ms), ("slow-node", 12 * ms, 20 * ms), ("port-down", 15 * ms, 20 * ms)];
        assert_eq!(struck, expected);
    }

    #[test]
    fn a_crash_is_there_until_its_node_is_back() {
        let crash = |node| Fault::Crash { node: NodeId(node) };
        let restart = |node| Fault::Restart { node: NodeId(node) };
        let all = [(10, crash(1)), (20, crash(2)), (30, restart(2)), (90, restart(1))];
        let record = |(id, (at, fault))| FaultRecord {
            id: FaultId(id),
            at: Nanos(at),
            fault,
            state: FaultState::Over,
            packets_hit: 0,
            struck: true,
        };
        let records: Vec<FaultRecord> = (0..).zip(all).map(record).collect();
        let struck = struck(&records, &[FaultKind::Crash, FaultKind::Restart], Nanos(90));
        let told: Vec<_> = struck.iter().map(|of| (of.kind, of.from_ns, of.until_ns)).collect();
        assert_eq!(told, [("crash", 10, 90), ("restart", 20, 30)]);
    }

    #[test]
    fn a_day_in_which_clients_rest_has_no_more_samples_than_a_minute() {
        let of = |think: &str| {
            sampled(&format!("{SOCKETS}requests = 2\nthink = \"{think}\"\n")).expect("sockets tell")
        };
        let (short, long) = (of("1ms"), of("43200s"));
        assert!((1..MOST).contains(&long.bytes.len()), "{}", long.bytes.len());
        assert!(
            short.every_ns == EVERY.0 && long.every_ns > 86_400_000_000_000 / MOST as u64,
            "{}",
            long.every_ns
        );
        let sum = |of: &Throughput| of.bytes.iter().sum::<u64>();
        assert!(sum(&short) > 0 && sum(&short) == sum(&long), "{} and {}", sum(&short), sum(&long));
    }

    #[test]
    fn a_system_that_tells_nothing_of_what_arrives_is_not_sampled() {
        let text = "[cluster]\nnodes = 2\n[workload]\nkind = \"locks\"\nscheme = \"ncosed\"\nthink = \"1000s\"\nrequests = 2\n";
        assert_eq!(sampled(text), None);
    }
}
