//! The scenarios that come with Weft are understood, and each says what it is for.

use std::path::{Path, PathBuf};

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let entries = std::fs::read_dir(folder).expect("the scenarios are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[test]
fn every_shipped_scenario_is_understood_and_has_a_title() {
    let files = shipped();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let scenario = weft_check::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.title.is_empty(), "{} has no title", file.display());
    }
}
