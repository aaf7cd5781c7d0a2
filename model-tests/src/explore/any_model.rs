//! A model to explore, whatever its type: what a list of worlds holds.

use super::search::{explore, explore_part};
use super::size::{Key, Size, SizeError};
use super::system::{Described, ModelFactory, Stuck};
use super::{
    Choices, Counterexample, ExploreError, Options, Progress, Report, Run, Strategy, Walk, minimise, replay,
    walks,
};
use std::fmt;
use std::ops::ControlFlow;

/// Something that can be explored. Every [`ModelFactory`] is one.
pub trait AnyModel: Described {
    /// Explores it; see [`explore()`].
    ///
    /// # Errors
    ///
    /// The world is not deterministic, or cannot do what the options ask for.
    fn explore(&mut self, options: &Options, watch: Watch<'_>) -> Result<Report, ExploreError>;

    /// Explores what follows on one of its initial configurations.
    ///
    /// # Errors
    ///
    /// The world is not deterministic, or cannot do what the options ask for.
    fn explore_part(
        &mut self,
        configuration: usize,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<Report, ExploreError>;

    /// Runs it by a list of choices; see [`replay()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled.
    fn replay(&mut self, choices: &Choices, options: &Options, traced: bool) -> Result<Run, Stuck>;

    /// Makes a failing run shorter; see [`minimise()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled.
    fn minimise(
        &mut self,
        counterexample: &Counterexample,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<Choices, Stuck>;

    /// Walks through it from each of `seeds`, and tells `each` of every walk until that breaks it off; see [`walks()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled, or it does not have these faults.
    fn walks(
        &mut self,
        strategy: Strategy,
        seeds: &mut dyn Iterator<Item = u64>,
        options: &Options,
        each: &mut dyn FnMut(u64, Walk) -> ControlFlow<()>,
    ) -> Result<(), ExploreError>;
}

/// Is told from time to time how far an exploration has come, and says whether it goes on.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

impl<B: ModelFactory> AnyModel for B {
    fn explore(&mut self, options: &Options, watch: Watch<'_>) -> Result<Report, ExploreError> {
        explore(self, options, watch)
    }

    fn explore_part(
        &mut self,
        configuration: usize,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<Report, ExploreError> {
        explore_part(self, configuration, options, watch)
    }

    fn replay(&mut self, choices: &Choices, options: &Options, traced: bool) -> Result<Run, Stuck> {
        replay(self, choices, options, traced)
    }

    fn minimise(
        &mut self,
        counterexample: &Counterexample,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<Choices, Stuck> {
        minimise(self, &counterexample.choices, &counterexample.violation, options, watch)
    }

    fn walks(
        &mut self,
        strategy: Strategy,
        seeds: &mut dyn Iterator<Item = u64>,
        options: &Options,
        each: &mut dyn FnMut(u64, Walk) -> ControlFlow<()>,
    ) -> Result<(), ExploreError> {
        walks(self, strategy, seeds, options, each)
    }
}

/// A world in a list: how it is called, what it is, what must come of it.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name, as the command line has it.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// What exploring it must find.
    pub expected: Expected,
    /// The keys that its size has.
    pub keys: &'static [Key],
    /// Makes it of a size that has no other keys; see [`Entry::build`].
    pub make: fn(&Size) -> Result<Box<dyn AnyModel>, SizeError>,
}

impl Entry {
    /// Builds the world in a size.
    ///
    /// # Errors
    ///
    /// The size has a key that the world does not know, or a value out of bounds.
    pub fn build(&self, size: &Size) -> Result<Box<dyn AnyModel>, SizeError> {
        size.check(self.keys)?;
        (self.make)(size)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("expected", &self.expected).finish()
    }
}

/// What exploring a world must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// Every promise is kept.
    Held,
    /// A bug was planted, or a paper read to the letter: a promise is broken.
    Violated,
    /// The same, but it takes a fault.
    ViolatedUnderFaults,
}
