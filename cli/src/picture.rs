//! `weft run --report`: a page with the report and a picture of what arrived over time, with the faults marked.

use crate::exit::Failure;
use crate::paper::{page, plot};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weft_check::paper::{Axis, Lines, Plot, Scale, Series, Shape, Spans};
use weft_check::run::{Report, Throughput};
use weft_verbs::Nanos;

/// The spans of time in which it is counted what arrives: short beside a stall, long beside a message.
pub const SAMPLE: Nanos = Nanos::from_micros(100);
/// The most points of a line; more could not be told apart.
const POINTS: usize = 600;
/// The narrowest mark, as a share of the picture: an instant is to be seen, too.
const NARROWEST: f64 = 0.002;

/// Makes the folder, so that one that cannot be had is told before the run and not after it.
pub fn make(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|why| Failure::bad_input(why).at(dir.display()))
}

/// Writes `run.html`, and `throughput.svg` if the system tells what arrived.
pub fn write(dir: &Path, report: &Report, text: &str) -> Result<(), Failure> {
    let mut drawn = Vec::new();
    if let Some(throughput) = &report.throughput {
        let plot = plot_of(throughput);
        let svg = plot::svg(&plot).map_err(|why| Failure::unfinished(format!("a plot: {why}")))?;
        put(dir, &format!("{}.svg", plot.file), &svg)?;
        drawn.push(svg);
    }
    let heading = if report.title.is_empty() { report.system } else { &report.title };
    put(dir, "run.html", &page::of_a_run(heading, text, &drawn))
}

fn put(dir: &Path, name: &str, content: &str) -> Result<(), Failure> {
    let path = dir.join(name);
    fs::write(&path, content).map_err(|why| Failure::unfinished(why).at(path.display()))
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
        let until = fault.until_ns.map_or(end, millis).max(from + end * NARROWEST);
        kinds.entry(fault.kind).or_default().push((from, until.min(end)));
    }
    let spans = kinds.into_iter().map(|(kind, places)| Spans { name: kind.to_string(), places }).collect();
    let series = vec![Series { name: "arrived".to_string(), points }];
    let x = Axis { title: "virtual time, in milliseconds", scale: Scale::Linear };
    Plot {
        file: "throughput",
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
    fn a_cut_is_marked_where_it_was_and_the_bytes_are_those_that_arrived() {
        let mut bytes = vec![100_000; 2_000];
        bytes[500..700].fill(0);
        let faults = vec![
            Struck { kind: "cut", from_ns: 50_000_000, until_ns: Some(60_000_000) },
            Struck { kind: "port-down", from_ns: 150_000_000, until_ns: None },
            Struck { kind: "cut", from_ns: 900_000_000, until_ns: None },
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
