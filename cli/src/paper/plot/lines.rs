//! Lines over a number, and what the paper says of them.

use super::{Area, Drawn, Height, INK, Mark, builder, colour, corner, highest, legend, mesh, shade};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;
use weft_check::paper::{Lines, Plot, Scale};

type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>;

/// Draws the lines, and a cross for each of the paper's values.
pub(super) fn draw(area: &Area<'_>, plot: &Plot, lines: &Lines) -> Drawn {
    let points = || lines.series.iter().chain(&lines.paper).flat_map(|series| &series.points);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let left = points().map(|point| point.0).fold(right, f64::min);
    let axis = match lines.x.scale {
        Scale::Linear => 0.0..right + 0.7,
        Scale::Logarithmic => left / 1.2..right * 1.2,
    };
    let keys = keys(lines);
    let labelled = highest(points().map(|point| point.1)) * 1.08;
    let top = labelled.max(above_legend(lines, &axis, corner(&keys)));
    let height = Height { labelled, top };
    let mut builder = builder(area, &plot.title);
    match lines.x.scale {
        Scale::Linear => within(builder.build_cartesian_2d(axis, 0.0..top)?, plot, lines, height)?,
        Scale::Logarithmic => {
            within(builder.build_cartesian_2d(axis.log_scale(), 0.0..top)?, plot, lines, height)?;
        }
    }
    legend(area, &keys)
}

fn keys(lines: &Lines) -> Vec<(String, Mark)> {
    let mut keys: Vec<(String, Mark)> = Vec::new();
    keys.extend(lines.series.iter().enumerate().map(|(nth, of)| (of.name.clone(), Mark::Line(colour(nth)))));
    keys.extend(lines.spans.iter().enumerate().map(|(nth, of)| (of.name.clone(), Mark::Span(shade(nth)))));
    keys.extend(lines.paper.iter().map(|paper| (paper.name.clone(), Mark::Cross)));
    keys
}

/// The plot itself: of [`super::SIZE`], what its title and labels leave.
const PLOT: (Range<f64>, Range<f64>) = (68.0..748.0, 36.0..379.0);

/// How high the axis has to go for a legend with this corner to lie above all that is drawn under it.
fn above_legend(lines: &Lines, axis: &Range<f64>, (right, bottom): (i32, i32)) -> f64 {
    /// Half a point or cross, and air.
    const AIR: f64 = 10.0;
    let (across, down) = PLOT;
    let edge = (f64::from(right) + AIR - across.start) / (across.end - across.start);
    let place = |x: f64| match lines.x.scale {
        Scale::Linear => (x - axis.start) / (axis.end - axis.start),
        Scale::Logarithmic => (x / axis.start).ln() / (axis.end / axis.start).ln(),
    };
    let under = lines.series.iter().chain(&lines.paper).flat_map(|series| {
        let points = series.points.iter().map(|&(x, y)| (place(x), y));
        let reaches_out = |((a, from), (b, to)): ((f64, f64), (f64, f64))| {
            (a < edge && b > edge).then(|| from + (to - from) * (edge - a) / (b - a))
        };
        let lines_out = points.clone().zip(points.clone().skip(1)).filter_map(reaches_out);
        points.filter(|at| at.0 <= edge).map(|at| at.1).chain(lines_out).collect::<Vec<f64>>()
    });
    let share = (f64::from(bottom) + AIR - down.start) / (down.end - down.start);
    under.fold(0.0, f64::max) / (1.0 - share.min(0.6))
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
