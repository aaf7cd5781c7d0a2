//! A run as one page for a browser, which needs nothing beside itself.

use super::{escaped, svg};
use crate::explore::{Failure, Run};
use std::fmt::Write;
use weft_sim::explore::Outcome;

const STYLE: &str = "\
body { font: 15px/1.5 'Helvetica Neue', Helvetica, Arial, sans-serif; color: #2b3440; margin: 2em auto; padding: 0 1.5em; max-width: 90em; overflow-wrap: anywhere; }
@media (max-width: 40em) { body { margin: 1em auto; padding: 0 .8em; } th { padding-right: .8em; } }
h1 { font-size: 1.5em; margin: 0 0 .2em; } .broken { color: #a51717; font-size: 1.05em; margin: 0 0 1.2em; }
table { border-collapse: collapse; margin-bottom: 1.2em; } th { text-align: left; vertical-align: top; white-space: nowrap; font-weight: 400; color: #5d6875; padding: .1em 1.5em .1em 0; }
.diagram { overflow-x: auto; border: 1px solid #e3e7ec; border-radius: 8px; } svg { display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .5em 0; } dt { font-family: monospace; } dd { margin: 0; }
details { margin: 1.5em 0; } summary { cursor: pointer; color: #2d5f93; } pre { font-size: 12px; line-height: 1.45; background: #f6f8fa; padding: 1em; border-radius: 6px; overflow-x: auto; }";

/// Names and signs, for who sees a diagram for the first time.
const WORDS: [(&str, &str); 6] = [
    ("n0", "node 0 of the cluster; nodes are counted from 0"),
    ("n0/c1", "client 1 on node 0: a program that uses the system"),
    ("n0/c1#2", "that client's request 2, counted from 0"),
    (
        "1, 2, …",
        "the events at the left, in the order in which they happened; events of which nothing is seen share a line",
    ),
    (
        "swaps, adds",
        "a node's adapter executes an atomic for another node: what was in the word, and what is there now",
    ),
    (
        "found",
        "what an atomic's answer brings back; \"not\" is the value that was expected, and then nothing was swapped",
    ),
];

/// The page: a title, facts about the run by name, what happened as a drawing and as text.
pub fn page(title: &str, run: &Run, facts: &[(&str, String)]) -> String {
    let (world, svg) = (escaped(title), svg(title, run));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{world}</title>\n\
         <style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{world}</h1>\n"
    );
    let verdict = match &run.violation {
        Some(violation) => format!("Violated: {violation}"),
        None => "Every promise was kept.".to_string(),
    };
    let _ = writeln!(page, "<p class=\"broken\">{}</p>\n<table>", escaped(&verdict));
    for (name, value) in facts {
        let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escaped(value));
    }
    let _ = writeln!(page, "</table>\n<div class=\"diagram\">\n{svg}</div>");
    page.push_str("<details>\n<summary>How to read it</summary>\n<dl>\n");
    for (name, meaning) in WORDS {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(meaning));
    }
    page.push_str("</dl>\n</details>\n");
    let log = escaped(&run.log());
    let _ =
        writeln!(page, "<details>\n<summary>Everything that happened, as text</summary>\n<pre>{log}</pre>");
    page.push_str("</details>\n</body>\n</html>\n");
    page
}

/// What there is to say of a saved failure that was run again.
pub fn facts(saved: &Failure, run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Events", run.choices.0.len().to_string()),
        ("Choices that lead there", saved.choices.0.len().to_string()),
        ("Faults", run.choices.faults().to_string()),
    ];
    if !saved.params.is_empty() {
        facts.push(("Size", saved.params.to_string()));
    }
    let kinds: Vec<&str> = saved.kinds.iter().map(Outcome::name).collect();
    if !kinds.is_empty() {
        facts.push(("Kinds of faults", kinds.join(", ")));
    }
    if let Some(found) = &saved.found {
        facts.push(("Found by", found.by.clone()));
        facts.extend(found.seed.map(|seed| ("Seed", seed.to_string())));
    }
    facts.extend([("Weft", saved.weft.clone()), ("Digest of the log", run.digest())]);
    facts
}
