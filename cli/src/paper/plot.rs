//! A paper's figures as SVG.

mod bars;
mod lines;

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::ops::Range;
use weft_check::paper::{Plot, Shape};

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (760, 440);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(228, 228, 228);
/// What the paper says.
const PAPER: RGBColor = RGBColor(150, 150, 150);
/// Colours that differ in print and to eyes that see no red or no green (Okabe and Ito), and two more.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
    RGBColor(130, 130, 130),
    RGBColor(120, 70, 40),
];

/// What lies behind lines: pale, and told apart by the legend. As many as there are kinds of faults.
const SHADES: [RGBColor; 14] = [
    RGBColor(248, 205, 200),
    RGBColor(252, 229, 180),
    RGBColor(222, 214, 240),
    RGBColor(212, 232, 214),
    RGBColor(200, 224, 248),
    RGBColor(240, 240, 160),
    RGBColor(186, 228, 226),
    RGBColor(232, 206, 178),
    RGBColor(238, 196, 230),
    RGBColor(216, 216, 216),
    RGBColor(205, 226, 158),
    RGBColor(176, 196, 222),
    RGBColor(255, 190, 150),
    RGBColor(200, 190, 165),
];

fn shade(nth: usize) -> RGBColor {
    SHADES[nth % SHADES.len()]
}

fn colour(nth: usize) -> RGBColor {
    COLOURS[nth % COLOURS.len()]
}

/// Draws a plot.
pub(crate) fn svg(plot: &Plot) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        match &plot.shape {
            Shape::Bars(bars) => bars::draw(&area, plot, bars)?,
            Shape::Lines(lines) => lines::draw(&area, plot, lines)?,
        }
        area.present()?;
    }
    Ok(svg)
}

/// From where to where a chart goes, in pixels.
struct Side {
    from: f64,
    to: f64,
}

impl Side {
    /// Where on it a pixel is, from 0 to 1.
    fn share(&self, pixel: f64) -> f64 {
        (pixel - self.from) / (self.to - self.from)
    }
}

/// The chart itself, across and down: of [`SIZE`], what its title and labels leave.
const PLOT: (Side, Side) = (Side { from: 82.0, to: 748.0 }, Side { from: 36.0, to: 379.0 });

/// How high the axis has to go for the legend, with so many pixels of air, to lie above what is drawn under it.
fn above(bottom: f64, highest: f64, keys: &[(String, Mark)], air: f64) -> f64 {
    let share = PLOT.1.share(f64::from(corner(keys).1) + air);
    bottom + (highest - bottom) / (1.0 - share.min(0.75))
}

/// A vertical axis with labels and lines up to a height. It may go further, for the legend to have room.
struct Upwards {
    axis: RangedCoordf64,
    labels: Vec<f64>,
}

impl Upwards {
    fn new(axis: Range<f64>, labelled: f64) -> Upwards {
        let axis = RangedCoordf64::from(axis);
        let mut labels = axis.key_points(BoldPoints(11));
        labels.retain(|y| *y <= labelled);
        Upwards { axis, labels }
    }
}

impl Ranged for Upwards {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.labels.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

/// The highest of some values; 1 where none is above 0, so that an axis has a length.
fn highest(values: impl Iterator<Item = f64>) -> f64 {
    let highest = values.fold(0.0, f64::max);
    if highest > 0.0 { highest } else { 1.0 }
}

/// A chart with its title, its margins and room for its labels.
fn builder<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, (FONT, 17).into_font().color(&INK))
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 70)
        .set_label_area_size(LabelAreaPosition::Bottom, 48);
    builder
}

