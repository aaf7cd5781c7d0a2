//! A crate that `weft new` writes builds, passes its tests, and finds its planted bug.

use super::compiled;
use super::workspace::original;
use crate::common::{Scratch, err, out, run};
use std::env;
use std::fs;
use std::process::{Command, Output, Stdio};

/// Weft's crates have another place relative to the new crate's workspace, which is another package to Cargo.
const ANEW: [&str; 7] =
    ["weft", "weft-check", "weft-protocols", "weft-sim", "weft-verbs", "weft-control", "reached"];

/// Those of them that the new crate uses.
const USED: [&str; 4] = ["weft-check", "weft-protocols", "weft-sim", "weft-verbs"];

#[test]
fn a_new_crate_builds_passes_its_tests_and_finds_its_planted_bug() {
    let scratch = Scratch::new("new-crate");
    let (folder, target) = (scratch.path("tokens"), scratch.path("target"));
    let weft = original().display().to_string();
    let made = run(&["new", &folder, "--weft", &weft]);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    compiled::take(&ANEW, &fs::canonicalize(scratch.path(".")).expect("a folder").join("target/debug"));

    let cargo = |command: &str, more: &[&str]| -> Output {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.arg(command).args(["--offline", "--quiet", "--target-dir", &target]).current_dir(&folder);
        // As the workspace has it, or whoever builds, so that what is compiled of other packages fits.
        let debug = env::var("CARGO_PROFILE_DEV_DEBUG").unwrap_or_else(|_| "\"line-tables-only\"".to_owned());
        cargo.args(["--config", &format!("profile.dev.debug={debug}")]);
        compiled::cheaply(&mut cargo, "dev", &[&USED[..], &["tokens"]].concat());
        cargo.args(more).stdin(Stdio::null()).output().expect("cargo starts")
    };
    let tests = cargo("test", &[]);
    assert!(tests.status.success(), "{}\n{}", out(&tests), err(&tests));
    assert!(out(&tests).contains("4 passed"), "{}", out(&tests));
    let held = cargo("run", &[]);
    assert!(held.status.success() && out(&held).contains("20 seeds: held\nHeld: "), "{}", out(&held));
    let found = cargo("run", &["--", "--bug"]);
    assert!(found.status.success(), "{}", err(&found));
    for said in ["the value is there: the taker has found 0, after ", "drawn into run.html"] {
        assert!(out(&found).contains(said), "{}", out(&found));
    }
    let page = fs::read_to_string(scratch.path("tokens/run.html")).expect("the page");
    assert!(page.contains("the taker has found 0"), "the drawing tells what was found");
}
