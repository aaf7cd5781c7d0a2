//! `weft new`: a crate with a protocol to begin with.
//!
//! Its source is an example of `weft-check`, which `cargo test` compiles and runs; only its name is another one here.

use crate::exit::{Exit, Failure};
use crate::making_args::NewArgs;
use crate::{explore::files, output};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const SOURCE: &str = include_str!("../../model-tests/examples/new_protocol.rs");

/// The crates that the source uses, and the folders in which they are.
const CRATES: [(&str, &str); 4] = [
    ("weft-check", "model-tests"),
    ("weft-protocols", "protocols"),
    ("weft-sim", "sim-backend"),
    ("weft-verbs", "verbs-trait"),
];

/// Names by which no crate can be built: words of the language, libraries that come with it, folders in which Cargo builds.
const TAKEN: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final \
    fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static \
    struct super trait true try type typeof unsafe unsized use virtual where while yield alloc core \
    proc-macro proc_macro std test build deps examples incremental";

/// Writes it into a new folder.
pub fn run(args: &NewArgs) -> Result<Exit, Failure> {
    let name = args.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
    if !is_name {
        let path = args.path.display();
        return Err(Failure::bad_input(format!(
            "{path}: a crate's name has lower-case letters, digits, '-' and '_', and begins with a letter"
        )));
    }
    let taken = |whose: &str| {
        let path = args.path.display();
        Failure::bad_input(format!("{path}: no crate can have that name, which {whose}"))
    };
    if TAKEN.split(' ').any(|word| word == name) {
        return Err(taken("Rust or Cargo has for something else"));
    }
    let weft = sources(args.weft.as_deref())?;
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::bad_input(format!("cannot make {}: {why}", path.display()))
    };
    // The versions that Weft was tested with.
    let lock = weft.join("Cargo.lock");
    let versions =
        fs::read_to_string(&lock).map_err(|why| Failure::bad_input(format!("{}: {why}", lock.display())))?;
    if is_own(&versions, name) {
        return Err(taken("a crate of Weft has that it is built with"));
    }
    fs::create_dir(&args.path).map_err(|why| match why.kind() {
        ErrorKind::AlreadyExists => cannot(&args.path, &"it is there already; give another name"),
        _ => cannot(&args.path, &why),
    })?;
    let fill = || {
        let src = args.path.join("src");
        fs::create_dir(&src).map_err(|why| cannot(&src, &why))?;
        files::put(&args.path.join("Cargo.toml"), "the manifest", &manifest(name, &weft))?;
        files::put(&args.path.join("Cargo.lock"), "the lock file", &versions)?;
        files::put(&args.path.join(".gitignore"), "the file", "/target\n*.failure.toml\nrun.html\n")?;
        files::put(&src.join("main.rs"), "the source", &SOURCE.replace("new_protocol", name))
    };
    fill().inspect_err(|_| {
        // What has failed is told, whatever this comes to.
        let _ = fs::remove_dir_all(&args.path);
    })?;
    let path = args.path.display();
    output::text(&format!(
        "{path} is a crate with a protocol of two nodes:\n  cd {path}\n  cargo run --release             \
         runs and explores it\n  cargo run --release -- --bug    the same with a bug, drawn into run.html\n  \
         cargo test\n"
    ))?;
    Ok(Exit::Held)
}

/// Whether the lock file has a crate of that name that is no registry's: Cargo cannot tell two of them apart.
fn is_own(lock: &str, name: &str) -> bool {
    let lock: toml::Table = lock.parse().unwrap_or_default();
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let own = packages.filter(|package| package.get("source").is_none());
    let is_same = |own: &str| own.replace('-', "_") == name.replace('-', "_");
    own.filter_map(|package| package.get("name")?.as_str()).any(is_same)
}

/// Where Weft's sources are: where the user says, or where this program was built from.
fn sources(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let path = given.unwrap_or(built_from);
    let path = fs::canonicalize(path).ok().filter(|path| path.join("model-tests/Cargo.toml").is_file());
    path.ok_or_else(|| match given {
        Some(given) => {
            Failure::bad_input(format!("--weft {}: the sources of Weft are not there", given.display()))
        }
        None => Failure::bad_input("the sources of Weft are not there: say where, with --weft DIRECTORY"),
    })
}

fn manifest(name: &str, weft: &Path) -> String {
    let mut text = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n"
    );
    for (name, folder) in CRATES {
        let path = toml::Value::from(weft.join(folder).display().to_string());
        text.push_str(&format!("{name} = {{ path = {path} }}\n"));
    }
    // An unoptimised explorer is twelve times slower.
    text + "\n[profile.dev]\nopt-level = 1\n\n# Not a member of a workspace that it may lie in.\n[workspace]\n"
}
