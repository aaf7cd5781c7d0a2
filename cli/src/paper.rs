//! `weft paper`: a paper's experiments, and what they give here beside what they gave there.

mod groups;
mod page;
mod plot;

use crate::args::{Paper, PaperArgs};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::table::{Table, wrap};
use groups::groups;
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use weft_check::systems::locks::paper::{self, Fitted, Goal, Ncosed, Note, PaperError, Row};

/// What the report is about.
const TITLE: &str = "High Performance Distributed Lock Management Services using Network-based Remote \
                     Atomic Operations (Narravula et al., OSU-CISRC-4/07-TR29, 2007)";

/// Repeats the experiments of the paper that was asked for.
pub fn run(which: &Paper) -> Result<Exit, Failure> {
    match which {
        Paper::Ncosed(args) => ncosed(args)?,
    }
    Ok(Exit::Held)
}

/// Everything that is known in the end.
#[derive(Serialize)]
struct Results {
    rows: Vec<Row>,
    /// The paper's percentages of Figure 7 are compared with this reading of it.
    cascades_compared: String,
    goals: Vec<Goal>,
    fitted: Vec<Fitted>,
    notes: Vec<Note>,
}

fn ncosed(args: &PaperArgs) -> Result<(), Failure> {
    // A directory that cannot be written is told before the work, not after it.
    if let Some(dir) = &args.report {
        fs::create_dir_all(dir).map_err(|e| Failure::bad_input(e).at(dir.display()))?;
    }
    let experiments = Ncosed::new().map_err(failure)?;
    let mut progress = Progress::begin(args.quiet);
    let rows = experiments.run(|share| progress.at(share, || "experiments of section 4".to_string()));
    progress.end();
    let rows = rows.map_err(failure)?;
    let results = Results {
        goals: paper::goals(&rows),
        cascades_compared: paper::compared(),
        fitted: experiments.fitted(),
        notes: paper::notes().to_vec(),
        rows,
    };
    if let Some(dir) = &args.report {
        report(&results, dir)?;
    }
    match args.json {
        true => output::json(&results),
        false => output::text(&text(&results, args.report.as_deref())),
    }
}

fn failure(error: PaperError) -> Failure {
    Failure::unfinished(error)
}

fn report(results: &Results, dir: &Path) -> Result<(), Failure> {
    let plots = plot::all(&results.rows, &results.cascades_compared)
        .map_err(|e| Failure::unfinished(format!("a plot: {e}")))?;
    for plot in &plots {
        put(dir, &format!("{}.svg", plot.name), &plot.svg)?;
    }
    put(dir, "ncosed.html", &page::html(results, &plots))
}

fn put(dir: &Path, name: &str, content: &str) -> Result<(), Failure> {
    let path = dir.join(name);
    fs::write(&path, content).map_err(|e| Failure::unfinished(e).at(path.display()))
}

fn text(results: &Results, dir: Option<&Path>) -> String {
    let mut text = String::new();
    wrap(TITLE, 0, &mut text);
    wrap("Repeated on simulated machines of profile ncosed-2007; times are virtual.", 0, &mut text);
    for group in groups(results) {
        let heads: Vec<&str> = group.heads.iter().map(String::as_str).collect();
        let mut table = Table::new(&group.title, 1, &heads);
        for cells in group.cells {
            table.line(cells);
        }
        table.print(&mut text);
        if let Some(note) = group.note {
            text.push('\n');
            wrap(note, 2, &mut text);
        }
    }
    verdicts(results, &mut text);
    let _ = writeln!(text, "\nFitted, and nothing else");
    for fitted in &results.fitted {
        let Fitted { name, value_ns, source } = fitted;
        wrap(&format!("{name} = {value_ns} ns ({source})"), 2, &mut text);
    }
    if let Some(dir) = dir {
        let _ = writeln!(text, "\nPlots and a page with everything: {}", dir.join("ncosed.html").display());
    }
    text
}

fn verdicts(results: &Results, text: &mut String) {
    let mut table = Table::new("Goals, by the worst deviation", 1, &["", "bound", "worst", "result"]);
    for goal in &results.goals {
        table.row([
            goal.what.clone(),
            format!("{:.0} %", goal.bound_percent),
            format!("{:.1} %", goal.worst_percent),
            if goal.met { "met" } else { "missed" }.to_string(),
        ]);
    }
    table.print(text);
}