/// Axes that do not shout. The vertical one measures `y`, up to `top`; the horizontal one is so wide.
fn mesh<X, Y>(style: MeshStyle<'_, '_, X, Y, SVGBackend<'_>>, y: &str, top: f64, wide: f64) -> Drawn
where
    X: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let decimals = decimals(top);
    let label = |y: &f64| format!("{y:.decimals$}");
    // They live no longer than the labels.
    let mut style = style;
    style
        .y_desc(y)
        .y_label_formatter(&label)
        .x_label_formatter(&|x| short(*x, wide))
        .label_style((FONT, 13).into_font().color(&INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(WHITE)
        .draw()?;
    Ok(())
}

/// Enough decimals to tell labels of an axis of this length apart.
fn decimals(length: f64) -> usize {
    (1.0 - length.log10().floor()).clamp(0.0, 9.0) as usize
}

/// A number on an axis of this length, without decimals that say nothing.
fn short(x: f64, length: f64) -> String {
    let decimals = decimals(length);
    let number = format!("{x:.decimals$}");
    if decimals == 0 { number } else { number.trim_end_matches('0').trim_end_matches('.').to_string() }
}

/// Text of this size, anchored so.
fn text<'a>(size: u32, colour: RGBColor, h: HPos, v: VPos) -> TextStyle<'a> {
    (FONT, size).into_font().color(&colour).pos(Pos::new(h, v))
}

/// How an entry of a legend is marked.
enum Mark {
    Box(RGBColor),
    /// A line with points.
    Line(RGBColor),
    /// What the paper says, beside lines.
    Cross,
    /// Places behind lines.
    Span(RGBColor),
}

/// How high an entry of a legend is, in pixels as all sizes.
const ENTRY: i32 = 19;

/// Where a legend's entries begin.
const LEFT: i32 = 98;

/// The lower right corner of a legend's box.
fn corner(keys: &[(String, Mark)]) -> (i32, i32) {
    let widest = keys.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default() as i32;
    (LEFT + 34 + 8 * widest, 46 + ENTRY * keys.len() as i32)
}

/// What the marks mean, in the upper left corner of the plot, where no data is but what lies behind lines: that shows through.
fn legend(area: &Area<'_>, keys: &[(String, Mark)]) -> Drawn {
    if keys.is_empty() {
        return Ok(());
    }
    area.draw(&Rectangle::new([(LEFT - 6, 42), corner(keys)], WHITE.mix(0.75).filled()))?;
    for (nth, (name, mark)) in keys.iter().enumerate() {
        let y = 54 + ENTRY * nth as i32;
        match mark {
            Mark::Box(colour) | Mark::Span(colour) => {
                area.draw(&Rectangle::new([(LEFT + 5, y - 6), (LEFT + 17, y + 6)], colour.filled()))?;
            }
            Mark::Line(colour) => {
                area.draw(&PathElement::new([(LEFT, y), (LEFT + 22, y)], colour.stroke_width(2)))?;
                area.draw(&Circle::new((LEFT + 11, y), 3, colour.filled()))?;
            }
            Mark::Cross => area.draw(&Cross::new((LEFT + 11, y), 6, INK.stroke_width(2)))?,
        }
        area.draw(&Text::new(name.clone(), (LEFT + 30, y), text(13, INK, HPos::Left, VPos::Center)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weft_check::paper::{Axis, Bars, Lines, Marks, Part, Parts, Place, Scale, Series, Spans};
    use weft_check::scenario::FaultKind;

    fn drawn(shape: Shape) -> String {
        let plot = Plot { file: "one", figure: "Figure 1", title: "One".into(), y: "MB/s", shape };
        svg(&plot).expect("a drawing")
    }

    fn lines(scale: Scale, points: Vec<(f64, f64)>) -> Shape {
        let series = |name: &str| Series { name: name.into(), points: points.clone() };
        let (series, paper) =
            (vec![series("here")], Some(Marks { name: "the paper".into(), by_line: vec![series("here")] }));
        Shape::Lines(Lines { x: Axis { title: "bytes", scale }, series, paper, spans: Vec::new() })
    }

    #[test]
    fn lines_are_drawn_with_their_axes_and_their_legend() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = drawn(lines(scale, vec![(1.0, 0.5), (1_024.0, 7.5), (1_048_576.0, 900.0)]));
            for part in ["One", "MB/s", "bytes", "here", "the paper"] {
                assert!(svg.contains(part), "{scale:?}: {part}");
            }
            assert_eq!(svg.matches("<circle").count(), 3 + 1, "{scale:?}: points, and one in the legend");
        }
    }

    #[test]
    fn what_is_marked_along_the_axis_lies_behind_the_lines_and_is_named() {
        let Shape::Lines(lines) = lines(Scale::Linear, vec![(0.0, 1.0), (9.0, 2.0)]) else { unreachable!() };
        let spans = vec![Spans { name: "cut".into(), places: vec![(2.0, 3.0), (5.0, 9.0)] }];
        let svg = drawn(Shape::Lines(Lines { spans, ..lines }));
        assert_eq!(svg.matches("#F8CDC8").count(), 2 + 1, "two places, and one in the legend");
        assert!(svg.find("#F8CDC8") < svg.find("<circle") && svg.contains("cut"));
    }

    #[test]
    fn a_short_axis_has_labels_that_are_where_they_say_and_reaches_little_further_than_its_lines() {
        let svg = drawn(lines(Scale::Linear, vec![(0.0, 0.5), (2.0, 1.0)]));
        let labelled = |number: &str| svg.lines().any(|line| line.trim() == number);
        assert!(["0", "0.4", "1", "1.6", "2"].iter().all(|number| labelled(number)), "{svg}");
        for right in [0.02, 0.3, 2.0, 700.0] {
            let svg = drawn(lines(Scale::Linear, vec![(0.0, 0.5), (right, 1.0)]));
            let points = svg.split("<circle cx=\"").skip(1).filter_map(|rest| rest.split('"').next());
            let x: Vec<f64> = points.take(2).map(|x| x.parse().expect("a number")).collect();
            assert!(x[1] > 700.0 && x[1] < PLOT.0.to, "{right}: {x:?}");
        }
    }

    #[test]
    fn of_faults_that_lie_on_each_other_none_hides_another() {
        let Shape::Lines(lines) = lines(Scale::Linear, vec![(0.0, 1.0), (9.0, 2.0)]) else { unreachable!() };
        let heights = |second: (f64, f64)| {
            let spans = [("cut", (2.0, 4.0)), ("port-down", second)];
            let spans = spans.map(|(name, place)| Spans { name: name.into(), places: vec![place] });
            let svg = drawn(Shape::Lines(Lines { spans: spans.into(), ..lines.clone() }));
            let rectangles =
                svg.split("<rect ").filter(|of| of.contains("#F8CDC8") || of.contains("#FCE5B4"));
            let number = |of: &str, name: &str| {
                let value = of.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
                value.and_then(|value| value.parse::<i32>().ok()).unwrap_or_default()
            };
            let sides = rectangles.map(|of| (number(of, " y"), number(of, "height")));
            sides.filter(|(_, high)| *high > 12).collect::<Vec<_>>()
        };
        let [(top, high), (other_top, other_high)] = heights((3.0, 5.0))[..] else { panic!("two bands") };
        assert!(other_top + other_high <= top + 1 && high.abs_diff(other_high) <= 1, "one above the other");
        // Where they do not they are as high as the picture.
        assert_eq!(heights((5.0, 6.0)), [(other_top, high + other_high); 2]);
    }

    #[test]
    fn a_line_is_wider_only_where_another_lies_on_it_and_marks_have_the_colour_of_their_line() {
        let series = |name: &str, points: &[(f64, f64)]| Series { name: name.into(), points: points.into() };
        let long = [(1.0, 9.0), (2.0, 9.0), (3.0, 5.0), (4.0, 5.0)];
        let paper = Marks { name: "the paper".into(), by_line: vec![series("second", &[(4.0, 6.0)])] };
        let svg = drawn(Shape::Lines(Lines {
            x: Axis { title: "bytes", scale: Scale::Linear },
            series: vec![series("first", &long), series("second", &long[2..])],
            paper: Some(paper),
            spans: Vec::new(),
        }));
        let width = |of: &str| {
            of.split("stroke-width=\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_string)
        };
        let all: Vec<_> =
            svg.split("<polyline ").skip(1).filter(|of| of.contains("#0072B2")).filter_map(width).collect();
        assert_eq!(all[..2], ["2", "5"], "{svg}");
        // Two strokes of its one cross, beside its line and its points.
        let strokes = |colour: &str| {
            let lines = svg.split('<').filter(|of| of.starts_with("line ") && of.contains(colour));
            lines.count()
        };
        assert!(strokes("#E69F00") >= 2, "{svg}");
    }

    #[test]
    fn each_kind_of_fault_has_a_shade_of_its_own() {
        let shades: BTreeSet<_> = SHADES.iter().map(|of| (of.0, of.1, of.2)).collect();
        // These two are of explored worlds alone.
        let told = |kind: &&FaultKind| !matches!(kind, FaultKind::Drop | FaultKind::RequesterGaveUp);
        let kinds = FaultKind::ALL.iter().filter(told).count();
        assert!(shades.len() == SHADES.len() && shades.len() >= kinds, "{} for {kinds}", shades.len());
    }

    /// Where a curve has its highest point near the vertical axis.
    #[test]
    fn the_legend_lies_above_all_points_and_lines() {
        let curve = [(0.0, 1.0), (120.0, 90.0), (200.0, 40.0), (260.0, 95.0), (1_000.0, 3.0)];
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let points = curve.iter().map(|&(x, y)| (f64::max(x, 1.0), y)).collect();
            let svg = drawn(lines(scale, points));
            let (right, bottom) = corner(&["here", "the paper"].map(|name| (name.into(), Mark::Cross)));
            let centres: Vec<(i32, i32)> = svg
                .split("<circle cx=\"")
                .skip(1)
                .map(|rest| {
                    let mut numbers = rest.split('"').step_by(2).map(|number| number.parse().unwrap_or(0));
                    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
                })
                .collect();
            let (in_the_legend, data) = centres.split_last().expect("the points, and one in the legend");
            assert!(in_the_legend.1 < bottom && data.len() == curve.len(), "{scale:?}: {centres:?}");
            assert!(data.iter().any(|at| at.0 < right), "{scale:?}: {data:?}");
            assert!(
                data.iter().all(|at| at.0 > right || at.1 > bottom),
                "{scale:?}: {data:?}, legend {right} {bottom}"
            );
        }
    }

    fn bars(parts: Parts, paper: Option<f64>) -> String {
        let part = |(name, here): (&str, f64)| Part { name: name.into(), paper, here };
        let all = [("one list", 100.0), ("packed", 90.0), ("each", 40.0), ("by turns", 7.0)].map(part);
        let place = |name: &str| Place { label: [name.into(), "4 KiB".into()], parts: all.to_vec() };
        drawn(Shape::Bars(Bars { places: vec![place("write"), place("read")], parts }))
    }

    /// Rates of which only one can be had at a time, say.
    #[test]
    fn alternatives_have_a_bar_each_and_no_bar_is_their_sum() {
        let has = |svg: &str, number: &str| svg.lines().any(|line| line.trim() == number);
        let (beside, stacked) = (bars(Parts::Beside, None), bars(Parts::Stacked, None));
        assert!(["100.00", "90.00", "40.00", "7.00"].iter().all(|number| has(&beside, number)), "{beside}");
        assert!(has(&stacked, "237.00") && !has(&beside, "237.00"));
    }

    #[test]
    fn the_legend_lies_above_all_bars_and_names_what_is_drawn() {
        for (parts, paper) in [(Parts::Stacked, None), (Parts::Beside, None), (Parts::Beside, Some(99.0))] {
            let svg = bars(parts, paper);
            assert_eq!(svg.contains("paper: "), paper.is_some(), "{svg}");
            let (right, bottom) = (LEFT + 34, 46 + ENTRY * 4);
            let rectangles = svg.split("<rect x=\"").skip(1).map(|rest| {
                let numbers = rest.split('"').step_by(2).take(4);
                numbers.map(|number| number.parse().unwrap_or(0)).collect::<Vec<i32>>()
            });
            // The picture itself, the legend and its boxes are no bars.
            let bars = rectangles.filter(|of| of[0] > 0 && of[0] != LEFT - 6 && (of[2], of[3]) != (12, 12));
            let bars: Vec<_> = bars.collect();
            assert!(bars.len() >= 8 && bars.iter().any(|of| of[0] < right + 100), "{bars:?}");
            assert!(bars.iter().all(|of| of[1] > bottom), "{bars:?}");
        }
    }

    #[test]
    fn a_short_logarithmic_axis_has_a_label_at_each_place_and_none_over_another() {
        let labels = |places: &[f64]| {
            let svg = drawn(lines(Scale::Logarithmic, places.iter().map(|&x| (x, 0.5)).collect()));
            let numbers = svg.lines().filter_map(|line| line.trim().parse::<u64>().ok());
            numbers.filter(|number| *number >= 10).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[16.0, 64.0, 256.0, 1_024.0]), [16, 64, 256, 1_024]);
        assert_eq!(labels(&[1_000.0, 1_010.0, 2_000.0]), [1_000, 2_000]);
    }

    #[test]
    fn a_bar_that_goes_down_has_its_number() {
        let part = Part { name: String::new(), paper: Some(12.0), here: -2.09 };
        let place = Place { label: ["a".into(), "b".into()], parts: vec![part] };
        let svg = drawn(Shape::Bars(Bars { places: vec![place], parts: Parts::Stacked }));
        assert!(svg.contains("12.00") && svg.contains("-2.09"), "{svg}");
    }

    /// Per cent, say, of which there are no more than a hundred.
    #[test]
    fn an_axis_has_no_label_beside_the_legend_above_the_lines() {
        let Shape::Lines(lines) = lines(Scale::Linear, vec![(0.0, 70.0), (9.0, 100.0)]) else {
            unreachable!()
        };
        let spans =
            ["cut", "crash", "restart"].map(|name| Spans { name: name.into(), places: vec![(2.0, 3.0)] });
        let svg = drawn(Shape::Lines(Lines { spans: spans.into(), ..lines }));
        let labels = svg.lines().filter_map(|line| line.trim().parse::<f64>().ok());
        assert_eq!(labels.fold(0.0, f64::max), 100.0, "{svg}");
    }

    /// A factor of a thousand is as wide as the next one.
    #[test]
    fn a_logarithmic_axis_spreads_factors_evenly() {
        let svg = drawn(lines(Scale::Logarithmic, vec![(1.0, 1.0), (1e3, 1.0), (1e6, 1.0)]));
        let points = svg.split("<circle cx=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let x: Vec<i32> = points.take(3).map(|x| x.parse().expect("a number")).collect();
        assert!((x[1] - x[0] - (x[2] - x[1])).abs() <= 2 && x[1] > x[0] + 100, "{x:?}");
    }

    #[test]
    fn nothing_measured_is_an_empty_drawing() {
        let part = Part { name: String::new(), paper: None, here: 0.0 };
        let place = Place { label: ["a".into(), "b".into()], parts: vec![part] };
        for shape in [
            lines(Scale::Linear, vec![]),
            lines(Scale::Logarithmic, vec![]),
            Shape::Bars(Bars { places: vec![], parts: Parts::Beside }),
            Shape::Bars(Bars { places: vec![place], parts: Parts::Stacked }),
        ] {
            assert!(drawn(shape).trim_end().ends_with("</svg>"));
        }
    }
}
