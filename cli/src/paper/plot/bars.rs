//! Bars: the paper's beside ours.

use super::{Area, Drawn, INK, Mark, PAPER, builder, colour, legend, mesh, text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use weft_check::systems::locks::paper::Row;

/// A place on the axis: the paper's bar and ours, each of one part or of several that stand on each other.
struct Pair {
    label: [String; 2],
    parts: Vec<Part>,
}

struct Part {
    name: String,
    paper: Option<f64>,
    here: f64,
}

impl Pair {
    fn paper(&self) -> f64 {
        self.parts.iter().filter_map(|part| part.paper).sum()
    }

    fn here(&self) -> f64 {
        self.parts.iter().map(|part| part.here).sum()
    }
}

/// Rows that are named "scheme, part" and belong together are one place.
fn pairs(rows: &[&Row]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for row in rows.iter().filter(|row| row.unit == "us") {
        let (scheme, part) = row.series.split_once(", ").unwrap_or((&row.series, ""));
        let label = [scheme.to_string(), row.x.to_string()];
        let part = Part { name: part.to_string(), paper: row.paper, here: row.measured };
        match pairs.iter_mut().find(|pair| pair.label == label) {
            Some(pair) => pair.parts.push(part),
            None => pairs.push(Pair { label, parts: vec![part] }),
        }
    }
    pairs
}

/// Draws the rows.
pub(super) fn draw(area: &Area<'_>, title: &str, rows: &[&Row]) -> Drawn {
    let pairs = pairs(rows);
    let keys = keys(&pairs);
    // Room for the legend above the bars.
    let highest = pairs.iter().map(|pair| pair.here().max(pair.paper())).fold(1.0, f64::max);
    let top = highest * (1.12 + 0.06 * keys.len() as f64);
    let mut chart = builder(area, title).build_cartesian_2d(-0.6..pairs.len() as f64 - 0.4, 0.0..top)?;
    mesh(chart.configure_mesh().disable_x_mesh().x_labels(0))?;
    for (nth, pair) in pairs.iter().enumerate() {
        let x = nth as f64;
        let (mut paper, mut here) = (0.0, 0.0);
        for (part, Part { paper: theirs, here: ours, .. }) in pair.parts.iter().enumerate() {
            if let Some(theirs) = theirs {
                let corners = [(x - 0.36, paper), (x - 0.02, paper + theirs)];
                chart.draw_series([Rectangle::new(corners, shade(part).filled())])?;
                paper += theirs;
            }
            let corners = [(x + 0.02, here), (x + 0.36, here + ours)];
            chart.draw_series([Rectangle::new(corners, colour(part).filled())])?;
            here += ours;
        }
        for (x, height) in [(x - 0.19, paper), (x + 0.19, here)].into_iter().filter(|bar| bar.1 > 0.0) {
            let at = (x, height + top * 0.01);
            let style = text(12, INK, HPos::Center, VPos::Bottom);
            chart.draw_series([Text::new(format!("{height:.2}"), at, style)])?;
        }
        let (px, py) = chart.backend_coord(&(x, 0.0));
        for (line, label) in (0..).zip(&pair.label) {
            let style = text(13, INK, HPos::Center, VPos::Top);
            area.draw(&Text::new(label.clone(), (px, py + 7 + 17 * line), style))?;
        }
    }
    legend(area, &keys)
}

/// The paper's parts, the first one darker.
fn shade(part: usize) -> RGBColor {
    if part == 0 { PAPER } else { RGBColor(205, 205, 205) }
}

fn keys(pairs: &[Pair]) -> Vec<(String, Mark)> {
    let parts = pairs.first().map_or(&[][..], |pair| &pair.parts);
    let name = |who: &str, part: &Part| match part.name.as_str() {
        "" => who.to_string(),
        part => format!("{who}: {part}"),
    };
    let paper = parts.iter().enumerate().map(|(nth, part)| (name("paper", part), Mark::Box(shade(nth))));
    let here = parts.iter().enumerate().map(|(nth, part)| (name("here", part), Mark::Box(colour(nth))));
    paper.chain(here).collect()
}
