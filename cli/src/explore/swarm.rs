//! Scenarios of 16 nodes drawn at random, in virtual time and with every kind of fault.

use super::args::FuzzArgs;
use super::files;
use super::target::{Runner, Seed, Target};
use crate::exit::Failure;
use std::path::PathBuf;
use weft_check::run::RunOptions;
use weft_check::scenario::Scenario;
use weft_check::systems::{self, Registered};

/// How many nodes each scenario has.
const NODES: u32 = 16;
const NAME: &str = "swarm-16";

/// Random scenarios of one variant of a system, or of each in turn.
pub struct Swarm {
    name: String,
    system: &'static dyn Registered,
    variants: &'static [&'static str],
    /// Of each machine; more than one for a name that ends in `-rails`.
    rails: u8,
    /// Machines agree on who is alive, and some crash: for a name that ends in `-members`.
    members: bool,
    save: Option<PathBuf>,
}

/// Every swarm: that of the first system by the plain name, each variant's, each system's.
fn all() -> Vec<(String, &'static dyn Registered, &'static [&'static str])> {
    let mut all = Vec::new();
    for (number, &system) in systems::all().iter().enumerate() {
        let variants = system.variants();
        if number == 0 {
            all.push((NAME.to_string(), system, variants));
        }
        all.push((format!("{NAME}-{}", system.kind()), system, variants));
        let named = (0..variants.len()).filter(|at| !variants[*at].is_empty());
        all.extend(named.map(|at| (format!("{NAME}-{}", variants[at]), system, &variants[at..=at])));
    }
    all
}

/// The swarm that a command line asks for, if it asks for one.
pub fn target(args: &FuzzArgs) -> Result<Option<Swarm>, Failure> {
    if !args.world.starts_with(NAME) {
        return Ok(None);
    }
    if !args.sizes.set.is_empty() || args.faults.is_some() || !args.kinds.kinds.is_empty() {
        return Err(Failure::bad_input(format!(
            "{NAME} draws its own requests and faults: leave out --set, --faults and the like"
        )));
    }
    let (plain, members) = match args.world.strip_suffix("-members") {
        Some(plain) => (plain, true),
        None => (args.world.as_str(), false),
    };
    let (plain, rails) = match plain.strip_suffix("-rails") {
        Some(plain) => (plain, 2),
        None => (plain, 1),
    };
    let found = all().into_iter().find(|(name, ..)| *name == plain);
    let (_, system, variants) = found.ok_or_else(|| {
        let known: Vec<String> = all().into_iter().map(|(name, ..)| name).collect();
        let known = known.join(", ");
        Failure::bad_input(format!(
            "there is no world '{}': there are {known}, and each with -rails or -members behind it",
            args.world
        ))
    })?;
    let swarm =
        Swarm { name: args.world.clone(), system, variants, rails, members, save: args.leaves.save.clone() };
    match swarm.scenario(0) {
        Some(_) => Ok(Some(swarm)),
        None => Err(Failure::bad_input(format!("{} makes no use of members", system.kind()))),
    }
}

impl Swarm {
    fn scenario(&self, seed: u64) -> Option<Scenario> {
        let in_turn = self.variants[(seed % self.variants.len() as u64) as usize];
        let scenario = self.system.swarm(seed, Some(NODES), in_turn);
        let scenario = if self.rails > 1 { scenario.over_rails(self.rails, seed) } else { scenario };
        if self.members { scenario.among_members(seed) } else { Some(scenario) }
    }

    /// Whether there are any was asked at the beginning, and does not depend on the seed.
    fn drawn(&self, seed: u64) -> Result<Scenario, Failure> {
        self.scenario(seed).ok_or_else(|| Failure::bad_input(format!("{} has no scenarios", self.name)))
    }
}

impl Target for Swarm {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn runner(&self) -> Result<Runner<'_>, Failure> {
        Ok(Box::new(|seed| {
            let report = self.system.run(&self.drawn(seed)?, seed, RunOptions::default());
            let report = report.map_err(|error| Failure::of_run(&error).at(format!("seed {seed}")))?;
            let violation = report.violations.first().map(ToString::to_string);
            let faults =
                report.faults.iter().map(|fault| (fault.kind.to_string(), fault.injected, fault.struck));
            Ok(Seed { seed, violation, faults: faults.collect() })
        }))
    }

    /// A scenario is its own failure file.
    fn save(&self, seed: u64) -> Result<(PathBuf, String), Failure> {
        let text = toml::to_string(&self.drawn(seed)?).map_err(Failure::unfinished)?;
        let path = self.save.clone().unwrap_or_else(|| PathBuf::from(format!("{}.{seed}.toml", self.name())));
        files::put(&path, "the scenario", &text)?;
        let rerun = format!("The same run again: weft run {} --log events.log\n", path.display());
        Ok((path, rerun))
    }
}
