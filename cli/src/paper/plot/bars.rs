//! Bars: the paper's beside ours.

use super::{Area, Drawn, Height, INK, Mark, PAPER, builder, colour, highest, legend, mesh, text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use weft_check::paper::{Bars, Part, Place, Plot};

fn paper(place: &Place) -> f64 {
    place.parts.iter().filter_map(|part| part.paper).sum()
}

fn here(place: &Place) -> f64 {
    place.parts.iter().map(|part| part.here).sum()
}

/// Draws the bars.
pub(super) fn draw(area: &Area<'_>, plot: &Plot, Bars { places }: &Bars) -> Drawn {
    let keys = keys(places);
    let sums = || places.iter().flat_map(|place| [here(place), paper(place)]);
    // Room for the legend above the bars, and below them for the number of one that goes down.
    let top = highest(sums()) * (1.12 + 0.06 * keys.len() as f64);
    let lowest = sums().fold(0.0, f64::min);
    let bottom = if lowest < 0.0 { lowest - (top - lowest) * 0.06 } else { 0.0 };
    let mut chart =
        builder(area, &plot.title).build_cartesian_2d(-0.6..places.len() as f64 - 0.4, bottom..top)?;
    let mut style = chart.configure_mesh();
    style.disable_x_mesh().x_labels(0);
    mesh(style, plot.y, Height { labelled: top, top })?;
    if bottom < 0.0 {
        let zero = [(-0.6, 0.0), (places.len() as f64 - 0.4, 0.0)];
        chart.draw_series([PathElement::new(zero, INK)])?;
    }
    for (nth, place) in places.iter().enumerate() {
        let x = nth as f64;
        let (mut paper, mut here) = (0.0, 0.0);
        for (part, Part { paper: theirs, here: ours, .. }) in place.parts.iter().enumerate() {
            if let Some(theirs) = theirs {
                let corners = [(x - 0.36, paper), (x - 0.02, paper + theirs)];
                chart.draw_series([Rectangle::new(corners, shade(part).filled())])?;
                paper += theirs;
            }
            let corners = [(x + 0.02, here), (x + 0.36, here + ours)];
            chart.draw_series([Rectangle::new(corners, colour(part).filled())])?;
            here += ours;
        }
        for (x, height) in [(x - 0.19, paper), (x + 0.19, here)].into_iter().filter(|bar| bar.1 != 0.0) {
            let (gap, beside) = if height > 0.0 { (0.01, VPos::Bottom) } else { (-0.01, VPos::Top) };
            let at = (x, height + top * gap);
            let style = text(12, INK, HPos::Center, beside);
            chart.draw_series([Text::new(format!("{height:.2}"), at, style)])?;
        }
        let (px, py) = chart.backend_coord(&(x, bottom));
        for (line, label) in (0..).zip(&place.label) {
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

fn keys(places: &[Place]) -> Vec<(String, Mark)> {
    let parts = places.first().map_or(&[][..], |place| &place.parts);
    let name = |who: &str, part: &Part| match part.name.as_str() {
        "" => who.to_string(),
        part => format!("{who}: {part}"),
    };
    let paper = parts.iter().enumerate().map(|(nth, part)| (name("paper", part), Mark::Box(shade(nth))));
    let here = parts.iter().enumerate().map(|(nth, part)| (name("here", part), Mark::Box(colour(nth))));
    paper.chain(here).collect()
}
