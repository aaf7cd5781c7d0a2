//! What the documentation says is what the program does.

mod common;

use common::root;
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
        if let Err(error) = weft_check::parse(text) {
            panic!("{error}\n{text}");
        }
    }
}

#[test]
fn the_reference_names_every_field() {
    let reference = page("docs/scenario.md");
    let sections = ["", "[cluster]", "[transport]", "[run]", "[[faults]]"].map(str::to_string);
    let workload = |kind| format!("[cluster]\nnodes = 1\n[workload]\nkind = \"{kind}\"");
    let workloads = systems::all().iter().map(|system| workload(system.kind()));
    for section in sections.into_iter().chain(workloads) {
        let text = format!("{section}\nno_such_field = 1\n");
        let Err(ScenarioError::UnknownField { known, .. }) = weft_check::parse(&text) else {
            panic!("{section}: an unknown field is not told as one");
        };
        assert!(!known.is_empty());
        for field in known {
            assert!(
                reference.contains(&format!("`{field}`")),
                "{section} {field} is not in docs/scenario.md"
            );
        }
    }
}
