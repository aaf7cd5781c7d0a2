//! Failures as files.

use crate::exit::Failure as Exit;
use crate::logfile::LogFile;
use model_tests::explore::{Choices, Failure, Params, Subject};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a failure of a world is saved if nobody says otherwise.
pub fn place(asked: Option<&Path>, world: &str) -> PathBuf {
    asked.map_or_else(|| PathBuf::from(format!("{world}.failure.toml")), Path::to_path_buf)
}

/// Runs a failure's choices once more, and makes a file's content of it.
pub fn failure(
    subject: &mut dyn Subject,
    params: &Params,
    choices: Choices,
    max_depth: u32,
) -> Result<Failure, Exit> {
    let run = subject.replay(&choices, max_depth, true).map_err(Exit::unfinished)?;
    let failure = Failure::new(subject.name(), params, choices, &run, max_depth);
    failure
        .ok_or_else(|| Exit::unfinished("the failing run did not fail again: the world is not deterministic"))
}

/// Writes a file, whole or not at all.
pub fn put(path: &Path, text: &str) -> Result<(), Exit> {
    let file = LogFile::create(path)?;
    let mut writer = file.writer()?;
    let written = writer.write_all(text.as_bytes()).and_then(|()| writer.flush());
    written.map_err(|error| Exit::unfinished(format!("cannot write {}: {error}", path.display())))?;
    file.finish()
}

/// Saves a failure.
pub fn save(path: &Path, failure: &Failure) -> Result<(), Exit> {
    put(path, &failure.text().map_err(Exit::unfinished)?)
}

/// Reads one.
pub fn load(path: &Path) -> Result<Failure, Exit> {
    let wrong = |error: &dyn std::fmt::Display| Exit::bad_input(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Failure::parse(&text).map_err(|error| wrong(&error))
}
