//! `weft paper`: a paper's experiments, and what they give here beside what they gave there.

pub mod page;
pub mod plot;

use crate::args::PaperArgs;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::{Table, wrap};
use crate::{help, interrupt, output};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use weft_check::paper::{Goal, Paper, Results};
use weft_check::systems;

/// Repeats the experiments of the paper that was asked for, or lists the papers.
pub fn run(args: &PaperArgs) -> Result<Exit, Failure> {
    match &args.name {
        _ if args.list => list(args.json)?,
        Some(name) => repeat(find(name)?, args)?,
        None => {
            let papers = help::papers();
            return Err(Failure::bad_input(format!("say which paper: {papers} (see `weft paper --help`)")));
        }
    }
    Ok(Exit::Held)
}

fn find(name: &str) -> Result<&'static Paper, Failure> {
    systems::papers().find(|paper| paper.name == name).ok_or_else(|| {
        Failure::bad_input(format!("there is no paper '{name}': there are: {}", help::papers()))
    })
}

#[derive(Serialize)]
struct List {
    papers: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    title: &'static str,
    details: &'static str,
}

fn list(json: bool) -> Result<(), Failure> {
    let listed =
        |&Paper { name, about, title, details, .. }: &'static Paper| Listed { name, about, title, details };
    let papers: Vec<Listed> = systems::papers().map(listed).collect();
    if json {
        return output::json(&List { papers });
    }
    let mut text = String::new();
    for Listed { name, about, details, .. } in papers {
        let _ = writeln!(text, "{name}");
        wrap(about, 4, &mut text);
        wrap(details, 4, &mut text);
    }
    output::text(&text)
}

fn repeat(paper: &Paper, args: &PaperArgs) -> Result<(), Failure> {
    // A directory that cannot be written is told before the work, not after it.
    args.report.as_deref().map_or(Ok(()), |dir| page::make(dir, &page_of(paper)))?;
    interrupt::end_at_once();
    let mut progress = Progress::begin(args.quiet);
    let results = (paper.run)(&mut |share, what| progress.step(share, what));
    progress.end();
    let results = results.map_err(Failure::unfinished)?;
    // First the figures: they are not lost with a page that cannot be written.
    match args.json {
        true => output::json(&results)?,
        false => output::text(&text(paper, &results))?,
    }
    let Some(dir) = &args.report else { return Ok(()) };
    report(paper, &results, dir)?;
    match args.json {
        true => Ok(()),
        false => output::text(&format!(
            "\nPlots and a page with everything: {}\n",
            dir.join(page_of(paper)).display()
        )),
    }
}

fn report(paper: &Paper, results: &Results, dir: &Path) -> Result<(), Failure> {
    let mut drawn = Vec::new();
    for plot in &results.plots {
        let svg = plot::svg(plot).map_err(|e| Failure::unfinished(format!("a plot: {e}")))?;
        page::put(dir, &page::plot(plot.file), &svg)?;
        drawn.push((plot.file, svg));
    }
    page::put(dir, &page_of(paper), &page::html(paper, results, &drawn))
}

/// The name of the page with everything.
fn page_of(paper: &Paper) -> String {
    format!("{}.html", paper.name)
}

fn text(paper: &Paper, results: &Results) -> String {
    let mut text = String::new();
    wrap(paper.title, 0, &mut text);
    wrap(&results.setting, 0, &mut text);
    for (group, _, notes) in results.sections() {
        let heads: Vec<&str> = group.heads.iter().map(String::as_str).collect();
        let mut table = Table::new(&group.title, 1, &heads);
        for cells in &group.cells {
            table.line(cells.clone());
        }
        table.print(&mut text);
        for note in notes {
            text.push('\n');
            wrap(note, 2, &mut text);
        }
    }
    verdicts(&results.goals, &mut text);
    if !results.fitted.is_empty() {
        let _ = writeln!(text, "\nFitted, and nothing else");
    }
    for fitted in &results.fitted {
        wrap(&fitted.to_string(), 2, &mut text);
    }
    text
}

/// How far the figures are from the paper's, and where they are to the limits of the project's own.
fn verdicts(goals: &[Goal], text: &mut String) {
    let mut near = Table::new("Goals, by the worst deviation", 1, &["", "bound", "worst", "result"]);
    let mut limits = Table::new("Goals of the project", 1, &["", "wanted", "here", "result"]);
    for goal in goals {
        let result = if goal.met { "met" } else { "missed" }.to_string();
        match &goal.limit {
            Some(limit) => limits.row([goal.what.clone(), limit.wanted(), limit.here(), result]),
            None => {
                let (bound, worst) = (goal.bound_percent, goal.worst_percent);
                near.row([goal.what.clone(), format!("{bound:.0} %"), format!("{worst:.1} %"), result])
            }
        };
    }
    for table in [near, limits].iter().filter(|table| !table.is_empty()) {
        table.print(text);
    }
}
