//! `weft check --all`: every world of the list, so many seconds each.

use super::args::CheckArgs;
use super::check::{Checked, again, options, save};
use super::{all, build, panicked};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::seeds::{each, jobs};
use crate::table::{Table, count, wrap};
use crate::{interrupt, output};
use serde::Serialize;
use std::convert::Infallible;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use weft_check::Verdict;
use weft_check::explore::{AnyModel, Entry, Expected, Options, Report, Size};

/// For so long a world is explored if nobody says otherwise.
const USUAL: Duration = Duration::from_secs(10);

/// Explores them, and tells what came of each.
pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let worlds = all();
    interrupt::install();
    panicked::save_in(None);
    let (came, failed) = explored(args, &worlds);
    tell(args, came, failed, worlds.len())
}

/// Explores worlds, several at a time, each by one worker: what came of them, and why others could not be explored. These end nothing: what
/// is found in the others counts.
fn explored(args: &CheckArgs, worlds: &[Entry]) -> (Vec<World>, Vec<Failure>) {
    let mut progress = Progress::begin(args.leaves.quiet);
    let (mut came, mut failed) = (Vec::new(), Vec::new());
    let one = |at: u64| Ok::<_, Infallible>((at, explore(args, worlds[at as usize])));
    each(
        0..worlds.len() as u64,
        |at| format!("a world (weft check {} explores it alone)", all()[at as usize].name),
        jobs(args.jobs),
        interrupt::requested,
        || Ok(one),
        |result| {
            match result {
                Some(Ok((at, Ok(report)))) => came.push((at, World { entry: worlds[at as usize], report })),
                Some(Ok((at, Err(failure)))) => failed.push((at, failure)),
                None => {}
            }
            let done = came.len() + failed.len();
            progress.at(done as f64 / worlds.len() as f64, || format!("{done} of {} worlds", worlds.len()));
        },
    );
    progress.end();
    came.sort_by_key(|(at, _)| *at);
    failed.sort_by_key(|(at, _)| *at);
    let came = came.into_iter().map(|(_, world)| world).collect();
    (came, failed.into_iter().map(|(_, failure)| failure).collect())
}

fn explore(args: &CheckArgs, entry: Entry) -> Result<Report, Failure> {
    let mut model = build(&entry, &Size::default())?;
    let options = of(args, &entry, model.as_ref())?;
    model
        .explore(&options, &mut |_| interrupt::go_on())
        .map_err(|error| Failure::unfinished(error).at(entry.name))
}

/// What is explored of a world: as many faults as are asked for where it has any, and the one that it takes to break it.
fn of(args: &CheckArgs, entry: &Entry, model: &dyn AnyModel) -> Result<Options, Failure> {
    let faults = match entry.expected {
        _ if model.faults().is_empty() => 0,
        Expected::ViolatedUnderFaults => args.faults.max(1),
        Expected::Held | Expected::Violated => args.faults.min(model.most_faults().unwrap_or(u32::MAX)),
    };
    let options = options(args, faults, model)?;
    Ok(Options {
        max_time: args.max_seconds.or(Some(USUAL)),
        max_cache: options.max_cache / jobs(args.jobs).get() as u64,
        ..options
    })
}

/// A world and what came of it.
struct World {
    entry: Entry,
    report: Report,
}

/// Whether a world came out as it must.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Right,
    /// As far as it was explored.
    Open,
    Wrong,
}

impl World {
    fn outcome(&self) -> Outcome {
        match (self.entry.expected == Expected::Held, self.report.held(), self.report.exhaustive) {
            (true, true, true) | (false, false, _) => Outcome::Right,
            (_, true, false) => Outcome::Open,
            (true, false, _) | (false, true, true) => Outcome::Wrong,
        }
    }

    fn words(&self) -> &'static str {
        match (self.entry.expected == Expected::Held, self.outcome()) {
            (true, Outcome::Right) => "held",
            (true, Outcome::Open) => "held so far",
            (true, Outcome::Wrong) => "VIOLATED",
            (false, Outcome::Right) => "found",
            (false, Outcome::Open) => "not found yet",
            (false, Outcome::Wrong) => "NOT FOUND",
        }
    }
}

fn tell(args: &CheckArgs, mut came: Vec<World>, failed: Vec<Failure>, all: usize) -> Result<Exit, Failure> {
    let (mut files, mut not_saved) = (Vec::new(), None);
    for world in &mut came {
        let is_wrong = world.outcome() == Outcome::Wrong;
        let kept = if is_wrong { keep(args, world) } else { Ok(None) };
        // What cannot be saved is told after the verdicts, which stand.
        files.push(kept.unwrap_or_else(|failure| {
            not_saved.get_or_insert(failure);
            None
        }));
    }
    let outcomes: Vec<Outcome> = came.iter().map(World::outcome).collect();
    let checked = came
        .iter()
        .zip(files)
        .map(|(World { entry, report }, file)| Checked::new(report, entry.expected, file));
    let checked: Vec<Checked<'_>> = checked.collect();
    let right = outcomes.iter().filter(|outcome| **outcome == Outcome::Right).count();
    let verdict = Verdict::of(!outcomes.contains(&Outcome::Wrong), right == all);
    let exit = Exit::from(verdict);
    let words = text(&came, &checked, &failed, all);
    output::report(exit, args.leaves.json, &Every { verdict, worlds: &checked }, &words)?;
    end(exit, not_saved.or_else(|| failed.into_iter().next()))
}

