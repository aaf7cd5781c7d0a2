//! How near the paper's figures are wanted, and whether they are.

use super::{Reading, Row, Time};
use serde::Serialize;
use weft_protocols::locks::Scheme;

/// A bound on how far some rows may be off.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// Of what.
    pub what: String,
    /// How far off the worst of them may be, in percent.
    pub bound_percent: f64,
    /// How far off it is, in percent, without a sign.
    pub worst_percent: f64,
    /// Which it is.
    pub worst: String,
    /// Whether the bound is kept.
    pub met: bool,
}

/// Judges what was measured. A shared cascade is judged by each of its times, since the paper does not say which
/// it shows; [`Reading::COMPARED`] is the first.
pub fn goals(rows: &[Row]) -> Vec<Goal> {
    let is = |row: &Row, figure: &str, unit: &str| row.figure.starts_with(figure) && row.unit == unit;
    let latency = |row: &Row| is(row, "Figure 5", "us") || is(row, "Section 4.2", "us");
    let mut goals = vec![
        judge(rows, "latencies (Figure 5, unlock)".to_string(), 10.0, latency),
        judge(rows, "SRSL / N-CoSED (Figure 5)".to_string(), 7.0, |row| is(row, "Figure 5", "ratio")),
    ];
    for time in Time::ALL {
        let reading = Reading { time, ..Reading::COMPARED };
        let series = [Scheme::Srsl, Scheme::Dqnl].map(|scheme| reading.series(scheme));
        let what = format!("shared cascade, {} (Figure 7(a))", time.words());
        goals.push(judge(rows, what, 15.0, |row| {
            is(row, "Figure 7(a)", "ratio") && series.contains(&row.series)
        }));
    }
    goals.push(judge(rows, "exclusive cascade (Figure 7(b))".to_string(), 15.0, |row| {
        is(row, "Figure 7(b)", "ratio")
    }));
    goals.into_iter().flatten().collect()
}

/// The worst of the rows that are wanted decides.
fn judge(rows: &[Row], what: String, bound_percent: f64, wanted: impl Fn(&Row) -> bool) -> Option<Goal> {
    let off = |row: &Row| row.deviation_percent.map(f64::abs);
    let rows = rows.iter().filter(|row| wanted(row)).filter_map(|row| Some((off(row)?, row)));
    let (worst_percent, row) = rows.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let worst = format!("{}, {}, {}", row.figure, row.series, row.x);
    Some(Goal { what, bound_percent, worst_percent, worst, met: worst_percent <= bound_percent })
}

/// What the cascades of the goals measure.
pub fn compared() -> String {
    Reading::COMPARED.words()
}
