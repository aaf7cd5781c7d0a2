//! How near the paper's figures are wanted, and whether they are; and the limits of the project's own figures.

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
    /// What is wanted of a figure that no paper has, and what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// A limit of the project's own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// What is wanted.
    pub wanted: Wanted,
    /// What was measured.
    pub measured: f64,
    /// In what it is counted, as rows have it.
    pub unit: &'static str,
}

/// Where the limit of a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// It must be no less.
    AtLeast(f64),
    /// It must be no more.
    AtMost(f64),
}

impl Limit {
    /// What is wanted, in words: `>= 95 %`.
    pub fn wanted(&self) -> String {
        let (sign, limit) = match self.wanted {
            Wanted::AtLeast(limit) => (">=", limit),
            Wanted::AtMost(limit) => ("<=", limit),
        };
        self.with_unit(format!("{sign} {limit}"))
    }

    /// What was measured, in words.
    pub fn here(&self) -> String {
        self.with_unit(super::value(self.measured))
    }

    fn with_unit(&self, number: String) -> String {
        match self.unit {
            "count" | "ratio" => number,
            unit => format!("{number} {unit}"),
        }
    }

    /// By how much it is missed, in percent of what is wanted.
    fn missed(&self) -> f64 {
        let short = match self.wanted {
            Wanted::AtLeast(limit) => (limit - self.measured) / limit,
            Wanted::AtMost(limit) => (self.measured - limit) / limit,
        };
        f64::max(100.0 * short, 0.0)
    }
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
            limit: None,
        })
    }

    /// A row that has a limit of the project's own.
    pub fn limited(row: &Row, what: impl Into<String>, wanted: Wanted) -> Goal {
        let limit = Limit { wanted, measured: row.measured, unit: row.unit };
        let missed = limit.missed();
        Goal {
            what: what.into(),
            bound_percent: 0.0,
            worst_percent: missed,
            worst: format!("{}, {}, {}", row.figure, row.series, row.x),
            met: missed == 0.0,
            limit: Some(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::X;

    #[test]
    fn a_limit_says_what_was_wanted_and_what_was_measured_and_is_met_on_its_own_side() {
        let row = |unit, measured| Row::new("Bulk", "read", X::Number(16), unit, None, measured);
        let cases = [
            (Wanted::AtLeast(95.0), row("%", 97.07), true, ">= 95 %", "97.07 %"),
            (Wanted::AtLeast(95.0), row("%", 92.86), false, ">= 95 %", "92.86 %"),
            (Wanted::AtMost(1.5), row("times", 1.5), true, "<= 1.5 times", "1.50 times"),
            (Wanted::AtMost(16.0), row("count", 17.0), false, "<= 16", "17.00"),
        ];
        for (wanted, row, met, asked, here) in cases {
            let goal = Goal::limited(&row, "reads", wanted);
            let limit = goal.limit.expect("it has one");
            assert_eq!((goal.met, limit.wanted().as_str(), limit.here().as_str()), (met, asked, here));
        }
    }
}
