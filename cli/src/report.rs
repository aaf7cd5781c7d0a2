//! One run's report for people: the verdict first, then tables.

use crate::table::{Table, count, micros, wrap};
use std::fmt::Write;
use weft_check::lock_world::{FaultCount, Percentiles, ProtocolCounts, Report, Requests};
use weft_check::oracle::MostBypassed;
use weft_verbs::Nanos;

/// Most violations that are printed; `--json` has the rest.
const MOST_VIOLATIONS: usize = 5;

/// The whole report. `rerun` is the command that makes the same run again.
pub fn text(report: &Report, rerun: &str) -> String {
    let mut text = verdict(report, rerun);
    title(&report.title, &mut text);
    for table in [cluster(report), requests(&report.requests), latency(report)] {
        table.print(&mut text);
    }
    fairness(&report.bypass).print(&mut text);
    protocol(&report.protocol).print(&mut text);
    let faults = faults(&report.faults);
    if !faults.is_empty() {
        faults.print(&mut text);
    }
    checks(report).print(&mut text);
    text
}

fn verdict(report: &Report, rerun: &str) -> String {
    let kept = report.checks.iter().filter(|check| check.held).count();
    let all = report.checks.len();
    let mut text = match report.held() {
        true => format!("HELD: all {all} checks\n"),
        false => format!("VIOLATED: {} of {all} checks\n", all - kept),
    };
    for violation in report.violations.iter().take(MOST_VIOLATIONS) {
        wrap(&violation.to_string(), 2, &mut text);
    }
    let more = report.violations.len().saturating_sub(MOST_VIOLATIONS);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more; --json lists them");
    }
    if !report.held() {
        let _ = writeln!(text, "The same run again: {rerun}");
    }
    text
}

/// Appends a scenario's title, as a paragraph of its own.
pub fn title(title: &str, text: &mut String) {
    if !title.is_empty() {
        text.push('\n');
        wrap(title, 0, text);
    }
}

fn cluster(report: &Report) -> Table {
    let mut table = Table::facts("Run");
    let learn = format!("{}, completions by {}", report.profile, report.wait);
    table
        .row(["scheme, seed".into(), format!("{}, {}", report.scheme, report.seed)])
        .row(["nodes".into(), report.nodes.to_string()])
        .row(["profile".into(), learn])
        .row(["virtual time".into(), Nanos(report.virtual_ns).to_string()])
        .row(["grants a second".into(), count(report.grants_per_second.round() as u64)])
        .row(["packets".into(), count(report.packets)])
        .row(["events".into(), format!("{} (digest {})", count(report.events), report.log_digest)]);
    table
}

/// What became of the requests, of one run or of many.
pub fn requests(requests: &Requests) -> Table {
    let heads = ["made", "granted", "timed out", "refused", "failed", "not ended"];
    let mut table = Table::new("Requests", 0, &heads);
    let Requests { made, granted, timed_out, refused, failed, unended } = *requests;
    table.row([made, granted, timed_out, refused, failed, unended].map(count));
    table
}

fn latency(report: &Report) -> Table {
    let heads = ["mode", "granted", "min", "mean", "p50", "p90", "p99", "max"];
    let mut table = Table::new("Time from request to grant, in microseconds of virtual time", 1, &heads);
    for (mode, of) in [("exclusive", &report.latency.exclusive), ("shared", &report.latency.shared)] {
        table.row(percentiles(mode, of));
    }
    table
}

fn percentiles(mode: &str, of: &Percentiles) -> [String; 8] {
    let Percentiles { count: n, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, max_ns } = *of;
    let time = |nanos| if n == 0 { "-".to_string() } else { micros(nanos) };
    let [min, mean, p50, p90, p99, max] = [min_ns, mean_ns, p50_ns, p90_ns, p99_ns, max_ns].map(time);
    [mode.to_string(), count(n), min, mean, p50, p90, p99, max]
}

fn fairness(bypass: &MostBypassed) -> Table {
    let mut table = Table::new("Most grants that went past one waiting request", 1, &["which", "count"]);
    table
        .row(["any".into(), count(bypass.most)])
        .row(["exclusive past exclusive".into(), count(bypass.most_exclusive)]);
    table
}

/// What the lock service and its transport did, in one run or in many.
pub fn protocol(counts: &ProtocolCounts) -> Table {
    let mut table = Table::new("Protocol", 1, &["what", "count"]);
    let rows = [
        ("messages between nodes", counts.messages),
        ("remote atomics", counts.atomics),
        ("  tried again with another guess", counts.atomic_retries),
        ("  fate unknown after an error", counts.unknown_fates),
        ("exclusive holds downgraded", counts.downgrades),
        ("lock words rebuilt", counts.rebuilds),
        ("connections made again", counts.reconnects),
        ("messages sent again", counts.resent),
        ("messages that came twice, dropped", counts.duplicates),
    ];
    for (what, number) in rows {
        table.row([what.to_string(), count(number)]);
    }
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

fn checks(report: &Report) -> Table {
    let mut table = Table::new("Checks", 3, &["check", "result", "promise"]);
    for check in &report.checks {
        let result =
            if check.held { "held".to_string() } else { format!("broken {}x", count(check.violations)) };
        table.row([check.oracle.to_string(), result, check.promise.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_check::lock_world::{Latencies, Verdict};
    use weft_check::oracle::{Check, Violation};
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
            scheme: "ncosed".into(),
            nodes: 16,
            profile: "present-day".into(),
            wait: "poll".into(),
            verdict: if held { Verdict::Held } else { Verdict::Violated },
            checks: vec![Check {
                oracle: "mutual exclusion",
                promise: "an exclusive holder is alone",
                held,
                violations: u64::from(!held) * 7,
            }],
            violations: if held { vec![] } else { vec![violation; 7] },
            requests: Requests { made: 1_600, granted: 1_600, ..Requests::default() },
            latency: Latencies { exclusive, shared: Percentiles::default() },
            grants_per_second: 1_234_567.8,
            protocol: ProtocolCounts::default(),
            faults: vec![FaultCount {
                kind: FaultKind::LoseCompletion,
                injected: 9,
                struck: 8,
                packets_hit: 77,
            }],
            bypass: MostBypassed::default(),
            virtual_ns: 2_000_000_000,
            events: 1_000_000,
            packets: 200_000,
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
