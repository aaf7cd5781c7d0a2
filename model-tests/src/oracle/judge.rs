//! All the oracles of a lock service together.

use super::{
    AtMostOnce, Bypass, Leaks, Leftover, MostBypassed, MutualExclusion, Oracle, Progress, Tokens, Violation,
};
use crate::history::Event;
use serde::Serialize;
use verbs_trait::Nanos;

/// All the oracles of a lock service together: they watch one history, and their verdicts are kept in the
/// order in which they were given.
#[derive(Debug)]
pub struct Judge {
    exclusion: MutualExclusion,
    once: AtMostOnce,
    tokens: Tokens,
    progress: Progress,
    bypass: Bypass,
    broken: [u64; CHECKS],
    violations: Vec<Violation>,
}

const CHECKS: usize = 5;
const LEAKS: usize = 4;

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
            broken: [0; CHECKS],
            violations: Vec::new(),
        }
    }

    /// Shows the next event to all oracles.
    pub fn observe(&mut self, event: &Event) {
        let oracles: [&mut dyn Oracle; LEAKS] =
            [&mut self.exclusion, &mut self.once, &mut self.tokens, &mut self.progress];
        for (oracle, broken) in oracles.into_iter().zip(&mut self.broken) {
            if let Err(text) = oracle.observe(event) {
                *broken += 1;
                if self.violations.len() < Judge::MOST_VIOLATIONS {
                    self.violations.push(Violation { oracle: oracle.name(), at: event.at, text });
                }
            }
        }
        self.bypass.observe(event);
    }

    /// How many requests have not ended.
    pub fn unended(&self) -> u64 {
        self.progress.unended()
    }

    /// Judges the end: the requests that are still open `bound` after the last fault.
    pub fn judge_progress(&mut self, now: Nanos, bound: Nanos) {
        let violations = self.progress.finish(now, bound);
        self.add(LEAKS - 1, violations);
    }

    /// Judges what is left at rest.
    pub fn judge_leaks(&mut self, now: Nanos, leftovers: &[Leftover]) {
        self.add(LEAKS, Leaks::finish(now, leftovers));
    }

    /// Each oracle with its result, always in the same order.
    pub fn checks(&self) -> Vec<Check> {
        let watching: [&dyn Oracle; LEAKS] = [&self.exclusion, &self.once, &self.tokens, &self.progress];
        let mut names: Vec<_> = watching.iter().map(|oracle| (oracle.name(), oracle.promise())).collect();
        names.push((Leaks::NAME, Leaks::PROMISE));
        let check = |((oracle, promise), violations): ((_, _), &u64)| Check {
            oracle,
            promise,
            held: *violations == 0,
            violations: *violations,
        };
        names.into_iter().zip(&self.broken).map(check).collect()
    }

    /// The first violations, in the order in which they were noticed.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How unfair it was.
    pub fn bypass(&self) -> MostBypassed {
        self.bypass.most()
    }

    fn add(&mut self, check: usize, violations: Vec<Violation>) {
        self.broken[check] += violations.len() as u64;
        let room = Judge::MOST_VIOLATIONS - self.violations.len();
        self.violations.extend(violations.into_iter().take(room));
    }
}
