//! Failures as files.

use super::build;
use crate::exit::Failure as Exit;
use crate::interrupt;
use crate::logfile::LogFile;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weft_check::explore::{self, Case, Entry, Failure, Found, Hunt, Options, Progress};

/// What the file of a failure holds.
const FAILURE: &str = "the failure";

/// Where a failure of a world is saved if nobody says otherwise.
pub fn place(asked: Option<&Path>, world: &str) -> PathBuf {
    asked.map_or_else(|| PathBuf::from(format!("{world}.failure.toml")), Path::to_path_buf)
}

/// Makes a failure small within some time, runs it once more, and makes a file's content of it.
pub fn smallest(
    entry: &Entry,
    case: Case,
    hunt: Hunt,
    options: &Options,
    found: Found,
    within: Duration,
) -> Result<Failure, Exit> {
    let before = case.size.clone();
    let began = Instant::now();
    let mut late = false;
    let mut watch = |_: &Progress| {
        late |= began.elapsed() >= within;
        if late { ControlFlow::Break(()) } else { interrupt::go_on() }
    };
    let Case { size, run, .. } =
        explore::smallest(entry, case, hunt, options, &mut watch).map_err(Exit::unfinished)?;
    if late {
        // Nobody may be reading; the report and the file tell what was found all the same.
        let _ = writeln!(
            io::stderr(),
            "weft: {} s were over before the run was as short as it gets: --shrink-seconds",
            within.as_secs()
        );
    }
    let mut model = build(entry, &size)?;
    let as_before = options.to_repeat(&run.violation);
    let again = model.replay(&run.choices, &as_before, true).map_err(Exit::unfinished)?;
    let larger = (size != before).then_some(before);
    let failure = Failure::new(entry.name, size, run.choices, &again, options).ok_or_else(|| {
        Exit::unfinished("the failing run did not fail again: the world is not deterministic")
    })?;
    Ok(Failure { found: Some(Found { params: larger, ..found }), ..failure })
}

/// Refuses now a file that could not be written at the end.
pub fn can_be_put(path: &Path, what: &'static str) -> Result<(), Exit> {
    LogFile::can_be_created(path, what)
}

/// Refuses now a place in which no failure could be saved, also the one that nobody asked for: what is found may have taken hours.
pub fn can_be_saved(asked: Option<&Path>, place: &Path) -> Result<(), Exit> {
    let put = can_be_put(place, FAILURE);
    put.map_err(|failure| if asked.is_some() { failure } else { failure.at("without --save") })
}

/// Writes a file that holds `what`, whole or not at all.
pub fn put(path: &Path, what: &'static str, text: &str) -> Result<(), Exit> {
    let file = LogFile::create(path, what)?;
    let mut writer = file.writer()?;
    writer.write_all(text.as_bytes()).and_then(|()| writer.flush()).map_err(|error| file.failure(&error))?;
    file.finish()
}

/// What a failure's file begins with.
const AGAIN: &str = "# See it again: weft replay FILE. As a diagram: weft replay FILE --diagram run.html\n";

/// Saves a failure.
pub fn save(path: &Path, failure: &Failure) -> Result<(), Exit> {
    put(path, FAILURE, &format!("{AGAIN}{}", failure.text().map_err(Exit::unfinished)?))
}

/// Reads one.
pub fn load(path: &Path) -> Result<Failure, Exit> {
    let wrong = |error: &dyn std::fmt::Display| Exit::bad_input(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Failure::parse(&text).map_err(|error| wrong(&error))
}
