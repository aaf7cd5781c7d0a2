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

/// A line without its comment: prose may name what code may not.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

fn offences(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (banned, instead) in BANNED {
            if code(line).contains(banned) {
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

#[test]
fn the_lint_finds_code_and_leaves_prose_alone() {
    let found = offences("x.rs", "use std::time::Duration;\n// not std::time\nlet a = HashMap::new();");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("x.rs:1:") && found[1].starts_with("x.rs:3:"));
}
