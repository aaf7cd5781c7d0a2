//! Which rows tables and drawings show.

use super::flow::Mode;
use super::stalls::{Cut, PLACES, SHOWN_CUT, SPAN, place};
use super::thesis::FIGURES;
use crate::paper::{Axis, Group, Lines, Plot, Row, Scale, Shape, Spans, X};

/// Message sizes of the curves, in bytes.
pub(super) const SIZES: [u32; 8] =
    [1 << 10, 4 << 10, 8 << 10, 64 << 10, 128 << 10, 1 << 20, 4 << 20, 10 << 20];

/// The curves over message size: the figure, what it measures, the axis.
pub(super) const CURVES: [(&str, &str, &str); 3] = [
    ("Throughput", "Throughput by message size", "Mb/s"),
    ("Sender's cost", "Processor time of the sender by message size", "us/KiB"),
    ("Receiver's cost", "Processor time of the receiver by message size", "us/KiB"),
];

fn of<'a>(rows: &'a [Row], figure: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.figure == figure).collect()
}

/// All tables.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let thesis = FIGURES.iter().map(|(figure, title)| {
        Group::compared(figure, format!("{title}; Mb/s, and percent of 16 cores"), &of(rows, figure))
    });
    let compared = |figure, title: &str| Group::compared(figure, title.to_string(), &of(rows, figure));
    let sizes = SIZES.map(u64::from);
    let curves = CURVES.iter().map(|(figure, title, unit)| {
        Group::lines(figure, format!("{title}, {unit}"), "bytes", &sizes, &of(rows, figure))
    });
    let places: Vec<u64> = (0..PLACES).step_by(6).map(|nth| place(nth).0 / 1_000).collect();
    let by_place = [Cut::Port, Cut::Silent].map(|cut| {
        let title = format!("Longest wait of a reader by the place of the cut: {}, us", cut.name());
        Group::lines(cut.figure(), title, "us", &places, &of(rows, cut.figure()))
    });
    let spans: Vec<u64> = (0..24).map(|nth| nth * SPAN.0 / 1_000).collect();
    let title =
        format!("What a reader gets by time, Mb/s; its port loses its link at {} us", SHOWN_CUT.0 / 1_000);
    let cut_by_time = Group::lines("A cut", title, "us", &spans, &of(rows, "A cut"));
    thesis
        .chain([compared("Chapter 7", "Chapter 7: 4 MiB with ZCopy beyond 64 KiB, Mb/s")])
        .chain(curves)
        .chain([
            compared("Pipelined", "Pipelined ZCopy: against BCopy, and sender's cost in us/KiB"),
            compared("Ready, unused", "Failover ready but unused: two rails / one"),
            compared("IPoIB", "Against TCP over IPoIB, a calibrated cost model"),
            cut_by_time,
            compared("Stalls", "Longest wait of a reader over all places of a cut, us; bounds beside"),
        ])
        .chain(by_place)
        .collect()
}

/// All drawings.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let bytes = Axis { title: "bytes of a message", scale: Scale::Logarithmic };
    let after = Axis { title: "us from the reader's first bytes to the cut", scale: Scale::Linear };
    let lines = |file, figure, title: &str, y, axis| {
        let shape = Shape::Lines(Lines::of(axis, &of(rows, figure)));
        Plot { file, figure, title: title.to_string(), y, shape }
    };
    let files = ["throughput", "sender", "receiver"];
    let curves = files.iter().zip(CURVES);
    let curves = curves.map(|(file, (figure, title, unit))| lines(file, figure, title, unit, bytes));
    let stalls = [("stalls-port", Cut::Port), ("stalls-silent", Cut::Silent)];
    let stalls = stalls.map(|(file, cut)| {
        let title = format!("Longest wait of a reader by the place of the cut: {}", cut.name());
        lines(file, cut.figure(), &title, "microseconds", after)
    });
    curves.chain([cut(rows)]).chain(stalls).collect()
}

/// A stall as it passes.
fn cut(rows: &[Row]) -> Plot {
    let axis = Axis { title: "us from the beginning", scale: Scale::Linear };
    let mut lines = Lines::of(axis, &of(rows, "A cut"));
    // As wide as a line.
    let (at, wide) = (SHOWN_CUT.as_micros_f64(), SPAN.as_micros_f64() / 5.0);
    lines.spans = vec![Spans { name: "the cut".to_string(), places: vec![(at, at + wide)] }];
    let title = "What a reader gets while its port loses its link".to_string();
    Plot { file: "cut", figure: "A cut", title, y: "Mb/s", shape: Shape::Lines(lines) }
}

/// The columns that stand for a mode in the curves.
pub(super) fn x(bytes: u32) -> X {
    X::Number(bytes.into())
}

/// Whether a mode is for messages of a size: below the least threshold nobody registers memory.
pub(super) fn is_for(mode: Mode, bytes: u32) -> bool {
    mode == Mode::BCopy || bytes > 64 << 10
}
