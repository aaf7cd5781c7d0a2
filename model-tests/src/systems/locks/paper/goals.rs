//! How near the paper's figures are wanted.

use super::{Reading, Time};
use crate::paper::{Goal, Row};
use weft_protocols::locks::Scheme;

/// Judges what was measured. A shared cascade is judged by each of its times, since the paper does not say which
/// it shows; [`Reading::COMPARED`] is the first.
pub(super) fn goals(rows: &[Row]) -> Vec<Goal> {
    let is = |row: &Row, figure: &str, unit: &str| row.figure.starts_with(figure) && row.unit == unit;
    let latency = |row: &Row| is(row, "Figure 5", "us") || is(row, "Section 4.2", "us");
    let mut goals = vec![
        Goal::judge(rows, "latencies (Figure 5, unlock)", 10.0, latency),
        Goal::judge(rows, "SRSL / N-CoSED (Figure 5)", 7.0, |row| is(row, "Figure 5", "ratio")),
    ];
    for time in Time::ALL {
        let reading = Reading { time, ..Reading::COMPARED };
        let series = [Scheme::Srsl, Scheme::Dqnl].map(|scheme| reading.series(scheme));
        let what = format!("shared cascade, {} (Figure 7(a))", time.words());
        goals.push(Goal::judge(rows, what, 15.0, |row| {
            is(row, "Figure 7(a)", "ratio") && series.contains(&row.series)
        }));
    }
    goals.push(Goal::judge(rows, "exclusive cascade (Figure 7(b))", 15.0, |row| {
        is(row, "Figure 7(b)", "ratio")
    }));
    goals.into_iter().flatten().collect()
}
