//! Draws of what scenario fields leave open. Each draw takes one random word, whatever the field says, so that one field
//! does not shift what is drawn after it.

use super::{Share, Spread};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// A time of a range, each equally likely.
pub fn time(rng: &mut Rng, spread: Spread) -> Nanos {
    let (min, max) = (spread.min.nanos(), spread.max.nanos());
    min + Nanos(rng.below((max - min).0.saturating_add(1)))
}

/// Whether this one is among a share.
pub fn whether(rng: &mut Rng, share: Share) -> bool {
    const MILLION: u64 = 1_000_000;
    rng.below(MILLION) < u64::from(share.ppm())
}
