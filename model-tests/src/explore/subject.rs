//! A world to explore, whatever its type: what a list of worlds holds.

use super::world::{Blueprint, Stuck};
use super::{
    Choices, Counterexample, ExploreError, Options, Progress, Report, Run, Strategy, Walk, explore, minimise,
    replay, walk,
};
use crate::worlds::modes::Requests;
use std::fmt;
use std::ops::ControlFlow;
use weft_sim::explore::FaultSet;

/// Something that can be explored. Every [`Blueprint`] is one.
pub trait Subject {
    /// The world's name.
    fn name(&self) -> &str;

    /// Its whole size, what is a default included.
    fn params(&self) -> Params;

    /// The kinds of faults that it can be explored under.
    fn faults(&self) -> FaultSet;

    /// Those of them that it is explored under unless somebody says which.
    fn usual_faults(&self) -> FaultSet;

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
    fn replay(&mut self, choices: &Choices, options: &Options, narrate: bool) -> Result<Run, Stuck>;

    /// Makes a failing run shorter; see [`minimise()`].
    ///
    /// # Errors
    ///
    /// The world does not let an event happen that it called enabled.
    fn minimise(&mut self, counterexample: &Counterexample, options: &Options) -> Result<Choices, Stuck>;

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

    fn params(&self) -> Params {
        Blueprint::params(self)
    }

    fn faults(&self) -> FaultSet {
        Blueprint::faults(self)
    }

    fn usual_faults(&self) -> FaultSet {
        Blueprint::usual_faults(self)
    }

    fn explore(&mut self, options: &Options, watch: Watch<'_>) -> Result<Report, ExploreError> {
        explore(self, options, watch)
    }

    fn replay(&mut self, choices: &Choices, options: &Options, narrate: bool) -> Result<Run, Stuck> {
        replay(self, choices, options, narrate)
    }

    fn minimise(&mut self, counterexample: &Counterexample, options: &Options) -> Result<Choices, Stuck> {
        minimise(self, &counterexample.choices, &counterexample.violation, options)
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
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// How many nodes there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// How many requests each node makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// What each node asks for, in the world's own words, such as `xs,s,x`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<String>,
}

impl Params {
    /// The sizes that are smaller by one thing: first by a node, then by a request, then by an open mode. Some of them
    /// may be too small for a world.
    pub fn smaller(&self) -> Vec<Params> {
        if let Some(modes) = &self.modes {
            let smaller = Requests::read(modes).map(|requests| requests.smaller()).unwrap_or_default();
            return smaller.iter().map(Requests::params).collect();
        }
        let fewer = |n: Option<u32>| n.and_then(|n| n.checked_sub(1)).filter(|n| *n > 0);
        let nodes = fewer(self.nodes).map(|nodes| Params { nodes: Some(nodes), ..self.clone() });
        let requests =
            fewer(self.requests).map(|requests| Params { requests: Some(requests), ..self.clone() });
        nodes.into_iter().chain(requests).collect()
    }
}

/// A world cannot be built like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParamError(pub String);
