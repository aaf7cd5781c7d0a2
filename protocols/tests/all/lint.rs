//! What a protocol must not name: the operating system's time, threads and network, another executor,
//! collections without an order, and any backend. Code that does cannot be model-checked as it is deployed.

use std::fs;
use std::path::{Path, PathBuf};

/// What is banned, and what to use instead.
const BANNED: [(&str, &str); 15] = [
    ("std::time", "the runtime's clock: `Rt::now`, `Rt::sleep`"),
    ("Instant::now", "the runtime's clock: `Rt::now`"),
    ("SystemTime", "the runtime's clock: `Rt::now`"),
    ("std::thread", "tasks: `Rt::spawn`"),
    ("thread_local!", "state of the node; two nodes share a thread in simulation"),
    ("std::net", "the fabric, or the contract's out-of-band streams"),
    ("std::env", "configuration"),
    ("tokio", "the runtime of this crate"),
    ("HashMap", "`BTreeMap` or a `Vec`: an order that is the same in every run"),
    ("HashSet", "`BTreeSet` or a `Vec`: an order that is the same in every run"),
    ("select!", "one task a wait, or a hand-written future"),
    ("rand::", "the runtime's randomness: `Rt::random`"),
    ("weft_sim", "the contract; a protocol names no backend"),
    ("weft_hw", "the contract; a protocol names no backend"),
    ("rdma_sys", "the contract; a protocol names no backend"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("the crate's sources can be read");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Where something is allowed all the same, and why is said there.
const ALLOWED: [(&str, &str); 1] = [("rt/wait_point.rs", "thread_local!")];

/// A line without its comment: prose may name what code may not.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

fn offences(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (banned, instead) in BANNED {
            if code(line).contains(banned) && !ALLOWED.contains(&(name, banned)) {
                found.push(format!("{name}:{}: {banned}; use {instead}", number + 1));
            }
        }
    }
    found
}

#[test]
fn protocols_name_no_clock_no_thread_no_hash_and_no_backend() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 10, "the sources were not found");
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file can be read");
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        found.extend(offences(&name, &text));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Rooms whose tasks say nothing at their waits: the runtime's and the transport's structures tell of them.
const TOLD_BY_STRUCTURES: [&str; 2] = ["rt/", "transport/"];

/// The part of a file that is shipped, without comments and without white space.
fn shipped(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or("");
    text.lines().flat_map(|line| code(line).split_whitespace()).collect()
}

/// The waits at which nothing is said, each by what stands before it.
fn silent_waits(text: &str) -> Vec<String> {
    let text = shipped(text);
    let says = |before: &str| {
        let mut depth = 0;
        let begin = before.char_indices().rev().find(|&(_, c)| {
            depth += i32::from(c == ')') - i32::from(c == '(');
            depth == 0
        });
        begin.is_some_and(|(begin, _)| before[..begin].ends_with(".at"))
    };
    let is_word = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let waits = text.match_indices(".await").filter(|(at, word)| !is_word(&text[at + word.len()..]));
    waits
        .map(|(at, _)| &text[..at])
        .filter(|before| !says(before))
        .map(|before| before[before.len().saturating_sub(40)..].into())
        .collect()
}

/// A function that waits and says nothing, between others that do, would make two states equal that are not.
#[test]
fn every_wait_of_a_system_that_says_something_says_something() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut found, mut waits) = (Vec::new(), 0);
    // A system in which no wait says anything is explored by history, as a whole.
    let room =
        |file: &PathBuf| file.strip_prefix(&root).ok().and_then(|name| name.iter().next().map(PathBuf::from));
    let says = |file: &&PathBuf| fs::read_to_string(file).is_ok_and(|text| shipped(&text).contains(".at("));
    let speaking: Vec<PathBuf> = files.iter().filter(says).filter_map(room).collect();
    files.retain(|file| room(file).is_some_and(|room| speaking.contains(&room)));
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        let tests = name.ends_with("tests.rs") || name.contains("/world/");
        if tests || TOLD_BY_STRUCTURES.iter().any(|room| name.starts_with(room)) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file can be read");
        waits += shipped(&text).matches(".await").count();
        found.extend(silent_waits(&text).into_iter().map(|wait| format!("{name}: {wait}.await")));
    }
    assert!(waits > 30, "the waits were not found");
    assert!(found.is_empty(), "say at the wait what is still known, `.at(..)`:\n{}", found.join("\n"));
}

#[test]
fn the_lint_finds_a_wait_that_says_nothing() {
    let text =
        "a.b(c).at((d, e(f))).await; // g().await\nh\n    .i()\n    .at(())\n    .await?;\nj(at(k)).await;";
    assert_eq!(silent_waits(text).len(), 1, "{:?}", silent_waits(text));
    assert_eq!(silent_waits("\n#[cfg(test)]\nmod tests { a().await }"), [""; 0]);
    assert_eq!(silent_waits("a.await").len(), 1);
}

#[test]
fn the_lint_finds_code_and_leaves_prose_alone() {
    let found = offences("x.rs", "use std::time::Duration;\n// not std::time\nlet a = HashMap::new();");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("x.rs:1:") && found[1].starts_with("x.rs:3:"));
}
