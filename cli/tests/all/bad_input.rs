//! What cannot be used is refused in one line on standard error, with exit code 2, and leaves nothing behind.

use crate::common::{SMALL, Scratch, err, refused, weft};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_scenario_that_cannot_be_run_is_refused() {
    let scratch = Scratch::new("bad_scenarios");
    let changed = |from: &str, to: &str| {
        assert!(SMALL.contains(from));
        SMALL.replace(from, to)
    };
    let table: [(&str, String, &[&str]); 12] = [
        ("unknown-field", changed("nodes = 2", "nodes = 2\nnodez = 3"), &["nodez", ":5:"]),
        ("unknown-section", format!("{SMALL}\n[wrokload]\n"), &["wrokload"]),
        ("zero-nodes", changed("nodes = 2", "nodes = 0"), &["nodes = 0", "1 to "]),
        ("negative-nodes", changed("nodes = 2", "nodes = -1"), &["nodes"]),
        ("too-many-nodes", changed("nodes = 2", "nodes = 4000000000"), &["nodes"]),
        ("topology", changed("nodes = 2", "nodes = 2\ntopology = \"moebius\""), &["topology", "moebius"]),
        ("profile", changed("nodes = 2", "nodes = 2\nprofile = \"abacus\""), &["profile", "abacus"]),
        ("scheme", changed("ncosed", "ncosedd"), &["scheme"]),
        ("no-workload", "[cluster]\nnodes = 2\n".into(), &["workload"]),
        (
            "no-such-node",
            format!("{SMALL}[[faults]]\nkind = \"cut\"\nat = \"1ms\"\nnode = 2\n"),
            &["node = 2"],
        ),
        ("not-toml", "nodes = = 2\nx\n".into(), &["not-toml.toml:1"]),
        ("empty", String::new(), &["cluster"]),
    ];
    for (name, text, says) in table {
        let file = scratch.file(&format!("{name}.toml"), text);
        let log = scratch.path("events.log");
        refused(&["run", &file, "--log", &log], says);
        refused(&["run", &file, "--json"], says);
        refused(&["run", &file, "--seeds", "0..3"], says);
    }
    assert!(scratch.names().iter().all(|name| name.ends_with(".toml")), "{:?}", scratch.names());
}

#[test]
fn a_file_that_is_no_scenario_is_refused() {
    let scratch = Scratch::new("bad_files");
    refused(&["run", &scratch.path("missing.toml")], &["missing.toml"]);
    refused(&["run", &scratch.path("")], &[]);
    let binary = scratch.file("binary.toml", [0x7f, b'E', b'L', b'F', 0, 0xff, 0xfe, b'\n', 0x80]);
    refused(&["run", &binary], &["binary.toml"]);
    let large = scratch.file("large.toml", "#".repeat(3_000_000));
    refused(&["run", &large], &["large.toml", "megabyte"]);
    let noise = scratch.file("noise.toml", [b'\0'; 4096]);
    refused(&["run", &noise], &["noise.toml"]);
}

#[test]
fn a_wrong_command_line_is_refused() {
    let scratch = Scratch::new("bad_lines");
    let small = scratch.file("small.toml", SMALL);
    refused(&[], &["weft --help"]);
    refused(&["fly"], &["fly"]);
    refused(&["run"], &["SCENARIO"]);
    refused(&["run", &small, "--seed", "-1"], &["-1"]);
    refused(&["run", &small, "--seed", "1e3"], &["1e3"]);
    refused(&["run", &small, "--set", "workload.scheme=nlock"], &["nlock", "srsl", "ncosed"]);
    refused(&["run", &small, "--set", "workload.scheme"], &["workload.scheme", "workload.requests=20"]);
    refused(&["run", &small, "--set", "workload.schema=srsl"], &["--set workload.schema=srsl", "scheme"]);
    refused(&["run", &small, "--jobs", "0", "--seeds", "0..2"], &["jobs"]);
    refused(&["profiles", "abacus"], &["abacus", "present-day"]);
    refused(
        &["run", "scenarios/files-16.toml", "--set", "cluster.profile=ddss-2006"],
        &["[cluster] profile", "its machines have no disk, and pario needs one; there are", "present-day"],
    );
    for range in ["7", "5..5", "9..2", "..", "a..b", "0..=4"] {
        refused(&["run", &small, "--seeds", range], &[range]);
    }
    refused(&["run", &small, "--seeds", "0..2", "--seed", "1"], &["--seed"]);
    refused(&["run", &small, "--seeds", "0..2", "--log", "x.log"], &["--log"]);
    // What would do nothing is not left out in silence.
    refused(&["run", &small, "--seeds", "0..2", "-v"], &["--verbose"]);
    refused(&["run", &small, "--secret", "x"], &["--secret is for --backend hw"]);
    refused(&["check", "srsl", "--max-cache", "64"], &["--max-cache is for --reduction cache"]);
    refused(&["check", "srsl", "--max-depth", "0"], &["--max-depth", "1.."]);
    refused(&["check", "srsll"], &["did you mean srsl?"]);
}

#[test]
fn a_name_that_is_no_utf_8_is_refused_where_it_must_be() {
    for args in [["fs", "rm"], ["segment", "rm"], ["check", "--list"]] {
        let output = weft(&args).arg(OsStr::from_bytes(b"caf\xe9")).output().expect("the program starts");
        let line = err(&output);
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{args:?}: {line}");
        assert!(line.contains("UTF-8") && line.contains(args[0]), "{args:?}: {line}");
    }
}

#[test]
fn a_log_that_cannot_be_written_is_refused_before_the_run() {
    let scratch = Scratch::new("bad_logs");
    let small = scratch.file("small.toml", SMALL);
    refused(&["run", &small, "--log", &scratch.path("")], &["directory"]);
    refused(&["run", &small, "--log", &scratch.path("none/events.log")], &["none/events.log"]);
    refused(&["run", &small, "--log", &scratch.path("small.toml/events.log")], &["small.toml/events.log"]);
    assert_eq!(scratch.names(), ["small.toml"]);
}
