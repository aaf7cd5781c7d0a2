//! One page with every table and plot, which needs nothing beside itself.

use crate::exit::Failure;
use crate::explore::files;
use std::fmt::Write;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use weft_check::paper::{Goal, Group, Paper, Results};

const STYLE: &str = "\
body { font: 15px/1.5 'Helvetica Neue', Arial, sans-serif; color: #222; max-width: 54em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: .2em; } h2 { font-size: 1.1em; margin: 2.2em 0 .6em; }
figure { margin: 0 0 1em; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .9em; text-align: right; white-space: nowrap; } th { border-bottom: 1px solid #888; }
tr:nth-child(odd) td { background: #f6f6f6; }
td:first-child, th:first-child, td.words, th.words { text-align: left; }
td.words { white-space: normal; } td.met { color: #00714f; } td.missed { color: #b22; font-weight: bold; }
@media (max-width: 40em) { table { display: block; overflow-x: auto; } th, td { padding: .2em .4em; white-space: normal; } }
p.note { color: #444; border-left: 3px solid #ddd; padding-left: 1em; }";

/// Makes a report's folder and tries the page that it is for, so that what cannot be had is told before the work and not after it.
pub fn make(dir: &Path, page: &str) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|why| {
        let is_other = why.kind() == ErrorKind::AlreadyExists;
        let why = if is_other { "it is no directory".to_string() } else { why.to_string() };
        Failure::bad_input(format!("cannot write the report into {}: {why}", dir.display()))
    })?;
    files::can_be_put(&dir.join(page), "the report")
}

/// The name of a plot's file.
pub fn plot(name: &str) -> String {
    format!("{name}.svg")
}

/// Writes a file of a report, whole or not at all.
pub fn put(dir: &Path, name: &str, content: &str) -> Result<(), Failure> {
    // The folder was there before the work.
    files::put(&dir.join(name), "the report", content).map_err(Failure::unfinished)
}

/// Removes a file of an earlier report, if there is one.
pub fn remove(dir: &Path, name: &str) -> Result<(), Failure> {
    let path = dir.join(name);
    match fs::remove_file(&path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(Failure::unfinished(why).at(path.display())),
        _ => Ok(()),
    }
}

/// The page. `drawn` are the plots, by their files.
pub(super) fn html(paper: &Paper, results: &Results, drawn: &[(&str, String)]) -> String {
    let (heading, title, setting) = (escaped(paper.heading), escaped(paper.title), escaped(&results.setting));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{heading}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>{heading}</h1>\n<p>{title}. {setting}</p>\n"
    );
    goals(&results.goals, &mut page);
    for (group, plots, notes) in results.sections() {
        let _ = writeln!(page, "<h2>{}</h2>", escaped(&group.title));
        for (_, svg) in plots.iter().filter_map(|plot| drawn.iter().find(|drawn| drawn.0 == plot.file)) {
            draw(svg, &mut page);
        }
        table(group, &mut page);
        for note in notes {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(note));
        }
    }
    if !results.fitted.is_empty() {
        let fitted =
            results.fitted.iter().map(|fitted| format!("<li>{}</li>\n", escaped(&fitted.to_string())));
        let _ =
            write!(page, "<h2>Fitted, and nothing else</h2>\n<ul>\n{}</ul>\n", fitted.collect::<String>());
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// A plot, without its XML declaration: the drawing stands inside of a page.
fn draw(svg: &str, page: &mut String) {
    let svg = svg.find("<svg").map_or(svg, |at| &svg[at..]);
    let _ = writeln!(page, "<figure>{svg}</figure>");
}

/// The page of one run: its report as it is printed, and what was drawn of it.
pub(crate) fn of_a_run(heading: &str, report: &str, drawn: &[String]) -> String {
    let heading = escaped(heading);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{heading}</title>\n<style>\n{STYLE}\npre {{ overflow-x: auto; }}\n</style>\n</head>\n<body>\n<h1>{heading}</h1>\n"
    );
    drawn.iter().for_each(|svg| draw(svg, &mut page));
    let _ = writeln!(page, "<pre>{}</pre>\n</body>\n</html>", escaped(report));
    page
}

/// How far the figures are from the paper's, and where they are to the limits of the project's own.
fn goals(goals: &[Goal], page: &mut String) {
    let (limits, near): (Vec<&Goal>, Vec<&Goal>) = goals.iter().partition(|goal| goal.limit.is_some());
    let tables = [
        ("Goals, by the worst deviation", ["bound", "worst"], near),
        ("Goals of the project", ["wanted", "here"], limits),
    ];
    for (title, [asked, found], goals) in tables.into_iter().filter(|(.., goals)| !goals.is_empty()) {
        let _ = writeln!(
            page,
            "<h2>{title}</h2>\n<table>\n<tr><th></th><th>{asked}</th><th>{found}</th>\
             <th class=\"words\">result</th><th class=\"words\">which</th></tr>"
        );
        for goal in goals {
            let word = if goal.met { "met" } else { "missed" };
            let (asked, found) = match &goal.limit {
                Some(limit) => (limit.wanted(), limit.here()),
                None => (format!("{:.0} %", goal.bound_percent), format!("{:.1} %", goal.worst_percent)),
            };
            let [what, asked, found, worst] =
                [&goal.what, &asked, &found, &goal.worst].map(|text| escaped(text));
            let _ = writeln!(
                page,
                "<tr><td>{what}</td><td>{asked}</td><td>{found}</td><td class=\"words {word}\">{word}</td>\
                 <td class=\"words\">{worst}</td></tr>"
            );
        }
        let _ = writeln!(page, "</table>");
    }
}

fn table(group: &Group, page: &mut String) {
    let row = |tag: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    page.push_str("<table>\n");
    page.push_str(&row("th", &group.heads));
    for cells in &group.cells {
        page.push_str(&row("td", cells));
    }
    page.push_str("</table>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
