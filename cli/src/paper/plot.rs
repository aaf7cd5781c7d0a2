//! The paper's figures as SVG.

mod bars;
mod lines;

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use weft_check::systems::locks::paper::Row;

/// A finished plot.
pub(super) struct Plot {
    /// Its file's name without the extension.
    pub(super) name: &'static str,
    /// The figure that it shows.
    pub(super) figure: &'static str,
    pub(super) svg: String,
}

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (760, 440);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(228, 228, 228);
/// What the paper says.
const PAPER: RGBColor = RGBColor(150, 150, 150);
/// Colours that differ in print and to eyes that see no red or no green (Okabe and Ito).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

fn colour(nth: usize) -> RGBColor {
    COLOURS[nth % COLOURS.len()]
}

/// All plots, in the paper's order. `cascade` says what the times of a cascade are.
pub(super) fn all(rows: &[Row], cascade: &str) -> Result<Vec<Plot>, Box<dyn Error>> {
    let of = |figure: &str| -> Vec<&Row> { rows.iter().filter(|row| row.figure == figure).collect() };
    let bars = |title: &'static str, figure: &str| {
        let rows = of(figure);
        move |area: &Area<'_>| bars::draw(area, title, &rows)
    };
    let lines = |title: &'static str, figure: &str| {
        let rows = of(figure);
        move |area: &Area<'_>| lines::draw(area, &format!("{title}: {cascade}"), &rows)
    };
    Ok(vec![
        plot("figure-5a", "Figure 5(a)", bars("Basic lock latency, polling", "Figure 5(a)"))?,
        plot("figure-5b", "Figure 5(b)", bars("Basic lock latency, notification", "Figure 5(b)"))?,
        plot("figure-6", "Figure 6", bars("Parts of the basic lock latency", "Figure 6"))?,
        plot("figure-7a", "Figure 7(a)", lines("Shared cascade", "Figure 7(a)"))?,
        plot("figure-7b", "Figure 7(b)", lines("Exclusive cascade", "Figure 7(b)"))?,
    ])
}

fn plot(
    name: &'static str,
    figure: &'static str,
    draw: impl Fn(&Area<'_>) -> Drawn,
) -> Result<Plot, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(Plot { name, figure, svg })
}

/// A chart with its title, its margins and room for its labels.
fn builder<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, (FONT, 17).into_font().color(&INK))
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 56)
        .set_label_area_size(LabelAreaPosition::Bottom, 48);
    builder
}

/// Axes that do not shout. Times stand on the vertical one.
fn mesh<X, Y>(style: &mut MeshStyle<'_, '_, X, Y, SVGBackend<'_>>) -> Drawn
where
    X: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    style
        .y_desc("microseconds")
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .label_style((FONT, 13).into_font().color(&INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(WHITE)
        .draw()?;
    Ok(())
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
}

/// What the marks mean, in the upper left corner of the plot, where no data is.
fn legend(area: &Area<'_>, keys: &[(String, Mark)]) -> Drawn {
    const LEFT: i32 = 84;
    let widest = keys.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default() as i32;
    let corner = (LEFT + 34 + 8 * widest, 46 + 19 * keys.len() as i32);
    area.draw(&Rectangle::new([(LEFT - 6, 42), corner], WHITE.filled()))?;
    for (nth, (name, mark)) in keys.iter().enumerate() {
        let y = 54 + 19 * nth as i32;
        match mark {
            Mark::Box(colour) => {
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
