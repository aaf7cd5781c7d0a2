//! A paper's experiments, repeated: what is measured beside what the paper says, as data that anybody can print or draw.
//!
//! A system's room gives its papers as [`System::PAPERS`](crate::system::System::PAPERS). The figures are
//! [`Row`]s; [`Group`]s and [`Plot`]s say which of them are shown together, and [`Goal`]s how near the paper's they are.

mod apart;
mod cluster;
mod fitted;
mod goal;
mod group;
mod plot;
mod row;

pub use apart::apart;
pub use cluster::{Cluster, Machine, refused};
pub use fitted::Fitted;
pub use goal::{Goal, Limit, Wanted};
pub use group::{Group, known, names, percent, value};
pub use plot::{Axis, Bars, Lines, Marks, Part, Parts, Place, Plot, Scale, Series, Shape, Spans};
pub use row::{Row, X};

use serde::Serialize;
use std::collections::BTreeMap;
use weft_sim::profile::ProfileError;

/// A paper whose experiments can be repeated.
#[derive(Debug)]
pub struct Paper {
    /// Its name, as `weft paper` takes it; the files of its report begin with it. No other paper has it.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// Which experiments are repeated, on which machines: a paragraph.
    pub details: &'static str,
    /// The heading of its page.
    pub heading: &'static str,
    /// Its title, and where it was published.
    pub title: &'static str,
    /// Runs all experiments.
    pub run: fn(Progress<'_>) -> Result<Results, PaperError>,
}

/// Told how far the experiments have come: the share that is done, from 0 to 1, and what is being done.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &'static str);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// The machines' profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The simulated cluster could not be built.
    #[error("the cluster cannot be built: {0}")]
    Cluster(String),
    /// An experiment did not come to its end.
    #[error("{0}")]
    Unfinished(String),
}

/// A paragraph about one of the paper's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Its name, as rows have it.
    pub figure: &'static str,
    /// What to know.
    pub text: &'static str,
}

/// Everything that is known in the end. As JSON, it is what a program wants of it; groups and plots show the same rows.
#[derive(Debug, Serialize)]
pub struct Results {
    /// On which machines the experiments were repeated, and what their times are: a sentence.
    #[serde(skip)]
    pub setting: String,
    /// What was measured, beside what the paper says.
    pub rows: Vec<Row>,
    /// What else is to be known of the rows, by a key.
    #[serde(flatten)]
    pub facts: BTreeMap<&'static str, String>,
    /// How near the paper's figures are wanted, and whether they are.
    pub goals: Vec<Goal>,
    /// The constants that were fitted.
    pub fitted: Vec<Fitted>,
    /// What to know beside the figures.
    pub notes: Vec<Note>,
    /// Tables of the rows, in the paper's order. Those of one figure stand together.
    #[serde(skip)]
    pub groups: Vec<Group>,
    /// Drawings of the rows.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

impl Results {
    /// Each group, in order, with the plots that stand before its table, and with the notes that stand after it: a
    /// figure's plots come before the first of its groups, its notes after the last.
    pub fn sections(&self) -> impl Iterator<Item = (&Group, Vec<&Plot>, Vec<&'static str>)> {
        let same = |nth: Option<usize>, figure| {
            nth.and_then(|nth| self.groups.get(nth)).is_some_and(|group| group.figure == figure)
        };
        self.groups.iter().enumerate().map(move |(nth, group)| {
            let figure = group.figure;
            let (first, last) = (!same(nth.checked_sub(1), figure), !same(Some(nth + 1), figure));
            let plots = self.plots.iter().filter(|plot| first && plot.figure == figure);
            let notes = self.notes.iter().filter(|note| last && note.figure == figure);
            (group, plots.collect(), notes.map(|note| note.text).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figures_plots_stand_before_its_first_table_and_its_notes_after_the_last() {
        let row = Row::new("Figure 1", "a", X::Number(1), "us", 2.0, 3.0);
        let group = |figure| Group::compared(figure, String::new(), &[&row]);
        let shape = Shape::Bars(Bars::beside(&[&row]));
        let plot = |file| {
            let shape = shape.clone();
            Plot { file, figure: "Figure 1", title: String::new(), y: "us", shape }
        };
        let note = |text| Note { figure: "Figure 1", text };
        let results = Results {
            setting: String::new(),
            groups: vec![group("Figure 1"), group("Figure 1"), group("Table 1")],
            plots: vec![plot("one"), plot("two")],
            notes: vec![note("about one"), note("and more")],
            rows: vec![row.clone()],
            facts: BTreeMap::new(),
            goals: Vec::new(),
            fitted: Vec::new(),
        };
        let shown: Vec<_> =
            results.sections().map(|(group, plots, notes)| (group.figure, plots.len(), notes)).collect();
        let (one, table, notes) = ("Figure 1", "Table 1", vec!["about one", "and more"]);
        assert_eq!(shown, [(one, 2, vec![]), (one, 0, notes), (table, 0, vec![])]);
    }
}
