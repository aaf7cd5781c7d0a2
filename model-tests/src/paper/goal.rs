//! How near the paper's figures are wanted, and whether they are.

use super::Row;
use serde::Serialize;

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

impl Goal {
    /// The worst of the rows that are wanted decides. `None` if the paper gives a value for none of them.
    pub fn judge(
        rows: &[Row],
        what: impl Into<String>,
        bound_percent: f64,
        wanted: impl Fn(&Row) -> bool,
    ) -> Option<Goal> {
        let off = |row: &Row| row.deviation_percent.map(f64::abs);
        let rows = rows.iter().filter(|row| wanted(row)).filter_map(|row| Some((off(row)?, row)));
        let (worst_percent, row) = rows.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let worst = format!("{}, {}, {}", row.figure, row.series, row.x);
        Some(Goal {
            what: what.into(),
            bound_percent,
            worst_percent,
            worst,
            met: worst_percent <= bound_percent,
        })
    }
}
