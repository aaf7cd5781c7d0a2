//! `weft check`: every order that matters, or as many as a limit allows.

use super::args::CheckArgs;
use super::{build, every, files, find, list, panicked};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::report::path;
use crate::seeds::jobs;
use crate::table::{Table, count, wrap};
use crate::{interrupt, output};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use weft_check::Verdict;
use weft_check::explore::{
    AnyModel, Case, Entry, Expected, Found, Hunt, Options, Reduction, Report, Size, Stopped,
    explore_in_parallel,
};

/// Explores, reports, saves what failed.
pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    if args.max_cache.is_some() && args.reduction() != Reduction::Cache {
        let line = format!("--max-cache is for --reduction cache, and it is {}", args.reduction());
        return Err(Failure::bad_input(line));
    }
    let world = match &args.world {
        asked if args.list => return list::run(asked.as_deref(), args.leaves.json),
        Some(world) => world,
        None => return every::run(args),
    };
    let entry = find(world)?;
    let mut model = build(&entry, &args.sizes.size())?;
    let asked = args.leaves.save.as_deref();
    files::can_be_saved(asked, &files::place(asked, entry.name))?;
    interrupt::install();
    panicked::save_in(args.leaves.save.as_deref());
    let options = options(args, args.faults, model.as_ref())?;
    let mut report = explore(args, &options, &entry, &model.size())?;
    // What cannot be made short or saved is told after the verdict, which stands.
    let saved = save(args, &options, &entry, model.as_mut(), &mut report);
    let file = saved.as_ref().ok().cloned().flatten();
    let checked = Checked::new(&report, entry.expected, file);
    let verdict = Exit::from(checked.verdict);
    output::report(verdict, args.leaves.json, &checked, &checked.text())?;
    saved.map_err(|failure| failure.after(verdict))?;
    Ok(verdict)
}

/// How to explore a world, with up to so many faults.
pub fn options(args: &CheckArgs, faults: u32, model: &dyn AnyModel) -> Result<Options, Failure> {
    Ok(Options {
        reduction: args.reduction(),
        faults,
        kinds: args.kinds.of(model, faults)?,
        oracle: oracle(args, model)?,
        livelock: args.livelock,
        max_depth: args.max_depth,
        max_time: args.max_seconds,
        max_cache: args.max_cache.map_or(Options::default().max_cache, |mebibytes| mebibytes << 20),
        merge: !args.no_merge,
        memoise: !args.no_memo,
        ..Options::default()
    })
}

/// The promise that is looked for alone.
fn oracle(args: &CheckArgs, model: &dyn AnyModel) -> Result<Option<String>, Failure> {
    let promises = model.promises();
    match args.oracle.as_deref() {
        Some(name) if !promises.is_empty() && !promises.contains(&name) => Err(Failure::bad_input(format!(
            "{} has no promise '{name}'; it has: {}",
            model.name(),
            promises.join(", ")
        ))),
        other => Ok(other.map(str::to_owned)),
    }
}

fn explore(args: &CheckArgs, options: &Options, entry: &Entry, size: &Size) -> Result<Report, Failure> {
    let mut progress = Progress::begin(args.leaves.quiet);
    let mut watch = |at: &weft_check::explore::Progress| {
        let words = || {
            format!(
                "{} executions, {} events (a guess of the share)",
                count(at.executions),
                count(at.transitions)
            )
        };
        progress.at(at.share, words);
        interrupt::go_on()
    };
    let result = explore_in_parallel(entry, size, options, jobs(args.jobs), &mut watch);
    progress.end();
    result.map_err(Failure::unfinished)
}

/// Makes a failure small and saves it; the report then has the small one.
pub fn save(
    args: &CheckArgs,
    options: &Options,
    entry: &Entry,
    model: &mut dyn AnyModel,
    report: &mut Report,
) -> Result<Option<PathBuf>, Failure> {
    let Some(found) = &mut report.counterexample else { return Ok(None) };
    let case = Case { size: model.size(), run: found.clone(), drawn: None };
    let how = Found {
        by: options.reduction.to_string(),
        faults: options.faults,
        oracle: args.oracle.clone(),
        seed: None,
        params: None,
    };
    let failure = files::smallest(
        entry,
        case,
        Hunt::explored(report.executions),
        options,
        how,
        args.leaves.shrink_seconds,
    )?;
    (found.choices, found.violation) = (failure.choices.clone(), failure.violation.clone());
    let path = files::place(args.leaves.save.as_deref(), model.name());
    files::save(&path, &failure)?;
    Ok(Some(path))
}

