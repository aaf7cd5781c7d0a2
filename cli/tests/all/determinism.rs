//! The promise on which everything else rests: the same scenario and seed give the same run, in any process.

use crate::common::{Scratch, assert_fits_a_terminal, err, out, run, scenarios};
use std::fs;

#[test]
fn two_processes_write_the_same_event_log_and_a_report_that_fits_a_terminal_for_each_shipped_scenario() {
    let scratch = Scratch::new("determinism");
    for scenario in scenarios() {
        let scenario = scenario.to_str().expect("UTF-8");
        let logs = ["a.log", "b.log"].map(|name| scratch.path(name));
        let runs = [&logs[0], &logs[1]].map(|log| run(&["run", scenario, "--quiet", "--log", log]));
        for one in &runs {
            assert_eq!(one.status.code(), Some(0), "{scenario}: {}{}", out(one), err(one));
        }
        assert_eq!(out(&runs[0]), out(&runs[1]), "{scenario}: the reports differ");
        assert_fits_a_terminal(scenario, out(&runs[0]));
        let [a, b] = logs.map(|log| fs::read(log).expect("the log"));
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
