//! The house keeps its shape: imports run one way, protocols name no backend, and nothing in them depends on
//! the machine that it runs on. (The workspace's design: "Imports run one way, and a test holds it".)

mod cycles;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate's folder, its package, and the packages of the workspace that it may import. A crate that exists must be listed.
const MAY_IMPORT: &[(&str, &str, &[&str])] = &[
    ("verbs-trait", "weft-verbs", &[]),
    ("store", "weft-store", &["weft-verbs"]),
    ("hw-backend", "weft-hw", &["weft-store", "weft-verbs"]),
    ("tcp-backend", "weft-tcp", &["weft-store", "weft-verbs"]),
    ("sim-backend", "weft-sim", &["weft-verbs"]),
    ("protocols", "weft-protocols", &["weft-verbs"]),
    ("control", "weft-control", &[]),
    ("model-tests", "weft-check", &["weft-protocols", "weft-sim", "weft-verbs"]),
    (
        "cli",
        "weft",
        &[
            "weft-check",
            "weft-control",
            "weft-protocols",
            "weft-sim",
            "weft-store",
            "weft-hw",
            "weft-tcp",
            "weft-verbs",
        ],
    ),
];

/// What code under `protocols/src` must not name, and why.
const BANNED: &[(&str, &str)] = &[
    ("weft_sim", "a protocol names no backend"),
    ("weft_hw", "a protocol names no backend"),
    ("weft_tcp", "a protocol names no backend"),
    ("std::time", "time comes from rt"),
    ("std::thread", "a node is one thread"),
    ("std::net", "a node's network is the verbs contract's"),
    ("std::env", "a run must not depend on the machine's environment"),
    ("tokio", "the one executor is rt"),
    ("select!", "it polls in an order of its own"),
    ("rand::", "randomness comes from rt"),
    ("HashMap", "its order differs from run to run"),
    ("HashSet", "its order differs from run to run"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace").to_path_buf()
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folders of the workspace that hold a crate, members or not.
fn crates() -> Vec<String> {
    let mut folders: Vec<String> = fs::read_dir(root())
        .expect("the workspace can be read")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    folders.sort();
    folders
}

/// The crates that a manifest's table of dependencies names, whatever name it gives them.
fn named_in(table: &toml::Table) -> BTreeSet<String> {
    let package = |(name, value): (&String, &toml::Value)| {
        value.get("package").and_then(|package| package.as_str()).unwrap_or(name).to_owned()
    };
    table.iter().map(package).collect()
}

/// What a crate imports: for itself, for its build, and on any platform. Imports of its tests are not counted.
fn imports(manifest: &toml::Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let platforms = manifest.get("target").and_then(|target| target.as_table());
    let platforms =
        platforms.into_iter().flat_map(|table| table.values()).filter_map(|value| value.as_table());
    for table in platforms.chain([manifest]) {
        for kind in ["dependencies", "build-dependencies"] {
            found.extend(table.get(kind).and_then(|kind| kind.as_table()).map(named_in).unwrap_or_default());
        }
    }
    found
}

#[test]
fn imports_run_one_way() {
    let ours: BTreeSet<&str> = MAY_IMPORT.iter().map(|(_, package, _)| *package).collect();
    // The fuzz targets lie outside the workspace, and above all of it.
    for folder in crates().into_iter().filter(|folder| folder != "fuzz") {
        let (_, package, allowed) = MAY_IMPORT
            .iter()
            .find(|(name, ..)| *name == folder)
            .unwrap_or_else(|| panic!("{folder} has no place"));
        let named =
            manifest(&folder).get("package").and_then(|of| of.get("name")?.as_str().map(str::to_owned));
        assert_eq!(named.as_deref(), Some(*package), "{folder}");
        for import in imports(&manifest(&folder)).iter().filter(|import| ours.contains(import.as_str())) {
            assert!(allowed.contains(&import.as_str()), "{folder} must not import {import}");
        }
    }
}

#[test]
fn the_hardware_backend_is_behind_a_feature_of_the_program() {
    let cli = manifest("cli");
    let Some(hw) = cli.get("dependencies").and_then(|table| table.get("weft-hw")) else { return };
    assert_eq!(hw.get("optional").and_then(|optional| optional.as_bool()), Some(true));
}

#[test]
fn every_crate_keeps_the_workspaces_lints() {
    for folder in crates().into_iter().filter(|folder| folder != "fuzz") {
        let manifest = manifest(&folder);
        let kept = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(|w| w.as_bool());
        assert_eq!(kept, Some(true), "{folder}/Cargo.toml lacks [lints] workspace = true");
    }
}

/// All Rust files under a folder, in a fixed order.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a source folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A line without its comment. Text in quotes that contains `//` is cut short, which hides nothing here.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

#[test]
fn protocols_depend_on_nothing_but_the_contract_and_the_runtime() {
    let mut files = Vec::new();
    sources(&root().join("protocols/src"), &mut files);
    assert!(files.len() > 10, "the protocols have moved");
    let mut broken = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        for (number, line) in text.lines().enumerate() {
            for (name, why) in BANNED.iter().filter(|(name, _)| code(line).contains(name)) {
                broken.push(format!("{}:{}: {name}: {why}", file.display(), number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Folders that know no system: one of their files must not import the systems, nor name what only one of them has.
const KNOW_NO_SYSTEM: &[&str] =
    &["model-tests/src/explore", "model-tests/src/harness", "model-tests/src/run", "cli/src"];

/// Those of them that may ask the registry of the systems, which names none.
const ASK_THE_REGISTRY: &[&str] = &["cli/src"];

/// Their folders that serve a system to programs, which is another matter.
const SERVE_A_SYSTEM: &[&str] = &["cli/src/daemon", "cli/src/lock"];

/// What only the lock service has.
const OF_THE_LOCKS: &[&str] = &[
    "LockKey",
    "LockService",
    "LockClient",
    "Mode",
    "Grant",
    "Scheme",
    "Srsl",
    "Dqnl",
    "Ncosed",
    "srsl",
    "dqnl",
    "ncosed",
];

/// The words of a line of code. The profile that is called after a paper is no scheme.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    code(line)
        .split(move |c| !is_part(c))
        .filter(|word| *word != "ncosed-2007")
        .flat_map(|word| word.split('-'))
}

#[test]
fn the_explorer_and_the_harness_know_no_system() {
    let mut broken = Vec::new();
    for folder in KNOW_NO_SYSTEM {
        let mut files = Vec::new();
        sources(&root().join(folder), &mut files);
        assert!(files.len() > 4, "{folder} has moved");
        let serves =
            |file: &PathBuf| SERVE_A_SYSTEM.iter().any(|folder| file.starts_with(root().join(folder)));
        files.retain(|file| !serves(file));
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file");
            // A test may say a scenario of some system.
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let asks = ASK_THE_REGISTRY.contains(folder);
            for (number, line) in text.lines().enumerate() {
                let is_one = |word: &&str| (*word == "systems" && !asks) || OF_THE_LOCKS.contains(word);
                let named = words(line).filter(is_one);
                broken.extend(named.map(|word| format!("{}:{}: {word}", file.display(), number + 1)));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
