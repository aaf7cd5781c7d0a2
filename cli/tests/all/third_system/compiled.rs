//! What has been compiled for the test already, for builds in folders of their own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the program under test was built: `debug` or another profile's folder in the target directory.
pub fn built() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_weft")).parent().expect("a folder")
}

pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|all| all.filter_map(Result::ok).map(|entry| entry.path()));
    entries.map(Iterator::collect).unwrap_or_default()
}

pub fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Copies a file or a folder with its times, by which Cargo tells what is fresh.
pub fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a new folder");
        // What was built inside a crate's folder is no source.
        let sources = entries(from).into_iter().filter(|path| name(path) != "target");
        sources.for_each(|path| copy(&path, &to.join(name(&path))));
        return;
    }
    let copied = fs::copy(from, to).and_then(|_| {
        let times = fs::metadata(from)?.modified()?;
        File::options().write(true).open(to)?.set_modified(times)
    });
    copied.unwrap_or_else(|why| panic!("{}: {why}", from.display()));
}

/// The profile of the test.
pub fn profile() -> String {
    let folder = name(built());
    if folder == "debug" { "dev".to_owned() } else { folder }
}

/// Copies what is compiled of all packages but these into a profile's folder of another target directory. Where Cargo keeps it
/// otherwise, it is compiled again.
pub fn take(but: &[&str], to: &Path) {
    let is_kept = |name: &str| {
        let package = name.rsplit_once('-').map_or(name, |(package, _)| package);
        !but.contains(&package)
    };
    let units: Vec<String> = entries(&built().join(".fingerprint")).iter().map(|path| name(path)).collect();
    let hashes: BTreeSet<&str> =
        units.iter().filter(|unit| is_kept(unit)).filter_map(|unit| Some(unit.rsplit_once('-')?.1)).collect();
    for folder in [".fingerprint", "build", "deps"] {
        fs::create_dir_all(to.join(folder)).expect("a new folder");
        for path in entries(&built().join(folder)) {
            let name = name(&path);
            let stem = name.split('.').next().unwrap_or("");
            if stem.rsplit_once('-').is_some_and(|(_, hash)| hashes.contains(hash)) {
                copy(&path, &to.join(folder).join(&name));
            }
        }
    }
}

/// These packages run for a second: they are not optimised, hold nothing for a debugger, and are kept for no next build.
pub fn cheaply(cargo: &mut Command, profile: &str, packages: &[&str]) {
    for package in packages {
        cargo.args(["--config", &format!("profile.{profile}.package.{package}.opt-level=0")]);
        cargo.args(["--config", &format!("profile.{profile}.package.{package}.debug=false")]);
    }
    cargo.env("CARGO_INCREMENTAL", "0");
    // They would lead elsewhere than into the build's own target directory.
    cargo.env_remove("CARGO_BUILD_TARGET").env_remove("CARGO_BUILD_BUILD_DIR");
}
