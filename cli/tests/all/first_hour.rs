//! What a user meets in the first hour: logs and pages that tell, a crate to begin with, a shell that completes.

use crate::common::{Scratch, err, out, root, run};
use std::fs;
use std::process::Command;

/// The lines of a log that are of a kind.
fn lines<'a>(log: &'a str, kind: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.split_whitespace().nth(2) == Some(kind)).collect()
}

#[test]
fn a_log_alone_says_who_asked_who_held_and_what_was_swapped() {
    let log = run(&["run", "scenarios/quick-3.toml", "--set", "workload.scheme=ncosed", "--log", "-"]);
    let log = out(&log);
    let notes = lines(log, "note");
    for what in ["asks", "is granted", "releases"] {
        assert!(notes.iter().any(|note| note.contains(" n0/c0#0 ") && note.contains(what)), "{what}");
    }
    let count = |what: &str| notes.iter().filter(|note| note.contains(what)).count();
    assert!(count("asks") > 10 && count("is granted") == count("releases"));
    let executed = lines(log, "execute");
    let named = |words: &str| executed.iter().any(|line| line.contains(words));
    assert!(named(" ; swaps lock 0's word: was free, now n"), "{executed:#?}");
    assert!(named(" ; swaps nothing: lock "), "a swap that failed says so");
    assert!(executed.iter().all(|line| line.contains(" at=0x")));
}

#[test]
fn memory_that_is_reached_has_a_name_in_every_systems_log() {
    let systems: [(&str, &[&str], &[&str]); 4] = [
        (
            "scenarios/segments-16.toml",
            &["workload.requests=10"],
            &[" ; swaps segment ", "'s header: was version ", " ; reads segment ", " bytes at slot "],
        ),
        ("scenarios/dsm-16.toml", &["workload.requests=20"], &[" bytes at minipage ", " of object "]),
        (
            "scenarios/files-16.toml",
            &["workload.requests=10"],
            &[" ; reads ", " ; writes ", " bytes at buffer "],
        ),
        ("scenarios/sockets-zcopy-4.toml", &["workload.requests=1"], &[" bytes at buffer "]),
    ];
    for (scenario, set, names) in systems {
        let mut line = vec!["run", scenario, "--log", "-", "--quiet"];
        set.iter().for_each(|field| line.extend(["--set", field]));
        let log = run(&line);
        assert_eq!(log.status.code(), Some(0), "{scenario}: {}", err(&log));
        let executed = lines(out(&log), "execute");
        for name in names {
            assert!(
                executed.iter().any(|line| line.contains(name)),
                "{scenario}: {name}: {:#?}",
                executed.first()
            );
        }
        let unnamed: Vec<_> = executed.iter().filter(|line| !line.contains(" ; ")).collect();
        // What a node that restarts has left behind, say.
        assert!(
            unnamed.len() * 50 <= executed.len(),
            "{scenario}: {} of {}: {:#?}",
            unnamed.len(),
            executed.len(),
            unnamed.first()
        );
    }
}

#[test]
fn the_page_of_the_log_shows_lines_that_the_log_has() {
    let page = fs::read_to_string(root().join("docs/log.md")).expect("the page");
    let log = run(&["run", "scenarios/quick-3.toml", "--set", "workload.scheme=ncosed", "--log", "-"]);
    let shown = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    for line in shown.lines() {
        assert!(out(&log).lines().any(|said| said == line), "the log does not say: {line}");
    }
}

#[test]
fn a_page_names_memory_and_says_how_to_read_names_and_has_no_rows_of_bare_steps() {
    let scratch = Scratch::new("page");
    let failure = root().join("docs/findings/as-published-resets-by-write.toml");
    let page = scratch.path("run.html");
    run(&["replay", failure.to_str().expect("UTF-8"), "--diagram", &page]);
    let page = fs::read_to_string(page).expect("the page");
    for said in
        ["swaps nothing: the lock's word is n1 last, not free", "<dt>n0/c1#2</dt>", "width=device-width"]
    {
        assert!(page.contains(said), "{said}");
    }
    assert!(!page.contains(">step<"));
}

