//! One run's report for people: the verdict first, then tables.

use crate::metrics::{Clock, figures};
use crate::table::{Table, count, wrap};
use std::fmt::Write;
use std::path::Path;
use weft_check::oracle::{Check, Violation};
use weft_check::run::{FaultCount, Report};
use weft_check::scenario::Override;
use weft_verbs::Nanos;

/// Most violations that are printed; `--json` has the rest.
const MOST_VIOLATIONS: usize = 5;

/// The whole report. `rerun` is the command that makes the same run again.
pub fn text(report: &Report, rerun: &str) -> String {
    let mut text = verdict(&report.checks, &report.violations);
    if !report.held() {
        let _ = writeln!(text, "The same run again: {rerun}");
    }
    warnings(&report.warnings, &mut text);
    title(&report.title, &mut text);
    cluster(report).print(&mut text);
    figures(&report.metrics, Clock::Virtual, &mut text);
    let faults = faults(&report.faults);
    if !faults.is_empty() {
        faults.print(&mut text);
    }
    checks(&report.checks).print(&mut text);
    text
}

/// The command that makes the same run again, with its event log.
pub fn rerun(scenario: &Path, set: &[Override], seed: u64) -> String {
    format!("weft run {}{} --seed {seed} --log events.log", path(scenario), sets(set))
}

/// Options that give fields of a scenario other values, each with a space before it.
pub fn sets(set: &[Override]) -> String {
    set.iter().map(|field| format!(" --set {}", quoted(field.text()))).collect()
}

/// A path as a shell takes it.
pub fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-=/:,%+".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The verdict in a line, and what was broken.
pub fn verdict(checks: &[Check], violations: &[Violation]) -> String {
    let kept = checks.iter().filter(|check| check.held).count();
    let all = checks.len();
    let judged = checks.iter().filter(|check| check.judged).count();
    let mut text = match (all - kept, all - judged) {
        (0, 0) => format!("HELD: all {all} checks\n"),
        (0, untested) => format!("HELD: {judged} of {all} checks, {untested} not judged\n"),
        (broken, _) => format!("VIOLATED: {broken} of {all} checks\n"),
    };
    for violation in violations.iter().take(MOST_VIOLATIONS) {
        wrap(&violation.to_string(), 2, &mut text);
    }
    let more = violations.len().saturating_sub(MOST_VIOLATIONS);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more; --json lists them");
    }
    text
}

/// Appends what is odd about a scenario.
pub fn warnings(warnings: &[String], text: &mut String) {
    for warning in warnings {
        wrap(&format!("WARNING: {warning}"), 0, text);
    }
}

/// Appends a scenario's title, as a paragraph of its own.
pub fn title(title: &str, text: &mut String) {
    if !title.is_empty() {
        text.push('\n');
        wrap(title, 0, text);
    }
}

/// What a run is about, and from which seed: the variant's name if there are variants, else the system's.
pub fn about(report: &Report) -> (&str, &str) {
    match &report.variant {
        Some((name, value)) => (name, value),
        None => ("system", report.system),
    }
}

fn cluster(report: &Report) -> Table {
    let mut table = Table::facts("Run");
    let (what, name) = about(report);
    let learn = format!("{}, completions by {}", report.profile, report.wait);
    table
        .row([format!("{what}, seed"), format!("{name}, {}", report.seed)])
        .row(["nodes".into(), report.nodes.to_string()])
        .row(["profile".into(), learn])
        .row(["virtual time".into(), Nanos(report.virtual_ns).to_string()]);
    for rate in &report.metrics.rates {
        table.row([rate.label.into(), count(rate.value.round() as u64)]);
    }
    table
        .row(["packets".into(), count(report.packets)])
        .row(["events".into(), format!("{} (digest {})", count(report.events), report.log_digest)]);
    table
}

/// The faults by kind, of one run or of many.
pub fn faults(counts: &[FaultCount]) -> Table {
    let heads = ["kind", "injected", "struck an operation in flight", "packets hit"];
    let mut table = Table::new("Faults", 1, &heads);
    for fault in counts {
        let numbers = [fault.injected, fault.struck, fault.packets_hit].map(count);
        let [injected, struck, packets] = numbers;
        table.row([fault.kind.to_string(), injected, struck, packets]);
    }
    table
}

