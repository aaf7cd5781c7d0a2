//! Workloads of locks that are drawn at random.

use super::workload::{Keys, LockWork};
use crate::fields::{Dice, Share, Span};
use weft_protocols::locks::Scheme;
use weft_verbs::Nanos;

/// What the users of a lock service of one scheme do.
pub(super) fn swarm(dice: &mut Dice<'_>, scheme: Scheme) -> LockWork {
    let deadline = dice.among(&[None, Some(Nanos::from_micros(30)), Some(Nanos::from_micros(500))]);
    let share = |dice: &mut Dice<'_>, choices: &[f64]| Share::new(dice.among(choices)).unwrap_or_default();
    LockWork {
        scheme,
        clients: dice.among(&[1, 1, 2, 3, 5]),
        locks: dice.among(&[1, 1, 2, 3, 10]),
        keys: dice.among(&[Keys::Uniform, Keys::Single, Keys::Zipf(0.99)]),
        shared: share(dice, &[0.0, 0.1, 0.5, 0.5, 0.9, 1.0]),
        hold: dice.pause([0, 3, 50]),
        think: dice.pause([0, 10, 300]),
        requests: Some(dice.from(3, 25) as u32),
        duration: None,
        deadline: deadline.map(Span),
        hurried: if deadline.is_some() { share(dice, &[0.2, 0.7, 1.0]) } else { Share::ALL },
        tries: share(dice, &[0.0, 0.0, 0.1, 0.5]),
        downgrades: share(dice, &[0.0, 0.0, 0.3, 1.0]),
        hand_overs: dice.among(&[None, Some(0), Some(1)]),
        shared_limit: dice.among(&[None, None, Some(1), Some(2), Some(5)]),
    }
}
