//! A world to explore, whatever its type: what a list of worlds holds.

use super::world::{Blueprint, Stuck};
use super::{
    Choices, Counterexample, ExploreError, Options, Progress, Report, Run, Strategy, Walk, explore, minimise,
    replay, walk,
};
use sim_backend::explore::FaultSet;
use std::fmt;
use std::ops::ControlFlow;

/// Something that can be explored. Every [`Blueprint`] is one.
pub trait Subject {
    /// The world's name.
    fn name(&self) -> &str;

    /// Explores it; see [`explore()`].
    ///
    /// # Errors
    ///
    /// The world is not deterministic, or cannot do what the options ask for.
    fn explore(&mut self, options: &Options, watch: Watch<'_>) -> Result<Report, ExploreError>;

    /// Runs it by a list of choices; see [`replay()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled.
    fn replay(&mut self, choices: &Choices, max_depth: u32, narrate: bool) -> Result<Run, Stuck>;

    /// Makes a failing run shorter; see [`minimise()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled.
    fn minimise(&mut self, counterexample: &Counterexample, max_depth: u32) -> Result<Choices, Stuck>;

    /// Walks through it from each of `seeds`, and tells `each` of every walk until that breaks it off; see [`walk()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled.
    fn walks(
        &mut self,
        strategy: Strategy,
        seeds: &mut dyn Iterator<Item = u64>,
        options: &Options,
        each: &mut dyn FnMut(u64, Walk) -> ControlFlow<()>,
    ) -> Result<(), Stuck>;
}

/// Is told from time to time how far an exploration has come, and says whether it goes on.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

impl<B: Blueprint> Subject for B {
    fn name(&self) -> &str {
        Blueprint::name(self)
    }

    fn explore(&mut self, options: &Options, watch: Watch<'_>) -> Result<Report, ExploreError> {
        explore(self, options, watch)
    }

    fn replay(&mut self, choices: &Choices, max_depth: u32, narrate: bool) -> Result<Run, Stuck> {
        replay(self, choices, max_depth, narrate)
    }

    fn minimise(&mut self, counterexample: &Counterexample, max_depth: u32) -> Result<Choices, Stuck> {
        minimise(self, &counterexample.choices, &counterexample.violation, max_depth)
    }

    fn walks(
        &mut self,
        strategy: Strategy,
        seeds: &mut dyn Iterator<Item = u64>,
        options: &Options,
        each: &mut dyn FnMut(u64, Walk) -> ControlFlow<()>,
    ) -> Result<(), Stuck> {
        self.allow(options.faults_of(FaultSet::ALL, options.faults));
        let mut world = self.root();
        for seed in seeds {
            if each(seed, walk(self, &mut world, strategy, seed, options)?).is_break() {
                break;
            }
        }
        Ok(())
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
    /// Builds it.
    pub build: fn(&Params) -> Result<Box<dyn Subject>, ParamError>,
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

/// What a user may say about a world's size. What is not said is the world's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Params {
    /// How many nodes there are.
    pub nodes: Option<u32>,
    /// How many requests each node makes.
    pub requests: Option<u32>,
    /// What each node asks for, in the world's own words, such as `xs,s,x`.
    pub modes: Option<String>,
}

/// A world cannot be built like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParamError(pub String);
