//! The thesis's figures of sockets, measured on the simulated fabric.
//!
//! Repeats chapters 6 and 7 of "Sockets Direct Protocol over Infiniband for High Performance & Fault-Tolerant Scale Out NAS System"
//! (Thummar, Delhi College of Engineering, 2011) on the machines of profile `sdp-2011`: netperf's stream of messages between two
//! nodes, by BCopy and by ZCopy of one buffer at a time. Beside it stand what the thesis has not: ZCopy with several buffers under way, and
//! how long a stream stalls when its rail fails.
//!
//! What goes in: four constants that are fitted to three lines of netperf, that a sender works on two cores, and that a receiver of
//! short messages keeps one busy.

mod flow;
mod goals;
mod notes;
mod pair;
mod shown;
mod stalls;
#[cfg(test)]
mod tests;
mod thesis;

use crate::paper::{Fitted, Paper, PaperError, Progress, Results, Row, X};
use flow::{Mode, measure};
use shown::{CURVES, SIZES, is_for, x};
use stalls::{Cut, PLACES, SHOWN_CUT, SPAN, bound, course, first_bytes, place, stall};
use std::collections::BTreeMap;
use thesis::{BONDING, IPOIB_FROM, LINES, Line, ipoib};
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

/// The paper, as the registry has it.
pub(super) const SDP: Paper = Paper {
    name: "sdp",
    about: "Sockets over verbs with failover (Thummar, 2011)",
    details: "Repeats chapters 6 and 7 of the thesis on simulated machines of profile sdp-2011: throughput and processor time of \
              a stream by message size, through private buffers and without a copy, one buffer at a time; TCP over IPoIB \
              beside it, as a cost model that is calibrated to the thesis. Then what the thesis has not: several buffers \
              under way, what two rails cost that nobody needs, and how long a stream stalls when a rail fails, by the \
              place of the cut. Says which constants were fitted. Everything is in virtual time and the same in every run.",
    heading: "The figures of the thesis on sockets, repeated",
    title: "Sockets Direct Protocol over Infiniband for High Performance & Fault-Tolerant Scale Out NAS System \
            (Thummar, Delhi College of Engineering, 2011)",
    run: results,
};

/// The lines of netperf.
fn lines(profile: &Profile, progress: &mut dyn FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (nth, line) in LINES.iter().enumerate() {
        let Line { figure, size, bytes, mode, rate, percent, .. } = *line;
        let flow = measure(profile, 1, mode, bytes)?;
        let at = X::Name(size);
        rows.push(Row::new(figure, "throughput", at.clone(), "Mb/s", rate, flow.rate));
        for ((name, paper), here) in ["sender", "receiver"].into_iter().zip(percent).zip(flow.percent) {
            if !paper.is_nan() {
                rows.push(Row::new(figure, name, at.clone(), "percent", paper, here));
            }
        }
        progress((nth + 1) as f64 / LINES.len() as f64);
    }
    Ok(rows)
}

/// Throughput and cost over message size.
fn curves(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let [(rate, ..), (sender, ..), (receiver, ..)] = CURVES;
    let mut rows = Vec::new();
    for mode in Mode::ALL {
        for bytes in SIZES.into_iter().filter(|bytes| is_for(mode, *bytes)) {
            let flow = measure(profile, 1, mode, bytes)?;
            rows.push(Row::new(rate, mode.name(), x(bytes), "Mb/s", None, flow.rate));
            rows.push(Row::new(sender, mode.name(), x(bytes), "us/KiB", None, flow.cost[0]));
            rows.push(Row::new(receiver, mode.name(), x(bytes), "us/KiB", None, flow.cost[1]));
        }
    }
    for bytes in SIZES.into_iter().filter(|bytes| *bytes >= IPOIB_FROM) {
        let (model, cost) = ipoib(bytes);
        rows.push(Row::new(rate, "ipoib", x(bytes), "Mb/s", None, model));
        rows.push(Row::new(sender, "ipoib", x(bytes), "us/KiB", None, cost));
    }
    Ok(rows)
}

/// What follows from the curves: pipelined ZCopy against BCopy, and sockets against TCP over IPoIB.
fn compared(rows: &[Row]) -> Vec<Row> {
    let [(rate, ..), (sender, ..), _] = CURVES;
    let at = |figure: &str, series: &str, bytes: u32| {
        let is = |row: &&Row| row.figure == figure && row.series == series && row.x == x(bytes);
        rows.iter().find(is).map(|row| row.measured)
    };
    let mut all = Vec::new();
    for (name, mode) in [("buffers kept", Mode::Kept), ("buffers new", Mode::Pipelined)] {
        for (size, bytes, cost) in
            [("1 MiB", 1 << 20, Some(0.41)), ("4 MiB", 4 << 20, None), ("10 MiB", 10 << 20, Some(0.32))]
        {
            let of = |mode: Mode| at(rate, mode.name(), bytes).unwrap_or(f64::NAN);
            let series = format!("{name}: bandwidth / BCopy's");
            let share = of(mode) / of(Mode::BCopy);
            all.push(Row::new("Pipelined", series, X::Name(size), "ratio", 1.0, share));
            let ours = at(sender, mode.name(), bytes).unwrap_or(f64::NAN);
            let series = format!("{name}: sender, us/KiB");
            all.push(Row::new("Pipelined", series, X::Name(size), "us/KiB", cost, ours));
        }
    }
    let names =
        SIZES.into_iter().zip(["1 KiB", "4 KiB", "8 KiB", "64 KiB", "128 KiB", "1 MiB", "4 MiB", "10 MiB"]);
    for (bytes, size) in names {
        let ours = Mode::ALL.iter().filter_map(|mode| at(rate, mode.name(), bytes)).fold(f64::MAX, f64::min);
        let ratio = ours / ipoib(bytes).0;
        all.push(Row::new("IPoIB", "slowest SDP / ipoib", X::Name(size), "ratio", None, ratio));
    }
    all
}

