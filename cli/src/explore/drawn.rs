//! Worlds whose scripts are drawn at random, a short search of each.

use super::args::FuzzArgs;
use super::check::again;
use super::target::{Runner, Seed, Target};
use super::{all, files};
use crate::exit::Failure;
use crate::help;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;
use weft_check::explore::{Case, Counterexample, Draw, Drawn, Found, Hunt};
use weft_check::systems;

const NAME: &str = "worlds";

/// Worlds of a system, or of a beginning of their names, or all.
pub struct Worlds {
    name: String,
    drawn: Drawn,
    save: Option<PathBuf>,
    shrink_seconds: Duration,
}

/// Those that a command line asks for, if it asks for any.
pub fn target(args: &FuzzArgs) -> Result<Option<Worlds>, Failure> {
    let Some(rest) = args.world.strip_prefix(NAME) else { return Ok(None) };
    args.leave_it_to(&format!("{NAME} are drawn with their requests and faults"))?;
    let word = rest.strip_prefix('-').unwrap_or(rest);
    let system = systems::all().iter().find(|system| system.kind() == word);
    let of_system = system.map(|system| system.worlds());
    let entries = of_system.unwrap_or_else(|| {
        all().into_iter().filter(|entry| word.is_empty() || entry.name.starts_with(word)).collect()
    });
    let drawn = Drawn::of(entries);
    if drawn.is_empty() {
        let kinds = help::kinds();
        return Err(Failure::bad_input(format!(
            "no world that must hold has a name that begins with '{word}', and it is none of the systems {kinds}"
        )));
    }
    let (save, shrink_seconds) = (args.leaves.save.clone(), args.leaves.shrink_seconds);
    Ok(Some(Worlds { name: args.world.clone(), drawn, save, shrink_seconds }))
}

/// Searches to its end, which is near: who interrupts a sweep is told of no seed that was searched in part, and has what was found saved.
fn search(draw: &Draw) -> Result<Option<Counterexample>, Failure> {
    draw.search(&mut |_| ControlFlow::Continue(())).map_err(Failure::unfinished)
}

impl Target for Worlds {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn runner(&self) -> Result<Runner<'_>, Failure> {
        Ok(Box::new(|seed| {
            let draw = self.drawn.draw(seed);
            let found = search(&draw).map_err(|failure| failure.at(draw.to_string()))?;
            let violation = found.map(|found| format!("{draw}: {}", found.violation));
            Ok(Seed { seed, violation, faults: Vec::new() })
        }))
    }

    /// The world is drawn.
    fn place(&self) -> PathBuf {
        files::place(self.save.as_deref(), "WORLD")
    }

    fn save(&self, seed: u64) -> Result<(PathBuf, String), Failure> {
        let draw = self.drawn.draw(seed);
        let run = search(&draw)?.ok_or_else(|| Failure::unfinished("a failing seed did not fail again"))?;
        let Draw { entry, size, notations, hunt, options } = draw;
        let by = match hunt {
            Hunt::Explore(_) => options.reduction.to_string(),
            Hunt::Walk(strategy, _) => strategy.to_string(),
        };
        let how = Found { by, faults: options.faults, oracle: None, seed: Some(seed), params: None };
        let case = Case { size, run, drawn: Some(notations) };
        let failure = files::smallest(&entry, case, hunt, &options, how, self.shrink_seconds)?;
        let path = files::place(self.save.as_deref(), entry.name);
        files::save(&path, &failure)?;
        let rerun = again(&path);
        Ok((path, rerun))
    }
}
