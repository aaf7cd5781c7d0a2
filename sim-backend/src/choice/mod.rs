//! The single source of nondeterminism.
//!
//! Whatever a run leaves open, an order or a value, it asks of one [`Choice`]. The same answers give the same
//! run, to the byte of its event log. A seed, a fuzzer's bytes and an explorer are ways to answer.
//!
//! Two rules make answers portable from one kind to another:
//!
//! - A question with one possible answer is never asked: [`Choice::pick`] with `n` of 1 and
//!   [`Choice::schedule`] of one event are answered 0 by the caller's side of the trait's contract, and
//!   take none of a fuzzer's bytes.
//! - **0 is the quiet answer**: the first event in order, no fault, no extra delay. Bytes that end early, or are
//!   cut short by a shrinker, continue quietly.

mod rng;

pub use rng::Rng;

/// An enabled event, by an identity that stays the same from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// Answers every question that a run leaves open.
pub trait Choice {
    /// Which of so many events that could happen now, at least one, happens first. They are in the order in which they were scheduled.
    fn schedule(&mut self, enabled: usize) -> usize;

    /// A number below `n`, which is at least 1. `label` says what for.
    fn pick(&mut self, label: &'static str, n: u64) -> u64;

    /// Whether something happens that happens `ppm` times in a million. The quiet answer is no.
    fn chance(&mut self, label: &'static str, ppm: u32) -> bool {
        const MILLION: u64 = 1_000_000;
        match u64::from(ppm) {
            0 => false,
            MILLION.. => true,
            ppm => self.pick(label, MILLION) >= MILLION - ppm,
        }
    }

    /// A whole random word, as two questions that `n` can express.
    fn word(&mut self, label: &'static str) -> u64 {
        let high = self.pick(label, 1 << 32);
        high << 32 | self.pick(label, 1 << 32)
    }
}

impl<C: Choice + ?Sized> Choice for Box<C> {
    fn schedule(&mut self, enabled: usize) -> usize {
        (**self).schedule(enabled)
    }
    fn pick(&mut self, label: &'static str, n: u64) -> u64 {
        (**self).pick(label, n)
    }
    fn word(&mut self, label: &'static str) -> u64 {
        (**self).word(label)
    }
}

impl<C: Choice + ?Sized> Choice for &mut C {
    fn schedule(&mut self, enabled: usize) -> usize {
        (**self).schedule(enabled)
    }
    fn pick(&mut self, label: &'static str, n: u64) -> u64 {
        (**self).pick(label, n)
    }
    fn word(&mut self, label: &'static str) -> u64 {
        (**self).word(label)
    }
}

/// Answers by a seeded generator: the same seed gives the same run on every machine.
#[derive(Clone, Debug)]
pub struct Seeded(Rng);

impl Seeded {
    /// Answers of one seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded(Rng::from_seed(seed))
    }
}

impl Choice for Seeded {
    #[inline]
    fn schedule(&mut self, enabled: usize) -> usize {
        self.0.below(enabled as u64) as usize
    }
    #[inline]
    fn pick(&mut self, _label: &'static str, n: u64) -> u64 {
        self.0.below(n)
    }
}

/// Always the quiet answer: events in the order of their insertion, no fault of a rate ever strikes.
#[derive(Clone, Copy, Debug, Default)]
pub struct First;

impl Choice for First {
    fn schedule(&mut self, _enabled: usize) -> usize {
        0
    }
    fn pick(&mut self, _label: &'static str, _n: u64) -> u64 {
        0
    }
}

/// Answers from a fuzzer's bytes: each question takes as many as its range needs, little-endian, modulo the
/// range. After the last byte the answers are quiet.
///
/// Whole words are told apart by how many there were before. Zeros are a fuzzer's favourites, and a node's incarnation is a word:
/// two with one number would be one to its peers, which on a real host happens once in 2^63.
///
/// Small questions take one byte, so that a fuzzer's mutation of one byte changes one decision.
#[derive(Clone, Debug)]
pub struct Bytes {
    bytes: Vec<u8>,
    at: usize,
    words: u64,
}

impl Bytes {
    /// Answers from a copy of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Bytes {
        Bytes { bytes: bytes.into(), at: 0, words: 0 }
    }

    /// How many bytes have been used.
    pub fn used(&self) -> usize {
        self.at
    }

    fn below(&mut self, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        let width = (64 - (n - 1).leading_zeros()).div_ceil(8) as usize;
        let end = (self.at + width).min(self.bytes.len());
        let mut word = [0u8; 8];
        word[..end - self.at].copy_from_slice(&self.bytes[self.at..end]);
        self.at = end;
        u64::from_le_bytes(word) % n
    }
}

impl Choice for Bytes {
    fn schedule(&mut self, enabled: usize) -> usize {
        self.below(enabled as u64) as usize
    }
    fn pick(&mut self, _label: &'static str, n: u64) -> u64 {
        self.below(n)
    }
    fn word(&mut self, _label: &'static str) -> u64 {
        self.words += 1;
        let high = self.below(1 << 32);
        (high << 32 | self.below(1 << 32)) ^ self.words << 32
    }
}

#[cfg(test)]
mod tests;
