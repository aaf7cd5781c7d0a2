//! `weft replay`: a saved failure once more.

use super::args::ReplayArgs;
use super::{build, files, find, panicked};
use crate::exit::{Exit, Failure};
use crate::table::wrap;
use crate::{logfile, output};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use weft_check::Verdict;
use weft_check::diagram;
use weft_check::explore::{AnyModel, Failure as Saved, Options, Run, Violation};

/// Runs it again, prints what happens, draws it.
pub fn run(args: &ReplayArgs) -> Result<Exit, Failure> {
    if let Some(out) = &args.diagram {
        can_be_drawn(out)?;
        logfile::is_not(&args.file, out, "--diagram")?;
        files::can_be_put(out, DIAGRAM)?;
    }
    let saved = files::load(&args.file)?;
    let entry = find(&saved.world).map_err(|error| error.at(args.file.display()))?;
    let mut model = build(&entry, &saved.params)?;
    panicked::name();
    if cfg!(panic = "abort") && saved.violation.is_panic() {
        tell_what_leads_there(args, &saved, model.as_mut())?;
    }
    let run = model.replay(&saved.choices, &saved.options(), true).map_err(Failure::unfinished)?;
    let same = run.digest() == saved.digest;
    let verdict = if run.violation.is_some() && same { Exit::Violated } else { Exit::Unfinished };
    output::report(verdict, args.json, &Replayed::new(&saved, &run, same), &text(&saved, &run, same))?;
    if let Some(out) = &args.diagram {
        draw(out, &saved, &run).map_err(|failure| failure.after(verdict))?;
    }
    if verdict == Exit::Violated { Ok(verdict) } else { Err(Failure::unfinished(other(&saved))) }
}

/// Tells what happens up to a panic that will end the program.
fn tell_what_leads_there(args: &ReplayArgs, saved: &Saved, model: &mut dyn AnyModel) -> Result<(), Failure> {
    let before = saved.choices.0.len().saturating_sub(1) as u32;
    let options = Options { livelock: before, ..saved.options() };
    let mut run = model.replay(&saved.choices, &options, true).map_err(Failure::unfinished)?;
    run.violation = Some(saved.violation.clone());
    output::report(Exit::Violated, args.json, &Replayed::new(saved, &run, true), &run.log())?;
    args.diagram.as_deref().map_or(Ok(()), |out| draw(out, saved, &run))
}

/// What the file of a diagram holds.
const DIAGRAM: &str = "the diagram";

/// What a diagram's file may be called.
const ENDINGS: [&str; 3] = ["svg", "html", "htm"];

fn can_be_drawn(out: &Path) -> Result<(), Failure> {
    let ending = out.extension().and_then(|ending| ending.to_str());
    match ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
        true => Ok(()),
        false => Err(Failure::bad_input(format!(
            "--diagram {}: a diagram is a drawing (.svg) or a page for a browser (.html)",
            out.display()
        ))),
    }
}

/// Why a run may be another one.
fn other(saved: &Saved) -> String {
    let by = match saved.weft == Saved::VERSION {
        true => "the code or the file has changed since".to_string(),
        false => format!("it was saved by version {}, and this is {}", saved.weft, Saved::VERSION),
    };
    format!("this is not the run that was saved: {by}")
}

fn draw(out: &Path, saved: &Saved, run: &Run) -> Result<(), Failure> {
    let text = match out.extension().is_some_and(|extension| extension == "svg") {
        true => diagram::svg(&saved.world, run),
        false => diagram::page(&saved.world, run, &diagram::facts(saved, run)),
    };
    files::put(out, DIAGRAM, &text)
}

fn text(saved: &Saved, run: &Run, same: bool) -> String {
    let mut text = run.log();
    text.push('\n');
    match &run.violation {
        Some(violation) => {
            let _ = writeln!(text, "VIOLATED: {}", saved.world);
            wrap(&violation.to_string(), 2, &mut text);
        }
        None => {
            let _ = writeln!(text, "HELD: {}, which is not what was saved", saved.world);
        }
    }
    let like = if same { "the same as when it was saved" } else { "not as when it was saved" };
    let _ = writeln!(text, "  digest {}, {like}", run.digest());
    text
}

#[derive(Serialize)]
struct Replayed<'a> {
    world: &'a str,
    verdict: Verdict,
    same: bool,
    digest: String,
    violation: Option<&'a Violation>,
    choices: usize,
    log: Vec<String>,
}

impl<'a> Replayed<'a> {
    fn new(saved: &'a Saved, run: &'a Run, same: bool) -> Replayed<'a> {
        let log = run.log().lines().map(str::to_string).collect();
        let (violation, choices) = (run.violation.as_ref(), run.choices.0.len());
        let verdict = Verdict::of(violation.is_none(), true);
        Replayed { world: &saved.world, verdict, same, digest: run.digest(), violation, choices, log }
    }
}
