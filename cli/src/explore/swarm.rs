//! Scenarios of 16 nodes drawn at random, in virtual time and with every kind of fault.

use super::args::FuzzArgs;
use super::files;
use super::fuzz::{Runner, Seed, Target};
use crate::exit::Failure;
use crate::run;
use std::path::PathBuf;
use weft_check::lock_world::{self, RunOptions};
use weft_check::scenario::{Scenario, Scheme, swarm_of};

/// How many nodes each scenario has.
const NODES: u32 = 16;
const NAME: &str = "swarm-16";

/// Random scenarios of one lock scheme, or of each in turn.
pub struct Swarm {
    scheme: Option<Scheme>,
    save: Option<PathBuf>,
}

/// The swarm that a command line asks for, if it asks for one.
pub fn target(args: &FuzzArgs) -> Result<Option<Swarm>, Failure> {
    let Some(rest) = args.world.strip_prefix(NAME) else { return Ok(None) };
    if !args.sizes.set.is_empty() || args.faults.is_some() || !args.kinds.kinds.is_empty() {
        return Err(Failure::bad_input(format!(
            "{NAME} draws its own requests and faults: leave out --set, --faults and the like"
        )));
    }
    let scheme = match rest.strip_prefix('-') {
        None if rest.is_empty() => None,
        Some(name) => Some(name.parse().map_err(|_| no_such(&args.world))?),
        None => return Err(no_such(&args.world)),
    };
    Ok(Some(Swarm { scheme, save: args.leaves.save.clone() }))
}

fn no_such(world: &str) -> Failure {
    let known = Scheme::ALL.map(|scheme| format!("{NAME}-{scheme}")).join(", ");
    Failure::bad_input(format!("there is no world '{world}': there are {NAME}, {known}"))
}

impl Swarm {
    fn scenario(&self, seed: u64) -> Scenario {
        let in_turn = Scheme::ALL[(seed % Scheme::ALL.len() as u64) as usize];
        swarm_of(NODES, seed, self.scheme.unwrap_or(in_turn))
    }
}

impl Target for Swarm {
    fn name(&self) -> String {
        self.scheme.map_or_else(|| NAME.to_string(), |scheme| format!("{NAME}-{scheme}"))
    }

    fn runner(&self) -> Result<Runner<'_>, Failure> {
        Ok(Box::new(|seed| {
            let report = lock_world::run(&self.scenario(seed), seed, RunOptions::default());
            let report = report.map_err(|error| run::failure(&error).at(format!("seed {seed}")))?;
            let violation = report.violations.first().map(ToString::to_string);
            let faults =
                report.faults.iter().map(|fault| (fault.kind.to_string(), fault.injected, fault.struck));
            Ok(Seed { seed, violation, faults: faults.collect() })
        }))
    }

    /// A scenario is its own failure file.
    fn save(&self, seed: u64) -> Result<(PathBuf, String), Failure> {
        let text = toml::to_string(&self.scenario(seed)).map_err(Failure::unfinished)?;
        let path = self.save.clone().unwrap_or_else(|| PathBuf::from(format!("{}.{seed}.toml", self.name())));
        files::put(&path, &text)?;
        let rerun = format!("The same run again: weft run {} --log events.log\n", path.display());
        Ok((path, rerun))
    }
}
