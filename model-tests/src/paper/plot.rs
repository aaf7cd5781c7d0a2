//! What a figure's drawing shows.

use super::{Row, names};

/// A drawing of one of the paper's figures.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its file's name without the extension.
    pub file: &'static str,
    /// The figure that it shows, as rows name it.
    pub figure: &'static str,
    /// What stands above it.
    pub title: String,
    /// What the vertical axis measures, from 0.
    pub y: &'static str,
    /// What is drawn.
    pub shape: Shape,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Bars, the paper's beside ours.
    Bars(Bars),
    /// Lines over a number, and the paper's values as marks.
    Lines(Lines),
}

/// Bars, place by place. All places have the same parts.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The places on the axis.
    pub places: Vec<Place>,
    /// Where a place's parts stand.
    pub parts: Parts,
}

/// Where the parts of a place stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// On each other: they add up to one bar.
    Stacked,
    /// Beside each other: each is a bar, and no sum means anything.
    Beside,
}

/// A place on the axis: the paper's values and ours, each of one part or of several.
#[derive(Clone, Debug)]
pub struct Place {
    /// Lines of text below it.
    pub label: [String; 2],
    /// From the lowest up.
    pub parts: Vec<Part>,
}

/// A part of a place.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// The paper's value, if the paper gives one.
    pub paper: Option<f64>,
    /// Ours.
    pub here: f64,
}

/// Lines over a number.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// What was measured, a line each.
    pub series: Vec<Series>,
    /// What the paper says: marks beside the lines.
    pub paper: Option<Marks>,
    /// What is marked along the horizontal axis, a colour of its own each.
    pub spans: Vec<Spans>,
}

/// Places along the horizontal axis at which something was so.
#[derive(Clone, Debug)]
pub struct Spans {
    /// Its name in the legend.
    pub name: String,
    /// From where to where.
    pub places: Vec<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// What it measures.
    pub title: &'static str,
    /// How its numbers are spread.
    pub scale: Scale,
}

/// How an axis spreads its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0, evenly.
    Linear,
    /// From the least number that is drawn, each factor of ten as wide as any other. Numbers are above 0.
    Logarithmic,
}

/// What the paper says beside lines.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Its name in the legend.
    pub name: String,
    /// The values for each line, by the line's name.
    pub by_line: Vec<Series>,
}

/// Points of one kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Bars {
    /// Bars of rows. Rows that are named "series, part" and stand at one place are parts of one bar.
    pub fn stacked(rows: &[&Row]) -> Bars {
        Bars { places: places(rows), parts: Parts::Stacked }
    }

    /// Bars of rows. Rows that are named "series, part" and stand at one place have a bar each.
    pub fn beside(rows: &[&Row]) -> Bars {
        Bars { places: places(rows), parts: Parts::Beside }
    }
}

fn places(rows: &[&Row]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for row in rows {
        let (series, part) = row.series.split_once(", ").unwrap_or((&row.series, ""));
        let label = [series.to_string(), row.x.to_string()];
        let part = Part { name: part.to_string(), paper: row.paper, here: row.measured };
        match places.iter_mut().find(|place| place.label == label) {
            Some(place) => place.parts.push(part),
            None => places.push(Place { label, parts: vec![part] }),
        }
    }
    let names = |place: &Place| place.parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>();
    debug_assert!(places.windows(2).all(|two| names(&two[0]) == names(&two[1])), "other parts: {places:?}");
    places
}

impl Lines {
    /// Lines of rows whose places are numbers, one for each series, from small numbers to large ones.
    pub fn of(x: Axis, rows: &[&Row]) -> Lines {
        let point = |row: &Row| row.x.number().map(|n| (n as f64, row.measured));
        let points = |name: &str| {
            let of = rows.iter().filter(|row| row.series == name);
            let mut points: Vec<(f64, f64)> = of.filter_map(|row| point(row)).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let series = names(rows).into_iter().map(|name| Series { points: points(&name), name }).collect();
        Lines { x, series, paper: None, spans: Vec::new() }
    }

    /// The values that the paper gives for rows of these lines, where it gives any.
    pub fn marks(name: &str, points: impl Iterator<Item = (String, (f64, f64))>) -> Option<Marks> {
        let mut by_line: Vec<Series> = Vec::new();
        for (line, point) in points {
            match by_line.iter_mut().find(|of| of.name == line) {
                Some(of) => of.points.push(point),
                None => by_line.push(Series { name: line, points: vec![point] }),
            }
        }
        (!by_line.is_empty()).then(|| Marks { name: name.to_string(), by_line })
    }

    /// Where a line has a value.
    pub fn at(&self, name: &str, x: f64) -> Option<f64> {
        let series = self.series.iter().find(|series| series.name == name)?;
        series.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }
}
