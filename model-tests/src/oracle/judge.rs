//! All the oracles of a lock service together.

use super::{
    AtMostOnce, Bypass, Conduct, Leaks, Leftover, MostBypassed, MutualExclusion, Oracle, Progress, Sanitizer,
    Tokens, Violation,
};
use crate::history::Event;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_sim::sanitizer;
use weft_verbs::Nanos;

/// All the oracles of a lock service together: they watch one history, and their verdicts are kept in the
/// order in which they were given.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    exclusion: MutualExclusion,
    once: AtMostOnce,
    tokens: Tokens,
    progress: Progress,
    bypass: Bypass,
    verdicts: Verdicts,
}

/// What was broken so far: all of it by number, the first of it in words.
#[derive(Clone, Debug, Default)]
struct Verdicts {
    violations: Vec<Violation>,
    by_oracle: BTreeMap<&'static str, u64>,
}

/// One oracle's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The oracle.
    pub oracle: &'static str,
    /// What it promises, in a few words.
    pub promise: &'static str,
    /// Whether it was kept.
    pub held: bool,
    /// How often it was broken.
    pub violations: u64,
}

impl Judge {
    /// How many violations are kept; one bug can break a promise at every grant. All are counted.
    pub const MOST_VIOLATIONS: usize = 100;

    /// Oracles that have seen nothing. `tokens` says whether every grant must carry a fencing token.
    pub fn new(tokens: bool) -> Judge {
        Judge {
            exclusion: MutualExclusion::default(),
            once: AtMostOnce::default(),
            tokens: Tokens::new(tokens),
            progress: Progress::default(),
            bypass: Bypass::default(),
            verdicts: Verdicts::default(),
        }
    }

    /// Shows the next event to all oracles.
    pub fn observe(&mut self, event: &Event) {
        let Judge { exclusion, once, tokens, progress, bypass, verdicts } = self;
        let oracles: [&mut dyn Oracle; 4] = [exclusion, once, tokens, progress];
        for oracle in oracles {
            if let Err(text) = oracle.observe(event) {
                verdicts.add(Violation { oracle: oracle.name(), at: event.at, text });
            }
        }
        bypass.observe(event);
    }

    /// Adds to a hash all that a verdict to come may depend on, where no time passes: where each request stands, and the
    /// highest tokens. Who holds follows from the former.
    pub fn content(&self, to: &mut impl Hasher) {
        self.once.content(to);
        self.tokens.content(to);
        self.verdicts.violations.len().hash(to);
    }

    /// How many requests have not ended.
    pub fn unended(&self) -> u64 {
        self.progress.unended()
    }

    /// Judges the end: the requests that are still open after nothing went wrong for a while.
    pub fn judge_progress(&mut self, now: Nanos, healthy: Nanos) {
        self.progress.finish(now, healthy).into_iter().for_each(|violation| self.verdicts.add(violation));
    }

    /// Judges what is left at rest.
    pub fn judge_leaks(&mut self, now: Nanos, leftovers: &[Leftover]) {
        Leaks::finish(now, leftovers).into_iter().for_each(|violation| self.verdicts.add(violation));
    }

    /// Judges the messages that a node had to drop.
    pub fn judge_conduct(&mut self, now: Nanos, node: u32, out_of_turn: u64, malformed: u64) {
        let violations = Conduct::finish(now, node, out_of_turn, malformed);
        violations.into_iter().for_each(|violation| self.verdicts.add(violation));
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
        let watching: [&dyn Oracle; 4] = [&self.exclusion, &self.once, &self.tokens, &self.progress];
        let watching = watching.into_iter().map(|oracle| (oracle.name(), oracle.promise()));
        let check = |(oracle, promise)| {
            let violations = self.verdicts.by_oracle.get(oracle).copied().unwrap_or(0);
            Check { oracle, promise, held: violations == 0, violations }
        };
        watching
            .chain([(Leaks::NAME, Leaks::PROMISE), (Conduct::NAME, Conduct::PROMISE)])
            .chain([(Sanitizer::NAME, Sanitizer::PROMISE)])
            .map(check)
            .collect()
    }

    /// The first violations, in the order in which they were noticed.
    pub fn violations(&self) -> &[Violation] {
        &self.verdicts.violations
    }

    /// How unfair it was.
    pub fn bypass(&self) -> MostBypassed {
        self.bypass.most()
    }
}

impl Verdicts {
    fn add(&mut self, violation: Violation) {
        *self.by_oracle.entry(violation.oracle).or_default() += 1;
        if self.violations.len() < Judge::MOST_VIOLATIONS {
            self.violations.push(violation);
        }
    }
}