#[test]
fn a_new_crate_is_the_tested_example_by_another_name() {
    let scratch = Scratch::new("new");
    let folder = scratch.path("ring-of-tokens");
    let made = run(&["new", &folder]);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).expect(name);
    let example =
        fs::read_to_string(root().join("model-tests/examples/new_protocol.rs")).expect("the example");
    assert_eq!(read("src/main.rs"), example.replace("new_protocol", "ring-of-tokens"));
    assert!(read(".gitignore").contains("*.failure.toml"));
    // Its manifest is one that Cargo reads, and the crates that it names are where it says.
    let manifest = format!("{folder}/Cargo.toml");
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1", "--manifest-path", &manifest])
        .output()
        .expect("cargo starts");
    assert!(cargo.status.success(), "{}", err(&cargo));
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let crates = manifest["dependencies"].as_table().expect("a table");
    for (name, entry) in crates {
        let path = entry["path"].as_str().expect("a path");
        let manifest = fs::read_to_string(format!("{path}/Cargo.toml")).expect("a crate");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in {path}");
    }
    assert_eq!(crates.len(), 4);
    let again = run(&["new", &folder]);
    assert_eq!(again.status.code(), Some(2), "what is there is not written over");
    assert_eq!(run(&["new", &scratch.path("Not A Crate")]).status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_new_crate_that_cannot_be_written_leaves_no_folder() {
    let scratch = Scratch::new("new-full");
    // A disk that is full, as far as this program can tell.
    let line = format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" new {}", scratch.path("mine"));
    let made = Command::new("sh")
        .args(["-c", &line, env!("CARGO_BIN_EXE_weft")])
        .output()
        .expect("there is a shell");
    assert_eq!(made.status.code(), Some(3), "{}", err(&made));
    assert!(err(&made).contains("cannot write the manifest"), "{}", err(&made));
    assert!(scratch.names().is_empty());
}

#[test]
fn a_crate_that_could_not_be_built_by_its_name_is_not_made() {
    let scratch = Scratch::new("new-names");
    for name in ["fn", "gen", "core", "test", "deps", "proc-macro", "weft-sim", "weft_sim", "reached"] {
        let folder = scratch.path(name);
        let made = run(&["new", &folder]);
        assert_eq!(made.status.code(), Some(2), "{name}");
        assert_eq!(err(&made).lines().count(), 1, "{name}: {}", err(&made));
        assert!(err(&made).contains("no crate can have that name"), "{name}: {}", err(&made));
        assert!(!fs::exists(&folder).expect("the scratch folder"), "{name}");
    }
}

#[test]
fn shells_complete_and_manuals_exist_for_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.status.code(), Some(0));
        assert!(out(&script).contains("replay") && out(&script).contains("diagram"), "{shell}");
    }
    assert!(out(&run(&["man"])).contains(".SH NAME"));
    let scratch = Scratch::new("man");
    let folder = scratch.path("man");
    assert_eq!(run(&["man", &folder]).status.code(), Some(0));
    for command in ["weft", "weft-run", "weft-check", "weft-replay", "weft-new"] {
        let page = fs::read_to_string(format!("{folder}/{command}.1")).expect(command);
        assert!(page.contains(".SH NAME"), "{command}");
    }
}

#[test]
fn manual_pages_name_no_page_that_is_not_there_and_have_every_option() {
    let scratch = Scratch::new("man-all");
    let folder = scratch.path("man");
    assert_eq!(run(&["man", &folder]).status.code(), Some(0));
    let read = |name: &str| fs::read_to_string(format!("{folder}/{name}.1")).expect(name);
    for entry in fs::read_dir(&folder).expect("the folder") {
        let page = fs::read_to_string(entry.expect("a page").path()).expect("text").replace("\\-", "-");
        assert!(page.contains("\"weft 0.1.0\"") && !page.contains("EXTRA"), "{page}");
        page.lines().filter_map(|line| line.strip_suffix("(1)")).for_each(|named| drop(read(named)));
    }
    let pages = [("weft-fs-put", "strip"), ("weft-segment-put", "model"), ("weft-bench-fabric", "window")];
    for (name, option) in pages.into_iter().chain([("weft-bench-system", "variant")]) {
        assert!(read(name).contains(&format!("\\-\\-{option}")), "{name} {option}");
    }
    assert!(read("weft-fs").contains(".SH \"EXAMPLES\""));
}
