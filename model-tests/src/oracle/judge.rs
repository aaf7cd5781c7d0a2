//! A judge: a system's oracles, those of every system, and their verdicts.

use super::{Conduct, Leaks, Leftover, Oracles, PROGRESS, Sanitizer, Standing, Violation};
use serde::Serialize;
use std::collections::BTreeMap;
use std::hash::Hasher;
use weft_protocols::transport::MeshStats;
use weft_sim::sanitizer;
use weft_verbs::Nanos;

/// A system's oracles and those of every system; their verdicts are kept in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub struct Judge<O> {
    oracles: O,
    verdicts: Verdicts,
}

/// What was broken so far: all of it by number, the first of it in words.
#[derive(Clone, Debug, Default)]
struct Verdicts {
    violations: Vec<Violation>,
    by_oracle: BTreeMap<&'static str, u64>,
}

/// How many violations are kept; one bug can break a promise at every grant. All are counted.
const MOST_VIOLATIONS: usize = 100;

/// One oracle's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The oracle.
    pub oracle: &'static str,
    /// What it promises, in a few words.
    pub promise: &'static str,
    /// Whether it was kept, as far as anybody knows.
    pub held: bool,
    /// Whether something happened that could break it.
    pub judged: bool,
    /// How often it was broken.
    pub violations: u64,
}

impl<O: Oracles> Judge<O> {
    /// A judge who has seen nothing.
    pub fn new(oracles: O) -> Judge<O> {
        Judge { oracles, verdicts: Verdicts::default() }
    }

    /// The system's oracles.
    pub fn oracles(&self) -> &O {
        &self.oracles
    }

    /// Shows the next event to all oracles.
    pub fn observe(&mut self, event: &O::Event) {
        let Judge { oracles, verdicts } = self;
        oracles.observe(event, &mut |violation| verdicts.add(violation));
    }

    /// Adds to a hash all that a verdict to come may depend on, where no time passes.
    pub fn state(&self, to: &mut dyn Hasher) {
        self.oracles.state(to);
        to.write_usize(self.verdicts.violations.len());
    }

    /// How many requests have not ended.
    pub fn unended(&self) -> u64 {
        self.oracles.unended()
    }

    /// Judges the end: the requests that are still open after nothing went wrong for a while.
    pub fn judge_end(&mut self, now: Nanos, healthy: Nanos) {
        self.oracles.finish(now, healthy).into_iter().for_each(|violation| self.verdicts.add(violation));
    }

    /// Judges a client of a node that waits though nothing that it asked for is open.
    pub fn judge_client(&mut self, now: Nanos, node: u32) {
        let text = format!("a client of n{node} does not go on, and nothing that it asked for is open");
        self.verdicts.add(Violation { oracle: PROGRESS, at: now, text });
    }

    /// Judges the end of what no fault has struck: what one would excuse.
    pub fn judge_unharmed(&mut self, now: Nanos) {
        let broken = self.oracles.finish_unharmed();
        broken.into_iter().for_each(|broken| self.verdicts.add(Violation { at: now, ..broken }));
    }

    /// Judges what is left at rest.
    pub fn judge_leaks(&mut self, now: Nanos, leftovers: &[Leftover]) {
        Leaks::finish(now, leftovers).into_iter().for_each(|violation| self.verdicts.add(violation));
    }

    /// Judges the messages that a node had to drop.
    pub fn judge_conduct(&mut self, now: Nanos, node: u32, conduct: Conduct) {
        conduct.finish(now, node).into_iter().for_each(|violation| self.verdicts.add(violation));
    }

    /// Judges the connections of a node in a run without a fault.
    pub fn judge_connections(&mut self, now: Nanos, node: u32, counted: &MeshStats) {
        Standing::finish(now, node, counted).into_iter().for_each(|violation| self.verdicts.add(violation));
    }

    /// Judges what the sanitizer found: `all` by number, the first of them in words.
    pub fn judge_memory(&mut self, all: u64, first: &[sanitizer::Violation]) {
        Sanitizer::finish(first).into_iter().for_each(|violation| self.verdicts.add(violation));
        let more = all.saturating_sub(first.len() as u64);
        if more > 0 {
            *self.verdicts.by_oracle.entry(Sanitizer::NAME).or_default() += more;
        }
    }

    /// Each oracle with its result, always in the same order.
    pub fn checks(&self) -> Vec<Check> {
        let of_every_system = [
            (Leaks::NAME, Leaks::PROMISE),
            (Conduct::NAME, Conduct::PROMISE),
            (Standing::NAME, Standing::PROMISE),
            (Sanitizer::NAME, Sanitizer::PROMISE),
        ];
        let untested = self.oracles.untested();
        let check = |(oracle, promise)| {
            let violations = self.verdicts.by_oracle.get(oracle).copied().unwrap_or(0);
            let judged = violations > 0 || !untested.contains(&oracle);
            Check { oracle, promise, held: violations == 0, judged, violations }
        };
        self.oracles.promises().into_iter().chain(of_every_system).map(check).collect()
    }

    /// The first violations, at most 100, in the order in which they were noticed.
    pub fn violations(&self) -> &[Violation] {
        &self.verdicts.violations
    }
}

impl Verdicts {
    fn add(&mut self, violation: Violation) {
        *self.by_oracle.entry(violation.oracle).or_default() += 1;
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(violation);
        }
    }
}
