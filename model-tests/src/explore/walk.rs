//! Runs at random, for worlds that are too large to explore.

use super::choices::Choices;
use super::options::Options;
use super::panics;
use super::run::{Driven, drive};
use super::search::{self, ExploreError};
use super::system::{ModelFactory, Stuck, Violation};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use weft_sim::choice::Rng;
use weft_sim::explore::{Enabled, FaultSet, Outcome};

/// How a walk chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Every enabled event is as likely as every other.
    Random,
    /// By priorities (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", 2010):
    /// each actor has one, the highest acts, and at a few moments the one that acts falls to the bottom.
    Pct,
    /// Each walk draws which kinds of faults it has at all and how often, and how slow each actor is (Groce et al.,
    /// "Swarm testing", 2012).
    #[default]
    Swarm,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Strategy; 3] = [Strategy::Random, Strategy::Pct, Strategy::Swarm];

    /// Its name, as the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Random => "random",
            Strategy::Pct => "pct",
            Strategy::Swarm => "swarm",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Strategy, String> {
        let all = Strategy::ALL;
        all.into_iter()
            .find(|strategy| strategy.name() == name)
            .ok_or_else(|| format!("there are: {}", all.map(Strategy::name).join(", ")))
    }
}

/// What one walk came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Its choices.
    pub choices: Choices,
    /// The promise that it broke.
    pub violation: Option<Violation>,
}

/// Walks from each of `seeds`, from the root to an end, and tells `each` of every walk until that breaks it off. Of the options, the faults,
/// their kinds and the depth matter.
///
/// # Errors
///
/// The world does not let an event happen that it called enabled, or it does not have these faults.
pub fn walks<B: ModelFactory>(
    factory: &mut B,
    strategy: Strategy,
    seeds: impl IntoIterator<Item = u64>,
    options: &Options,
    mut each: impl FnMut(u64, Walk) -> ControlFlow<()>,
) -> Result<(), ExploreError> {
    let kinds = search::faults(factory, options)?;
    let options = &Options { kinds: Some(kinds), ..options.clone() };
    factory.allow(options.faults_of(kinds, options.faults));
    let _begun = panics::begin(factory, options);
    // A world that panics is made anew for the next seed.
    let mut world = None;
    for seed in seeds {
        if each(seed, walk(factory, &mut world, strategy, seed, options)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Walks in `world`, which is made if there is none.
fn walk<B: ModelFactory>(
    factory: &mut B,
    world: &mut Option<B::System>,
    strategy: Strategy,
    seed: u64,
    options: &Options,
) -> Result<Walk, Stuck> {
    panics::note_root();
    let begun = panics::caught(|| match &mut *world {
        Some(used) => factory.reset(used),
        None => *world = Some(factory.root()),
    });
    if let Err((violation, choices)) = begun {
        panics::drop_broken(world.take());
        return Ok(Walk { choices, violation: Some(violation) });
    }
    let here = world.get_or_insert_with(|| factory.root());
    let mut walker = Walker::new(strategy, seed, options);
    let pick = |enabled: &[Enabled], in_vain: bool| {
        walker.faults += u32::from(in_vain);
        walker.pick(enabled)
    };
    let Driven { choices, violation, broken } = drive(here, options, pick, |_| ())?;
    if broken {
        panics::drop_broken(world.take());
    }
    Ok(Walk { choices, violation })
}

/// How one walk chooses.
struct Walker {
    rng: Rng,
    strategy: Strategy,
    faults: u32,
    kinds: FaultSet,
    /// A fault strikes one in so many events that it could strike.
    rarity: u64,
    /// For each actor: a priority, the highest first, or a weight.
    actors: BTreeMap<u64, u64>,
    /// The steps at which the acting one falls to the bottom, and how far it has come.
    falls: Vec<u64>,
    step: u64,
}

/// How often a walk by priorities changes its mind: it finds a bug that takes so many orderings and one.
const FALLS: usize = 3;
/// How many steps a walk by priorities is taken to have.
const STEPS: u64 = 150;

impl Walker {
    fn new(strategy: Strategy, seed: u64, options: &Options) -> Walker {
        let mut rng = Rng::from_seed(seed);
        let all = options.kinds.unwrap_or(FaultSet::ALL);
        let kinds = match strategy {
            Strategy::Swarm => all.iter().filter(|_| rng.below(2) == 0).collect(),
            _ => all,
        };
        let rarity = [4, 16, 64][rng.below(3) as usize];
        let falls = (0..FALLS).map(|_| rng.below(STEPS)).collect();
        Walker {
            rng,
            strategy,
            faults: options.faults,
            kinds,
            rarity,
            actors: BTreeMap::new(),
            falls,
            step: 0,
        }
    }

    fn pick(&mut self, enabled: &[Enabled]) -> (usize, Outcome) {
        let index = match self.strategy {
            Strategy::Random => self.rng.below(enabled.len() as u64) as usize,
            Strategy::Pct => self.highest(enabled),
            Strategy::Swarm => self.by_weight(enabled),
        };
        self.step += 1;
        (index, self.outcome(enabled[index].faults))
    }

    fn outcome(&mut self, faults: FaultSet) -> Outcome {
        let possible = faults.and(self.kinds);
        if self.faults == 0 || possible.is_empty() || self.rng.below(self.rarity) > 0 {
            return Outcome::Done;
        }
        self.faults -= 1;
        let drawn = self.rng.below(possible.len().into()) as usize;
        possible.iter().nth(drawn).unwrap_or_default()
    }

    fn highest(&mut self, enabled: &[Enabled]) -> usize {
        let mut best = (0, 0);
        for (index, event) in enabled.iter().enumerate() {
            let priority = self.of(event, u64::MAX >> 1);
            best = best.max((priority, index));
        }
        if self.falls.contains(&self.step) {
            // Below all that were drawn, and below those that fell before.
            let bottom = STEPS - self.step.min(STEPS);
            self.actors.insert(enabled[best.1].actor.0, bottom);
        }
        best.1
    }

    fn by_weight(&mut self, enabled: &[Enabled]) -> usize {
        let weights: Vec<u64> = enabled.iter().map(|event| 1 << (2 * self.of(event, 4))).collect();
        let mut drawn = self.rng.below(weights.iter().sum());
        let at = weights.iter().position(|weight| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        at.unwrap_or(0)
    }

    /// The actor's number, drawn below `n` when it first acts.
    fn of(&mut self, event: &Enabled, n: u64) -> u64 {
        let Walker { actors, rng, .. } = self;
        *actors.entry(event.actor.0).or_insert_with(|| rng.below(n))
    }
}
