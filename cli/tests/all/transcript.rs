//! The commands in the README and in docs/ run, in the order of their page, and print what the page shows.
//!
//! Commands stand in blocks of language `sh`. A block of language `text` is what the commands above it print, whole or in part. Blocks
//! of language `console` are held by tests of their own, which have what these commands need. Those that need devices, another program or a placeholder's value are left to `.ci/run` and its steps. Numbers that only say
//! how long something goes on are made smaller. So it is with the commands that scenarios begin with, each of which holds.

use crate::common::{Scratch, err, out, root, scenarios};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use weft_sim::profile::Profile;

/// How to begin a command of Weft on these pages.
const PROGRAMS: [&str; 2] = ["weft ", "cargo run --release -- "];

/// Pages whose blocks of language `console` other tests hold: `third_system`, `daemon`, and that of `devices.rs`.
const CONSOLES: [&str; 3] = ["docs/adding-a-system.md", "docs/operate.md", "hw-backend/README.md"];

/// What makes a command long without making it another one, and what stands for it here.
const SHORTER: [(&str, &str); 7] = [
    ("0..1000", "0..2"),
    ("0..100", "0..10"),
    ("requests=60000", "requests=600"),
    ("requests=10000", "requests=100"),
    ("duration=100s", "duration=1s"),
    ("--messages 2000000", "--messages 2000"),
    ("--all --max-seconds 1", "--all --max-seconds 0.02"),
];

/// The README and its like, and the pages of docs/ in the order of their names.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs")).expect("there are pages");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    for page in ["README.md", "CONTRIBUTING.md", "hw-backend/README.md", "fuzz/README.md"] {
        paths.insert(0, root().join(page));
    }
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).expect("a page"));
    paths.into_iter().map(read).collect()
}

/// A code block: its language, and what it holds.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> impl Iterator<Item = Block<'_>> {
    let inside = page.split("```").skip(1).step_by(2);
    inside.map(|block| {
        let (language, text) = block.split_once('\n').unwrap_or((block, ""));
        Block { language, text }
    })
}

/// The lines of a shell block that run the program, without the program's name and the comment.
fn commands(block: &str) -> Vec<String> {
    let lines = block.lines();
    let of_weft =
        |line: &str| PROGRAMS.iter().find_map(|program| line.strip_prefix(program)).map(str::to_owned);
    let bare = |line: String| line.split(" #").next().unwrap_or("").trim().to_owned();
    lines.filter_map(of_weft).map(bare).collect()
}

/// Whether a command needs what is not here: a device, a peer, or a value for a placeholder.
fn needs_more(command: &str) -> bool {
    let placeholder = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let file = |word: &str| word.split(['.', '=', ':', '/']).any(placeholder);
    ["node ", "devices", "calibrate", "pipe ", "cp ", "perf "]
        .iter()
        .any(|device| command.starts_with(device))
        || command.split(' ').any(file)
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

/// A directory in which a page's commands find the shipped scenarios, and a profile of one's own.
fn beside_scenarios(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let scenarios = root().join("scenarios").canonicalize().expect("scenarios");
    symlink(scenarios, scratch.path("scenarios")).expect("a link");
    // What `weft calibrate blue.toml` writes where there is a device: a whole profile in a file.
    let profile = Profile::builtin("present-day").expect("a profile");
    scratch.file("blue.toml", profile.to_toml());
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

/// Runs a command as its page says, and answers with what it prints and what it logs.
fn printed(name: &str, scratch: &Scratch, command: &str) -> String {
    let command = SHORTER.iter().fold(command.to_owned(), |line, (long, short)| line.replace(long, short));
    let output = typed(scratch, &command);
    let expected = match command.starts_with("check --all") {
        // Some worlds are not explored to the end in that time.
        true => 3,
        false => i32::from(finds_something(&command)),
    };
    assert_eq!(output.status.code(), Some(expected), "{name}: weft {command}\n{}", err(&output));
    let log = command.split_once("--log ").and_then(|(_, rest)| rest.split(' ').next());
    let log = log.and_then(|file| fs::read_to_string(scratch.path(file)).ok());
    out(&output).to_owned() + &log.unwrap_or_default()
}

/// What a line says, without the widths of its columns.
fn cells(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether what was printed has these lines, in their order. Others may stand between them: the page shows a part.
fn has_lines(printed: &str, shown: &str) -> Result<(), String> {
    let mut said = printed.lines().map(cells);
    let mut missing =
        shown.lines().map(cells).filter(|line| !line.is_empty() && !said.any(|other| other == *line));
    missing.next().map_or(Ok(()), Err)
}

#[test]
fn every_command_on_the_pages_does_and_prints_what_the_page_says() {
    let (mut ran, mut compared, mut stale) = (0, 0, Vec::new());
    for (name, page) in pages() {
        let scratch = beside_scenarios("transcript");
        let mut above = String::new();
        for block in blocks(&page) {
            match block.language {
                "sh" => {
                    let commands = commands(block.text);
                    let here = commands.iter().filter(|command| !needs_more(command));
                    let outputs: Vec<String> =
                        here.map(|command| printed(&name, &scratch, command)).collect();
                    ran += outputs.len();
                    above = outputs.concat();
                }
                "text" => {
                    compared += 1;
                    assert!(!above.is_empty(), "{name}: no command above prints this:\n{}", block.text);
                    if let Err(line) = has_lines(&above, block.text) {
                        stale.push(format!("{name} shows: {line}\nprinted is:\n{above}"));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
    assert!(ran > 40, "only {ran} commands were found on the pages");
    assert!(compared > 5, "only {compared} outputs were found on the pages");
}

/// `weft run SCENARIO` alone is `determinism.rs`'s.
#[test]
fn every_command_that_a_scenario_begins_with_runs_that_scenario_and_holds() {
    let mut ran = 0;
    for scenario in scenarios() {
        let name = scenario.file_name().and_then(OsStr::to_str).expect("a name");
        let (text, scratch) = (fs::read_to_string(&scenario).expect("a file"), beside_scenarios("heads"));
        let (file, head) =
            (format!("scenarios/{name}"), text.lines().take_while(|line| line.starts_with('#')));
        let head: String = head.map(|line| format!("{}\n", line[1..].trim_start())).collect();
        for command in commands(&head).iter().filter(|command| !needs_more(command)) {
            let about = command.strip_prefix(&format!("run {file}")).expect("it is about its own file");
            if !about.is_empty() {
                printed(name, &scratch, command);
                ran += 1;
            }
        }
    }
    assert!(ran > 30, "only {ran} commands were found");
}

#[test]
fn no_command_and_no_output_on_the_pages_escapes_these_tests() {
    for (name, page) in pages() {
        for block in blocks(&page) {
            let runs_weft = block.text.lines().any(|line| {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                PROGRAMS.iter().any(|program| line.starts_with(program))
            });
            let is_held = match block.language {
                "console" => CONSOLES.iter().any(|page| name.ends_with(page)),
                "sh" => true,
                _ => !runs_weft,
            };
            assert!(is_held, "{name}, a block of language '{}':\n{}", block.language, block.text);
        }
    }
}

#[test]
fn the_first_command_prints_what_the_page_of_the_first_result_shows() {
    let page = fs::read_to_string(root().join("docs/first-result.md")).expect("the page");
    let output = crate::common::run(&["run", "scenarios/lock-service-16.toml"]);
    let shown: Vec<&str> =
        blocks(&page).filter(|block| block.language == "text").map(|block| block.text).collect();
    let [report] = shown[..] else { panic!("the page shows one report") };
    let without_padding =
        |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(without_padding(report), without_padding(out(&output)));
}
