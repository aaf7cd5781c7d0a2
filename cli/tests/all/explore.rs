//! `weft check`, `weft fuzz` and `weft replay`, as a user runs them.

use crate::common::{Scratch, err, out, refused, run, weft};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn json(output: &Output) -> Value {
    serde_json::from_str(out(output))
        .unwrap_or_else(|error| panic!("{error}\n{}{}", out(output), err(output)))
}

fn worlds() -> Vec<(String, String)> {
    let listed = json(&run(&["check", "--list", "--json"]));
    let worlds = listed["worlds"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_string();
    worlds.map(|world| (text(&world["name"]), text(&world["expected"]))).collect()
}

#[test]
fn the_list_names_every_world_once() {
    let worlds = worlds();
    let mut names: Vec<&String> = worlds.iter().map(|(name, _)| name).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    let text = run(&["check", "--list"]);
    assert!(names.iter().all(|name| out(&text).contains(name.as_str())));
}

#[test]
fn every_world_is_checked_by_one_command_and_comes_out_as_the_list_says_as_far_as_it_comes() {
    let output = run(&["check", "--all", "--max-seconds", "0.02", "--quiet", "--json"]);
    assert_eq!(output.status.code(), Some(3), "some take longer than that: {}", err(&output));
    let report = json(&output);
    let checked = report["worlds"].as_array().expect("a list").iter();
    let names = checked.map(|world| (world["world"].clone(), world["expected"].clone()));
    let listed = worlds().into_iter().map(|(name, must)| (Value::from(name), Value::from(must)));
    assert!(names.eq(listed), "those that are listed, in that order");
    refused(&["check", "srsl", "--all"], &["cannot be used with"]);
}

#[test]
fn a_check_that_holds_says_what_was_covered() {
    for reduction in ["none", "sleep", "dpor", "cache"] {
        let output = run(&["check", "toy-sound-lock", "--reduction", reduction, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let report = json(&output);
        assert_eq!((&report["verdict"], &report["exhaustive"]), (&"held".into(), &true.into()));
        for field in ["executions", "transitions", "states", "seconds"] {
            assert!(report[field].as_f64().expect("a number") > 0.0, "{field}");
        }
        assert_eq!(report["world"], "toy-sound-lock");
        assert!(report["coverage"].is_object() && report["counterexample"].is_null());
    }
}

#[test]
fn a_check_comes_to_the_same_by_any_number_of_workers() {
    let scratch = Scratch::new("jobs");
    for (world, status) in [("srsl", 0), ("as-published-zero-tail-holds", 1)] {
        let by = |jobs: &str, more: &[&str]| {
            let file = scratch.path(&format!("{world}.{jobs}.toml"));
            let line = ["check", world, "--set", "modes=*,*", "--jobs", jobs, "--save", &file, "--json"];
            let output = run(&[&line[..], more].concat());
            assert_eq!(output.status.code(), Some(status), "{}", err(&output));
            let mut report = json(&output);
            (report["seconds"], report["file"]) = (0.into(), Value::Null);
            (report, fs::read_to_string(&file).ok())
        };
        assert_eq!(by("1", &[]), by("2", &[]), "{world}");
        let counts = |(report, _): &(Value, _)| (report["executions"].clone(), report["states"].clone());
        assert_eq!(counts(&by("2", &["--no-memo"])), counts(&by("2", &[])), "{world}");
    }
}

/// The search for a shorter run is over before it has begun, which is told on the way.
#[test]
fn a_failure_is_told_and_saved_where_standard_error_takes_no_line() {
    let scratch = Scratch::new("full_stderr");
    let file = scratch.path("p.toml");
    let line = ["check", "planted-mcs", "--shrink-seconds", "0.001", "--save", &file, "--quiet"];
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = weft(&line).stderr(full).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).starts_with("VIOLATED: planted-mcs"), "{}", out(&output));
    assert!(fs::read_to_string(&file).expect("it is saved").contains("planted-mcs"));
}

#[test]
fn a_failure_that_is_saved_into_a_pipe_comes_to_who_reads_it() {
    let scratch = Scratch::new("pipe");
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let reads = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let first = fs::read_to_string(&pipe).expect("it is there");
            if first.is_empty() {
                // It was opened for nothing, and a writer that comes back waits for a reader.
                drop(fs::read(&pipe));
            }
            first
        }
    });
    let found = run(&["check", "toy-mcs-links-first", "--save", &pipe, "--quiet"]);
    assert_eq!(found.status.code(), Some(1), "{}", err(&found));
    assert!(reads.join().expect("no panic").contains("toy-mcs-links-first"));
}

