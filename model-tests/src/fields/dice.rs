//! Draws for scenarios that are made at random.

use super::{Span, Spread};
use weft_sim::choice::Choice;
use weft_verbs::Nanos;

/// Draws from the answers of a choice: a seed's, a fuzzer's bytes.
pub struct Dice<'a>(pub &'a mut dyn Choice);

impl Dice<'_> {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.pick("swarm", n)
    }

    /// One of these.
    pub fn among<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// Whether this is one in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number from `least` to `most`.
    pub fn from(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A range of times that ends at about `most`.
    pub fn spread(&mut self, most: Nanos) -> Spread {
        let max = Nanos(self.from(most.0 / 4, most.0));
        let min = self.among(&[Nanos::ZERO, max / 10, max]);
        Spread { min: Span(min), max: Span(max) }
    }

    /// A range of times that ends at about one of these numbers of microseconds.
    pub fn pause(&mut self, micros: [u64; 3]) -> Spread {
        let most = Nanos::from_micros(self.among(&micros));
        self.spread(most)
    }
}
