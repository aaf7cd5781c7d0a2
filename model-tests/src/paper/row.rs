//! What was measured, beside what the paper says.

use serde::Serialize;

/// A place on a figure's horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum X {
    /// A number: of nodes, of bytes.
    Number(u64),
    /// A name: a mode, a wake-up style.
    Name(&'static str),
}

impl X {
    /// The number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match *self {
            X::Number(number) => Some(number),
            X::Name(_) => None,
        }
    }
}

impl std::fmt::Display for X {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            X::Number(number) => number.fmt(f),
            X::Name(name) => f.pad(name),
        }
    }
}

/// One value.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Where it stands in the paper: `Figure 5(a)`.
    pub figure: &'static str,
    /// Which line, bar or cell.
    pub series: String,
    /// Where on the line.
    pub x: X,
    /// In what it is counted: `us`, `ratio`, `count`.
    pub unit: &'static str,
    /// The paper's value, where its text gives one.
    pub paper: Option<f64>,
    /// Ours.
    pub measured: f64,
    /// By how much ours is above the paper's, in percent.
    pub deviation_percent: Option<f64>,
}

impl Row {
    /// A value to a thousandth, with its deviation from the paper's, if the paper gives one.
    pub fn new(
        figure: &'static str,
        series: impl Into<String>,
        x: X,
        unit: &'static str,
        paper: impl Into<Option<f64>>,
        measured: f64,
    ) -> Row {
        let paper = paper.into();
        let deviation_percent = paper.map(|paper| rounded((measured / paper - 1.0) * 100.0));
        Row { figure, series: series.into(), x, unit, paper, measured: rounded(measured), deviation_percent }
    }
}

/// To a thousandth: less than a nanosecond is of no interest in microseconds.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