/// A report with its verdict, what was expected and where the failure went.
#[derive(Serialize)]
pub struct Checked<'a> {
    verdict: Verdict,
    #[serde(flatten)]
    pub report: &'a Report,
    expected: Expected,
    pub file: Option<PathBuf>,
}

impl<'a> Checked<'a> {
    /// Of a world of which this was expected, and whose failure was saved there.
    pub fn new(report: &'a Report, expected: Expected, file: Option<PathBuf>) -> Checked<'a> {
        Checked { verdict: report.verdict(), report, expected, file }
    }

    fn text(&self) -> String {
        let mut text = self.verdict_in_words();
        self.table().print(&mut text);
        if !self.report.struck.is_empty() {
            self.struck().print(&mut text);
        }
        if !self.report.coverage.is_empty() {
            self.coverage().print(&mut text);
        }
        text
    }

    fn verdict_in_words(&self) -> String {
        let Report { world, exhaustive, stopped, .. } = self.report;
        let mut text = String::new();
        match (&self.report.counterexample, exhaustive) {
            (Some(found), _) => {
                let _ = writeln!(text, "VIOLATED: {world}");
                wrap(&found.violation.to_string(), 2, &mut text);
                let faults = match found.choices.faults() {
                    0 => String::new(),
                    1 => ", one of them a fault".to_string(),
                    n => format!(", {n} of them faults"),
                };
                let choices = match found.choices.0.len() {
                    1 => "1 choice leads".to_string(),
                    n => format!("{n} choices lead"),
                };
                let _ = writeln!(text, "  {choices} to it{faults}");
                if self.expected != Expected::Held {
                    text.push_str(
                        "  It was to be found: the world has a planted bug, or is the paper as published.\n",
                    );
                }
            }
            (None, true) => {
                let _ = writeln!(text, "HELD: every execution of {world}");
                let never = self.report.struck.iter().filter(|(_, struck)| **struck == 0);
                let never: Vec<&str> = never.map(|(kind, _)| *kind).collect();
                if !never.is_empty() {
                    let line = format!("No fault of these kinds ever struck: {}", never.join(", "));
                    wrap(&line, 2, &mut text);
                }
            }
            (None, false) => {
                let why = stopped.map_or("what broke another promise was not followed further", why);
                let _ = writeln!(text, "HELD SO FAR: not everything of {world} was explored: {why}");
            }
        }
        if let Some(file) = &self.file {
            text.push_str(&again(file));
        }
        text
    }

    fn table(&self) -> Table {
        let report = self.report;
        let mut table = Table::facts("Exploration");
        let rate = |n: u64| count((n as f64 / report.seconds.max(1e-9)) as u64);
        table
            .row(["reduction".into(), report.reduction.to_string()])
            .row(["faults in an execution, at most".into(), report.faults.to_string()])
            .row(["executions".into(), count(report.executions)])
            .row(["  more that were redundant".into(), count(report.redundant)])
            .row(["events".into(), count(report.transitions)])
            .row(["states".into(), count(report.states)])
            .row(["events of the longest execution".into(), count(report.deepest)])
            .row(["seconds".into(), format!("{:.2}", report.seconds)])
            .row(["executions a second".into(), rate(report.executions)])
            .row(["events a second".into(), rate(report.transitions)]);
        if report.too_deep > 0 {
            table.row(["executions cut off by --max-depth".into(), count(report.too_deep)]);
        }
        if report.passed_over > 0 {
            table.row(["executions that broke another promise".into(), count(report.passed_over)]);
        }
        if report.imprecise > 0 {
            table.row(["races with imprecise footprints".into(), count(report.imprecise)]);
        }
        table
    }

    fn struck(&self) -> Table {
        let mut table = Table::new("Faults that struck", 1, &["kind", "points at which one struck"]);
        for (kind, struck) in &self.report.struck {
            let struck = if *struck == 0 { "NEVER".to_string() } else { count(*struck) };
            table.row([kind.to_string(), struck]);
        }
        table
    }

    fn coverage(&self) -> Table {
        let mut table = Table::new("Branches", 1, &["branch", "executions that reached it"]);
        for (branch, reached) in &self.report.coverage {
            let reached = if *reached == 0 { "NOT REACHED".to_string() } else { count(*reached) };
            table.row([branch.to_string(), reached]);
        }
        table
    }
}

/// How to see a saved failure again.
pub fn again(file: &Path) -> String {
    format!("The same run again: weft replay {}\n", path(file))
}

fn why(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Violation => "a promise was broken",
        Stopped::Time => "its time was over",
        Stopped::Depth => "executions have more events than --max-depth allows",
        Stopped::Executions => "enough executions were run",
        Stopped::Memory => "its states no longer fit into memory",
        Stopped::Asked => "it was interrupted",
    }
}