#[test]
fn a_failure_is_saved_and_replays_to_the_byte() {
    let scratch = Scratch::new("replay");
    let file = scratch.path("failure.toml");
    let found = run(&["check", "toy-blind-resend", "--faults", "1", "--save", &file, "--json"]);
    assert_eq!(found.status.code(), Some(1), "{}", err(&found));
    let report = json(&found);
    assert_eq!(report["verdict"], "violated");
    assert_eq!(report["counterexample"]["violation"]["oracle"], "check");
    assert_eq!(report["file"], file.as_str());
    let (first, second) = (run(&["replay", &file]), run(&["replay", &file]));
    assert_eq!((first.status.code(), out(&first)), (Some(1), out(&second)));
    assert!(out(&first).contains("the same as when it was saved"), "{}", out(&first));
    assert_eq!(json(&run(&["replay", &file, "--json"]))["same"], true);
}

#[test]
fn a_failure_of_the_fabrics_replays_in_another_process_with_its_packets() {
    let scratch = Scratch::new("fabric");
    let (file, svg) = (scratch.path("failure.toml"), scratch.path("run.svg"));
    let kinds = ["--faults", "1", "--kinds", "lose-completion"];
    let found = run(&[&["check", "planted-resend", "--save", &file], &kinds[..]].concat());
    assert_eq!(found.status.code(), Some(1), "{}", err(&found));
    let again = run(&["replay", &file, "--diagram", &svg]);
    assert_eq!(again.status.code(), Some(1), "{}", err(&again));
    let drawn = fs::read_to_string(&svg).expect("drawn");
    assert!(
        drawn.contains("fetch-add")
            && drawn.contains("lose-completion")
            && drawn.contains("class=\"packet\"")
    );
}