/// What was judged, and how it went.
pub fn checks(checks: &[Check]) -> Table {
    let mut table = Table::new("Checks", 3, &["check", "result", "promise"]);
    for check in checks {
        let result = match (check.held, check.judged) {
            (true, true) => "held".to_string(),
            (true, false) => "not judged".to_string(),
            (false, _) => format!("broken {}x", count(check.violations)),
        };
        table.row([check.oracle.to_string(), result, check.promise.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_check::Verdict;
    use weft_check::metrics::{Group, Latencies, Layout, Metrics, Percentiles, Rate};
    use weft_check::scenario::FaultKind;

    fn sample(held: bool) -> Report {
        let violation = Violation {
            oracle: "mutual exclusion",
            at: Nanos(1_234_567),
            text: "two exclusive holders".into(),
        };
        let exclusive = Percentiles {
            count: 1_600,
            min_ns: 5_780,
            mean_ns: 14_020,
            p50_ns: 12_345,
            p90_ns: 99_999,
            p99_ns: 1_234_567,
            max_ns: 987_654_321,
        };
        Report {
            title: "a lock service".into(),
            seed: 7,
            system: "locks",
            variant: Some(("variant", "second".into())),
            nodes: 16,
            profile: "present-day".into(),
            wait: "poll".into(),
            verdict: Verdict::of(held, true),
            checks: vec![Check {
                oracle: "mutual exclusion",
                promise: "an exclusive holder is alone",
                held,
                judged: true,
                violations: u64::from(!held) * 7,
            }],
            violations: if held { vec![] } else { vec![violation; 7] },
            metrics: Metrics {
                picture: None,
                rates: vec![Rate { key: "rate", label: "grants a second", value: 1_234_567.8 }],
                groups: vec![Group::new("requests", "Requests", Layout::Row, &[("made", "made", 1_600)])],
                latencies: vec![Latencies {
                    key: "latency",
                    title: "Time from request to grant",
                    heads: ["mode", "granted"],
                    rows: vec![("exclusive", exclusive), ("shared", Percentiles::default())],
                }],
            },
            warnings: vec![],
            log_error: None,
            throughput: None,
            faults: vec![FaultCount {
                kind: FaultKind::LoseCompletion,
                injected: 9,
                struck: 8,
                packets_hit: 77,
            }],
            virtual_ns: 2_000_000_000,
            events: 1_000_000,
            packets: 200_000,
            order_digest: "89abcdef01234567".into(),
            log_digest: "0123456789abcdef".into(),
        }
    }

    #[test]
    fn the_verdict_comes_first() {
        assert!(text(&sample(true), "weft run x").starts_with("HELD: all 1 checks\n"));
        assert!(
            text(&sample(false), "weft run x").starts_with("VIOLATED: 1 of 1 checks\n  mutual exclusion: at")
        );
    }

    #[test]
    fn a_check_that_nothing_happened_to_test_is_not_said_to_have_held() {
        let mut report = sample(true);
        let other = Check { oracle: "progress", ..report.checks[0].clone() };
        report.checks.push(Check { judged: false, ..other });
        let text = text(&report, "weft run x");
        assert!(text.starts_with("HELD: 1 of 2 checks, 1 not judged\n"), "{text}");
        assert!(text.lines().any(|line| line.contains("progress") && line.contains("not judged")), "{text}");
    }

    #[test]
    fn a_violation_names_the_command_that_makes_it_again() {
        assert!(text(&sample(false), "weft run x --seed 7").contains(": weft run x --seed 7\n"));
    }

    #[test]
    fn a_flood_of_violations_does_not_bury_the_report() {
        let text = text(&sample(false), "weft run x");
        assert_eq!(text.matches("two exclusive holders").count(), MOST_VIOLATIONS);
        assert!(text.contains("and 2 more"));
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        for line in text(&sample(true), "weft run x").lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }
}
