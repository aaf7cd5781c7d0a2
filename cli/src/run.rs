//! `weft run`: one run with its report, or many with their sum.

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::logfile::LogFile;
use crate::progress::Progress;
use crate::table::count;
use crate::{interrupt, output, report, sweep, trace};
use std::ops::ControlFlow;
use std::path::Path;
use weft_check::run::{Phase, RunError, RunOptions};
use weft_check::scenario::{Override, Scenario};

/// Runs what the command line asks for.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let scenario = weft_check::load_with(&args.scenario, &args.set).map_err(Failure::bad_input)?;
    interrupt::install();
    trace::install(args.verbose);
    #[cfg(feature = "hw")]
    if args.backend == crate::args::Backend::Hw {
        return crate::node::run(args, &scenario);
    }
    match &args.seeds {
        Some(seeds) => sweep::run(args, &scenario, seeds.0.clone()),
        None => one(args, &scenario, args.seed.unwrap_or(scenario.run.seed)),
    }
}

fn one(args: &RunArgs, scenario: &Scenario, seed: u64) -> Result<Exit, Failure> {
    let log = args.log.as_deref().map(LogFile::create).transpose()?;
    // Trace lines are a sign of life already, and a bar would tear them.
    let mut progress = Progress::begin(args.quiet || args.verbose > 0);
    let mut watch = |at: &weft_check::run::Progress| {
        progress.at(share(scenario, at), || words(at));
        go_on()
    };
    let writer = log.as_ref().map(LogFile::writer).transpose()?;
    let options = RunOptions { log: writer, progress: Some(&mut watch) };
    let result = weft_check::run(scenario, seed, options);
    progress.end();
    let report = result.map_err(|error| failure(&error))?;
    if let Some(log) = log {
        log.finish()?;
    }
    match args.json {
        true => output::json(&report)?,
        false => output::text(&report::text(&report, &rerun(&args.scenario, &args.set, report.seed)))?,
    }
    Ok(if report.held() { Exit::Held } else { Exit::Violated })
}

/// Asked by a run from time to time.
pub fn go_on() -> ControlFlow<()> {
    if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The command that makes the same run again, with its event log.
pub fn rerun(scenario: &Path, set: &[Override], seed: u64) -> String {
    let set: String = set.iter().map(|field| format!(" --set {}", quoted(field.text()))).collect();
    format!("weft run {}{set} --seed {seed} --log events.log", scenario.display())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-=/:,%+".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Why a run gave no report, and with which exit code that ends the program.
pub fn failure(error: &RunError) -> Failure {
    match error {
        RunError::Cluster(_) => Failure::bad_input(error),
        RunError::Interrupted { .. } | RunError::Log(_) => Failure::unfinished(error),
    }
}

/// How far a run is, from 0 to 1, as well as that can be known.
fn share(scenario: &Scenario, at: &weft_check::run::Progress) -> f64 {
    let of = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    match (at.total, at.until) {
        (Some(total), _) => of(at.ended, total),
        (None, Some(until)) => of(at.now.0, until.0),
        (None, None) => of(at.now.0, scenario.run.limit.nanos().0),
    }
}

fn words(at: &weft_check::run::Progress) -> String {
    let phase = match at.phase {
        Phase::Faults => "",
        Phase::Settling => ", faults over",
    };
    let (ended, faults) = (count(at.ended), count(at.faults));
    format!("{} virtual, {ended} requests, {faults} faults{phase}", at.now)
}