#[test]
fn a_failure_file_says_all_that_a_replay_needs_and_how_it_was_found() {
    let scratch = Scratch::new("whole");
    let file = scratch.path("failure.toml");
    let line = [
        "check",
        "planted-resend",
        "--set",
        "nodes=3",
        "--faults",
        "1",
        "--kinds",
        "requester-gave-up,lose-completion",
    ];
    let found = run(&[&line[..], &["--oracle", "linearizability", "--save", &file]].concat());
    assert_eq!(found.status.code(), Some(1), "{}", err(&found));
    let saved: toml::Table = fs::read_to_string(&file).expect("saved").parse().expect("TOML");
    assert_eq!(saved["kinds"].to_string(), r#"["lose-completion", "requester-gave-up"]"#);
    assert_eq!(saved["params"]["nodes"].as_integer(), Some(2), "two nodes show it");
    let how = saved["found"].as_table().expect("how it was found");
    assert_eq!((how["by"].as_str(), how["faults"].as_integer()), (Some("dpor"), Some(1)));
    assert_eq!(
        (how["oracle"].as_str(), how["params"]["nodes"].as_integer()),
        (Some("linearizability"), Some(3))
    );
    assert_eq!(run(&["replay", &file]).status.code(), Some(1));
}

#[test]
fn a_promise_is_looked_for_past_those_that_are_broken_before() {
    let scratch = Scratch::new("oracle");
    let file = scratch.path("failure.toml");
    let line = ["check", "as-published-resets-both", "--livelock", "400", "--save", &file, "--json"];
    let found = json(&run(&[&line[..], &["--oracle", "mutual exclusion"]].concat()));
    assert_eq!(found["counterexample"]["violation"]["oracle"], "mutual exclusion");
    let found = json(&run(&[&line[..], &["--oracle", "possible livelock"]].concat()));
    assert_eq!(found["counterexample"]["violation"]["oracle"], "possible livelock");
    let none = run(&["check", "toy-lost-update", "--oracle", "mutual exclusion", "--json"]);
    let report = json(&none);
    assert_eq!((none.status.code(), &report["exhaustive"]), (Some(3), &false.into()));
    assert!(report["passed_over"].as_u64().expect("a number") > 0);
}

#[test]
fn a_run_is_drawn_as_a_picture_and_as_a_page() {
    let scratch = Scratch::new("diagram");
    let file = scratch.path("failure.toml");
    run(&["check", "toy-ticket-wraps", "--save", &file]);
    let (svg, html) = (scratch.path("run.svg"), scratch.path("run.html"));
    for path in [&svg, &html] {
        assert_eq!(run(&["replay", &file, "--diagram", path]).status.code(), Some(1));
        let drawn = fs::read_to_string(path).expect("drawn");
        assert!(drawn.contains("Violated: mutual exclusion") && drawn.contains("class=\"exclusive\""));
        assert!(
            !drawn.contains("http")
                || drawn.matches("http").count() == drawn.matches("w3.org/2000/svg").count()
        );
    }
    assert!(fs::read_to_string(&svg).expect("drawn").starts_with("<svg"));
    assert!(fs::read_to_string(&html).expect("drawn").starts_with("<!DOCTYPE html>"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_verdict_survives_a_full_disk() {
    for line in [
        &["check", "toy-lost-update", "--save", "/dev/full"][..],
        &["fuzz", "toy-lost-update", "--seeds", "0..50", "--save", "/dev/full"],
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(1), "{line:?}");
        assert!(out(&output).starts_with("VIOLATED"), "{line:?}: {}", out(&output));
        assert!(err(&output).contains("cannot write the failure /dev/full"), "{line:?}: {}", err(&output));
    }
}

#[test]
fn a_diagram_is_svg_or_html_and_does_not_take_the_place_of_its_failure() {
    let scratch = Scratch::new("endings");
    let (file, page) = (scratch.path("failure.toml"), scratch.path("f.html"));
    run(&["check", "toy-lost-update", "--save", &file]);
    let saved = fs::read_to_string(&file).expect("saved");
    for out in [&scratch.path("x.png"), &scratch.path("x"), &file] {
        let output = run(&["replay", &file, "--diagram", out]);
        assert_eq!(output.status.code(), Some(2), "{out}");
        assert!(err(&output).contains(".svg") && err(&output).contains(".html"), "{}", err(&output));
    }
    fs::rename(&file, &page).expect("renamed");
    let output = run(&["replay", &page, "--diagram", &page]);
    assert!(output.status.code() == Some(2) && err(&output).contains("would overwrite"), "{}", err(&output));
    assert_eq!(fs::read_to_string(&page).expect("there"), saved);
}

#[test]
fn a_file_of_another_run_is_told_from_the_one_that_was_saved() {
    let scratch = Scratch::new("other");
    let file = scratch.path("failure.toml");
    run(&["check", "toy-lost-update", "--save", &file]);
    let text = fs::read_to_string(&file).expect("saved");
    let digest = text.lines().find(|line| line.starts_with("digest")).expect("a digest");
    let other = scratch.file("other.toml", text.replace(digest, "digest = \"0000000000000000\""));
    let output = run(&["replay", &other]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("not the run that was saved"), "{}", err(&output));
}

#[test]
fn a_limit_ends_a_check_with_what_was_covered() {
    let scratch = Scratch::new("limit");
    let save = scratch.path("f.toml");
    let deep = run(&["check", "toy-sound-lock", "--max-depth", "5", "--save", &save, "--json"]);
    let report = json(&deep);
    assert_eq!(
        (deep.status.code(), &report["verdict"], &report["exhaustive"], &report["stopped"]),
        (Some(3), &"held so far".into(), &false.into(), &"depth".into())
    );
    assert_eq!(scratch.names(), [""; 0], "a limit is no failure to be saved");
    let short = run(&["check", "toy-sound-lock", "--max-seconds", "0.000001", "--json"]);
    let report = json(&short);
    assert_eq!(
        (short.status.code(), &report["exhaustive"], &report["stopped"]),
        (Some(3), &false.into(), &"time".into())
    );
}

/// It takes eight events to see it, and `dpor` would learn from later ones to try that order.
#[test]
fn what_goes_wrong_within_the_most_events_is_found() {
    let scratch = Scratch::new("depth");
    let save = scratch.path("f.toml");
    let line = ["check", "planted-tickets", "--max-depth", "8", "--save", &save, "--json"];
    let found = run(&line);
    assert_eq!((found.status.code(), &json(&found)["reduction"]), (Some(1), &"sleep".into()));
    let asked = json(&run(&[&line[..], &["--reduction", "dpor"]].concat()));
    assert_eq!(asked["reduction"], "dpor");
}

#[test]
fn a_check_counts_the_faults_that_struck_and_names_the_kinds_that_never_did() {
    let output =
        run(&["check", "srsl", "--set", "modes=x,x", "--faults", "1", "--kinds", "drop,cut", "--json"]);
    let report = json(&output);
    for kind in ["drop", "cut"] {
        assert!(report["struck"][kind].as_u64().expect("counted") > 0, "{report}");
    }
    assert_eq!(json(&run(&["check", "toy-sound-lock", "--json"]))["struck"], serde_json::json!({}));
    let output = run(&["check", "toy-sound-lock", "--faults", "1", "--kinds", "drop"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("No fault of these kinds ever struck: drop"), "{}", out(&output));
}

#[test]
fn what_would_hold_because_nothing_is_looked_at_is_refused_with_what_there_is() {
    for (line, says) in [
        (&["check", "srsl", "--kinds", "drop"][..], "add --faults 1"),
        (&["fuzz", "srsl", "--kinds", "drop", "--faults", "0"], "add --faults 1"),
        (&["check", "srsl", "--oracle", "foo"], "it has: mutual exclusion"),
        (&["check", "srsl", "--set", "requests=0"], "requests is 0, and must be 1 to"),
    ] {
        let output = run(line);
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{line:?}");
        assert!(err(&output).contains(says), "{line:?}: {}", err(&output));
    }
}

#[test]
fn fuzzing_counts_the_seeds_whose_faults_struck() {
    let scratch = Scratch::new("fuzz");
    let save = scratch.path("f.toml");
    let fuzz = |jobs: &str| {
        run(&[
            "fuzz",
            "toy-blind-resend",
            "--faults",
            "1",
            "--seeds",
            "0..400",
            "--jobs",
            jobs,
            "--save",
            &save,
            "--json",
        ])
    };
    let (one, two) = (fuzz("1"), fuzz("2"));
    assert_eq!(one.status.code(), Some(1), "{}", err(&one));
    let (mut first, mut second) = (json(&one), json(&two));
    for report in [&mut first, &mut second] {
        report["seconds"] = 0.into();
    }
    assert_eq!(first, second, "it does not depend on how many run at a time");
    let faults = first["faults"].as_array().expect("a list");
    let drop = faults.iter().find(|fault| fault["kind"] == "drop").expect("it is of them");
    assert!(drop["seeds_struck"].as_u64().expect("a number") > 0);
    assert_eq!(run(&["replay", &save]).status.code(), Some(1));
}

#[test]
fn a_fuzz_of_no_time_tells_of_one_seed_at_least() {
    let output = run(&["fuzz", "toy-sound-lock", "--seconds", "0.000001", "--json"]);
    assert_eq!((output.status.code(), json(&output)["seeds"].as_u64()), (Some(0), Some(1)));
}

#[test]
fn the_swarm_of_sixteen_holds_in_every_scheme() {
    let output = run(&["fuzz", "swarm-16", "--seeds", "0..9", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let report = json(&output);
    assert_eq!((&report["seeds"], &report["verdict"]), (&9.into(), &"held".into()));
    let struck = |fault: &Value| fault["seeds_struck"].as_u64().expect("a number") > 0;
    assert!(report["faults"].as_array().expect("a list").iter().any(struck));
}

#[test]
fn scripts_that_nobody_thought_of_hold_in_every_system() {
    for kind in ["ncosed", "messages", "sdp", "ddss", "dsm", "pario"] {
        let output = run(&["fuzz", &format!("worlds-{kind}"), "--seeds", "0..6", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{kind}: {}", err(&output));
    }
}

#[test]
fn small_swarms_without_jitter_hold_in_every_system() {
    for what in ["", "-messages-rails", "-sdp-rails", "-ddss", "-dsm", "-pario-rails"] {
        let output = run(&["fuzz", &format!("swarm{what}-exact"), "--seeds", "0..30", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{what}: {}", err(&output));
    }
}

#[test]
fn what_cannot_be_explored_is_told_in_one_line() {
    let scratch = Scratch::new("wrong");
    let empty = scratch.file("empty.toml", "");
    let wrong: [&[&str]; 32] = [
        &["check"],
        &["check", "nowhere"],
        &["check", "toy-sound-lock", "--set", "nodes=9"],
        &["check", "toy-sound-lock", "--reduction", "magic"],
        &["check", "toy-sound-lock", "--kinds", "drop,bang"],
        &["check", "mcs", "--faults", "1"],
        &["check", "counter", "--kinds", "crash"],
        &["check", "counter", "--set", "modes=x,s"],
        &["check", "counter", "--set", "nodes=9"],
        &["check", "counter", "--set", "nodes"],
        &["check", "ddss-back", "--faults", "2"],
        &["check", "ddss-write", "--set", "calls=e,p"],
        &["check", "ddss-named", "--set", "calls=p,f"],
        &["check", "dsm-sb", "--set", "threads=x1.b,y1"],
        &["check", "dsm-lock", "--set", "threads=l.x?,x+"],
        &["fuzz", "worlds-nowhere"],
        &["fuzz", "worlds", "--set", "calls=p"],
        &["fuzz", "swarm-16", "--set", "nodes=3"],
        &["fuzz", "tickets", "--faults", "1"],
        &["fuzz", "swarm-16", "--kinds", "drop"],
        &["fuzz", "swarm-16", "--strategy", "pct"],
        &["fuzz", "swarm-16-rails-rails"],
        &["fuzz", "swarm-16-magic"],
        &["fuzz", "swarm-0"],
        &["fuzz", "swarm-1-sdp"],
        &["fuzz", "swarm-5000"],
        &["check", "toy-sound-lock", "--livelock", "0"],
        &["check", "toy-sound-lock", "--livelock", "1"],
        &["check", "toy-sound-lock", "--jobs", "60000"],
        &["check", "--list", "nothing-begins-so"],
        &["replay", &empty],
        &["replay", "no such file"],
    ];
    for line in wrong {
        refused(line, &[]);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_looked_for() {
    let scratch = Scratch::new("nowhere");
    let (nowhere, svg) = (scratch.path("none/x.toml"), scratch.path("none/x.svg"));
    refused(&["check", "toy-lost-update", "--save", &nowhere], &["cannot write the failure", "none/x.toml"]);
    refused(
        &["fuzz", "toy-lost-update", "--seeds", "0..9", "--save", &nowhere],
        &["cannot write the failure", "none/x.toml"],
    );
    let file = scratch.path("failure.toml");
    run(&["check", "toy-lost-update", "--save", &file]);
    refused(&["replay", &file, "--diagram", &svg], &["cannot write the diagram", "none/x.svg"]);
    assert_eq!(scratch.names(), ["failure.toml"]);
}

#[test]
fn without_a_place_for_what_is_found_nothing_is_looked_for() {
    let scratch = Scratch::new("no_place");
    let usual = scratch.path("toy-lost-update.failure.toml");
    fs::create_dir_all(&usual).expect("a directory where the failure is to be");
    for line in [&["check", "toy-lost-update"][..], &["fuzz", "toy-lost-update", "--seeds", "0..9"]] {
        let output = weft(line).current_dir(scratch.path("")).output().expect("the program starts");
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{line:?}");
        let says = "weft: without --save: cannot write the failure toy-lost-update.failure.toml";
        assert!(err(&output).starts_with(says), "{line:?}: {}", err(&output));
    }
}

#[test]
fn what_no_failure_is_saved_as_is_in_no_fuzz_s_way() {
    let scratch = Scratch::new("other_place");
    for (name, world) in [("swarm-4.failure.toml", "swarm-4"), ("worlds-srsl.failure.toml", "worlds-srsl")] {
        fs::create_dir_all(scratch.path(name)).expect("a directory");
        let output = weft(&["fuzz", world, "--seeds", "0..1"]).current_dir(scratch.path("")).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{world}: {}", err(&output));
    }
}

#[test]
fn a_failure_file_with_an_impossible_digest_is_bad_input() {
    let scratch = Scratch::new("digest");
    let file = scratch.path("failure.toml");
    run(&["check", "toy-lost-update", "--save", &file]);
    let text = fs::read_to_string(&file).expect("saved");
    let digest = text.lines().find(|line| line.starts_with("digest")).expect("a digest");
    let other = scratch.file("other.toml", text.replace(digest, "digest = \"zz\""));
    refused(&["replay", &other], &["other.toml", "digest = \"zz\""]);
}

#[test]
fn the_list_fits_a_terminal_and_can_be_of_one_system() {
    let list = |more: &[&str]| run(&[&["check", "--list"], more].concat());
    for line in out(&list(&[])).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let of = |more: &[&str]| {
        json(&list(&[more, &["--json"]].concat()))["worlds"].as_array().expect("a list").clone()
    };
    let files = of(&["pario"]);
    assert!(files.len() > 10 && files.iter().all(|world| world["system"] == "pario"));
    assert_eq!(of(&["toy-sound-lock"]).len(), 1);
}
