//! How latencies vary from one time to the next.
//!
//! A profile says what a thing takes, once and for all. Where nothing varies, nodes that do the same run in lockstep, and a
//! thousand seeds are nearly one. So a world may vary each latency: by a share of it always, so that nodes drift against each
//! other, and by a spike now and then, as an interrupt or a congested bus makes it. What varies is
//!
//! - the way of a packet: the cables, the switch, the receiving adapter and the completion that it makes there;
//! - the time until a processor notices what it waits for;
//! - what a processor's work takes, alike within one step.
//!
//! The latency of the profile is the median, and order is kept where the hardware keeps it: packets of one queue pair arrive
//! in the order of their sending, and so do the connection managers' messages, datagrams and stream segments of one port;
//! completions of one queue are taken in the order in which they were made.
//!
//! Each variation is one answer of the world's [`Choice`], and the quiet answer is none.

use crate::choice::Choice;
use weft_verbs::Nanos;

/// By how much latencies vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// By which share of itself a latency is shorter or longer at most, in parts per million, from 0 to 500,000. Each
    /// variation up to that is as likely as any other.
    pub share_ppm: u32,
    /// How often there is a spike instead, in parts per million, from 0 to 500,000.
    pub spikes_ppm: u32,
    /// By how much a spike makes a latency longer at most, in nanoseconds of virtual time; each length is as likely.
    pub spike: Nanos,
}

/// Answers of one question.
const STEPS: u64 = 1 << 16;

/// The scale of a latency that is as the profile has it.
pub(crate) const EXACT: u32 = 1 << 16;

impl Jitter {
    /// Every latency is that of the profile, to the nanosecond. For measurements, and where time is what is tested.
    pub const NONE: Jitter = Jitter { share_ppm: 0, spikes_ppm: 0, spike: Nanos::ZERO };

    /// What runs by seeds have unless they say otherwise: a tenth, and in one of 500 cases up to 5 us more.
    ///
    /// An estimate, of the order that OFED perftest's latency tests print on machines that do nothing else: a standard
    /// deviation of some per cent, and a tail of microseconds that one of some hundred round trips meets.
    pub const USUAL: Jitter = Jitter { share_ppm: 100_000, spikes_ppm: 2_000, spike: Nanos::from_micros(5) };

    /// Whether nothing varies.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.share_ppm == 0 && self.spikes_ppm == 0
    }

    /// Draws one variation.
    pub(crate) fn draw(&self, choice: &mut dyn Choice) -> Variation {
        let spikes = (u64::from(self.spikes_ppm) * STEPS).div_ceil(1_000_000);
        let even = STEPS - spikes;
        let drawn = choice.pick("jitter", STEPS);
        match drawn.checked_sub(even) {
            Some(length) => Variation { scale: EXACT, extra: self.spike * (length + 1) / spikes },
            None => {
                // Outwards from none: 0, a little longer, a little shorter, and so on.
                let most = u64::from(EXACT) * u64::from(self.share_ppm) / 1_000_000;
                let off = (most * drawn.div_ceil(2) / (even / 2)) as u32;
                let scale = if drawn % 2 == 1 { EXACT + off } else { EXACT - off };
                Variation { scale, extra: Nanos::ZERO }
            }
        }
    }
}

/// One variation of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variation {
    /// What it is multiplied with, in parts of [`EXACT`].
    pub scale: u32,
    /// What is added.
    pub extra: Nanos,
}

impl Variation {
    /// A latency, varied.
    pub fn of(self, latency: Nanos) -> Nanos {
        scaled(latency, self.scale) + self.extra
    }
}

/// A latency at a scale, in parts of [`EXACT`].
#[inline]
pub(crate) fn scaled(latency: Nanos, scale: u32) -> Nanos {
    Nanos(((u128::from(latency.0) * u128::from(scale)) >> 16) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{First, Seeded};

    fn varied(jitter: Jitter, n: usize) -> Vec<u64> {
        let mut seeded = Seeded::new(1);
        let mut all: Vec<u64> = (0..n).map(|_| jitter.draw(&mut seeded).of(Nanos(1_000)).0).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_median_is_the_profiles_and_the_rest_lies_evenly_about_it() {
        let all = varied(Jitter { spikes_ppm: 0, ..Jitter::USUAL }, 10_001);
        assert!((899..=901).contains(&all[0]) && (1_099..=1_100).contains(&all[10_000]), "{all:?}");
        for (part, expected) in [(1, 950), (2, 1_000), (3, 1_050)] {
            assert!(all[part * 2_500].abs_diff(expected) <= 5, "{part} of 4: {}", all[part * 2_500]);
        }
    }

    #[test]
    fn spikes_are_as_often_and_as_long_as_the_jitter_says() {
        let all = varied(Jitter { share_ppm: 0, ..Jitter::USUAL }, 100_000);
        let spikes: Vec<u64> = all.into_iter().filter(|latency| *latency != 1_000).collect();
        assert!((150..250).contains(&spikes.len()), "{}", spikes.len());
        assert!(spikes[0] > 1_000 && *spikes.last().unwrap() <= 6_000, "{spikes:?}");
        assert!((3_000..4_000).contains(&spikes[spikes.len() / 2]), "{spikes:?}");
    }

    #[test]
    fn the_quiet_answer_varies_nothing() {
        assert_eq!(Jitter::USUAL.draw(&mut First).of(Nanos(12_345)), Nanos(12_345));
        assert!(Jitter::NONE.is_none() && !Jitter::USUAL.is_none());
    }
}
