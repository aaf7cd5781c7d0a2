//! Draws of what scenario fields leave open, each by a distribution that is the same on every machine: those of integers and
//! of `f64` in `rand`, and logarithms and powers of `libm`. (`f64::ln` and `f64::powf` are the machine's, and those of
//! `rand_distr` are, too, as soon as any crate of the program wants `num-traits` with `std`.)
//!
//! One field does not shift what is drawn after it, whatever it says: a time takes one random word, even where its range is
//! one time.

use super::{Rate, Share, Spread};
use crate::history::ClientId;
use rand::Rng as _;
use rand::distr::{Distribution, OpenClosed01, weighted::WeightedIndex};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// Streams of random words for a client of a run. Clients share none, nor is one's another seed's: SplitMix64, which seeds the generator,
/// takes care of seeds that are near each other.
pub fn of_client<const STREAMS: usize>(seed: u64, client: ClientId) -> [Rng; STREAMS] {
    let mut node = Rng::from_seed(seed ^ (u64::from(client.node) << 16));
    std::array::from_fn(|_| Rng::from_seed(node.next_u64() ^ u64::from(client.index)))
}

/// A time of a range, each equally likely.
pub fn time(rng: &mut Rng, spread: Spread) -> Nanos {
    Nanos(rng.random_range(spread.min.nanos().0..=spread.max.nanos().0))
}

/// Whether this one is among a share.
pub fn whether(rng: &mut Rng, share: Share) -> bool {
    rng.random_ratio(share.ppm(), 1_000_000)
}

/// The time to the next of the accidents of a rate: gaps are exponentially distributed, as those of independent accidents are.
pub fn gap(rng: &mut Rng, rate: Rate) -> Nanos {
    let even: f64 = OpenClosed01.sample(rng);
    Nanos((-libm::log(even) * rate.mean_interval().0 as f64) as u64 + 1)
}

/// One of several things, the k-th in proportion to 1/k^`theta` (Zipf's law), numbered from 0. The table takes a word for each,
/// and a draw a binary search.
#[derive(Clone, Debug)]
pub struct Zipf(WeightedIndex<f64>);

impl Zipf {
    /// Draws from `n` things, at least 1, with `theta` from 0.
    pub fn new(n: u32, theta: f64) -> Zipf {
        let weights = (1..=n.max(1)).map(|rank| libm::pow(f64::from(rank), -theta));
        Zipf(WeightedIndex::new(weights).expect("the first weight is 1, and none is negative"))
    }

    /// The next draw.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.0.sample(rng) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Span;

    /// Results of one machine, to the bit: another must draw the same.
    #[test]
    fn draws_are_the_same_on_every_machine() {
        let mut rng = Rng::from_seed(7);
        let zipf = Zipf::new(1_000, 0.99);
        let keys: Vec<u64> = (0..12).map(|_| zipf.draw(&mut rng)).collect();
        assert_eq!(keys, [0, 1, 127, 14, 769, 19, 133, 6, 880, 0, 0, 1]);
        let rate: Rate = "3/ms".parse().unwrap();
        let gaps: Vec<u64> = (0..6).map(|_| gap(&mut rng, rate).0).collect();
        assert_eq!(gaps, [103163, 726536, 234645, 776733, 605049, 563498]);
        let spread = Spread { min: Span(Nanos(5)), max: Span(Nanos(1_000_000)) };
        let times: Vec<u64> = (0..6).map(|_| time(&mut rng, spread).0).collect();
        assert_eq!(times, [109944, 789939, 675622, 416654, 792556, 530868]);
        let bits = [libm::log(3.0), libm::pow(17.0, -0.99), libm::pow(1e6, -5.0)].map(f64::to_bits);
        assert_eq!(bits, [4607626529066517258, 4588881801641582602, 4158027847206421152]);
    }

    #[test]
    fn a_time_takes_a_word_whatever_its_range_is() {
        let (mut fixed, mut wide) = (Rng::from_seed(1), Rng::from_seed(1));
        let spread = Spread { min: Span(Nanos(5)), max: Span(Nanos(1_000_000)) };
        assert_eq!(time(&mut fixed, Spread::fixed(Nanos(9))), Nanos(9));
        time(&mut wide, spread);
        assert_eq!(fixed, wide);
    }
}
