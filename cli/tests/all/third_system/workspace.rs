//! A copy of the workspace, and of what has been compiled of it, in a folder that goes with the test.

use super::compiled::{self, built, copy, entries, name};
use super::page::Change;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Packages that are compiled anew: what the system adds to, and all above it.
const ANEW: [&str; 4] = ["weft", "weft-check", "weft-protocols", "reached"];

/// The copy.
pub struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The workspace.
pub fn original() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a change would make of the workspace's own file.
pub fn apply(change: &Change) -> String {
    let path = original().join(&change.path);
    change.apply(&fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display())))
}

impl Copy {
    /// Copies the manifests and the members.
    pub fn new(name: &str) -> Copy {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).expect("a new folder");
        let manifest = fs::read_to_string(original().join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
        let members = manifest["workspace"]["members"].as_array().expect("a list");
        let members = members.iter().map(|member| member.as_str().expect("a folder"));
        // A member inside another's folder comes with it.
        let folders: BTreeSet<&str> = members.filter_map(|member| member.split('/').next()).collect();
        for part in folders.into_iter().chain(["Cargo.toml", "Cargo.lock"]) {
            copy(&original().join(part), &to.join(part));
        }
        let made = Copy(to);
        compiled::take(&ANEW, &made.built());
        made
    }

    fn target(&self) -> PathBuf {
        self.0.join("target")
    }

    /// The profile's folder in the copy's own target directory.
    fn built(&self) -> PathBuf {
        self.target().join(name(built()))
    }

    /// Writes a new file.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
        fs::write(path, text).expect("a new file");
    }

    /// Changes a file.
    pub fn change(&self, change: &Change) {
        let path = self.0.join(&change.path);
        let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        fs::write(&path, change.apply(&text)).expect("written");
    }

    /// Builds the program, with the profile of the test.
    pub fn build(&self) {
        let profile = &compiled::profile();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--offline", "--locked", "--quiet", "--package", "weft", "--profile", profile]);
        cargo.arg("--target-dir").arg(self.target()).current_dir(&self.0).stdin(Stdio::null());
        compiled::cheaply(&mut cargo, profile, &ANEW);
        let output = cargo.output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs the program with these arguments.
    pub fn weft(&self, arguments: &str) -> Output {
        let mut command = Command::new(self.built().join("weft"));
        command.args(arguments.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        command.output().expect("the program starts")
    }

    /// The sources that are not those of the workspace any more, in order.
    pub fn touched(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        let folders = entries(&self.0).into_iter().filter(|path| path.join("Cargo.toml").is_file());
        folders.for_each(|folder| self.compare(&folder, &mut found));
        for manifest in ["Cargo.toml", "Cargo.lock"] {
            self.compare(&self.0.join(manifest), &mut found);
        }
        found.into_iter().collect()
    }

    fn compare(&self, path: &Path, found: &mut BTreeSet<String>) {
        if path.is_dir() {
            return entries(path).iter().for_each(|path| self.compare(path, found));
        }
        let within = path.strip_prefix(&self.0).expect("a path in the copy");
        if fs::read(path).ok() != fs::read(original().join(within)).ok() {
            found.insert(within.to_string_lossy().into_owned());
        }
    }
}
