//! `weft paper`: rows are complete, a report is one that a browser shows, and bad arguments are refused.

use crate::common::{Scratch, err, out, refused, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use weft_protocols::locks::Scheme;

fn rows() -> Vec<Value> {
    let output = run(&["paper", "ncosed", "--json", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON value and nothing else");
    assert!(report["fitted"].as_array().is_some_and(|fitted| fitted.len() == 2), "{report}");
    report["rows"].as_array().expect("rows").clone()
}

#[test]
fn every_row_is_complete_and_no_figure_is_missing() {
    let rows = rows();
    for row in &rows {
        let fields: Vec<&String> = row.as_object().expect("an object").keys().collect();
        assert_eq!(
            fields,
            ["deviation_percent", "figure", "measured", "paper", "series", "unit", "x"],
            "{row}"
        );
        assert!(row["figure"].is_string() && row["series"].is_string() && row["unit"].is_string(), "{row}");
        assert!(row["x"].is_string() || row["x"].is_u64(), "{row}");
        assert!(row["measured"].as_f64().is_some_and(|value| value >= 0.0), "{row}");
        // A deviation stands where the paper has a value.
        assert_eq!(row["paper"].is_null(), row["deviation_percent"].is_null(), "{row}");
    }
    for scheme in Scheme::ALL {
        for (figure, count) in
            [("Figure 5(a)", 2), ("Figure 5(b)", 2), ("Figure 7(a)", 30), ("Figure 7(b)", 30)]
        {
            let wanted = |row: &&Value| {
                row["figure"] == figure && row["series"] == scheme.name() && row["unit"] == "us"
            };
            assert_eq!(rows.iter().filter(wanted).count(), count, "{figure}, {scheme}");
        }
    }
    for figure in ["Table 1", "Section 4.1, IPC", "Figure 6", "Section 4.2, unlock", "Table 2"] {
        assert!(rows.iter().any(|row| row["figure"] == figure), "{figure}");
    }
}

#[test]
fn a_report_is_written_whole_and_tables_fit_a_terminal() {
    let scratch = Scratch::new("paper_report");
    let dir = scratch.path("a/new/directory");
    let output = run(&["paper", "ncosed", "--quiet", "--report", &dir]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    // A path is as long as its user made it.
    let text = out(&output).replace(&dir, "DIR");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for part in ["Fitted", "Goals", "Figure 7(b)", "ncosed.html"] {
        assert!(out(&output).contains(part), "{part}");
    }
    let page = fs::read_to_string(format!("{dir}/ncosed.html")).expect("a page");
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(page.trim_end().ends_with("</html>"));
    // The icon is empty: without one, a browser asks a server for it.
    let page = page.replace("<link rel=\"icon\" href=\"data:,\">", "");
    for outside in ["<link", "<script", "src=", "@import", "href="] {
        assert!(!page.contains(outside), "the page needs something beside itself: {outside}");
    }
    for name in ["figure-5a", "figure-5b", "figure-6", "figure-7a", "figure-7b"] {
        let svg = fs::read_to_string(format!("{dir}/{name}.svg")).expect(name);
        assert!(svg.contains("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
    }
}

#[test]
fn the_list_names_each_paper_and_says_what_is_repeated() {
    let list = run(&["paper", "--list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).expect("one JSON value and nothing else");
    let papers = list["papers"].as_array().expect("a list");
    let names: BTreeSet<&str> = papers.iter().filter_map(|paper| paper["name"].as_str()).collect();
    assert_eq!(names.len(), papers.len(), "each has a name of its own");
    assert!(names.contains("ncosed"));
    let (text, help) = (run(&["paper", "--list"]), run(&["paper", "--help"]));
    for paper in papers {
        for field in ["name", "about", "title", "details"] {
            assert!(paper[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {paper}");
        }
        let name = paper["name"].as_str().unwrap_or_default();
        assert!(out(&text).contains(name) && out(&help).contains(name), "{name}");
    }
    assert!(out(&text).lines().all(|line| line.chars().count() <= 100), "{}", out(&text));
}

#[test]
fn what_cannot_be_repeated_is_refused_in_one_line() {
    let scratch = Scratch::new("paper_refused");
    let file = scratch.file("file", "");
    let wrong: [(&[&str], &str); 6] = [
        (&["paper"], "ncosed"),
        (&["paper", "fly"], "there are: ncosed"),
        (&["paper", "ncosed", "--list"], "--list"),
        (&["paper", "ncosed", "--waiters", "3"], "--waiters"),
        (&["paper", "ncosed", "--report"], "--report"),
        (&["paper", "ncosed", "--report", &file], "file"),
    ];
    for (args, says) in wrong {
        refused(args, &[says]);
    }
}
