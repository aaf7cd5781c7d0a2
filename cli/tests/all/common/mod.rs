//! Runs the program as a user does.

#![allow(dead_code)] // Each test file uses a part of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program, to be run in the workspace's directory, where README's commands are run.
pub fn weft(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Output {
    weft(args).output().expect("the program starts")
}

/// The workspace's directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The shipped scenarios, in the order of their names.
pub fn scenarios() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("scenarios")).expect("there are scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Asserts that no line of a report is longer than a terminal's 80 columns.
pub fn assert_fits_a_terminal(scenario: &str, report: &str) {
    for line in report.lines() {
        assert!(line.chars().count() <= 80, "{scenario}: {line}");
    }
}

/// A scenario that takes milliseconds: two nodes, no faults.
pub const SMALL: &str = r#"
title = "two nodes"
[cluster]
nodes = 2
[workload]
kind = "locks"
scheme = "ncosed"
requests = 5
"#;

/// An empty directory of a test's own, which goes with it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it. `name` is the test's.
    pub fn new(name: &str) -> Scratch {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a new directory");
        Scratch(dir)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_string()
    }

    /// A file in it.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).expect("written");
        self.path(name)
    }

    /// The names of what is in it, in order; hidden files too.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("readable");
        let name = |entry: fs::DirEntry| entry.file_name().to_str().expect("UTF-8").to_string();
        let mut names: Vec<String> = entries.map(|entry| name(entry.expect("readable"))).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Standard output as text.
pub fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

/// Standard error as text.
pub fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// Runs the program and checks the refusal: one line, in which `says` must be, and exit code 2.
pub fn refused(args: &[&str], says: &[&str]) {
    let output = run(args);
    let line = err(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {line}");
    assert_eq!(out(&output), "", "{args:?}");
    assert!(line.starts_with("weft: ") && line.ends_with('\n'), "{args:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    for part in says {
        assert!(line.contains(part), "{args:?}: '{part}' is not in: {line}");
    }
}
