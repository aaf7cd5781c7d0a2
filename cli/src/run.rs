//! `weft run`: one run with its report, or many with their sum.

use crate::args::{Backend, RunArgs};
use crate::exit::{Exit, Failure};
use crate::logfile::{self, LogFile};
use crate::paper::page;
use crate::progress::Progress;
use crate::table::count;
use crate::{interrupt, output, picture, report, sweep, trace};
use std::path::Path;
use weft_check::run::{Phase, RunError, RunOptions};
use weft_check::scenario::Scenario;

/// Runs what the command line asks for.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let scenario = weft_check::load_with(&args.scenario, &args.set).map_err(Failure::bad_input)?;
    interrupt::install();
    trace::install(args.verbose);
    if args.backend == Backend::Hw {
        #[cfg(feature = "hw")]
        return only_simulated(args).and_then(|()| crate::node::run(args, &scenario));
        #[cfg(not(feature = "hw"))]
        return Err(Failure::no_devices("--backend hw"));
    }
    if args.secret.is_some() {
        return Err(Failure::bad_input("--secret is for --backend hw, and it is sim"));
    }
    match &args.seeds {
        Some(seeds) => sweep::run(args, &scenario, seeds.0.clone()),
        None => one(args, &scenario, args.seed.unwrap_or(scenario.run.seed)),
    }
}

/// What a run on devices cannot do is not left out in silence.
#[cfg(feature = "hw")]
fn only_simulated(args: &RunArgs) -> Result<(), Failure> {
    let given = [
        ("--seeds", args.seeds.is_some()),
        ("--jobs", args.jobs.is_some()),
        ("--log", args.log.is_some()),
        ("--report", args.report.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            Err(Failure::bad_input(format!("{name} is for the simulated fabric, and --backend is hw")))
        }
        None => Ok(()),
    }
}

fn one(args: &RunArgs, scenario: &Scenario, seed: u64) -> Result<Exit, Failure> {
    let log = Log::of(args)?;
    args.report.as_deref().map_or(Ok(()), |dir| page::make(dir, picture::PAGE))?;
    // Trace lines are a sign of life already, and a bar would tear them.
    let mut progress = Progress::begin(args.quiet || args.verbose > 0);
    let mut watch = |at: &weft_check::run::Progress| {
        progress.at(share(scenario, at), || words(at));
        interrupt::go_on()
    };
    let sample = args.report.is_some().then_some(picture::SAMPLE);
    let options = RunOptions { log: log.writer()?, progress: Some(&mut watch), sample };
    let result = weft_check::run(scenario, seed, options);
    progress.end();
    let report = match result {
        Ok(report) => report,
        Err(error) => return Err(log.finish_after(&error).err().unwrap_or(Failure::of_run(&error))),
    };
    let verdict = Exit::from(report.verdict);
    // First the verdict: it is not lost with a log that cannot be written.
    let text = report::text(&report, &report::rerun(&args.scenario, &args.set, report.seed));
    output::report(verdict, args.json, &report, &text)?;
    if let Some(dir) = &args.report {
        picture::write(dir, &report, scenario, &text).map_err(|failure| failure.after(verdict))?;
        if !args.json {
            let page = format!("\nA page with the report: {}\n", dir.join(picture::PAGE).display());
            output::text(&page).map_err(|failure| failure.after(verdict))?;
        }
    }
    log.finish(report.log_error.as_deref()).map_err(|failure| failure.after(verdict))?;
    Ok(verdict)
}

/// Where the event log goes.
enum Log {
    Nowhere,
    /// To standard output, before the report.
    Output,
    File(LogFile),
}

impl Log {
    fn of(args: &RunArgs) -> Result<Log, Failure> {
        match args.log.as_deref() {
            None => Ok(Log::Nowhere),
            Some(path) if path == Path::new("-") => match args.json {
                true => Err(Failure::bad_input(
                    "--log - and --json both want standard output: give the log a file",
                )),
                false => Ok(Log::Output),
            },
            Some(path) => {
                logfile::is_not(&args.scenario, path, "--log")?;
                LogFile::create(path, "the event log").map(Log::File)
            }
        }
    }

    fn writer(&self) -> Result<Option<Box<dyn std::io::Write>>, Failure> {
        match self {
            Log::Nowhere => Ok(None),
            Log::Output => Ok(Some(Box::new(output::Lines::default()))),
            Log::File(file) => file.writer().map(Some),
        }
    }

    /// Gives a file its name where the run was interrupted: what happened until then is in it.
    fn finish_after(self, error: &RunError) -> Result<(), Failure> {
        match error {
            RunError::Interrupted { log_error, .. } => self.finish(log_error.as_deref()),
            RunError::Cluster(_) => Ok(()),
        }
    }

    /// Gives a file its name, unless something of it is missing.
    fn finish(self, error: Option<&str>) -> Result<(), Failure> {
        match (self, error) {
            (Log::File(file), None) => file.finish(),
            (Log::File(file), Some(error)) => Err(file.failure(&error)),
            (_, Some(error)) => Err(Failure::unfinished(format!("cannot write to standard output: {error}"))),
            (_, None) => Ok(()),
        }
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
