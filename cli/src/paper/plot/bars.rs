//! Bars: the paper's beside ours.

use super::{Area, Drawn, INK, Mark, PAPER, PLOT, above, builder, colour, corner, highest};
use super::{Upwards, legend, mesh, text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use weft_check::paper::{Bars, Part, Parts, Place, Plot};

/// A bar: its parts from the lowest up.
type Bar = Vec<(f64, RGBColor)>;

/// The widest place that a bar has, of that from one label to the next.
const WIDEST: f64 = 0.38;

/// Draws the bars.
pub(super) fn draw(area: &Area<'_>, plot: &Plot, drawn: &Bars) -> Drawn {
    let (keys, places) = (keys(&drawn.places), &drawn.places);
    let bars: Vec<Vec<Bar>> = places.iter().map(|place| bars_of(place, drawn.parts)).collect();
    let most = bars.iter().map(Vec::len).max().unwrap_or(1);
    let wide = f64::min(WIDEST, 0.86 / most.max(1) as f64);
    let heights = || bars.iter().flatten().map(height);
    let (highest, lowest) = (highest(heights()), heights().fold(0.0, f64::min));
    // Below the bars there is room for the number of one that goes down.
    let bottom = if lowest < 0.0 { lowest - (highest - lowest) * 0.08 } else { 0.0 };
    let across = -0.6..places.len() as f64 - 0.4;
    let (right, _) = corner(&keys);
    let edge = across.start + PLOT.0.share(right.into()) * (across.end - across.start);
    let under = bars.iter().zip(0..).filter(|(_, nth)| f64::from(*nth) - 0.5 < edge);
    let under = under.flat_map(|(bars, _)| bars).map(height).fold(0.0, f64::max);
    // And above them for the numbers, and for the legend.
    let top = above(bottom, under, &keys, 26.0).max(highest + (highest - bottom) * 0.12);
    let labelled = highest + (highest - bottom) * 0.05;
    let mut chart =
        builder(area, &plot.title).build_cartesian_2d(across.clone(), Upwards::new(bottom..top, labelled))?;
    let mut style = chart.configure_mesh();
    style.disable_x_mesh().x_labels(0);
    mesh(style, plot.y, top, across.end - across.start)?;
    if bottom < 0.0 {
        chart.draw_series([PathElement::new([(across.start, 0.0), (across.end, 0.0)], INK)])?;
    }
    for (nth, (place, bars)) in places.iter().zip(&bars).enumerate() {
        let middle = nth as f64;
        let first = middle - wide * bars.len() as f64 / 2.0;
        for (nth, bar) in bars.iter().enumerate() {
            let left = first + wide * nth as f64;
            let mut from = 0.0;
            for (part, colour) in bar {
                let corners = [(left + wide * 0.05, from), (left + wide * 0.95, from + part)];
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                from += part;
            }
            if from != 0.0 {
                let (gap, beside) = if from > 0.0 { (0.01, VPos::Bottom) } else { (-0.01, VPos::Top) };
                let at = (left + wide / 2.0, from + top * gap);
                let style = text(12, INK, HPos::Center, beside);
                chart.draw_series([Text::new(format!("{from:.2}"), at, style)])?;
            }
        }
        let (px, py) = chart.backend_coord(&(middle, bottom));
        for (line, label) in (0..).zip(&place.label) {
            let style = text(13, INK, HPos::Center, VPos::Top);
            area.draw(&Text::new(label.clone(), (px, py + 7 + 17 * line), style))?;
        }
    }
    legend(area, &keys)
}

fn height(bar: &Bar) -> f64 {
    bar.iter().map(|part| part.0).sum()
}

/// A place's bars, from left to right. The paper has one only where it gives a value.
fn bars_of(place: &Place, parts: Parts) -> Vec<Bar> {
    let theirs = |(nth, part): (usize, &Part)| part.paper.map(|paper| (paper, shade(nth)));
    let ours = |(nth, part): (usize, &Part)| (part.here, colour(nth));
    let all = || place.parts.iter().enumerate();
    let bars: Vec<Bar> = match parts {
        Parts::Stacked => vec![all().filter_map(theirs).collect(), all().map(ours).collect()],
        Parts::Beside => {
            all().flat_map(|part| [theirs(part).into_iter().collect(), vec![ours(part)]]).collect()
        }
    };
    bars.into_iter().filter(|bar| !bar.is_empty()).collect()
}

/// The paper's parts, the first one darker.
fn shade(part: usize) -> RGBColor {
    if part == 0 { PAPER } else { RGBColor(205, 205, 205) }
}

/// What is drawn, where there is something to tell apart.
fn keys(places: &[Place]) -> Vec<(String, Mark)> {
    let parts = places.first().map_or(&[][..], |place| &place.parts);
    let given = |nth: usize| places.iter().any(|at| at.parts.get(nth).is_some_and(|at| at.paper.is_some()));
    let compared = (0..parts.len()).any(given);
    let name = |who: &str, part: &Part| match part.name.as_str() {
        "" => who.to_string(),
        part if compared => format!("{who}: {part}"),
        part => part.to_string(),
    };
    let all = || parts.iter().enumerate();
    let paper = all().filter(|(nth, _)| given(*nth));
    let paper = paper.map(|(nth, part)| (name("paper", part), Mark::Box(shade(nth))));
    let keys: Vec<_> =
        paper.chain(all().map(|(nth, part)| (name("here", part), Mark::Box(colour(nth))))).collect();
    if keys.len() > 1 { keys } else { Vec::new() }
}
