//! The commands in the README and in docs/ run, in the order of their page, and print what the page shows.
//!
//! Those that need devices, another program or a placeholder's value are left to `.ci/run` and its steps. Numbers that only say
//! how long something goes on are made smaller.

use crate::common::{Scratch, out, root};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// How to begin a command of Weft on these pages.
const PROGRAMS: [&str; 2] = ["weft ", "cargo run --release -- "];

/// What makes a command long without making it another one, and what stands for it here.
const SHORTER: [(&str, &str); 3] =
    [("0..1000", "0..2"), ("0..100", "0..10"), ("--messages 2000000", "--messages 2000")];

/// The README and the pages of docs/, in the order of their names.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs")).expect("there are pages");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.insert(0, root().join("README.md"));
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).expect("a page"));
    paths.into_iter().map(read).collect()
}

/// The lines of a page's shell blocks that run the program, without the program's name and the comment.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines);
    let of_weft =
        |line: &str| PROGRAMS.iter().find_map(|program| line.strip_prefix(program)).map(str::to_owned);
    let bare = |line: String| line.split(" #").next().unwrap_or("").trim().to_owned();
    lines.filter_map(of_weft).map(bare).collect()
}

/// Whether a command needs what is not here: a device, a peer, or a value for a placeholder.
fn needs_more(command: &str) -> bool {
    let placeholder = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let file = |word: &str| word.split(['.', '=', ':']).any(placeholder);
    ["node ", "devices"].iter().any(|device| command.starts_with(device)) || command.split(' ').any(file)
}

/// The words of a command line, with quotes as a shell has them.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in command.split('\'').enumerate() {
        match n % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// A directory in which a page's commands find the shipped scenarios.
fn beside_scenarios(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let scenarios = root().join("scenarios").canonicalize().expect("scenarios");
    symlink(scenarios, scratch.path("scenarios")).expect("a link");
    scratch
}

fn typed(scratch: &Scratch, command: &str) -> Output {
    let mut weft = Command::new(env!("CARGO_BIN_EXE_weft"));
    weft.args(words(command)).current_dir(scratch.path(".")).stdin(Stdio::null());
    weft.output().expect("the program starts")
}

/// A planted bug and a paper to the letter are violated, and so is the replay of what was found; all else holds.
fn finds_something(command: &str) -> bool {
    ["check planted-", "check as-published-", "replay "].iter().any(|begin| command.starts_with(begin))
}

#[test]
fn every_command_on_the_pages_does_what_the_page_says() {
    let mut ran = 0;
    for (name, page) in pages() {
        let scratch = beside_scenarios("transcript");
        for command in commands(&page).iter().filter(|command| !needs_more(command)) {
            let command =
                SHORTER.iter().fold(command.clone(), |line, (long, short)| line.replace(long, short));
            let output = typed(&scratch, &command);
            let expected = i32::from(finds_something(&command));
            assert_eq!(
                output.status.code(),
                Some(expected),
                "{name}: weft {command}\n{}",
                crate::common::err(&output)
            );
            ran += 1;
        }
    }
    assert!(ran > 10, "only {ran} commands were found on the pages");
}

/// The blocks of a page that show what a program prints.
fn shown(page: &str) -> Vec<&str> {
    page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_first_command_prints_what_the_page_of_the_first_result_shows() {
    let page = fs::read_to_string(root().join("docs/first-result.md")).expect("the page");
    let output = crate::common::run(&["run", "scenarios/lock-service-16.toml"]);
    let [report] = shown(&page)[..] else { panic!("the page shows one report") };
    let without_padding =
        |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(without_padding(report), without_padding(out(&output)));
}

/// What a line of a table says, without the widths of its columns.
fn cells(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_paper_prints_the_tables_that_the_page_of_the_papers_shows() {
    let page = fs::read_to_string(root().join("docs/papers.md")).expect("the page");
    let (mut tables, mut printed) = (0, Vec::new());
    let papers = page.lines().filter_map(|line| line.split_once(" -- paper ")?.1.split(' ').next());
    for paper in papers {
        printed.extend(out(&crate::common::run(&["paper", paper])).lines().map(cells));
    }
    for table in shown(&page) {
        for line in table.lines() {
            assert!(printed.iter().any(|row| row == &cells(line)), "no paper prints: {line}");
        }
        tables += 1;
    }
    assert!(tables > 0, "the page shows no table");
}
