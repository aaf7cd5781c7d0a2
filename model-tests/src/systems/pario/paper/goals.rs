//! How near the paper's figures are wanted.

use crate::paper::{Goal, Row};

/// Judges what was measured.
pub(super) fn goals(rows: &[Row]) -> Vec<Goal> {
    let is = |row: &Row, figure: &str, unit: &str| row.figure == figure && row.unit == unit;
    let managed = |row: &Row, call: &str| is(row, "Table 3", "ms") && row.series.starts_with(call);
    let goals = [
        Goal::judge(rows, "latencies (Table 2, in and out)", 5.0, |row| is(row, "Table 2", "us")),
        Goal::judge(rows, "bandwidths (Table 2, in and out; QDMA comes out)", 15.0, |row| {
            is(row, "Table 2", "MB/s")
        }),
        Goal::judge(rows, "read gain (Figure 8)", 20.0, |row| is(row, "Figure 8", "%")),
        Goal::judge(rows, "write gain (Figure 9)", 20.0, |row| is(row, "Figure 9", "%")),
        Goal::judge(rows, "creation (Table 3)", 15.0, |row| managed(row, "create, ")),
        Goal::judge(rows, "resize by Elan4 (Table 3)", 15.0, |row| managed(row, "resize, Elan4")),
        Goal::judge(rows, "resize by TCP (Table 3)", 15.0, |row| managed(row, "resize, TCP")),
        Goal::judge(rows, "gains of tiles (Figure 10)", 20.0, |row| is(row, "Figure 10", "%")),
        Goal::judge(rows, "BT's I/O time (Table 4)", 15.0, |row| is(row, "Table 4", "s")),
    ];
    goals.into_iter().flatten().collect()
}
