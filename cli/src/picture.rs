//! `weft run --report`: a page with the report and a picture of what arrived over time, with the faults marked.

use crate::exit::Failure;
use crate::paper::{page, plot};
use std::collections::BTreeMap;
use std::path::Path;
use weft_check::metrics::Curves;
use weft_check::paper::{Axis, Lines, Plot, Scale, Series, Shape, Spans};
use weft_check::run::{Report, Throughput};
use weft_check::scenario::Scenario;
use weft_protocols::members::MembersConfig;
use weft_verbs::Nanos;

/// The spans of time in which it is counted what arrives: short beside a stall, long beside a message.
pub const SAMPLE: Nanos = Nanos::from_micros(100);
/// The most points of a line; more could not be told apart.
const POINTS: usize = 600;
/// The page with everything.
pub const PAGE: &str = "run.html";
/// The narrowest mark, as a share of the picture: an instant is to be seen, too.
const NARROWEST: f64 = 0.002;

/// The file of each plot.
const PLOTS: [&str; 2] = [THROUGHPUT, CRASHES];
const THROUGHPUT: &str = "run-throughput";
const CRASHES: &str = "run-crashes";

/// Writes `run.html`, `run-throughput.svg` if the system tells what arrived, and `run-crashes.svg` if nodes crashed and it tells how long
/// that stopped whom. One of these that an earlier run has left is removed. No figure of a paper has such a name.
pub fn write(dir: &Path, report: &Report, scenario: &Scenario, text: &str) -> Result<(), Failure> {
    let mut drawn = Vec::new();
    let members = scenario.cluster.members.as_ref().map(|of| of.config(scenario.cluster.nodes));
    let plots = [
        report.throughput.as_ref().map(plot_of),
        report.metrics.picture.as_ref().map(|curves| plot_of_curves(curves, members)),
    ];
    for plot in plots.iter().flatten() {
        let svg = plot::svg(plot).map_err(|why| Failure::unfinished(format!("a plot: {why}")))?;
        page::put(dir, &page::plot(plot.file), &svg)?;
        drawn.push(svg);
    }
    for (file, _) in PLOTS.iter().zip(&plots).filter(|(_, plot)| plot.is_none()) {
        page::remove(dir, &page::plot(file))?;
    }
    let heading = if report.title.is_empty() { report.system } else { &report.title };
    page::put(dir, PAGE, &page::of_a_run(heading, text, &drawn))
}

/// Which share took at most so long, in milliseconds; and, where nodes agree on who is alive, what a crash costs at most by their settings
/// (docs/members.md): it is noticed after a third of a lease and two patiences, and its leases end a lease and the drift after that.
fn plot_of_curves(Curves { title, curves }: &Curves, members: Option<MembersConfig>) -> Plot {
    let millis = |ns: u64| ns as f64 / 1e6;
    let points = |of: &[(u64, f64)]| {
        let every = of.len().div_ceil(POINTS).max(1);
        let kept = of.iter().enumerate().filter(|(nth, _)| nth % every == 0 || nth + 1 == of.len());
        kept.map(|(_, (ns, share))| (millis(*ns), share * 100.0)).collect()
    };
    let series = curves.iter().map(|(name, of)| Series { name: name.to_string(), points: points(of) });
    let bounds = |of: MembersConfig| {
        let noticed = millis(of.lease.0 / 3 + 2 * of.patience.0);
        let over = noticed + millis(of.lease.0 + of.drift.0);
        let span = |name: &str, from, to| Spans { name: name.to_string(), places: vec![(from, to)] };
        vec![
            span("the crash is noticed, at most", 0.0, noticed),
            span("its leases end, at most", noticed, over),
        ]
    };
    let x = Axis { title: "milliseconds of virtual time", scale: Scale::Linear };
    let spans = members.map_or_else(Vec::new, bounds);
    Plot {
        file: CRASHES,
        figure: "Crashes",
        title: title.to_string(),
        y: "per cent that took at most so long",
        shape: Shape::Lines(Lines { x, series: series.collect(), paper: None, spans }),
    }
}

