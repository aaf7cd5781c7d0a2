//! Lines over a number, and what the paper says of them.

use super::Upwards;
use super::{Area, Drawn, INK, Mark, PLOT, above, builder, colour, corner, highest, legend, mesh, shade};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use std::ops::Range;
use weft_check::paper::{Lines, Plot, Scale, Series, Spans};

type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Upwards>>;

/// Draws the lines, and a cross for each of the paper's values.
pub(super) fn draw(area: &Area<'_>, plot: &Plot, lines: &Lines) -> Drawn {
    let points = || drawn(lines).flat_map(|series| &series.points);
    let right = highest(points().map(|point| point.0));
    let left = points().map(|point| point.0).fold(right, f64::min);
    let axis = match lines.x.scale {
        Scale::Linear => 0.0..right * 1.03,
        Scale::Logarithmic => left / 1.2..right * 1.2,
    };
    let keys = keys(lines);
    let labelled = highest(points().map(|point| point.1)) * 1.08;
    let (right, _) = corner(&keys);
    let top = labelled.max(above(0.0, highest_under(lines, &axis, right), &keys, AIR));
    let up = Upwards::new(0.0..top, labelled);
    let mut builder = builder(area, &plot.title);
    let size = (axis.end - axis.start, top);
    match lines.x.scale {
        Scale::Linear => within(builder.build_cartesian_2d(axis, up)?, plot, lines, size)?,
        Scale::Logarithmic => {
            let labels = apart(points().map(|point| point.0), &axis);
            let across = axis.log_scale().with_key_points(labels);
            within(builder.build_cartesian_2d(across, up)?, plot, lines, size)?;
        }
    }
    legend(area, &keys)
}

/// All that has points: the lines, and the paper's values.
fn drawn(lines: &Lines) -> impl Iterator<Item = &Series> {
    lines.series.iter().chain(lines.paper.iter().flat_map(|paper| &paper.by_line))
}

/// Which of the places of points have a label on a logarithmic axis: from the left, those that have room for it.
fn apart(places: impl Iterator<Item = f64>, axis: &Range<f64>) -> Vec<f64> {
    const ROOM: f64 = 45.0;
    let wide = PLOT.0.to - PLOT.0.from;
    let pixel = |x: f64| logarithmic(x, axis) * wide;
    let mut places: Vec<f64> = places.collect();
    places.sort_by(f64::total_cmp);
    let mut labels: Vec<f64> = Vec::new();
    for place in places {
        if labels.last().is_none_or(|last| pixel(place) - pixel(*last) >= ROOM) {
            labels.push(place);
        }
    }
    labels
}

/// Where on the axis a number is, from 0 to 1.
fn logarithmic(x: f64, axis: &Range<f64>) -> f64 {
    (x / axis.start).ln() / (axis.end / axis.start).ln()
}

fn keys(lines: &Lines) -> Vec<(String, Mark)> {
    let mut keys: Vec<(String, Mark)> = Vec::new();
    keys.extend(lines.series.iter().enumerate().map(|(nth, of)| (of.name.clone(), Mark::Line(colour(nth)))));
    keys.extend(lines.spans.iter().enumerate().map(|(nth, of)| (of.name.clone(), Mark::Span(shade(nth)))));
    keys.extend(lines.paper.iter().map(|paper| (paper.name.clone(), Mark::Cross)));
    keys
}

/// Half a point or cross, and air.
const AIR: f64 = 10.0;

/// The highest of all that is drawn to the left of where the legend ends.
fn highest_under(lines: &Lines, axis: &Range<f64>, right: i32) -> f64 {
    let edge = PLOT.0.share(f64::from(right) + AIR);
    let place = |x: f64| match lines.x.scale {
        Scale::Linear => (x - axis.start) / (axis.end - axis.start),
        Scale::Logarithmic => logarithmic(x, axis),
    };
    let under = drawn(lines).flat_map(|series| {
        let points = series.points.iter().map(|&(x, y)| (place(x), y));
        let reaches_out = |((a, from), (b, to)): ((f64, f64), (f64, f64))| {
            (a < edge && b > edge).then(|| from + (to - from) * (edge - a) / (b - a))
        };
        let lines_out = points.clone().zip(points.clone().skip(1)).filter_map(reaches_out);
        points.filter(|at| at.0 <= edge).map(|at| at.1).chain(lines_out).collect::<Vec<f64>>()
    });
    under.fold(0.0, f64::max)
}

/// Draws inside of a chart, which is so wide and so high.
fn within<X>(mut chart: Chart<'_, '_, X>, plot: &Plot, lines: &Lines, (wide, top): (f64, f64)) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut style = chart.configure_mesh();
    style.x_desc(lines.x.title);
    mesh(style, plot.y, top, wide)?;
    // Where some lie on others each kind has a band of its own.
    let bands = if overlap(&lines.spans) { lines.spans.len() } else { 1 };
    let high = top / bands as f64;
    for (nth, spans) in lines.spans.iter().enumerate() {
        let (fill, low) = (shade(nth).filled(), high * (nth % bands) as f64);
        let place = |&(from, to): &(f64, f64)| Rectangle::new([(from, low), (to, low + high)], fill);
        chart.draw_series(spans.places.iter().map(place))?;
    }
    for (nth, series) in lines.series.iter().enumerate() {
        let colour = colour(nth);
        // Lines may lie on each other: where they do, each shows around those that come after it.
        let over = |part: &[(f64, f64)]| {
            let all = lines.series[nth + 1..].iter();
            all.filter(|over| part.iter().all(|at| lies_under(*at, over, top))).count() as u32
        };
        // How many lie on each part, from one point to the next.
        let hidden: Vec<u32> = series.points.windows(2).map(over).collect();
        let mut from = 0;
        for alike in hidden.chunk_by(|one, next| one == next) {
            let part = series.points[from..=from + alike.len()].iter().copied();
            chart.draw_series(LineSeries::new(part, colour.stroke_width(2 + 3 * alike[0])))?;
            from += alike.len();
        }
        let size = |nth: usize| {
            let beside = hidden[nth.saturating_sub(1)..hidden.len().min(nth + 1)].iter().max();
            3 + 3 * beside.copied().unwrap_or_else(|| over(&series.points)) as i32 / 2
        };
        let dots = series.points.iter().enumerate();
        chart.draw_series(dots.map(|(nth, &at)| Circle::new(at, size(nth), colour.filled())))?;
    }
    // In the colour of their line.
    for marks in lines.paper.iter().flat_map(|paper| &paper.by_line) {
        let line = lines.series.iter().position(|series| series.name == marks.name);
        let style = line.map_or(INK, colour).stroke_width(2);
        chart.draw_series(marks.points.iter().map(|&at| Cross::new(at, 7, style)))?;
    }
    Ok(())
}

/// Whether two places lie on each other.
fn overlap(spans: &[Spans]) -> bool {
    let mut places: Vec<(f64, f64)> = spans.iter().flat_map(|spans| spans.places.iter().copied()).collect();
    places.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut until = f64::MIN;
    places.iter().any(|(from, to)| {
        let lies = *from < until;
        until = until.max(*to);
        lies
    })
}

/// Whether a point lies under one of a line: they are no further apart than lines are wide.
fn lies_under((x, y): (f64, f64), over: &Series, top: f64) -> bool {
    let near = top * 4.0 / (PLOT.1.to - PLOT.1.from);
    over.points.iter().any(|point| point.0 == x && (point.1 - y).abs() < near)
}
