//! A small program of which it is known what runs: its lines are told reached and not reached as they are.

#[path = "../src/coverage.rs"]
mod coverage;
#[path = "../src/lines.rs"]
mod lines;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each line that is known ends in what must be said of it.
const PROGRAM: &str = "\
//! Lines that cannot run are not counted.
use std::future::Future;

/// Generic: counted for every type that it was made for, together.
fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a > b {
        return a; // reached
    }
    b // reached
}

fn never_called(n: u32) -> u32 {
    n + 1 // not
}

fn generic_and_never_made<T: Clone>(it: &T) -> T {
    it.clone() // not
}

async fn waits(ready: bool) -> u32 {
    if !ready {
        return never_called(3); // not
    }
    let one = async { 1 }.await; // reached
    one + 1 // reached
}

fn of_a_kind(n: u32) -> &'static str {
    match n {
        0 => \"none\", // not
        1 => \"one\", // reached
        _ => {
            let more = \"more\"; // not
            more // not
        }
    }
}

fn main() {
    assert_eq!(larger(2, 1), 2); // reached
    assert_eq!(larger('a', 'b'), 'b'); // reached
    let mut future = std::pin::pin!(waits(true)); // reached
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready()); // reached
    let later = || {
        of_a_kind(7) // not
    };
    of_a_kind(1); // reached
    if std::env::args().count() > 7 {
        later(); // not
        generic_and_never_made(&1); // not
    }
}
";

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

fn run(command: &mut Command) {
    let output = command.output().expect("the command can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn lines_are_reached_that_ran_and_no_others() {
    let folder = folder("own-program");
    let (source, program) = (folder.join("program.rs"), folder.join("program"));
    fs::write(&source, PROGRAM).expect("the program can be written");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-Copt-level=3", "-Ccodegen-units=1", "-Cinstrument-coverage", "-o"]);
    run(rustc.arg(&program).arg(&source).env("LLVM_PROFILE_FILE", folder.join("rustc.profraw")));
    // Two runs, and two profiles, which are to be taken together.
    for profile in ["first.profraw", "second.profraw"] {
        run(Command::new(&program).env("LLVM_PROFILE_FILE", folder.join(profile)));
    }
    let profiles = ["first.profraw", "second.profraw"].map(|name| folder.join(name));
    let found = coverage::lines(&program, &profiles, |path| path.ends_with("program.rs")).expect("coverage");
    let lines = found.values().next().expect("the program's own file");
    for (number, text) in (1..).zip(PROGRAM.lines()) {
        let expected = match text.rsplit_once(" // ") {
            Some((_, "reached")) => Some(true),
            Some((_, "not")) => Some(false),
            _ if text.starts_with("//") || text.starts_with("use") || text.is_empty() => None,
            _ => continue,
        };
        assert_eq!(lines.get(&number).copied(), expected, "line {number}: {text}");
    }
    let file = lines::File::new(&folder, &source, lines);
    assert_eq!(file.path, "program.rs");
    assert_eq!((file.lines, file.reached), (lines.len(), lines.values().filter(|reached| **reached).count()));
    let unreached: Vec<&str> = file.unreached.iter().filter_map(|range| range.function.as_deref()).collect();
    for function in ["never_called", "generic_and_never_made", "waits", "of_a_kind", "main"] {
        assert!(unreached.contains(&function), "{function}: {unreached:?}");
    }
    assert!(!unreached.contains(&"larger"));
    let counted: usize = file.unreached.iter().map(|range| lines.range(range.from..=range.to).count()).sum();
    assert_eq!(counted, file.lines - file.reached, "the ranges hold all lines that were not reached");
}
