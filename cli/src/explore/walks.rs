//! Random runs of the explorer's worlds.

use super::args::FuzzArgs;
use super::check::again;
use super::target::{Runner, Seed, Target};
use super::{build, files};
use crate::exit::Failure;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;
use weft_check::explore::{
    AnyModel, Case, Counterexample, Entry, Found, Hunt, Options, Size, Strategy, Walk,
};
use weft_sim::explore::Outcome;

/// A world that is run at random.
pub struct Walks {
    entry: Entry,
    size: Size,
    strategy: Strategy,
    options: Options,
    save: Option<PathBuf>,
    shrink_seconds: Duration,
}

impl Walks {
    /// What a command line asks for.
    pub fn new(entry: Entry, args: &FuzzArgs) -> Result<Walks, Failure> {
        // What cannot be built is told before any thread begins.
        let model = build(&entry, &args.sizes.size())?;
        let usual = if model.faults().is_empty() { 0 } else { model.most_faults().unwrap_or(2).min(2) };
        let faults = args.faults.unwrap_or(usual);
        let kinds = args.kinds.of(model.as_ref(), faults)?;
        let options = Options { faults, kinds, livelock: Options::WALK, ..Options::default() };
        let size = model.size();
        let (save, shrink_seconds) = (args.leaves.save.clone(), args.leaves.shrink_seconds);
        Ok(Walks { entry, size, strategy: args.strategy.unwrap_or_default(), options, save, shrink_seconds })
    }

    fn walk(&self, model: &mut dyn AnyModel, seed: u64) -> Result<Walk, Failure> {
        let mut walk = None;
        let mut keep = |_, one| {
            walk = Some(one);
            ControlFlow::Break(())
        };
        let walked = model.walks(self.strategy, &mut std::iter::once(seed), &self.options, &mut keep);
        walked.map_err(Failure::unfinished)?;
        walk.ok_or_else(|| Failure::unfinished("a seed made no run"))
    }
}

impl Target for Walks {
    fn name(&self) -> String {
        self.entry.name.to_string()
    }

    fn runner(&self) -> Result<Runner<'_>, Failure> {
        let mut model = build(&self.entry, &self.size)?;
        Ok(Box::new(move |seed| {
            let walk = self.walk(model.as_mut(), seed)?;
            let violation = walk.violation.as_ref().map(ToString::to_string);
            Ok(Seed { seed, violation, faults: faults(&walk) })
        }))
    }

    fn place(&self) -> PathBuf {
        files::place(self.save.as_deref(), self.entry.name)
    }

    fn save(&self, seed: u64) -> Result<(PathBuf, String), Failure> {
        let mut model = build(&self.entry, &self.size)?;
        let Walk { choices, violation } = self.walk(model.as_mut(), seed)?;
        let violation = violation.ok_or_else(|| Failure::unfinished("a failing seed did not fail again"))?;
        let found = Counterexample { violation, choices };
        let case = Case { size: self.size.clone(), run: found, drawn: None };
        let hunt = Hunt::walked(self.strategy);
        let (by, faults) = (self.strategy.to_string(), self.options.faults);
        let how = Found { by, faults, oracle: None, seed: Some(seed), params: None };
        let failure = files::smallest(&self.entry, case, hunt, &self.options, how, self.shrink_seconds)?;
        let path = self.place();
        files::save(&path, &failure)?;
        let rerun = again(&path);
        Ok((path, rerun))
    }
}

/// The faults of a run by kind. Each is an outcome of the event that it hits, so each struck something.
fn faults(walk: &Walk) -> Vec<(String, u64, u64)> {
    let of = |kind: Outcome| walk.choices.0.iter().filter(|step| step.outcome == kind).count() as u64;
    let kinds = Outcome::ALL.into_iter().filter(|kind| kind.is_fault()).map(|kind| (kind.name(), of(kind)));
    kinds.filter(|(_, n)| *n > 0).map(|(kind, n)| (kind.to_string(), n, n)).collect()
}
