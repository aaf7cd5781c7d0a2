//! How near the paper's figures are wanted.

use super::super::published::Sequence;
use crate::paper::{Goal, Row};

/// Judges what was measured. Read is not judged: section 5.3 locks it, and its 23 us leave no room for an atomic.
pub(super) fn goals(rows: &[Row]) -> Vec<Goal> {
    let is = |row: &Row, figure: &str, unit: &str| row.figure == figure && row.unit == unit;
    let read = [Sequence::Read, Sequence::ReadLocked].map(Sequence::name);
    let at = |row: &Row, x: &str| row.x.to_string() == x;
    let goals = [
        Goal::judge(rows, "puts by model (Figure 4(a))", 10.0, |row| {
            is(row, "Figure 4(a)", "us") && !read.contains(&row.series.as_str())
        }),
        Goal::judge(rows, "version get, flat in size (Figure 4(b))", 10.0, |row| {
            is(row, "Figure 4(b)", "ratio")
        }),
        Goal::judge(rows, "overheads (Table 2)", 10.0, |row| is(row, "Table 2", "us") && at(row, "overhead")),
        Goal::judge(rows, "synchronization and totals (Table 2)", 10.0, |row| {
            is(row, "Table 2", "us") && !at(row, "overhead")
        }),
        Goal::judge(rows, "different portions, flat (Figure 6(a))", 10.0, |row| {
            is(row, "Figure 6(a)", "ratio")
        }),
        Goal::judge(rows, "reconfiguration and checkpoints (Figures 8(a), 9(b))", 20.0, |row| {
            is(row, "Figure 8(a)", "us") || is(row, "Figure 9(b)", "us")
        }),
        Goal::judge(rows, "record select, fitted at one size (Figure 9(a))", 10.0, |row| {
            is(row, "Figure 9(a)", "%")
        }),
        Goal::judge(rows, "services, flat (Figures 8, 9(b))", 10.0, |row| {
            row.unit == "ratio" && (row.figure.starts_with("Figure 8") || row.figure == "Figure 9(b)")
        }),
    ];
    goals.into_iter().flatten().collect()
}
