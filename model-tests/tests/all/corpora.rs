//! The fuzzers' corpora, run once more on a stable toolchain: what was found interesting, or broke something once, stays
//! a test.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
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

/// Of each input of a target's corpus: how many changed ones are run, if no time is said. Decoders are fast.
fn changed_inputs(target: &str) -> u64 {
    match target {
        _ if target.ends_with("-decoders") => 20_000,
        _ if target.ends_with("-stranger") => 200,
        _ => 0,
    }
}

/// One of the inputs, changed at some places.
fn changed(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = corpus[rng.below(corpus.len() as u64) as usize].clone();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), rng.next_u64() as u8),
            2 => {
                let other = &corpus[rng.below(corpus.len() as u64) as usize];
                let from = rng.below(other.len().max(1) as u64) as usize;
                bytes.extend(&other[from..]);
            }
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8)),
        }
    }
    bytes
}

/// Inputs are changed at random. `WEFT_MUTATE` says how many seconds each target has, `WEFT_MUTATE_TARGETS` which targets (with commas
/// between them; without it decoders and strangers), `WEFT_MUTATE_SEED` from which seed.
#[test]
fn decoders_and_strangers_hold_for_inputs_that_are_changed_at_random() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = Duration::from_secs(number("WEFT_MUTATE").unwrap_or(0));
    let seed: u64 = number("WEFT_MUTATE_SEED").unwrap_or(1);
    let named = std::env::var("WEFT_MUTATE_TARGETS").ok();
    let is_meant = |target: &str| match &named {
        Some(named) => named.split(',').any(|name| name == target),
        None => changed_inputs(target) > 0,
    };
    for (name, body) in fuzz_targets().into_iter().filter(|(name, _)| is_meant(name)) {
        let files = sorted(&fuzz().join("corpus").join(name));
        let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("an input")).collect();
        let (mut rng, mut inputs, begun) = (Rng::from_seed(seed), 0_u64, Instant::now());
        while inputs < changed_inputs(name) || begun.elapsed() < seconds {
            let bytes = changed(&corpus, &mut rng);
            if let Err(why) = catch_unwind(|| body(&bytes)) {
                println!("{name}: input {inputs} of seed {seed}: {bytes:?}");
                resume_unwind(why);
            }
            inputs += 1;
        }
        println!("{name}: {inputs} inputs in {:.0?}", begun.elapsed());
    }
}

#[test]
fn every_corpus_has_an_entry_point() {
    let corpora = sorted(&fuzz().join("corpus"));
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(corpora.iter().map(name).collect::<BTreeSet<_>>(), entry_points());
}
