//! Which rows tables and drawings show, in the paper's order.

use crate::paper::{Axis, Group, Lines, Plot, Row, Scale, Shape, X};

/// The rows of a figure that are wanted.
fn of<'a>(rows: &'a [Row], figure: &str, wanted: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.figure == figure && wanted(row)).collect()
}

/// The numbers at which a figure was measured.
fn places(rows: &[&Row]) -> Vec<u64> {
    let number = |row: &&Row| match row.x {
        X::Number(n) => Some(n),
        X::Name(_) => None,
    };
    let mut all: Vec<u64> = rows.iter().filter_map(number).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// All tables.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let lines = |figure, title: &str, head| {
        let rows = of(rows, figure, |row| row.unit == "us");
        Group::lines(figure, title.to_string(), head, &places(&rows), &rows)
    };
    let shares = |figure, title: &str, head| {
        let rows = of(rows, figure, |_| true);
        Group::lines(figure, title.to_string(), head, &places(&rows), &rows)
    };
    let compared = |figure, title: &str, wanted: &dyn Fn(&Row) -> bool| {
        Group::compared(figure, title.to_string(), &of(rows, figure, wanted))
    };
    let ratio = |row: &Row| row.unit == "ratio";
    vec![
        compared("Figure 4(a)", "Figure 4(a): put of one byte through the daemon, us", &|row| {
            row.x == X::Number(1)
        }),
        lines("Figure 4(a)", "Figure 4(a): put through the daemon, us", "bytes"),
        lines("Figure 4(b)", "Figure 4(b): get through the daemon, us", "bytes"),
        compared("Figure 4(b)", "Figure 4(b): get under version, unchanged", &ratio),
        lines("Ours, put", "The models as they are here: put through the daemon, us", "bytes"),
        lines("Ours, get", "The models as they are here: get through the daemon, us", "bytes"),
        compared("Table 2", "Table 2: what library and daemon add, us", &|_| true),
        lines("Figure 6(a)", "Figure 6(a): puts to different portions of one node, us", "clients"),
        compared("Figure 6(a)", "Figure 6(a): more clients", &ratio),
        lines("Figure 6(b)", "Figure 6(b): calls of 11 clients to one segment, us", "% puts"),
        lines("Figure 7", "Figure 7: transfers one by one and asynchronous, us each", "bytes"),
        compared("Figure 8(a)", "Figure 8(a): reconfiguration by loaded servers, us", &|row| {
            row.unit == "us"
        }),
        compared("Figure 8(a)", "Figure 8(a): more loaded servers", &ratio),
        lines("Figure 8(b)", "Figure 8(b): version check, us", "threads"),
        compared("Figure 8(b)", "Figure 8(b): more threads at the home", &ratio),
        compared(
            "Figure 9(a)",
            "Figure 9(a): by how much a select of so many records is faster, %",
            &|row| row.unit == "%",
        ),
        lines("Figure 9(b)", "Figure 9(b): checkpoint and restart, us", "processes"),
        compared("Figure 9(b)", "Figure 9(b): more processes", &ratio),
        shares("Ours, staleness", "How many versions behind what gets returned was, % of gets", "behind"),
    ]
}

/// All drawings.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let lines = |file, figure, title: &str, x| {
        let rows = of(rows, figure, |row| row.unit == "us");
        let shape = Shape::Lines(Lines::of(x, &rows));
        Plot { file, figure, title: title.to_string(), y: "microseconds", shape }
    };
    let behind = || {
        let rows = of(rows, "Ours, staleness", |_| true);
        let x = Axis { title: "versions behind (8: 8 and more)", scale: Scale::Linear };
        Plot {
            file: "ours-staleness",
            figure: "Ours, staleness",
            title: "How old what gets return is".to_string(),
            y: "percent of gets",
            shape: Shape::Lines(Lines::of(x, &rows)),
        }
    };
    let bytes = Axis { title: "bytes", scale: Scale::Logarithmic };
    let linear = |title| Axis { title, scale: Scale::Linear };
    vec![
        lines("figure-4a", "Figure 4(a)", "Put by model and size, through the daemon", bytes),
        lines("figure-4b", "Figure 4(b)", "Get by model and size, through the daemon", bytes),
        lines("ours-put", "Ours, put", "Put by model and size, as the models are here", bytes),
        lines("ours-get", "Ours, get", "Get by model and size, as the models are here", bytes),
        lines("figure-6a", "Figure 6(a)", "Puts to different portions of one node", linear("clients")),
        lines("figure-6b", "Figure 6(b)", "Calls of 11 clients to one segment", linear("percent of puts")),
        lines("figure-8b", "Figure 8(b)", "Version check by threads at the home", linear("threads")),
        lines("figure-9b", "Figure 9(b)", "Checkpoint and restart", linear("processes")),
        lines("figure-7", "Figure 7", "Transfers one by one and asynchronous", bytes),
        behind(),
    ]
}
