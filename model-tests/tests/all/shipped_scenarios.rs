//! The scenarios that come with Weft are understood, and each says what it is for. Of those that are drawn every system holds where its
//! processors see memory late.

use std::path::{Path, PathBuf};
use weft_check::run::RunOptions;
use weft_check::{fields::Span, systems};

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

#[test]
fn every_system_holds_where_its_processors_see_late_what_was_written_into_their_memory() {
    for system in systems::all() {
        for variant in system.variants() {
            let drawn = (0..).map(|seed| system.swarm(seed, None, variant));
            for scenario in drawn.filter(|scenario| scenario.cluster.visibility > Span::default()).take(3) {
                let report = system.run(&scenario, scenario.run.seed, RunOptions::default());
                let report = report.unwrap_or_else(|why| panic!("{}: {why}", scenario.title));
                assert!(report.held(), "{} {variant}: {}, {report:?}", system.kind(), scenario.title);
            }
        }
    }
}
