//! `weft fuzz`: runs from many seeds, several at a time.

use super::args::FuzzArgs;
use super::target::{Seed, Target};
use super::{drawn, files, find, panicked, swarm, walks};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::seeds::{each, jobs};
use crate::table::{Table, count, wrap};
use crate::{interrupt, output, panics};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_check::Verdict;

/// Most failing seeds that are listed; the number of all of them is told.
const MOST_LISTED: usize = 20;

/// Fuzzes, reports, saves the first failure.
pub fn run(args: &FuzzArgs) -> Result<Exit, Failure> {
    interrupt::install();
    panicked::save_in(args.leaves.save.as_deref());
    let target: Box<dyn Target> = match (swarm::target(args)?, drawn::target(args)?) {
        (Some(swarm), _) => Box::new(swarm),
        (None, Some(worlds)) => Box::new(worlds),
        (None, None) => Box::new(walks::Walks::new(find(&args.world)?, args)?),
    };
    files::can_be_saved(args.leaves.save.as_deref(), &target.place())?;
    let mut fuzzed = sweep(args, target.as_ref())?;
    let verdict = Exit::from(fuzzed.verdict);
    let mut not_saved = None;
    if let Some(&first) = fuzzed.failing_seeds.first() {
        match target.save(first) {
            Ok((file, rerun)) => (fuzzed.file, fuzzed.rerun) = (Some(file), Some(rerun)),
            Err(failure) => not_saved = Some(failure.after(verdict)),
        }
    }
    output::report(verdict, args.leaves.json, &fuzzed, &fuzzed.text())?;
    match (not_saved, verdict) {
        (Some(failure), _) => Err(failure),
        (None, Exit::Unfinished) => {
            Err(Failure::unfinished(format!("interrupted after {} seeds", fuzzed.seeds)))
        }
        (None, verdict) => Ok(verdict),
    }
}

/// The seeds if nobody says which.
const DEFAULT: Range<u64> = 0..1_000;

fn sweep(args: &FuzzArgs, target: &dyn Target) -> Result<Fuzzed, Failure> {
    let seeds = match (&args.seeds, args.seconds) {
        (Some(seeds), _) => seeds.0.clone(),
        (None, Some(_)) => 0..u64::MAX,
        (None, None) => DEFAULT,
    };
    let began = Instant::now();
    let share = |done: u64| match args.seconds {
        Some(all) => began.elapsed().as_secs_f64() / all.as_secs_f64(),
        None => done as f64 / (seeds.end - seeds.start) as f64,
    };
    let mut fuzzed = Fuzzed::new(target.name());
    let mut progress = Progress::begin(args.leaves.quiet);
    let mut failed = None;
    // However short the time is, one seed is run: a sweep of none would say nothing.
    let any = AtomicBool::new(false);
    let over = || {
        let late = args.seconds.is_some_and(|all| began.elapsed() >= all);
        interrupt::requested() || (any.swap(true, Ordering::Relaxed) && late)
    };
    each(
        seeds.clone(),
        panics::seed,
        jobs(args.jobs),
        over,
        || target.runner(),
        |result| {
            match result {
                Some(Ok(seed)) => fuzzed.add(seed),
                // What the user broke off says nothing, and the others' results count.
                Some(Err(_)) if interrupt::requested() => {}
                Some(Err(failure)) => drop(failed.get_or_insert(failure)),
                None => {}
            }
            let words = || format!("{} seeds, {} violated", count(fuzzed.seeds), count(fuzzed.violated));
            progress.at(share(fuzzed.seeds), words);
        },
    );
    progress.end();
    fuzzed.end(began.elapsed(), interrupt::requested());
    match failed {
        // A violation that was found counts more than a run that could not be made.
        Some(failure) if fuzzed.violated == 0 => Err(failure),
        _ => Ok(fuzzed),
    }
}

/// What many seeds came to.
#[derive(Debug, Serialize)]
struct Fuzzed {
    world: String,
    verdict: Verdict,
    /// Whether it was interrupted: the verdict is of the seeds that were run.
    stopped: bool,
    seeds: u64,
    violated: u64,
    /// The lowest seeds that violated a promise.
    failing_seeds: BTreeSet<u64>,
    /// What the first of them broke.
    violation: Option<String>,
    seconds: f64,
    #[serde(serialize_with = "weft_check::seeds::listed")]
    faults: BTreeMap<String, Faults>,
    file: Option<PathBuf>,
    rerun: Option<String>,
}

