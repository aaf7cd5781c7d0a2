//! A run as one page for a browser, which needs nothing beside itself.

use super::diagram::escaped;
use std::fmt::Write;
use weft_check::explore::{Failure, Run};
use weft_sim::explore::Outcome;

const STYLE: &str = "\
body { font: 15px/1.5 'Helvetica Neue', Helvetica, Arial, sans-serif; color: #2b3440; margin: 2em auto; padding: 0 1.5em; max-width: 90em; }
h1 { font-size: 1.5em; margin: 0 0 .2em; } .broken { color: #a51717; font-size: 1.05em; margin: 0 0 1.2em; }
table { border-collapse: collapse; margin-bottom: 1.2em; } th { text-align: left; font-weight: 400; color: #5d6875; padding: .1em 1.5em .1em 0; }
.diagram { overflow-x: auto; border: 1px solid #e3e7ec; border-radius: 8px; } svg { display: block; }
details { margin: 1.5em 0; } summary { cursor: pointer; color: #2d5f93; } pre { font-size: 12px; line-height: 1.45; background: #f6f8fa; padding: 1em; border-radius: 6px; overflow-x: auto; }";

/// The page.
pub fn html(saved: &Failure, run: &Run, svg: &str) -> String {
    let world = escaped(&saved.world);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{world}</title>\n\
         <style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{world}</h1>\n"
    );
    let verdict = match &run.violation {
        Some(violation) => format!("Violated: {violation}"),
        None => "Every promise was kept.".to_string(),
    };
    let _ = writeln!(page, "<p class=\"broken\">{}</p>\n<table>", escaped(&verdict));
    for (name, value) in facts(saved, run) {
        let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&value));
    }
    let _ = writeln!(page, "</table>\n<div class=\"diagram\">\n{svg}</div>");
    let log = escaped(&run.log());
    let _ =
        writeln!(page, "<details>\n<summary>Everything that happened, as text</summary>\n<pre>{log}</pre>");
    page.push_str("</details>\n</body>\n</html>\n");
    page
}

fn facts(saved: &Failure, run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Events", run.choices.0.len().to_string()),
        ("Choices that lead there", saved.choices.0.len().to_string()),
        ("Faults", run.choices.faults().to_string()),
    ];
    if !saved.params.is_empty() {
        facts.push(("Size", saved.params.to_string()));
    }
    let kinds: Vec<&str> = saved.kinds.iter().map(Outcome::name).collect();
    facts.push(("Kinds of faults", kinds.join(", ")));
    if let Some(found) = &saved.found {
        facts.push(("Found by", found.by.clone()));
        facts.extend(found.seed.map(|seed| ("Seed", seed.to_string())));
    }
    facts.extend([("Weft", saved.weft.clone()), ("Digest of the log", run.digest())]);
    facts
}
