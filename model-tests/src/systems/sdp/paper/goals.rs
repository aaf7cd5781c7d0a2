//! How near the thesis's figures are wanted, and what is wanted beyond it.

use super::flow::Mode;
use super::thesis::{LINES, Line};
use crate::paper::{Goal, Row};

/// How far the lines of netperf may be off, in percent.
const LINES_BOUND: f64 = 15.0;

/// What two rails that nobody needs may cost, in percent.
const READY_BOUND: f64 = 1.0;

/// Judges what was measured.
pub(super) fn goals(rows: &[Row]) -> Vec<Goal> {
    let series = |row: &Row, name: &str| row.series.starts_with(name);
    let is_of = |row: &Row, which: fn(&Line) -> bool| {
        LINES.iter().any(|line| which(line) && line.figure == row.figure && row.x.to_string() == line.size)
    };
    let odd = |row: &Row| is_of(row, |line| line.contradicted);
    let line = |row: &Row| LINES.iter().any(|line| line.figure == row.figure);
    // Of a receiver that spins nothing is measured.
    let derived = |row: &Row| row.series == "receiver" && is_of(row, |line| line.mode == Mode::BCopy);
    let of = |what: &str, name: &'static str| {
        let judged = |row: &Row| line(row) && series(row, name) && !odd(row) && !derived(row);
        Goal::judge(rows, what, LINES_BOUND, judged)
    };
    let lines = [
        of("throughput (chapters 6 and 7)", "throughput"),
        of("sender's CPU (chapter 6)", "sender"),
        of("receiver's CPU by ZCopy (chapter 6)", "receiver"),
        Goal::judge(rows, "lines that others contradict", LINES_BOUND, |row| line(row) && odd(row)),
    ];
    let beyond = [
        least(rows, "pipelined ZCopy: BCopy's bandwidth", "Pipelined", "kept: bandwidth", 1.0, 0.0),
        most(rows, "pipelined ZCopy: the thesis's sender cost", "Pipelined", "kept: sender"),
        least(rows, "the same, buffers registered each time", "Pipelined", "new: bandwidth", 1.0, 0.0),
        most(rows, "the same, the thesis's sender cost", "Pipelined", "new: sender"),
        least(rows, "failover ready but unused", "Ready, unused", "two rails", 1.0, READY_BOUND),
        least(rows, "ahead of TCP over IPoIB", "IPoIB", "SDP / ipoib", 1.0, 0.0),
        most(rows, "stall after a port event", "Stalls", ": port event"),
        most(rows, "stall after a silent cut", "Stalls", ": silent"),
        most(rows, "stall after a cut of one direction", "Stalls", ": one way"),
    ];
    lines.into_iter().chain(beyond).flatten().collect()
}

/// Rows must be at least so much, but for so many percent.
fn least(
    rows: &[Row],
    what: &str,
    figure: &str,
    series: &str,
    wanted: f64,
    bound_percent: f64,
) -> Option<Goal> {
    let rows = rows.iter().filter(|row| row.figure == figure && row.series.contains(series));
    worst(what, bound_percent, rows.map(|row| (100.0 * (1.0 - row.measured / wanted), row)))
}

/// Rows must be at most what stands beside them.
fn most(rows: &[Row], what: &str, figure: &str, series: &str) -> Option<Goal> {
    let rows = rows.iter().filter(|row| row.figure == figure && row.series.contains(series));
    worst(what, 0.0, rows.filter_map(|row| Some((row.deviation_percent?, row))))
}

fn worst<'a>(what: &str, bound_percent: f64, short: impl Iterator<Item = (f64, &'a Row)>) -> Option<Goal> {
    let (short, row) = short.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let worst_percent = short.max(0.0);
    Some(Goal {
        what: what.to_string(),
        bound_percent,
        worst_percent,
        worst: format!("{}, {}, {}", row.figure, row.series, row.x),
        met: worst_percent <= bound_percent,
        limit: None,
    })
}