/// How it ends after what was told.
fn end(told: Exit, failure: Option<Failure>) -> Result<Exit, Failure> {
    failure.map_or(Ok(told), |failure| Err(failure.after(told)))
}

#[derive(Serialize)]
struct Every<'a> {
    /// Whether all came out as they must.
    verdict: Verdict,
    worlds: &'a [Checked<'a>],
}

/// Saves what broke a world that must hold.
fn keep(args: &CheckArgs, world: &mut World) -> Result<Option<PathBuf>, Failure> {
    let mut model = build(&world.entry, &Size::default())?;
    let options = of(args, &world.entry, model.as_ref())?;
    save(args, &options, &world.entry, model.as_mut(), &mut world.report)
}

fn text(came: &[World], checked: &[Checked<'_>], failed: &[Failure], all: usize) -> String {
    let of = |outcome| came.iter().filter(|world| world.outcome() == outcome).count();
    let (wrong, open) = (of(Outcome::Wrong), of(Outcome::Open));
    let mut text = String::new();
    let right = of(Outcome::Right);
    let _ = match (wrong, right == all) {
        (0, true) => writeln!(text, "HELD: all {all} worlds came out as they must"),
        (0, false) => writeln!(text, "HELD SO FAR: {right} of {all} worlds came out as they must"),
        _ => writeln!(text, "VIOLATED: {wrong} of {all} worlds did not come out as they must"),
    };
    if open > 0 {
        let _ = writeln!(text, "  {open} were not explored to the end; in what was, nothing was wrong");
    }
    let begun = came.len() + failed.len();
    if begun < all {
        let _ = writeln!(text, "  {} were not begun: it was interrupted", all - begun);
    }
    for failure in failed {
        wrap(&format!("not explored: {failure}"), 2, &mut text);
    }
    let violated = |(world, _): &(&World, &Checked<'_>)| world.outcome() == Outcome::Wrong;
    for (world, checked) in came.iter().zip(checked).filter(violated) {
        let what = checked.report.counterexample.as_ref().map(|found| found.violation.to_string());
        let what = what.unwrap_or_else(|| "it must fail, and every execution of it holds".to_string());
        wrap(&format!("{}: {what}", world.entry.name), 2, &mut text);
        text.extend(checked.file.as_deref().map(again));
    }
    let heads = ["world", "came out", "faults", "executions", "states", "seconds"];
    let mut table = Table::new("Worlds", 2, &heads);
    for world in came {
        let report = &world.report;
        let [executions, states] = [report.executions, report.states].map(count);
        let seconds = format!("{:.2}", report.seconds);
        let words = world.words().to_string();
        table.row([world.entry.name.into(), words, report.faults.to_string(), executions, states, seconds]);
    }
    table.print(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use weft_check::explore::{SizeError, toy};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CheckArgs,
    }

    #[test]
    fn a_world_that_cannot_be_explored_costs_no_other_ones_verdict() {
        let Line { args } = Line::parse_from(["check", "--all", "--quiet", "--jobs", "1"]);
        let sound = toy::all()[0];
        let broken = Entry { name: "broken", make: |_| Err(SizeError("it is none".to_string())), ..sound };
        let (came, failed) = explored(&args, &[broken, sound]);
        assert_eq!(came.iter().map(World::words).collect::<Vec<_>>(), ["held"]);
        assert_eq!(failed.iter().map(Failure::to_string).collect::<Vec<_>>(), ["broken: it is none"]);
        let text = text(&came, &[], &failed, 2);
        assert!(text.starts_with("HELD SO FAR: 1 of 2 worlds"), "{text}");
        assert!(text.contains("not explored: broken: it is none") && !text.contains("not begun"), "{text}");
    }

    #[test]
    fn a_broken_promise_counts_more_than_a_world_that_cannot_be_explored() {
        let ended = |told| end(told, Some(Failure::unfinished("broken"))).map_err(|failure| failure.exit());
        assert_eq!(ended(Exit::Violated), Err(Exit::Violated));
        assert_eq!(ended(Exit::Held), Err(Exit::Unfinished));
        assert_eq!(end(Exit::Held, None).map_err(|failure| failure.exit()), Ok(Exit::Held));
    }
}