/// What arrived over time, in milliseconds and megabytes a second. Where that are too many points, several spans are one.
fn plot_of(throughput: &Throughput) -> Plot {
    let Throughput { every_ns, bytes, faults } = throughput;
    let at_a_time = bytes.len().div_ceil(POINTS).max(1);
    let millis = |ns: u64| ns as f64 / 1e6;
    let span_ns = every_ns * at_a_time as u64;
    let point = |(nth, spans): (usize, &[u64])| {
        let sum: u64 = spans.iter().sum();
        let megabytes = sum as f64 * 1e3 / (*every_ns * spans.len() as u64) as f64;
        (millis(nth as u64 * span_ns) + millis(span_ns) / 2.0, megabytes)
    };
    let points: Vec<(f64, f64)> = bytes.chunks(at_a_time).enumerate().map(point).collect();
    let end = millis(every_ns * bytes.len() as u64);
    let mut kinds: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for fault in faults.iter().filter(|fault| millis(fault.from_ns) < end) {
        let from = millis(fault.from_ns);
        let until = millis(fault.until_ns).max(from + end * NARROWEST);
        kinds.entry(fault.kind).or_default().push((from, until.min(end)));
    }
    let spans = kinds.into_iter().map(|(kind, places)| Spans { name: kind.to_string(), places }).collect();
    let series = vec![Series { name: "arrived".to_string(), points }];
    let x = Axis { title: "virtual time, in milliseconds", scale: Scale::Linear };
    Plot {
        file: THROUGHPUT,
        figure: "Throughput",
        title: "What arrived at users, and the faults meanwhile".to_string(),
        y: "MB/s",
        shape: Shape::Lines(Lines { x, series, paper: None, spans }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_check::run::Struck;

    #[test]
    fn how_long_crashes_stopped_whom_is_drawn_against_lease_and_detection() {
        let of = |ms: u64| (0..=1_000u64).map(|n| (n * ms * 1_000, n as f64 / 1_000.0)).collect::<Vec<_>>();
        let curves = Curves { title: "of crashes", curves: vec![("held", of(30)), ("others", of(1))] };
        let config = MembersConfig {
            lease: Nanos::from_millis(30),
            drift: Nanos::from_millis(1),
            patience: Nanos::from_millis(10),
            nodes: 3,
        };
        let plot = plot_of_curves(&curves, Some(config));
        let Shape::Lines(Lines { series, spans, .. }) = &plot.shape else { panic!("lines") };
        assert!(series.iter().all(|series| series.points.len() <= POINTS));
        assert_eq!(
            [0, 1].map(|nth| series[nth].points.last().copied()),
            [Some((30.0, 100.0)), Some((1.0, 100.0))]
        );
        assert_eq!([0, 1].map(|nth| spans[nth].places[0]), [(0.0, 30.0), (30.0, 61.0)]);
        assert!(plot::svg(&plot).expect("a drawing").contains("of crashes"));
    }

    #[test]
    fn a_cut_is_marked_where_it_was_and_the_bytes_are_those_that_arrived() {
        let mut bytes = vec![100_000; 2_000];
        bytes[500..700].fill(0);
        let faults = vec![
            Struck { kind: "cut", from_ns: 50_000_000, until_ns: 60_000_000 },
            Struck { kind: "port-down", from_ns: 150_000_000, until_ns: 250_000_000 },
            Struck { kind: "cut", from_ns: 900_000_000, until_ns: 910_000_000 },
        ];
        let plot = plot_of(&Throughput { every_ns: 100_000, bytes, faults });
        let Shape::Lines(Lines { series, spans, .. }) = &plot.shape else { panic!("lines") };
        assert_eq!(series[0].points.len(), 500);
        assert!(series[0].points.iter().all(|(at, rate)| {
            let stalled = (50.0..70.0).contains(at);
            *rate == if stalled { 0.0 } else { 1_000.0 }
        }));
        let places: Vec<_> = spans.iter().map(|of| (of.name.as_str(), of.places.clone())).collect();
        assert_eq!(places, [("cut", vec![(50.0, 60.0)]), ("port-down", vec![(150.0, 200.0)])]);
        assert!(plot::svg(&plot).expect("a drawing").contains("port-down"));
    }
}
