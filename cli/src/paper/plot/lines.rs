//! Lines over the number of waiters, and what the paper says of them.

use super::super::groups::names;
use super::{Area, Drawn, INK, Mark, builder, colour, legend, mesh};
use plotters::prelude::*;
use weft_check::systems::locks::paper::{COMPARED_AT, Row, X};

/// Draws the rows that are times. Of a ratio that the paper gives a cross stands where the line would meet it.
pub(super) fn draw(area: &Area<'_>, title: &str, rows: &[&Row]) -> Drawn {
    let times: Vec<&Row> = rows.iter().copied().filter(|row| row.unit == "us").collect();
    let series = names(&times);
    let points = |name: &str| -> Vec<(f64, f64)> {
        let of = times.iter().filter(|row| row.series == name);
        of.filter_map(|row| Some((waiters(row)?, row.measured))).collect()
    };
    let all: Vec<(f64, f64)> = series.iter().flat_map(|name| points(name)).collect();
    let right = all.iter().map(|point| point.0).fold(1.0, f64::max) + 0.7;
    let top = all.iter().map(|point| point.1).fold(1.0, f64::max) * 1.08;
    let mut chart = builder(area, title).build_cartesian_2d(0.0..right, 0.0..top)?;
    mesh(chart.configure_mesh().x_desc("waiting nodes"))?;
    for (nth, name) in series.iter().enumerate() {
        let (colour, line) = (colour(nth), points(name));
        // Lines may lie on each other: the last one is thin and its points are small, the others show around it.
        let last = nth + 1 == series.len();
        let (width, size) = if last { (2, 2) } else { (4, 4) };
        chart.draw_series(LineSeries::new(line.clone(), colour.stroke_width(width)))?;
        chart.draw_series(line.into_iter().map(|at| Circle::new(at, size, colour.filled())))?;
    }
    let base = points("ncosed").into_iter().find(|point| point.0 == f64::from(COMPARED_AT));
    let ratios = rows.iter().filter(|row| row.unit == "ratio" && !row.series.contains(','));
    let crosses: Vec<(f64, f64)> = ratios.filter_map(|row| Some((base?.0, base?.1 * row.paper?))).collect();
    let mut keys: Vec<(String, Mark)> =
        series.into_iter().enumerate().map(|(nth, name)| (name, Mark::Line(colour(nth)))).collect();
    if !crosses.is_empty() {
        keys.push(("the paper's ratios to ncosed".to_string(), Mark::Cross));
    }
    chart.draw_series(crosses.into_iter().map(|at| Cross::new(at, 7, INK.stroke_width(2))))?;
    legend(area, &keys)
}

fn waiters(row: &Row) -> Option<f64> {
    match row.x {
        X::Number(n) => Some(f64::from(n)),
        X::Name(_) => None,
    }
}