/// What a second rail costs that nobody needs.
fn ready(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for ((size, bytes), [without, with]) in BONDING {
        for mode in [Mode::BCopy, Mode::Kept].into_iter().filter(|mode| is_for(*mode, bytes.min(16 << 20))) {
            let (one, two) = (measure(profile, 1, mode, bytes)?, measure(profile, 2, mode, bytes)?);
            let series = format!("{}: two rails / one", mode.name());
            let paper = (mode == Mode::BCopy).then_some(with / without);
            rows.push(Row::new("Ready, unused", series, X::Name(size), "ratio", paper, two.rate / one.rate));
        }
    }
    Ok(rows)
}

/// Cuts all over a transfer, from the reader's first bytes on.
fn stalls(profile: &Profile, progress: &mut dyn FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    let kinds = [Mode::BCopy, Mode::Pipelined].into_iter().flat_map(|mode| Cut::ALL.map(|cut| (mode, cut)));
    for (nth, (mode, cut)) in kinds.enumerate() {
        let (mut times, first) = (Vec::new(), first_bytes(profile, mode)?);
        for nth in 0..PLACES {
            let took = stall(profile, mode, cut, first + place(nth))?;
            let at = X::Number(place(nth).0 / 1_000);
            if matches!(cut, Cut::Port | Cut::Silent) {
                rows.push(Row::new(cut.figure(), mode.name(), at, "us", None, took.as_micros_f64()));
            }
            times.push(took);
        }
        times.sort_unstable();
        let bound = bound(profile, cut).as_micros_f64();
        // What so many percent do not exceed.
        let quantile = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        for (name, took) in [("least", 0), ("median", 50), ("p90", 90), ("most", 100)] {
            let took: Nanos = quantile(took);
            let series = format!("{}: {}", mode.name(), cut.name());
            let paper = (name == "most").then_some(bound);
            rows.push(Row::new("Stalls", series, X::Name(name), "us", paper, took.as_micros_f64()));
        }
        progress((nth + 1) as f64 / (2 * Cut::ALL.len()) as f64);
    }
    Ok(rows)
}

/// What a reader gets while its rail fails.
fn courses(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for mode in [Mode::BCopy, Mode::Pipelined] {
        for (at, rate) in course(profile, mode, Cut::Port, SHOWN_CUT, SPAN)? {
            rows.push(Row::new("A cut", mode.name(), X::Number(at), "Mb/s", None, rate));
        }
    }
    Ok(rows)
}

/// Runs all experiments, and says how to show what they give.
fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let profile = Profile::builtin("sdp-2011")?;
    let mut rows = lines(&profile, &mut |share| progress(0.3 * share, "lines of netperf"))?;
    rows.extend(curves(&profile)?);
    rows.extend(compared(&rows));
    rows.extend(ready(&profile)?);
    rows.extend(courses(&profile)?);
    rows.extend(stalls(&profile, &mut |share| progress(0.5 + 0.5 * share, "cuts"))?);
    let mut fitted = Fitted::of(&profile);
    fitted.push(Fitted {
        name: "the receiver's private buffer".to_string(),
        value: flow::REFILL.0,
        unit: "ns",
        source:
            "fitted: throughput of 10 MiB without ZCopy (chapter 6.1): what OFED does with the pages of 8 KiB"
                .to_string(),
    });
    fitted.push(Fitted {
        name: "the sender's cores".to_string(),
        value: flow::SENDERS_CORES,
        unit: "count",
        source: "derived: 12.5 % of 16 cores at 1 KiB and 8 KiB (chapter 6.1)".to_string(),
    });
    fitted.push(Fitted {
        name: "the receiver's cores".to_string(),
        value: 1,
        unit: "count",
        source: "derived: one of 16, 6.25 %, wherever messages are short (chapter 6.1): it spins. Receivers' lines of BCopy are that and \
                 no measurements, and are not judged"
            .to_string(),
    });
    Ok(Results {
        setting: "Repeated on simulated machines of profile sdp-2011; times are virtual.".to_string(),
        facts: BTreeMap::new(),
        goals: goals::goals(&rows),
        fitted,
        notes: notes::notes(),
        groups: shown::groups(&rows),
        plots: shown::plots(&rows),
        rows,
    })
}
