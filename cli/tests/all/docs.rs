//! What the documentation says is what the program does.

use crate::common::{root, run};
use std::fs;
use weft_check::scenario::ScenarioError;
use weft_check::systems;

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

/// The contents of a page's code blocks in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    page.split(begin.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap_or("")).collect()
}

#[test]
fn the_scenarios_in_the_documentation_are_scenarios() {
    let (readme, reference) = (page("README.md"), page("docs/scenario.md"));
    assert!(!blocks(&reference, "toml").is_empty());
    for text in [blocks(&readme, "toml"), blocks(&reference, "toml")].concat() {
        let scenario = weft_check::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(scenario.warnings(), [""; 0], "{text}");
    }
}

/// The fields that a section knows.
fn fields(section: &str) -> Vec<String> {
    let text = format!("{section}\nno_such_field = 1\n");
    match weft_check::parse(&text) {
        Err(ScenarioError::UnknownField { known, .. }) if !known.is_empty() => known,
        _ => panic!("{section}: an unknown field is not told as one"),
    }
}

#[test]
fn the_reference_names_every_field() {
    let reference = page("docs/scenario.md");
    for section in ["", "[cluster]", "[transport]", "[quits]", "[run]", "[[faults]]"] {
        for field in fields(section) {
            assert!(
                reference.contains(&format!("`{field}`")),
                "{section} {field} is not in docs/scenario.md"
            );
        }
    }
}

/// What pages of `docs/` say of a kind of workload: what stands under the heading of its name.
fn of_kind(kind: &str) -> String {
    let entries = fs::read_dir(root().join("docs")).expect("there are pages");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let pages = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let texts = pages.map(|path| fs::read_to_string(path).expect("a page"));
    let heading = format!("# `kind = \"{kind}\"`\n");
    let below = |text: String| Some(text.split_once(&heading)?.1.split("\n#").next()?.to_owned());
    texts.filter_map(below).collect()
}

/// A system's fields stand in the reference, or in a page of the system's own.
#[test]
fn every_field_of_every_system_is_documented() {
    for system in systems::all() {
        let (kind, text) = (system.kind(), of_kind(system.kind()));
        let known = fields(&format!("[cluster]\nnodes = 1\n[workload]\nkind = \"{kind}\""));
        for field in known.iter().filter(|field| *field != "kind") {
            assert!(text.contains(&format!("`{field}`")), "{field} is in no page under `kind = \"{kind}\"`");
        }
    }
}

/// A number of each table, and each table of times.
#[test]
fn every_number_of_every_systems_report_is_explained() {
    let page = page("docs/report.md");
    let scenarios = [
        "lock-crash-16-ncosed",
        "segments-crash-8",
        "dsm-crash-8",
        "files-guests-8",
        "sockets-bulk-4",
        "messages-16",
    ];
    for name in scenarios {
        let file = format!("scenarios/{name}.toml");
        let output = run(&["run", &file, "--json", "--quiet"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let tables = report.as_object().expect("an object").iter().filter(|(_, table)| table.is_object());
        for (table, numbers) in tables {
            let counts = numbers.as_object().expect("an object").iter().filter(|(_, n)| n.is_number());
            let keys: Vec<&str> = counts.map(|(key, _)| key.as_str()).collect();
            let times = if keys.is_empty() { vec![table.as_str()] } else { Vec::new() };
            for key in keys.into_iter().chain(times) {
                assert!(page.contains(&format!("`{key}`")), "{name}: {table}.{key} is not in docs/report.md");
            }
        }
    }
}
