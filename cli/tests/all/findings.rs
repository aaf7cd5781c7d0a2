//! The diagrams of docs/findings.md are those of the failures beside them, and there is one of every failure that must be.

use crate::common::{Scratch, err, out, root, run};
use std::fs;
use std::path::{Path, PathBuf};

fn files(extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs/findings")).expect("there are findings");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort_by_key(|file| name(file));
    files
}

fn name(file: &Path) -> String {
    file.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_string()
}

#[test]
fn every_diagram_is_that_of_its_failure_as_it_runs_today() {
    let scratch = Scratch::new("findings");
    for file in files("toml") {
        let (drawn, path) = (scratch.path("run.svg"), file.to_str().expect("UTF-8"));
        let replay = run(&["replay", path, "--diagram", &drawn]);
        let hint = "run docs/findings/make";
        assert_eq!(replay.status.code(), Some(1), "{hint}: {}", err(&replay));
        let kept = fs::read_to_string(file.with_extension("svg")).expect("it has a diagram");
        assert!(kept == fs::read_to_string(&drawn).expect("drawn"), "{}: {hint}", name(&file));
        assert!(kept.len() < 60_000, "{} is too large to look at", name(&file));
    }
}

#[test]
fn every_reading_and_every_planted_bug_has_a_diagram_in_the_page() {
    let page = fs::read_to_string(root().join("docs/findings.md")).expect("the page");
    let listed = run(&["check", "--list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(out(&listed)).expect("JSON");
    let mut broken: Vec<&str> = listed["worlds"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|world| world["expected"] != "held")
        .map(|world| world["name"].as_str().expect("a name"))
        .filter(|name| !name.starts_with("toy-"))
        .collect();
    broken.sort_unstable();
    assert_eq!(files("toml").iter().map(|file| name(file)).collect::<Vec<_>>(), broken);
    assert_eq!(files("svg").iter().map(|file| name(file)).collect::<Vec<_>>(), broken);
    for world in broken {
        assert!(page.contains(&format!("](findings/{world}.svg)")), "{world} is not shown");
    }
}