/// The faults of one kind.
#[derive(Debug, Default, Serialize)]
struct Faults {
    kind: String,
    /// How many there were.
    injected: u64,
    /// How many struck an operation in flight. A fault that hits nothing tests nothing.
    struck: u64,
    /// How many seeds had one.
    seeds_injected: u64,
    /// How many seeds had one that struck.
    seeds_struck: u64,
}

impl Fuzzed {
    fn new(world: String) -> Fuzzed {
        Fuzzed {
            world,
            verdict: Verdict::HeldSoFar,
            stopped: false,
            seeds: 0,
            violated: 0,
            failing_seeds: BTreeSet::new(),
            violation: None,
            seconds: 0.0,
            faults: BTreeMap::new(),
            file: None,
            rerun: None,
        }
    }

    fn add(&mut self, seed: Seed) {
        self.seeds += 1;
        for (kind, injected, struck) in seed.faults {
            let new = || Faults { kind: kind.clone(), ..Faults::default() };
            let faults = self.faults.entry(kind.clone()).or_insert_with(new);
            faults.injected += injected;
            faults.struck += struck;
            faults.seeds_injected += u64::from(injected > 0);
            faults.seeds_struck += u64::from(struck > 0);
        }
        let Some(violation) = seed.violation else { return };
        self.violated += 1;
        if self.failing_seeds.first().is_none_or(|first| seed.seed < *first) {
            self.violation = Some(violation);
        }
        self.failing_seeds.insert(seed.seed);
        if self.failing_seeds.len() > MOST_LISTED {
            self.failing_seeds.pop_last();
        }
    }

    /// It has ended after so long, or somebody has.
    fn end(&mut self, after: Duration, stopped: bool) {
        (self.seconds, self.stopped) = (after.as_secs_f64(), stopped);
        self.verdict = Verdict::of(self.violated == 0, !stopped);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let seeds = count(self.seeds);
        match &self.violation {
            None => {
                let held = if self.verdict == Verdict::Held { "HELD" } else { "HELD SO FAR" };
                let _ = writeln!(text, "{held}: {} from {seeds} seeds in {:.1} s", self.world, self.seconds);
            }
            Some(violation) => {
                let _ =
                    writeln!(text, "VIOLATED: {} from {} of {seeds} seeds", self.world, count(self.violated));
                let listed: Vec<String> = self.failing_seeds.iter().map(u64::to_string).collect();
                let more = if self.violated > listed.len() as u64 { ", ..." } else { "" };
                wrap(&format!("seeds {}{more}", listed.join(", ")), 2, &mut text);
                wrap(violation, 2, &mut text);
            }
        }
        if let Some(rerun) = &self.rerun {
            text.push_str(rerun);
        }
        let heads = ["kind", "injected", "struck", "seeds with one", "seeds where one struck"];
        let mut table = Table::new("Faults that struck an operation in flight", 1, &heads);
        for faults in self.faults.values() {
            let Faults { kind, injected, struck, seeds_injected, seeds_struck } = faults;
            let mut cells = vec![kind.clone()];
            cells.extend([injected, struck, seeds_injected, seeds_struck].map(|n| count(*n)));
            table.line(cells);
        }
        if !table.is_empty() {
            table.print(&mut text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_interrupts_seeds_is_not_told_that_all_held() {
        let mut fuzzed = Fuzzed { seeds: 143, ..Fuzzed::new("swarm-16".to_string()) };
        fuzzed.end(Duration::ZERO, true);
        assert!(fuzzed.text().starts_with("HELD SO FAR: swarm-16 from 143 seeds in "), "{}", fuzzed.text());
        fuzzed.end(Duration::ZERO, false);
        assert!(fuzzed.text().starts_with("HELD: "));
    }

    #[test]
    fn that_more_seeds_failed_than_are_listed_is_told() {
        let mut fuzzed = Fuzzed::new("planted".to_string());
        let failed = |seed| Seed { seed, violation: Some("broken".to_string()), faults: Vec::new() };
        let listed = |fuzzed: &Fuzzed| fuzzed.text().split_whitespace().collect::<Vec<_>>().join(" ");
        (0..20).for_each(|seed| fuzzed.add(failed(seed)));
        assert!(listed(&fuzzed).contains("18, 19 broken"), "{}", fuzzed.text());
        fuzzed.add(failed(20));
        assert!(listed(&fuzzed).contains("18, 19, ... broken"), "{}", fuzzed.text());
    }
}
