//! Which rows tables and drawings show, in the paper's order.

use crate::paper::{Axis, Bars, Group, Lines, Plot, Row, Scale, Shape, X};

fn of<'a>(rows: &'a [Row], figure: &str, wanted: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.figure == figure && wanted(row)).collect()
}

/// Clients of the figures.
const CLIENTS: [u64; 7] = [1, 2, 3, 4, 5, 6, 7];

/// All tables.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let compared = |figure, title: &str, unit: &str| {
        Group::compared(figure, title.to_string(), &of(rows, figure, |row| row.unit == unit))
    };
    let lines = |figure, title: &str| {
        let rows = of(rows, figure, |row| row.unit == "MB/s");
        Group::lines(figure, title.to_string(), "clients", &CLIENTS, &rows)
    };
    let management = |title: &str, call: &str| {
        let of_clients = |row: &Row| {
            let clients = if row.x == X::Number(1) { "client" } else { "clients" };
            Row { series: format!("{}, {} {clients}", row.series, row.x), ..row.clone() }
        };
        let rows: Vec<Row> =
            of(rows, "Table 3", |row| row.series.starts_with(call)).into_iter().map(of_clients).collect();
        Group::compared("Table 3", title.to_string(), &rows.iter().collect::<Vec<_>>())
    };
    vec![
        compared("Table 2", "Table 2: latency, us", "us"),
        compared("Table 2", "Table 2: bandwidth, MB/s", "MB/s"),
        lines("Figure 8", "Figure 8: concurrent read, MB/s in all"),
        compared("Figure 8", "Figure 8: what RDMA gains, %", "%"),
        lines("Figure 9", "Figure 9: concurrent write, MB/s in all"),
        compared("Figure 9", "Figure 9: what RDMA gains, %", "%"),
        management("Table 3: creating a file, ms", "create"),
        management("Table 3: resizing a file, ms", "resize"),
        compared("Figure 10", "Figure 10: tiles, MB/s in all", "MB/s"),
        compared("Figure 10", "Figure 10: what RDMA gains on tiles, %", "%"),
        compared("Table 4", "Table 4: I/O time of BT, s", "s"),
    ]
}

/// Lines by clients.
fn drawn(file: &'static str, figure: &'static str, title: &str, y: &'static str, rows: &[&Row]) -> Plot {
    let x = Axis { title: "clients", scale: Scale::Linear };
    let mark = |row: &&Row| match row.x {
        X::Number(clients) => row.paper.map(|paper| (row.series.clone(), (clients as f64, paper))),
        X::Name(_) => None,
    };
    let paper = Lines::marks("the paper", rows.iter().filter_map(mark));
    let shape = Shape::Lines(Lines { paper, ..Lines::of(x, rows) });
    Plot { file, figure, title: title.to_string(), y, shape }
}

/// A bar for each row: what is called "wire, call" does not stand on another bar.
fn bars(file: &'static str, figure: &'static str, title: &str, y: &'static str, rows: &[Row]) -> Plot {
    let apart = |row: &Row| Row { series: row.series.replace(", ", " "), ..row.clone() };
    let rows: Vec<Row> = of(rows, figure, |row| row.unit == y).into_iter().map(apart).collect();
    let shape = Shape::Bars(Bars::beside(&rows.iter().collect::<Vec<_>>()));
    Plot { file, figure, title: title.to_string(), y, shape }
}

/// All drawings.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let lines = |file, figure, title: &str| {
        drawn(file, figure, title, "MB/s", &of(rows, figure, |row| row.unit == "MB/s"))
    };
    let management = |file, title: &str, call: &str| {
        drawn(file, "Table 3", title, "ms", &of(rows, "Table 3", |row| row.series.starts_with(call)))
    };
    vec![
        lines("figure-8", "Figure 8", "Concurrent read by clients and servers"),
        lines("figure-9", "Figure 9", "Concurrent write by clients and servers"),
        management("table-3-create", "Creating a file, by clients", "create"),
        management("table-3-resize", "Resizing a file, by clients", "resize"),
        bars("figure-10", "Figure 10", "Tiles, in all", "MB/s", rows),
        bars("figure-10-gain", "Figure 10", "What RDMA gains on tiles", "%", rows),
        bars("table-4", "Table 4", "I/O time of BT", "s", rows),
    ]
}
