//! The fuzzers' corpora, run once more on a stable toolchain: what was found interesting, or broke something once, stays
//! a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weft_check::fuzz_targets;

/// Where the entry points and the corpora are.
fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The entry points, by name. A system need not have one.
fn entry_points() -> BTreeSet<String> {
    let text = fs::read_to_string(fuzz().join("Cargo.toml")).expect("the fuzz targets have a manifest");
    let manifest: toml::Table = text.parse().expect("a manifest is TOML");
    let bins = manifest["bin"].as_array().expect("a list of entry points");
    bins.iter().map(|bin| bin["name"].as_str().expect("a name").to_owned()).collect()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_input_of_every_corpus_holds() {
    let targets = fuzz_targets();
    for name in entry_points() {
        let (_, body) =
            targets.iter().find(|(target, _)| *target == name).unwrap_or_else(|| panic!("no target {name}"));
        let files = sorted(&fuzz().join("corpus").join(&name));
        assert!(files.len() >= 10, "{name} has a corpus of {} inputs", files.len());
        for file in files {
            let bytes = fs::read(&file).expect("an input can be read");
            println!("{}", file.display());
            body(&bytes);
        }
    }
}

#[test]
fn every_corpus_has_an_entry_point() {
    let corpora = sorted(&fuzz().join("corpus"));
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(corpora.iter().map(name).collect::<BTreeSet<_>>(), entry_points());
}
