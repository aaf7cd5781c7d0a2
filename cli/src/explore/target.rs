//! What can be fuzzed: something that runs from a seed.

use crate::exit::Failure;
use std::path::PathBuf;

/// What one seed came to.
#[derive(Debug)]
pub struct Seed {
    /// The seed.
    pub seed: u64,
    /// What it broke.
    pub violation: Option<String>,
    /// The kinds of its faults: how many there were, and how many struck an operation in flight.
    pub faults: Vec<(String, u64, u64)>,
}

/// Runs seeds, on a thread of its own.
pub type Runner<'a> = Box<dyn FnMut(u64) -> Result<Seed, Failure> + 'a>;

/// Something to fuzz.
pub trait Target: Sync {
    /// Its name.
    fn name(&self) -> String;

    /// Somebody who runs its seeds; each thread has its own.
    fn runner(&self) -> Result<Runner<'_>, Failure>;

    /// Where a failure is saved; what the seed says of its name is a word.
    fn place(&self) -> PathBuf;

    /// Saves the failure of a seed: the file, and how to see it again.
    fn save(&self, seed: u64) -> Result<(PathBuf, String), Failure>;
}
