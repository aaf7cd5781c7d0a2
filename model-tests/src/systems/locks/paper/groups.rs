//! Which rows a table shows, in the paper's order.

use super::{COMPARED_AT, Reading};
use crate::paper::{Group, Row, known, percent, value};

/// The waiters of a cascade that a table shows.
const SHOWN: [u64; 8] = [1, 2, 4, 8, 12, 16, 24, 30];

/// All tables.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let sections = [
        ("Table 1", "Table 1: latency of the primitives (inputs, checked), us"),
        ("Section 4.1, IPC", "Section 4.1: IPC (inputs, checked), us"),
        ("Figure 5(a)", "Figure 5(a): basic lock latency, polling, us"),
        ("Figure 5(b)", "Figure 5(b): basic lock latency, notification, us"),
        ("Figure 6", "Figure 6: parts of the basic lock latency, us"),
        ("Section 4.2, unlock", "Section 4.2: unlock, as the application sees it, us"),
        ("Table 2", "Table 2: what an operation uses"),
    ];
    let section =
        |(figure, title): (_, &str)| Group::compared(figure, title.to_string(), &of(rows, figure, |_| true));
    let mut groups: Vec<Group> = sections.into_iter().map(section).collect();
    for (figure, what) in [("Figure 7(a)", "shared"), ("Figure 7(b)", "exclusive")] {
        let unit = |unit: &'static str| of(rows, figure, move |row| row.unit == unit);
        let title = format!("{figure}: {what} cascade, {}, us", Reading::COMPARED.words());
        groups.push(Group::lines(figure, title, "waiters", &SHOWN, &unit("us")));
        let title = format!("{figure}: above N-CoSED with {COMPARED_AT} waiters, by how the figure is read");
        groups.push(readings(figure, title, &unit("ratio")));
        let title = format!("{figure}: messages for each of {COMPARED_AT} grants");
        groups.push(Group::compared(figure, title, &unit("count")));
    }
    groups
}

/// The rows of a figure that are wanted.
pub(super) fn of<'a>(rows: &'a [Row], figure: &str, wanted: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.figure == figure && wanted(row)).collect()
}

/// A line for each reading of a figure, two columns for each scheme. A series is named as [`Reading::series`] has it.
fn readings(figure: &'static str, title: String, rows: &[&Row]) -> Group {
    let parts = |row: &Row| match row.series.split_once(", ") {
        Some((scheme, reading)) => (scheme.to_string(), reading.to_string()),
        None => (row.series.clone(), Reading::COMPARED.words()),
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
    Group { figure, title, heads, cells }
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
