//! The fuzzers' corpora, run once more on a stable toolchain: what was found interesting, or broke something once, stays
//! a test.

use std::path::Path;
use weft_check::fuzz_targets;

#[test]
fn every_input_of_every_corpus_holds() {
    for (name, body) in fuzz_targets() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        assert!(files.len() >= 10, "{name} has a corpus of {} inputs", files.len());
        for file in files {
            let bytes = std::fs::read(&file).expect("an input can be read");
            println!("{}", file.display());
            body(&bytes);
        }
    }
}
