//! Which rows a drawing shows, in the paper's order.

use super::groups::of;
use super::{COMPARED_AT, Reading};
use crate::paper::{Axis, Bars, Lines, Plot, Row, Scale, Shape};

/// What all drawings measure upwards.
const TIME: &str = "microseconds";

/// All drawings.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let times = |figure| of(rows, figure, |row| row.unit == "us");
    let bars = |file, figure, title: &str| Plot {
        file,
        figure,
        title: title.to_string(),
        y: TIME,
        shape: Shape::Bars(Bars::stacked(&times(figure))),
    };
    let lines = |file, figure, what: &str| Plot {
        file,
        figure,
        title: format!("{what}: {}", Reading::COMPARED.words()),
        y: TIME,
        shape: Shape::Lines(cascade(&times(figure), &of(rows, figure, |row| row.unit == "ratio"))),
    };
    vec![
        bars("figure-5a", "Figure 5(a)", "Basic lock latency, polling"),
        bars("figure-5b", "Figure 5(b)", "Basic lock latency, notification"),
        bars("figure-6", "Figure 6", "Parts of the basic lock latency"),
        lines("figure-7a", "Figure 7(a)", "Shared cascade"),
        lines("figure-7b", "Figure 7(b)", "Exclusive cascade"),
    ]
}

/// Lines over the number of waiters. Of a ratio that the paper gives a mark stands where the line would meet it.
fn cascade(times: &[&Row], ratios: &[&Row]) -> Lines {
    let lines = Lines::of(Axis { title: "waiting nodes", scale: Scale::Linear }, times);
    let x = f64::from(COMPARED_AT);
    let base = lines.at("ncosed", x);
    let compared = ratios.iter().filter(|row| !row.series.contains(','));
    let mark = |row: &&Row| Some((row.series.clone(), (x, base? * row.paper?)));
    let paper = Lines::marks("the paper's ratios to ncosed", compared.filter_map(mark));
    Lines { paper, ..lines }
}
