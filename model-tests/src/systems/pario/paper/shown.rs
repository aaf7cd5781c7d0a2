//! Which rows tables and drawings show, in the paper's order.

use crate::paper::{Axis, Group, Lines, Plot, Row, Scale, Shape};

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
    vec![
        compared("Table 2", "Table 2: latency, us", "us"),
        compared("Table 2", "Table 2: bandwidth, MB/s", "MB/s"),
        lines("Figure 8", "Figure 8: concurrent read, MB/s in all"),
        compared("Figure 8", "Figure 8: what RDMA gains, %", "%"),
        lines("Figure 9", "Figure 9: concurrent write, MB/s in all"),
        compared("Figure 9", "Figure 9: what RDMA gains, %", "%"),
        compared("Figure 10", "Figure 10: tiles, MB/s in all", "MB/s"),
        compared("Figure 10", "Figure 10: what RDMA gains on tiles, %", "%"),
        compared("Table 4", "Table 4: I/O time of BT, s", "s"),
    ]
}

/// All drawings.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let lines = |file, figure, title: &str| {
        let rows = of(rows, figure, |row| row.unit == "MB/s");
        let x = Axis { title: "clients", scale: Scale::Linear };
        let shape = Shape::Lines(Lines::of(x, &rows));
        Plot { file, figure, title: title.to_string(), y: "MB/s", shape }
    };
    vec![
        lines("figure-8", "Figure 8", "Concurrent read by clients and servers"),
        lines("figure-9", "Figure 9", "Concurrent write by clients and servers"),
    ]
}
