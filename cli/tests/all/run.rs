//! What a run prints, and how it ends.

use crate::common::{SMALL, Scratch, assert_fits_a_terminal, err, out, refused, root, run, scenarios, weft};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use weft_sim::profile::Profile;

fn json(args: &[&str]) -> Value {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON value and nothing else")
}

#[test]
fn a_run_that_held_says_so_first_and_exits_with_0() {
    let scratch = Scratch::new("held");
    let output = run(&["run", &scratch.file("small.toml", SMALL)]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).starts_with("HELD"), "{}", out(&output));
    assert_eq!(err(&output), "");
}

#[test]
fn no_sum_over_seeds_is_wider_than_a_terminal() {
    let mut kinds = BTreeSet::new();
    for scenario in scenarios() {
        let table: toml::Table = fs::read_to_string(&scenario).expect("a file").parse().expect("TOML");
        let kind = table["workload"].get("kind").and_then(|kind| kind.as_str()).unwrap_or("locks");
        if kinds.insert(kind.to_owned()) {
            let scenario = scenario.to_str().expect("UTF-8");
            assert_fits_a_terminal(scenario, out(&run(&["run", scenario, "--quiet", "--seeds", "0..2"])));
        }
    }
    assert!(kinds.len() > 1, "{kinds:?}");
}

#[test]
fn json_is_one_object_and_nothing_else() {
    let scratch = Scratch::new("json");
    let report = json(&["run", &scratch.file("small.toml", SMALL), "--json", "--seed", "9"]);
    assert_eq!(report["verdict"], "held");
    assert_eq!(report["seed"], 9);
    assert_eq!(report["requests"]["granted"], 10);
}

#[test]
fn a_report_has_a_page_and_a_picture_with_the_faults_where_the_system_tells_what_arrived() {
    let scratch = Scratch::new("report");
    let dir = scratch.path("report");
    let file = root().join("scenarios/sockets-failover-4.toml").display().to_string();
    let line = ["run", &file, "--set", "workload.requests=2", "--report", &dir];
    assert_eq!(run(&line).status.code(), Some(0));
    let read = |name: &str| fs::read_to_string(format!("{dir}/{name}")).expect(name);
    assert!(read("run-throughput.svg").contains("<circle"), "what arrived");
    let page = read("run.html");
    assert!(page.contains("<svg") && page.contains("HELD: all 7 checks"), "{page}");
}

