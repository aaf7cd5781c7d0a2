//! `docs/adding-a-system.md` adds a system to a copy of the workspace, and does nothing that it does not show: the page is
//! where the system's files stand, and here they are cut out of it, built and run.

mod compiled;
mod new_crate;
mod page;
mod workspace;

use page::{Page, Shown};
use std::path::Path;
use std::process::Output;
use workspace::Copy;

/// The folders that are the system's own: one in each of the two crates.
const FOLDERS: [&str; 2] = ["protocols/src/tally/", "model-tests/src/systems/tally/"];

/// The lines that other files get.
const LINES: [(&str, &str); 3] = [
    ("protocols/src/lib.rs", "pub mod tally;"),
    ("model-tests/src/systems/mod.rs", "pub mod tally;"),
    ("model-tests/src/systems/mod.rs", "tally::Tally,"),
];

fn page() -> Page {
    Page::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adding-a-system.md"))
}

/// What a command prints if it is not what the page shows.
fn differs(shown: &Shown, output: &Output) -> Option<String> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let same = |(a, b): (&str, &str)| a.trim_end() == b.trim_end();
    let is_shown = shown.output.lines().count() == printed.trim_end().lines().count()
        && shown.output.lines().zip(printed.lines()).all(same);
    (!shown.output.is_empty() && !is_shown).then(|| format!("$ weft {}\n{printed}", shown.command))
}

fn text(output: &Output) -> String {
    [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat()
}

#[test]
fn a_third_system_is_small_has_two_folders_and_three_lines_elsewhere() {
    let page = page();
    let all: usize = page.files.iter().map(|file| file.text.lines().count()).sum();
    assert!(all < 250, "{all} lines");
    for folder in FOLDERS {
        assert!(page.files.iter().any(|file| file.path.starts_with(folder)), "nothing is in {folder}");
    }
    for file in &page.files {
        assert!(FOLDERS.iter().any(|folder| file.path.starts_with(folder)), "{} is elsewhere", file.path);
    }
    let added: Vec<_> = page.lines.iter().flat_map(|change| change.added()).collect();
    assert_eq!(added, LINES);
    for change in &page.lines {
        assert_eq!(change.removed().next(), None);
        workspace::apply(change);
    }
    assert!(page.bug.path.starts_with(FOLDERS[0]), "the bug is planted in {}", page.bug.path);
}

#[test]
fn a_third_system_runs_and_its_planted_bug_is_found() {
    let page = page();
    let copy = Copy::new("third-system");
    page.files.iter().for_each(|file| copy.write(&file.path, &file.text));
    page.lines.iter().for_each(|change| copy.change(change));
    copy.write("tally.toml", &page.scenario);

    copy.build();
    assert!(!page.holds.is_empty() && !page.finds.is_empty(), "the page shows no command");
    let mut stale = Vec::new();
    for shown in &page.holds {
        let (command, output) = (&shown.command, copy.weft(&shown.command));
        assert_eq!(output.status.code(), Some(0), "weft {command}\n{}", text(&output));
        stale.extend(differs(shown, &output));
    }

    copy.change(&page.bug);
    copy.build();
    for shown in &page.finds {
        let (command, output) = (&shown.command, copy.weft(&shown.command));
        assert_eq!(output.status.code(), Some(1), "weft {command}\n{}", text(&output));
        assert!(text(&output).contains("exactly once"), "weft {command}\n{}", text(&output));
        stale.extend(differs(shown, &output));
    }
    assert!(page.holds.iter().chain(&page.finds).filter(|shown| !shown.output.is_empty()).count() >= 3);
    assert!(stale.is_empty(), "the page shows something else:\n{}", stale.join("\n"));

    let mut touched: Vec<String> = page.files.iter().map(|file| file.path.clone()).collect();
    touched.extend(page.lines.iter().map(|change| change.path.clone()));
    touched.sort();
    touched.dedup();
    assert_eq!(copy.touched(), touched);
}
