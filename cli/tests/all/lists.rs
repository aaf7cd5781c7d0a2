//! `weft profiles`, `weft devices` and the help.

use crate::common::{err, out, run};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON value and nothing else")
}

fn profile_names() -> Vec<String> {
    let list = json(&["profiles", "--json"]);
    let profiles = list["profiles"].as_array().expect("a list");
    profiles.iter().map(|profile| profile["name"].as_str().expect("a name").to_string()).collect()
}

#[test]
fn every_figure_of_every_profile_has_a_unit_and_a_source() {
    let names = profile_names();
    assert!(names.iter().any(|name| name == "ncosed-2007") && names.iter().any(|name| name == "present-day"));
    for name in names {
        let profile = json(&["profiles", &name, "--json"]);
        let figures = profile["figures"].as_array().expect("figures");
        assert!(figures.len() > 20);
        for figure in figures {
            for field in ["name", "about", "unit", "source"] {
                assert!(figure[field].as_str().is_some_and(|text| !text.is_empty()), "{name}: {figure}");
            }
            assert!(figure["value"].is_u64(), "{name}: {figure}");
        }
    }
}

#[cfg(not(feature = "hw"))]
#[test]
fn a_build_without_devices_says_what_to_build() {
    for line in [
        &["node", "scenarios/softroce-3.toml", "--rank", "0"][..],
        &["node", "--help"],
        &["node"],
        &["pipe", "n1:7000"],
        &["cp", "Cargo.toml", "n1:"],
        &["cp", "--help"],
        &["perf", "n1:7000"],
        &["run", "scenarios/quick-3.toml", "--backend", "hw"],
        &["calibrate", "blue.toml"],
        &["calibrate", "--help"],
    ] {
        let output = run(line);
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{line:?}");
        assert!(err(&output).contains("--features hw"), "{line:?}: {}", err(&output));
        assert_eq!(err(&output).lines().count(), 1, "{line:?}");
    }
    assert!(!out(&run(&["run", "--help"])).contains("--backend"));
}

#[test]
fn what_is_printed_for_people_fits_a_terminal() {
    let mut pages = vec![run(&["profiles"]), run(&["devices"])];
    pages.extend(profile_names().iter().map(|name| run(&["profiles", name])));
    pages.push(run(&["--help"]));
    pages.extend(["run", "profiles", "devices", "paper", "bench"].map(|command| run(&[command, "--help"])));
    for page in pages {
        assert_eq!(page.status.code(), Some(0));
        assert!(out(&page).lines().count() > 3);
        for line in out(&page).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn the_help_names_the_commands_and_the_exit_codes() {
    let help = run(&["--help"]);
    assert_eq!((help.status.code(), err(&help)), (Some(0), ""));
    for part in ["run ", "devices ", "profiles ", "scenarios/", "Exit codes", "Examples"] {
        assert!(out(&help).contains(part), "{part}");
    }
}

#[test]
fn devices_says_that_there_is_no_hardware_backend() {
    let output = run(&["devices"]);
    assert!(out(&output).contains("no hardware backend"), "{}", out(&output));
    let list = json(&["devices", "--json"]);
    assert_eq!(list["hardware_backend"], false);
    assert_eq!(list["devices"].as_array().expect("a list").len(), profile_names().len());
}
