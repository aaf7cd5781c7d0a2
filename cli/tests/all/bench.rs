//! `weft bench`: its figures are complete, and what cannot be measured is refused.

use crate::common::{err, out, refused, run};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON value and nothing else")
}

#[test]
fn a_ring_is_measured_at_every_layer() {
    for layer in [None, Some("--tasks"), Some("--sessions")] {
        let mut args =
            vec!["bench", "fabric", "--nodes", "3", "--messages", "5000", "--window", "8", "--json"];
        args.extend(layer);
        let report = json(&args);
        for field in ["messages_per_second", "virtual_seconds", "wall_seconds"] {
            assert!(report[field].as_f64().is_some_and(|n| n > 0.0), "{layer:?} {field}: {report}");
        }
        assert!(report["peak_bytes"].is_u64() || report["peak_bytes"].is_null(), "{report}");
        assert!(report["messages"].as_u64().is_some_and(|n| n >= 5_000), "{report}");
    }
}

#[test]
fn every_variant_is_measured_and_one_can_be_chosen() {
    let names = |report: &Value| -> Vec<String> {
        let variants = report["variants"].as_array().expect("a list");
        variants.iter().map(|of| of["variant"].as_str().expect("a name").to_string()).collect()
    };
    let args = ["bench", "locks", "--nodes", "3", "--requests", "60", "--json"];
    let all = json(&args);
    assert_eq!(names(&all), ["srsl", "dqnl", "ncosed"]);
    for variant in all["variants"].as_array().expect("a list") {
        assert_eq!(variant["requests"], 60);
        assert!(
            variant["metrics"]["latency"]["exclusive"]["p50_ns"].as_u64().is_some_and(|ns| ns > 0),
            "{variant}"
        );
        for field in ["requests_per_second", "events_per_second", "virtual_seconds", "wall_seconds"] {
            assert!(variant[field].as_f64().is_some_and(|n| n > 0.0), "{field}: {variant}");
        }
    }
    assert_eq!(names(&json(&[&args[..], &["--variant", "srsl"]].concat())), ["srsl"]);
}

#[test]
fn calls_that_were_not_made_took_no_time() {
    let output = run(&["bench", "dsm", "--nodes", "2", "--requests", "20"]);
    let barrier = out(&output).lines().find(|line| line.contains("barrier")).expect("a line of the table");
    assert_eq!(barrier.split_whitespace().filter(|cell| *cell == "-").count(), 3, "{barrier}");
}

#[test]
fn the_tables_fit_a_terminal() {
    let ring = run(&["bench", "fabric", "--nodes", "2", "--messages", "1000"]);
    let locks = run(&["bench", "locks", "--nodes", "2", "--requests", "20"]);
    for page in [ring, locks, run(&["bench", "fabric", "--help"]), run(&["bench", "locks", "--help"])] {
        assert_eq!(page.status.code(), Some(0), "{}", err(&page));
        assert!(out(&page).lines().count() > 5);
        assert!(out(&page).lines().all(|line| line.chars().count() <= 100), "{}", out(&page));
    }
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let wrong: [(&[&str], &str); 10] = [
        (&["bench"], "fabric"),
        (&["bench", "fly"], "fly"),
        (&["bench", "fabric", "--nodes", "0"], "nodes is 0"),
        (&["bench", "fabric", "--nodes", "x"], "--nodes"),
        (&["bench", "fabric", "--messages", "0"], "messages is 0"),
        (&["bench", "fabric", "--window", "0"], "window is 0"),
        (&["bench", "fabric", "--profile", "abacus"], "abacus"),
        (&["bench", "fabric", "--tasks", "--sessions"], "--sessions"),
        (&["bench", "locks", "--nodes", "2000"], "1024"),
        (&["bench", "locks", "--variant", "paxos"], "srsl"),
    ];
    for (args, says) in wrong {
        refused(args, &[says]);
    }
}

#[test]
fn a_system_is_measured_on_as_many_machines_as_it_takes() {
    refused(&["bench", "messages", "--nodes", "1"], &["messages take two machines at least"]);
}

#[cfg(unix)]
#[test]
fn what_is_measured_can_be_interrupted() {
    use std::process::{Command, Stdio};
    use std::time::Duration;
    let mut child = crate::common::weft(&["bench", "fabric", "--messages", "1000000000"]);
    let child = child.stderr(Stdio::piped()).spawn().expect("starts");
    // It says nothing by which to know that it has begun.
    std::thread::sleep(Duration::from_millis(300));
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("there is a kill").success());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), err(&output)), (Some(3), "weft: interrupted\n"));
}
