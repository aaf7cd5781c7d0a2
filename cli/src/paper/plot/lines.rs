//! Lines over a number, and what the paper says of them.

use super::{Area, Drawn, ENTRY, Height, INK, Mark, builder, colour, highest, legend, mesh, shade};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use weft_check::paper::{Lines, Plot, Scale};

type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>;

/// Draws the lines, and a cross for each of the paper's values.
pub(super) fn draw(area: &Area<'_>, plot: &Plot, lines: &Lines) -> Drawn {
    let points = || lines.series.iter().chain(&lines.paper).flat_map(|series| &series.points);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let labelled = highest(points().map(|point| point.1)) * 1.08;
    let top = labelled.max(above_legend(lines));
    let height = Height { labelled, top };
    let mut builder = builder(area, &plot.title);
    match lines.x.scale {
        Scale::Linear => {
            within(builder.build_cartesian_2d(0.0..right + 0.7, 0.0..top)?, plot, lines, height)?
        }
        Scale::Logarithmic => {
            let left = points().map(|point| point.0).fold(right, f64::min);
            let x = (left / 1.2..right * 1.2).log_scale();
            within(builder.build_cartesian_2d(x, 0.0..top)?, plot, lines, height)?;
        }
    }
    let mut keys: Vec<(String, Mark)> = Vec::new();
    keys.extend(lines.series.iter().enumerate().map(|(nth, of)| (of.name.clone(), Mark::Line(colour(nth)))));
    keys.extend(lines.spans.iter().enumerate().map(|(nth, of)| (of.name.clone(), Mark::Span(shade(nth)))));
    keys.extend(lines.paper.iter().map(|paper| (paper.name.clone(), Mark::Cross)));
    legend(area, &keys)
}

/// How high the axis has to go for the legend, in its upper left corner, to lie above where lines begin.
fn above_legend(lines: &Lines) -> f64 {
    /// How high the plot itself is: of [`super::SIZE`], what its title and labels leave.
    const HEIGHT: f64 = 340.0;
    let entries = lines.series.len() + lines.spans.len() + usize::from(lines.paper.is_some());
    // Above the entries, and below them for half a point.
    let share = (f64::from(ENTRY) * entries as f64 + 20.0) / HEIGHT;
    let share = share.min(0.6);
    let first = lines.series.iter().filter_map(|series| series.points.first());
    first.map(|point| point.1).fold(0.0, f64::max) / (1.0 - share)
}

/// Draws inside of a chart.
fn within<X>(mut chart: Chart<'_, '_, X>, plot: &Plot, lines: &Lines, height: Height) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut style = chart.configure_mesh();
    style.x_desc(lines.x.title);
    mesh(style, plot.y, height)?;
    for (nth, spans) in lines.spans.iter().enumerate() {
        let fill = shade(nth).filled();
        let place = |&(from, to): &(f64, f64)| Rectangle::new([(from, 0.0), (to, height.top)], fill);
        chart.draw_series(spans.places.iter().map(place))?;
    }
    for (nth, series) in lines.series.iter().enumerate() {
        let colour = colour(nth);
        // Lines may lie on each other: the last one is thin and its points are small, the others show around it.
        let last = nth + 1 == lines.series.len();
        let (width, size) = if last { (2, 2) } else { (4, 4) };
        chart.draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(width)))?;
        chart.draw_series(series.points.iter().map(|&at| Circle::new(at, size, colour.filled())))?;
    }
    let crosses = lines.paper.iter().flat_map(|paper| &paper.points);
    chart.draw_series(crosses.map(|&at| Cross::new(at, 7, INK.stroke_width(2))))?;
    Ok(())
}
