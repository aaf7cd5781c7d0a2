//! Makes a failing run's list of choices as short as it gets.

use super::any_model::Watch;
use super::choices::Choices;
use super::options::Options;
use super::run::replay;
use super::search::Progress;
use super::system::{ModelFactory, Stuck, Violation};
use weft_sim::explore::Outcome;

/// The shortest list that this finds of choices whose run breaks the same promise: first with as few faults as
/// possible, then with as few choices. If the whole list's run does not break it again, that is the whole list: then something
/// outside of the execution changes the world. What remains has no choice that can be left out, unless `watch`, which is asked before each run,
/// breaks it off: then it is the shortest so far.
///
/// Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002): parts are left out, from halves
/// down to single choices.
///
/// # Errors
///
/// The world does not let an event happen that it called enabled.
pub fn minimise<B: ModelFactory>(
    factory: &mut B,
    choices: &Choices,
    violation: &Violation,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Choices, Stuck> {
    let options = &options.to_repeat(violation);
    let mut shrink = Shrink { factory, oracle: &violation.oracle, options, watch };
    let mut best = choices.clone();
    if !shrink.fails(&best)? {
        return Ok(best);
    }
    loop {
        let before = best.clone();
        shrink.faults(&mut best)?;
        shrink.parts(&mut best)?;
        // A shorter list can make another fault needless, and a needless fault another choice.
        if best == before {
            return Ok(best);
        }
    }
}

struct Shrink<'a, B> {
    factory: &'a mut B,
    oracle: &'a str,
    options: &'a Options,
    watch: Watch<'a>,
}

impl<B: ModelFactory> Shrink<'_, B> {
    fn fails(&mut self, choices: &Choices) -> Result<bool, Stuck> {
        if (self.watch)(&Progress::default()).is_break() {
            return Ok(false);
        }
        let run = replay(self.factory, choices, self.options, false)?;
        Ok(run.violation.is_some_and(|violation| violation.oracle == self.oracle))
    }

    /// Lets each fault go well instead, if the run fails all the same.
    fn faults(&mut self, best: &mut Choices) -> Result<(), Stuck> {
        for index in 0..best.0.len() {
            if best.0[index].outcome.is_fault() {
                let mut without = best.clone();
                without.0[index].outcome = Outcome::Done;
                if self.fails(&without)? {
                    *best = without;
                }
            }
        }
        Ok(())
    }

    /// Leaves parts out, each half as long as the last, until no single choice can go.
    fn parts(&mut self, best: &mut Choices) -> Result<(), Stuck> {
        let mut length = best.0.len().next_power_of_two();
        while length > 0 {
            let removed = self.parts_of(length, best)?;
            // A single choice that could not go may be able to after another one went.
            if length > 1 || !removed {
                length /= 2;
            }
        }
        Ok(())
    }

    fn parts_of(&mut self, length: usize, best: &mut Choices) -> Result<bool, Stuck> {
        let (mut at, mut removed) = (0, false);
        while at < best.0.len() {
            let end = (at + length).min(best.0.len());
            let without = Choices([&best.0[..at], &best.0[end..]].concat());
            if self.fails(&without)? {
                (*best, removed) = (without, true);
            } else {
                at = end;
            }
        }
        Ok(removed)
    }
}
