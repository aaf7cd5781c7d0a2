//! The promise on which everything else rests: the same scenario and seed give the same run, in any process.

use crate::common::{Scratch, assert_fits_a_terminal, err, out, run, scenarios};
use std::fs;

#[test]
fn two_processes_make_the_same_events_and_a_report_that_fits_a_terminal_of_each_shipped_scenario() {
    for scenario in scenarios() {
        let scenario = scenario.to_str().expect("UTF-8");
        // A report has the digest of all events: half a gigabyte of some of these.
        let runs = [(); 2].map(|()| run(&["run", scenario, "--quiet"]));
        for one in &runs {
            assert_eq!(one.status.code(), Some(0), "{scenario}: {}{}", out(one), err(one));
        }
        assert!(out(&runs[0]).contains("(digest "), "{scenario}: {}", out(&runs[0]));
        assert_eq!(out(&runs[0]), out(&runs[1]), "{scenario}: the runs differ");
        assert_fits_a_terminal(scenario, out(&runs[0]));
    }
}

#[test]
fn two_processes_write_the_same_event_log() {
    let scratch = Scratch::new("determinism");
    for name in ["quick-3.toml", "files-full-8.toml", "sockets-failover-4.toml"] {
        let scenario = scenarios().into_iter().find(|path| path.ends_with(name)).expect("it is shipped");
        let scenario = scenario.to_str().expect("UTF-8");
        let [a, b] = ["a.log", "b.log"].map(|log| {
            let log = scratch.path(log);
            let one = run(&["run", scenario, "--quiet", "--log", &log]);
            assert_eq!(one.status.code(), Some(0), "{scenario}: {}{}", out(&one), err(&one));
            fs::read(log).expect("the log")
        });
        assert!(!a.is_empty(), "{scenario}: the log is empty");
        // Not assert_eq: nobody wants to see both logs.
        assert!(a == b, "{scenario}: the event logs differ");
    }
}

#[test]
fn another_seed_is_another_run() {
    let scenario = &scenarios()[0];
    let scenario = scenario.to_str().expect("UTF-8");
    let digest = |seed: &str| {
        let output = run(&["run", scenario, "--quiet", "--json", "--seed", seed]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["log_digest"].as_str().expect("a digest").to_string()
    };
    assert_ne!(digest("1"), digest("2"));
}
