//! The bounds within which the paper's figures are met.

use super::goals::goals;
use super::*;

/// All experiments, cascades with sixteen waiters only.
fn rows() -> Vec<Row> {
    let paper = Ncosed { waiters: vec![1, COMPARED_AT], ..Ncosed::new().expect("a shipped profile") };
    paper.run(|_| {}).expect("experiments that end")
}

/// The deviations of some rows, in percent.
fn deviations(rows: &[Row], figure: &str, unit: &str) -> Vec<(String, f64)> {
    let wanted = |row: &&Row| row.figure.starts_with(figure) && row.unit == unit;
    let name = |row: &Row| format!("{}, {}, {}", row.figure, row.series, row.x);
    let rows = rows.iter().filter(wanted).filter_map(|row| Some((name(row), row.deviation_percent?)));
    rows.collect()
}

fn within(rows: &[Row], figure: &str, unit: &str, count: usize, percent: f64) {
    let deviations = deviations(rows, figure, unit);
    assert_eq!(deviations.len(), count, "{figure}: {deviations:?}");
    for (name, deviation) in deviations {
        assert!(deviation.abs() <= percent, "{name}: {deviation:+.1} %");
    }
}

#[test]
fn the_papers_latencies_are_met_within_their_bounds() {
    let rows = rows();
    let schemes = Scheme::ALL.iter().filter(|scheme| in_the_paper(**scheme)).count();
    within(&rows, "Table 1", "us", 6, 1.0);
    within(&rows, "Section 4.1", "us", 2, 0.1);
    within(&rows, "Figure 5", "us", 4 * schemes, 10.0);
    within(&rows, "Figure 5", "ratio", 2, 7.0);
    within(&rows, "Section 4.2", "us", 2 * schemes, 10.0);
    within(&rows, "Table 2", "count", 4 * schemes, 1.0);
}

fn ratio(rows: &[Row], figure: &str, series: &str) -> f64 {
    let row = rows.iter().find(|row| row.figure == figure && row.series == series && row.unit == "ratio");
    row.unwrap_or_else(|| panic!("{figure}, {series}")).measured
}

#[test]
fn the_papers_cascades_are_met_within_their_bounds() {
    let rows = rows();
    let near = |measured: f64, paper: f64, percent: f64| {
        assert!((measured / paper - 1.0).abs() * 100.0 < percent, "{measured} and not {paper}");
    };
    near(ratio(&rows, "Figure 7(a)", "srsl / ncosed"), 1.25, 15.0);
    near(ratio(&rows, "Figure 7(a)", "dqnl / ncosed"), 4.17, 15.0);
    near(ratio(&rows, "Figure 7(b)", "dqnl / ncosed"), 1.0, 1.0);
    // One message a hand-over against two.
    near(ratio(&rows, "Figure 7(b)", "srsl / ncosed, last grant, polling, no IPC"), 2.0, 5.0);
    for (name, deviation) in deviations(&rows, "Figure 7(b)", "count") {
        assert!(deviation.abs() < 5.0, "{name}: {deviation:+.1} %");
    }
}

/// The note on Figure 7(a) says so.
#[test]
fn a_slower_adapter_would_meet_the_cascades_by_the_last_grant_and_by_the_mean() {
    let mut paper = Ncosed { waiters: vec![COMPARED_AT], ..Ncosed::new().expect("a shipped profile") };
    paper.profile.set("adapter.tx_gap_ns", 660, "somewhat slower").expect("a figure");
    let goals = goals(&paper.run(|_| {}).expect("experiments that end"));
    assert!(goals.iter().all(|goal| goal.met), "{goals:?}");
}

/// No step in a line: one more message a waiter, to the last of the paper's nodes. A server's adapter
/// acknowledges early releases while it still sends grants, so that its last ones take somewhat longer.
#[test]
fn a_cascade_grows_with_its_waiters_without_a_step() {
    let paper = Ncosed { waiters: vec![10, 20, 30], ..Ncosed::new().expect("a shipped profile") };
    let rows = paper.run(|_| {}).expect("experiments that end");
    for figure in ["Figure 7(a)", "Figure 7(b)"] {
        for scheme in Scheme::ALL {
            let of = |row: &&Row| row.figure == figure && row.series == scheme.name() && row.unit == "us";
            let times: Vec<f64> = rows.iter().filter(of).map(|row| row.measured).collect();
            let [first, second, third] = times[..] else { panic!("{times:?}") };
            let (before, after) = (second - first, third - second);
            assert!(before > 0.0 && (0.9..1.8).contains(&(after / before)), "{figure}, {scheme}: {times:?}");
        }
    }
}

#[test]
fn the_goals_are_judged_by_their_worst_row() {
    let rows = rows();
    let goals = goals(&rows);
    assert_eq!(goals.len(), 6);
    for goal in &goals {
        assert_eq!(goal.met, goal.worst_percent <= goal.bound_percent, "{goal:?}");
    }
    let missed: Vec<&str> = goals.iter().filter(|goal| !goal.met).map(|goal| goal.what.as_str()).collect();
    let shared = |time: Time| format!("shared cascade, {} (Figure 7(a))", time.words());
    assert_eq!(missed, [shared(Time::Last), shared(Time::Mean)]);
}

#[test]
fn what_was_fitted_is_one_constant_a_wake_up_style() {
    let paper = Ncosed::new().expect("a shipped profile");
    let names: Vec<String> = Fitted::of(&paper.profile).into_iter().map(|fitted| fitted.name).collect();
    assert_eq!(names, ["cpu.bookkeeping_poll_ns", "cpu.bookkeeping_notify_ns"]);
}
