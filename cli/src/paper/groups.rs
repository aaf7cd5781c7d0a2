//! Rows that are shown together, and how: the same for the terminal and for the page.

use super::Results;
use weft_check::systems::locks::paper::{COMPARED_AT, Row, X};

/// The waiters of a cascade that a table shows.
const SHOWN: [u32; 8] = [1, 2, 4, 8, 12, 16, 24, 30];

/// A table about one of the paper's figures.
pub(super) struct Group<'a> {
    /// The figure's name, as rows have it.
    pub(super) figure: &'a str,
    pub(super) title: String,
    pub(super) heads: Vec<String>,
    pub(super) cells: Vec<Vec<String>>,
    /// What to know, said below the figure's last table.
    pub(super) note: Option<&'static str>,
}

/// All groups in the paper's order.
pub(super) fn groups(results: &Results) -> Vec<Group<'_>> {
    let sections = [
        ("Table 1", "Table 1: latency of the primitives (inputs, checked), us"),
        ("Section 4.1, IPC", "Section 4.1: IPC (inputs, checked), us"),
        ("Figure 5(a)", "Figure 5(a): basic lock latency, polling, us"),
        ("Figure 5(b)", "Figure 5(b): basic lock latency, notification, us"),
        ("Figure 6", "Figure 6: parts of the basic lock latency, us"),
        ("Section 4.2, unlock", "Section 4.2: unlock, as the application sees it, us"),
        ("Table 2", "Table 2: what an operation uses"),
    ];
    let section = |(figure, title): (_, &str)| Group {
        note: note(results, figure),
        ..compared(figure, title.to_string(), &of(results, figure, |_| true))
    };
    let mut groups: Vec<Group<'_>> = sections.into_iter().map(section).collect();
    for (figure, what) in [("Figure 7(a)", "shared"), ("Figure 7(b)", "exclusive")] {
        let unit = |unit: &'static str| of(results, figure, move |row| row.unit == unit);
        let title = format!("{figure}: {what} cascade, {}, us", results.cascades_compared);
        groups.push(lines(figure, title, &unit("us")));
        let title = format!("{figure}: above N-CoSED with {COMPARED_AT} waiters, by how the figure is read");
        groups.push(readings(results, figure, title, &unit("ratio")));
        let title = format!("{figure}: messages for each of {COMPARED_AT} grants");
        let note = note(results, figure);
        groups.push(Group { note, ..compared(figure, title, &unit("count")) });
    }
    groups
}

fn note(results: &Results, figure: &str) -> Option<&'static str> {
    results.notes.iter().find(|note| note.figure == figure).map(|note| note.text)
}

fn of<'a>(results: &'a Results, figure: &str, wanted: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    results.rows.iter().filter(|row| row.figure == figure && wanted(row)).collect()
}

/// A line for each row, the paper's value beside ours.
fn compared<'a>(figure: &'a str, title: String, rows: &[&Row]) -> Group<'a> {
    let line = |row: &&Row| {
        let name = match &row.x {
            X::Number(_) => row.series.clone(),
            X::Name(name) => format!("{}, {name}", row.series),
        };
        vec![name, known(row.paper, value), value(row.measured), known(row.deviation_percent, percent)]
    };
    let heads = ["", "paper", "here", "deviation"].map(str::to_string).to_vec();
    Group { figure, title, heads, cells: rows.iter().map(line).collect(), note: None }
}

/// A line for each number of waiters, a column for each series.
fn lines<'a>(figure: &'a str, title: String, rows: &[&Row]) -> Group<'a> {
    let series = names(rows);
    let at = |n: u32, name: &str| {
        let row = rows.iter().find(|row| row.x == X::Number(n) && row.series == name);
        known(row.map(|row| row.measured), value)
    };
    let line = |n: u32| [vec![n.to_string()], series.iter().map(|name| at(n, name)).collect()].concat();
    let heads = [vec!["waiters".to_string()], series.clone()].concat();
    Group { figure, title, heads, cells: SHOWN.into_iter().map(line).collect(), note: None }
}

/// A line for each reading of a figure, two columns for each scheme. A series is named "scheme / ncosed, reading",
/// or "scheme / ncosed" in the reading that is compared.
fn readings<'a>(results: &'a Results, figure: &'a str, title: String, rows: &[&Row]) -> Group<'a> {
    let parts = |row: &Row| match row.series.split_once(", ") {
        Some((scheme, reading)) => (scheme.to_string(), reading.to_string()),
        None => (row.series.clone(), results.cascades_compared.clone()),
    };
    let schemes = distinct(rows.iter().map(|row| parts(row).0));
    let readings = distinct(rows.iter().map(|row| parts(row).1));
    let paper = |scheme: &String| rows.iter().find(|row| parts(row).0 == *scheme).and_then(|row| row.paper);
    let theirs = |scheme: &String| vec![known(paper(scheme), value), String::new()];
    let ours = |scheme: &String, reading: &String| {
        let row = rows.iter().find(|row| parts(row) == (scheme.clone(), reading.clone()));
        let deviation = row.and_then(|row| row.deviation_percent);
        vec![known(row.map(|row| row.measured), value), known(deviation, percent)]
    };
    let line = |name: &str, cells: &dyn Fn(&String) -> Vec<String>| {
        std::iter::once(name.to_string()).chain(schemes.iter().flat_map(cells)).collect::<Vec<String>>()
    };
    let mut cells = vec![line("the paper", &theirs)];
    cells.extend(readings.iter().map(|reading| line(reading, &|scheme| ours(scheme, reading))));
    let heads = line("", &|scheme| vec![scheme.replace(" / ncosed", ""), String::new()]);
    Group { figure, title, heads, cells, note: None }
}

/// The series of some rows, in their order.
pub(super) fn names(rows: &[&Row]) -> Vec<String> {
    distinct(rows.iter().map(|row| row.series.clone()))
}

/// Each name once, where it is first.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn known(value: Option<f64>, words: fn(f64) -> String) -> String {
    value.map_or("-".to_string(), words)
}

fn value(value: f64) -> String {
    format!("{value:.2}")
}

/// With its sign, and none for what rounds to nothing.
fn percent(percent: f64) -> String {
    match format!("{percent:+.1} %") {
        zero if zero == "+0.0 %" || zero == "-0.0 %" => "0.0 %".to_string(),
        text => text,
    }
}
