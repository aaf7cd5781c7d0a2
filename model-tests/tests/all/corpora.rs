//! The fuzzers' corpora, run once more on a stable toolchain: what was found interesting, or broke something once, stays
//! a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weft_check::fuzz_targets;
use weft_sim::choice::Rng;

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

/// Decoders are fast: each input of theirs is changed at random places, some thousand times, and as many seconds as `WEFT_MUTATE` says.
#[test]
fn decoders_hold_for_inputs_that_are_changed_at_random() {
    let seconds = std::env::var("WEFT_MUTATE").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let decoders = fuzz_targets().into_iter().filter(|(name, _)| name.ends_with("-decoders"));
    for (name, body) in decoders {
        let files = sorted(&fuzz().join("corpus").join(name));
        let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("an input")).collect();
        let (mut rng, mut inputs) = (Rng::from_seed(1), 0_u64);
        while inputs < 20_000 || std::time::Instant::now() < end {
            let mut bytes = corpus[rng.below(corpus.len() as u64) as usize].clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len().max(1) as u64) as usize;
                match rng.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at.min(bytes.len()), rng.next_u64() as u8),
                    2 => {
                        let other = &corpus[rng.below(corpus.len() as u64) as usize];
                        let from = rng.below(other.len() as u64) as usize;
                        bytes.extend(&other[from..]);
                    }
                    _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8)),
                }
            }
            body(&bytes);
            inputs += 1;
        }
        println!("{name}: {inputs} inputs");
    }
}

#[test]
fn every_corpus_has_an_entry_point() {
    let corpora = sorted(&fuzz().join("corpus"));
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(corpora.iter().map(name).collect::<BTreeSet<_>>(), entry_points());
}