#[test]
fn a_report_has_no_picture_of_an_earlier_run() {
    let scratch = Scratch::new("second_report");
    let small = scratch.file("small.toml", SMALL);
    scratch.file("run-throughput.svg", "of another run");
    scratch.file("notes.svg", "the user's own");
    let dir = scratch.path("");
    assert_eq!(run(&["run", &small, "--report", &dir]).status.code(), Some(0));
    assert_eq!(scratch.names(), ["notes.svg", "run.html", "small.toml"]);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_run() {
    let scratch = Scratch::new("no_report");
    let small = scratch.file("small.toml", SMALL);
    refused(&["run", &small, "--report", &small], &["cannot write the report into", "small.toml"]);
    let page = scratch.path("taken/run.html");
    fs::create_dir_all(&page).expect("a directory where the page is to be");
    refused(&["run", &small, "--report", &scratch.path("taken")], &["cannot write the report", &page]);
}

#[test]
fn the_field_of_the_command_line_wins() {
    let scratch = Scratch::new("scheme");
    let small = scratch.file("small.toml", SMALL);
    for scheme in ["srsl", "dqnl", "ncosed"] {
        assert_eq!(
            json(&["run", &small, "--json", "--set", &format!("workload.scheme={scheme}")])["scheme"],
            scheme
        );
    }
}

#[test]
fn many_seeds_are_summed_up_alike_however_many_run_at_a_time() {
    let scratch = Scratch::new("seeds");
    let small = scratch.file("small.toml", SMALL);
    let one = run(&["run", &small, "--seeds", "3..11", "--json", "--jobs", "1"]);
    let four = run(&["run", &small, "--seeds", "3..11", "--json", "--jobs", "4"]);
    assert_eq!(out(&one), out(&four));
    let sum: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!((&sum["runs"], &sum["violated"]), (&Value::from(8), &Value::from(0)));
    assert_eq!(sum["verdict"], "held");
    assert_eq!(sum["requests"]["granted"], 80);
}

#[test]
fn a_log_takes_the_place_of_an_older_one_and_leaves_no_other_file() {
    let scratch = Scratch::new("log");
    let small = scratch.file("small.toml", SMALL);
    let log = scratch.file("events.log", "an older log");
    assert_eq!(run(&["run", &small, "--log", &log]).status.code(), Some(0));
    let text = fs::read_to_string(&log).expect("the log");
    assert!(text.lines().count() > 10 && !text.contains("an older log"));
    assert_eq!(scratch.names(), ["events.log", "small.toml"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_lost_a_line_is_a_failure_and_the_verdict_is_told_all_the_same() {
    let scratch = Scratch::new("full");
    for (name, text, verdict, code) in [("small", SMALL, "HELD", 3), ("hopeless", HOPELESS, "VIOLATED", 1)] {
        let output = run(&["run", &scratch.file(name, text), "--log", "/dev/full"]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", err(&output));
        assert!(out(&output).starts_with(verdict), "{name}: {}", out(&output));
        assert!(err(&output).starts_with("weft: cannot write the event log /dev/full: "), "{}", err(&output));
        assert_eq!(err(&output).lines().count(), 1);
    }
}

#[test]
fn a_log_does_not_take_the_place_of_its_scenario() {
    let scratch = Scratch::new("overwritten");
    let small = scratch.file("small.toml", SMALL);
    let output = run(&["run", &small, "--log", &small]);
    assert_eq!((output.status.code(), out(&output)), (Some(2), ""));
    assert!(err(&output).contains("would overwrite"), "{}", err(&output));
    assert_eq!(fs::read_to_string(&small).expect("there"), SMALL);
}

#[test]
fn a_dash_is_standard_output() {
    let scratch = Scratch::new("dash");
    let (small, log) = (scratch.file("small.toml", SMALL), scratch.path("events.log"));
    let (dash, file) = (run(&["run", &small, "--log", "-"]), run(&["run", &small, "--log", &log]));
    let log = fs::read_to_string(&log).expect("the log");
    assert_eq!(out(&dash), format!("{log}{}", out(&file)));
    assert_eq!(scratch.names(), ["events.log", "small.toml"]);
    assert_eq!(run(&["run", &small, "--log", "-", "--json"]).status.code(), Some(2));
}

#[test]
fn cuts_that_break_no_connection_are_warned_of() {
    let scratch = Scratch::new("warned");
    let cut = "[[faults]]\nkind = \"cut\"\nat = \"0us\"\nnode = 0\nlasts = \"1us\"\n";
    let file = scratch.file("short.toml", format!("{SMALL}{cut}"));
    for args in [&["run", &file][..], &["run", &file, "--seeds", "0..2"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(
            out(&output).contains("WARNING: No failure of a link breaks a connection"),
            "{}",
            out(&output)
        );
    }
}

#[test]
fn a_profile_of_ones_own_is_found_beside_the_scenario_and_decides_what_things_cost() {
    let scratch = Scratch::new("profile");
    let usual = Profile::builtin("present-day").expect("a profile");
    let mut slow = usual.clone();
    slow.set("cpu.post_ns", 9_000, "a test").expect("within bounds");
    scratch.file("usual.toml", usual.to_toml());
    scratch.file("slow.toml", slow.to_toml());
    let with = |profile: &str| {
        let text =
            SMALL.replace("[cluster]\n", &format!("[cluster]\nprofile = \"{profile}\"\njitter = \"none\"\n"));
        json(&["run", &scratch.file("s.toml", text), "--json"])
    };
    let mean = |report: &Value| report["latency"]["exclusive"]["mean_ns"].as_u64().expect("a time");
    let (by_name, by_file, slower) = (with("present-day"), with("usual.toml"), with("slow.toml"));
    assert_eq!(by_name["log_digest"], by_file["log_digest"]);
    assert!(mean(&slower) > mean(&by_file) + 9_000, "{slower}");
    // By its path, where the program runs.
    let file = scratch.file("s.toml", SMALL);
    let path = format!("cluster.profile={}", scratch.path("slow.toml"));
    assert_eq!(run(&["run", &file, "--set", &path]).status.code(), Some(0));
    let shown = run(&["profiles", &scratch.path("slow.toml")]);
    assert!(out(&shown).contains("post_ns = 9,000 ns"), "{}", out(&shown));
    scratch.file("bad.toml", usual.to_toml().replace("[switch]", "[hub]"));
    refused(
        &["run", &file, "--set", "cluster.profile=bad.toml"],
        &["[cluster] profile", "bad.toml", "switch.latency_ns"],
    );
    refused(&["run", &file, "--set", "cluster.profile=none.toml"], &["[cluster] profile", "none.toml"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new("pipe");
    let small = scratch.file("small.toml", SMALL);
    let mut child =
        weft(&["run", &small]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("readable");
    assert_eq!((child.wait().expect("ends").code(), said.as_str()), (Some(0), ""));
}

#[test]
fn v_shows_events_with_their_virtual_time() {
    let scratch = Scratch::new("verbose");
    let output = run(&["run", &scratch.file("small.toml", SMALL), "-vv"]);
    assert!(err(&output).lines().filter(|line| line.contains(" us n")).count() > 10, "{}", err(&output));
    assert!(out(&output).starts_with("HELD"));
}

/// A run that would take minutes.
const LONG: &str = r#"
[cluster]
nodes = 8
[workload]
kind = "locks"
scheme = "srsl"
requests = 10000000
[run]
limit = "1000s"
"#;

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_cleanly() {
    let scratch = Scratch::new("interrupt");
    let (long, log) = (scratch.file("long.toml", LONG), scratch.path("events.log"));
    let mut child = weft(&["run", &long, "--log", &log]).stderr(Stdio::piped()).spawn().expect("starts");
    // A first line of progress: the run is under way.
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("readable");
    assert!(line.contains(" requests, "), "{line}");
    let killed = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("there is a kill").success());
    line.clear();
    said.read_line(&mut line).expect("readable");
    assert!(line.starts_with("weft: ") && line.contains("interrupted"), "{line}");
    assert_eq!(child.wait().expect("ends").code(), Some(3));
    // What happened until then, in whole lines.
    assert_eq!(scratch.names(), ["events.log", "long.toml"]);
    let kept = fs::read_to_string(&log).expect("the log");
    assert!(kept.lines().count() > 10 && kept.ends_with('\n'), "{} bytes", kept.len());
}

#[cfg(unix)]
#[test]
fn seeds_that_are_interrupted_held_so_far_and_no_further() {
    let scratch = Scratch::new("interrupted_seeds");
    let small = scratch.file("small.toml", SMALL);
    let lines: [&[&str]; 2] =
        [&["run", &small, "--seeds", "0..1000000000"], &["fuzz", "swarm-2", "--seconds", "600"]];
    for line in lines {
        let mut child = weft(line);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut said = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut said).expect("progress");
        let killed = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(killed.expect("there is a kill").success());
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(3), "{line:?}");
        assert!(out(&output).starts_with("HELD SO FAR: "), "{line:?}: {}", out(&output));
    }
}

/// A seed of this swarm takes longer than anybody waits.
#[cfg(target_os = "linux")]
#[test]
fn a_seed_of_a_large_swarm_is_broken_off_where_the_user_asks_to_stop() {
    let mut child = weft(&["fuzz", "swarm-200-dsm", "--seeds", "0..40"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    takes_signals(&child);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let since = std::time::Instant::now();
    terminate(&child);
    let said = child.wait_with_output().expect("ends");
    assert_eq!(said.status.code(), Some(3), "{}", err(&said));
    assert!(since.elapsed().as_secs() < 20 && err(&said).contains("interrupted after "), "{}", err(&said));
}

/// Nobody reads it yet, and so it cannot be opened.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_goes_into_a_pipe_which_nobody_reads_is_given_up_where_the_user_asks_to_stop() {
    let scratch = Scratch::new("pipe");
    let (small, pipe) = (scratch.file("small.toml", SMALL), scratch.path("pipe"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is mkfifo").success());
    let child = weft(&["run", &small, "--log", &pipe]).stderr(Stdio::piped()).spawn().expect("starts");
    takes_signals(&child);
    terminate(&child);
    let said = child.wait_with_output().expect("ends");
    assert_eq!((said.status.code(), err(&said)), (Some(3), "weft: interrupted\n"));
}

/// Waits until a process has taken SIGTERM over.
#[cfg(target_os = "linux")]
fn takes_signals(child: &std::process::Child) {
    let status = format!("/proc/{}/status", child.id());
    let taken = || {
        let status = fs::read_to_string(&status).expect("it runs");
        let bits = status.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim));
        u64::from_str_radix(bits.expect("there is such a line"), 16).expect("a number") >> 14 & 1 == 1
    };
    while !taken() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[cfg(target_os = "linux")]
fn terminate(child: &std::process::Child) {
    let killed = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("there is a kill").success());
}

/// `nohup`, and what a shell does with `&`.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let ignores = "trap '' HUP INT; exec \"$0\" fuzz swarm-2 --seconds 4";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", ignores, env!("CARGO_BIN_EXE_weft")]).current_dir(root()).stdin(Stdio::null());
    let mut child = shell.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("there is a shell");
    let mut said = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut said).expect("progress");
    for signal in ["-HUP", "-INT"] {
        let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.expect("there is a kill").success());
    }
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{said}");
}

/// Messages to everybody, which wait for a cut that does not end: they take more and more memory.
const LARGE: &str = r#"
[cluster]
nodes = 200
[transport]
recv_buffers = 256
[workload]
kind = "messages"
messages = 100000
[run]
memory = 1000000
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_run_for_which_there_is_not_enough_memory_ends_in_one_line() {
    let scratch = Scratch::new("memory");
    let (large, log) = (scratch.file("large.toml", LARGE), scratch.path("events.log"));
    let line =
        format!("ulimit -v 3000000; exec {} run {large} --quiet --log {log}", env!("CARGO_BIN_EXE_weft"));
    let output = std::process::Command::new("bash").args(["-c", &line]).output().expect("there is a shell");
    assert_eq!((output.status.code(), out(&output)), (Some(3), ""), "{}", err(&output));
    assert!(err(&output).starts_with("weft: out of memory: "), "{}", err(&output));
    assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
    assert_eq!(scratch.names(), ["large.toml"]);
}

/// A scenario that asks for more than can be: a program, which is one request, computes for longer than a request may take.
const HOPELESS: &str = r#"
[cluster]
nodes = 2
[transport]
ack_timeout = 4
retries = 2
[workload]
kind = "dsm"
application = "sor"
unit = "100us"
[run]
limit = "10ms"
settle = "200ms"
[[faults]]
kind = "cut"
at = "0us"
node = 0
"#;

#[test]
fn a_violation_is_told_first_exits_with_1_and_can_be_made_again() {
    let scratch = Scratch::new("violated");
    let file = scratch.file("it's hopeless.toml", HOPELESS);
    let output = run(&["run", &file]);
    assert_eq!((output.status.code(), err(&output)), (Some(1), ""));
    assert!(out(&output).starts_with("VIOLATED: 1 of "), "{}", out(&output));
    let again = out(&output).lines().find_map(|line| line.split_once("again: weft ")).expect("a command").1;
    let again = again.strip_suffix(" --log events.log").expect("it writes a log, too");
    let line = format!("{} {again}", env!("CARGO_BIN_EXE_weft"));
    let again = std::process::Command::new("sh").args(["-c", &line]).output().expect("there is a shell");
    assert_eq!(out(&again), out(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn a_violation_that_nobody_can_be_told_of_is_one_all_the_same() {
    let scratch = Scratch::new("untold");
    let (file, saved) = (scratch.file("hopeless.toml", HOPELESS), scratch.path("failure.toml"));
    for line in [
        &["run", &file][..],
        &["run", &file, "--json"],
        &["run", &file, "--seeds", "5..7"],
        &["check", "toy-lost-update", "--save", &saved],
        &["replay", &saved],
        &["fuzz", "toy-lost-update", "--seeds", "0..50", "--save", &saved],
    ] {
        let full = fs::File::create("/dev/full").expect("there is one");
        let output = weft(line).stdout(full).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{line:?}: {}", err(&output));
        assert!(err(&output).contains("cannot write to standard output"), "{line:?}: {}", err(&output));
    }
}

#[test]
fn many_seeds_name_those_that_violate_a_check() {
    let scratch = Scratch::new("violated_seeds");
    let file = scratch.file("hopeless.toml", HOPELESS);
    let output = run(&["run", &file, "--seeds", "5..9", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let sum: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&sum["violated"], &sum["first_failure"]["seed"]), (&Value::from(4), &Value::from(5)));
    assert_eq!((&sum["verdict"], &sum["first_failure"]["verdict"]), (&"violated".into(), &"violated".into()));
    assert_eq!(sum["faults"][0]["kind"], sum["first_failure"]["faults"][0]["kind"], "one shape");
    assert_eq!(sum["failing_seeds"], serde_json::json!([5, 6, 7, 8]));
    assert!(out(&run(&["run", &file, "--seeds", "5..9"])).contains("  seeds 5, 6, 7, 8\n"));
}
