//! The paper's applications (kernel-dsm.txt, 5.1 and Table 3): one text each for every target, checked against a sequential run.
//!
//! Each is written from its published description. A thread works on shared memory by the calls that any program has, and says how
//! many units it has computed: in simulation that takes time, on a machine it has taken it. Every thread gives a part of the
//! answer; the parts are added up, and are to be what a run of one thread without shared memory comes to.

mod barnes;
mod is;
mod lu;
mod nbody;
mod ocean;
mod sor;
mod tsp;
mod water;
mod worker;

pub(in crate::systems::dsm) use nbody::sequential_part;
pub use worker::{AppError, Worker, share};

use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};
use weft_protocols::dsm::Grain;
use weft_verbs::Verbs;

/// An application, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Application {
    /// Successive over-relaxation, red and black (TreadMarks).
    Sor,
    /// The travelling salesperson, branch and bound (TreadMarks).
    Tsp,
    /// Water, n-squared (SPLASH-2).
    Water,
    /// A kernel that imitates N-body programs: all read all bodies.
    Nbody,
    /// The same with a sequential phase in which one thread reads and writes all bodies.
    Nbodyw,
    /// Integer sort, by buckets (NAS).
    Is,
    /// LU decomposition, contiguous blocks (SPLASH-2).
    Lu,
    /// Barnes-Hut: bodies, and a tree of them (SPLASH-2).
    Barnes,
    /// Currents in a basin, by multigrid (SPLASH-2).
    Ocean,
}

/// How much of it: the input set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Rows, cities, molecules, bodies or keys.
    pub size: usize,
    /// How often all is done, where that is not given by the size.
    pub rounds: u32,
}

/// What an application comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// A hash, a sum, or a length.
    pub value: u64,
    /// Units of work that a sequential run takes.
    pub units: u64,
}

impl Application {
    /// All of them.
    pub const ALL: [Application; 9] = [
        Application::Sor,
        Application::Tsp,
        Application::Water,
        Application::Nbody,
        Application::Nbodyw,
        Application::Is,
        Application::Lu,
        Application::Barnes,
        Application::Ocean,
    ];

    /// Its name, as scenarios have it.
    pub fn name(self) -> &'static str {
        match self {
            Application::Sor => "sor",
            Application::Tsp => "tsp",
            Application::Water => "water",
            Application::Nbody => "nbody",
            Application::Nbodyw => "nbodyw",
            Application::Is => "is",
            Application::Lu => "lu",
            Application::Barnes => "barnes",
            Application::Ocean => "ocean",
        }
    }

    /// An input set that takes a moment.
    pub fn small(self) -> Input {
        let (size, rounds) = match self {
            Application::Sor => (64, 4),
            Application::Tsp => (9, 1),
            Application::Water => (24, 2),
            Application::Nbody | Application::Nbodyw => (128, 2),
            Application::Is => (4_096, 3),
            Application::Lu => (128, 1),
            Application::Barnes => (128, 2),
            Application::Ocean => (16, 1),
        };
        Input { size, rounds }
    }

    /// The input sets that there are: by sizes, and the multiple that they must be of.
    pub fn sizes(self) -> (std::ops::RangeInclusive<usize>, usize) {
        match self {
            Application::Sor => (32..=8_192, 32),
            Application::Tsp => (5..=20, 1),
            Application::Water => (2..=4_096, 1),
            Application::Nbody | Application::Nbodyw => (1..=65_536, 1),
            Application::Is => (1..=1 << 26, 1),
            Application::Lu => (lu::BLOCK..=4_096, lu::BLOCK),
            Application::Barnes => (1..=65_536, 1),
            Application::Ocean => (ocean::LEAST..=4_096, ocean::LEAST),
        }
    }

    /// Bytes of which a grain is a multiple: its largest element lies in one minipage.
    pub fn grain(self) -> u32 {
        let largest = match self {
            Application::Tsp => tsp::TOUR,
            Application::Water => water::RECORD as u32,
            Application::Barnes => barnes::RECORD as u32,
            Application::Nbody | Application::Nbodyw => nbody::RECORD as u32,
            Application::Sor | Application::Is | Application::Lu | Application::Ocean => 8,
        };
        largest.next_multiple_of(Grain::LEAST)
    }

    /// Bytes of its longest minipage, where no other grain is asked for.
    pub fn longest(self, input: Input) -> u32 {
        match self {
            Application::Sor => sor::grain(input.size),
            Application::Tsp => tsp::GRAIN,
            Application::Water => water::RECORD as u32,
            Application::Nbody | Application::Nbodyw => nbody::GRAIN,
            Application::Is => is::GRAIN,
            Application::Lu => lu::GRAIN,
            Application::Barnes => barnes::GRAIN,
            Application::Ocean => ocean::grain(input.size),
        }
    }

    /// How many bytes of shared memory it has.
    pub fn memory(self, input: Input) -> u64 {
        let size = input.size as u64;
        match self {
            Application::Sor => 4 * size * size,
            Application::Tsp => tsp::memory(),
            Application::Water => size * water::RECORD,
            Application::Nbody | Application::Nbodyw => size * nbody::RECORD,
            Application::Is => is::MEMORY,
            Application::Lu => 8 * size * size,
            Application::Barnes => barnes::memory(size),
            Application::Ocean => ocean::memory(size),
        }
    }

    /// One thread's part of a run. All threads run this.
    ///
    /// # Errors
    ///
    /// Shared memory or the lock service has ended.
    pub async fn run<V: Verbs>(self, worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
        match self {
            Application::Sor => sor::run(worker, input).await,
            Application::Tsp => tsp::run(worker, input).await,
            Application::Water => water::run(worker, input).await,
            Application::Nbody => nbody::run(worker, input, false).await,
            Application::Nbodyw => nbody::run(worker, input, true).await,
            Application::Is => is::run(worker, input).await,
            Application::Lu => lu::run(worker, input).await,
            Application::Barnes => barnes::run(worker, input).await,
            Application::Ocean => ocean::run(worker, input).await,
        }
    }

    /// What a sequential run comes to.
    pub fn sequential(self, input: Input) -> Answer {
        match self {
            Application::Sor => sor::sequential(input),
            Application::Tsp => tsp::sequential(input),
            Application::Water => water::sequential(input),
            Application::Nbody => nbody::sequential(input, false),
            Application::Nbodyw => nbody::sequential(input, true),
            Application::Is => is::sequential(input),
            Application::Lu => lu::sequential(input),
            Application::Barnes => barnes::sequential(input),
            Application::Ocean => ocean::sequential(input),
        }
    }
}

/// A part of an answer that is a sum over items: an item's place and its bits, hashed.
fn digest(place: usize, bits: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (place, bits).hash(&mut hasher);
    hasher.finish()
}

/// A number from 0 to 1 that a place has, the same in every run.
fn noise(place: usize) -> f64 {
    let mut word = place as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..2 {
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^= word >> 27;
    }
    (word >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
