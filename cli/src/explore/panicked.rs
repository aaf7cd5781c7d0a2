//! A panic in a world, where it ends the program (`panic = "abort"`, as in release builds): what led to it is saved first. Elsewhere it is a
//! violation as any other.

use super::check::again;
use super::files;
use crate::exit::Failure as Exit;
use crate::panics;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weft_check::explore::panics::{UnderWay, said, under_way};
use weft_check::explore::{Failure, Run, Violation};
use weft_sim::explore::FaultSet;

/// Where a failure is saved, if one is looked for.
static SAVED_IN: OnceLock<Option<PathBuf>> = OnceLock::new();

/// From now on a panic in a world is saved, where it was asked for or in its usual place.
pub fn save_in(asked: Option<&Path>) {
    let _ = SAVED_IN.set(asked.map(Path::to_path_buf));
    name();
}

/// From now on a panic in a world is told with the world's name.
pub fn name() {
    panics::ask(told);
}

/// What a panic on this thread has ended, and how to see it again; nothing if that is no run of a world.
fn told(panicked: &PanicHookInfo<'_>) -> Option<String> {
    let run = under_way()?;
    let text = format!("a panic in {} after {} choices", run.world, run.choices.0.len());
    let Some(asked) = SAVED_IN.get() else { return Some(text) };
    let path = files::place(asked.as_deref(), &run.world);
    Some(match save(run, said(panicked), &path) {
        Ok(()) => format!("{text}\n{}", again(&path).trim_end()),
        Err(failure) => format!("{text}, which are not saved: {failure}"),
    })
}

/// Saves the run, as far as it has come.
fn save(run: UnderWay, said: String, path: &Path) -> Result<(), Exit> {
    let UnderWay { world, size, options, choices } = run;
    let violation = Some(Violation::panic(said));
    let kinds = options.kinds.unwrap_or(FaultSet::ALL);
    let run = Run { choices: choices.clone(), violation, kinds, columns: Vec::new(), trace: Vec::new() };
    let failure = Failure::new(&world, size, choices, &run, &options);
    files::save(path, &failure.ok_or_else(|| Exit::unfinished("nothing was broken"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use weft_check::explore::{Choices, Options, Size, Step};
    use weft_sim::choice::EventId;
    use weft_sim::explore::Outcome;

    #[test]
    fn what_led_to_a_panic_that_ends_the_program_is_a_failures_file() {
        let choices = Choices(vec![Step { event: EventId(42), outcome: Outcome::Drop }]);
        let (size, options) = (Size::new([("nodes", 3)]), Options { faults: 1, ..Options::default() });
        let run = UnderWay { world: "one".into(), size: size.clone(), options, choices: choices.clone() };
        let path = std::env::temp_dir().join(format!("panicked-{}.failure.toml", std::process::id()));
        save(run, "src/main.rs:1:2: out of ideas".into(), &path).expect("it is saved");
        let read = files::load(&path).expect("it is read");
        fs::remove_file(&path).expect("it is there");
        assert_eq!((read.world.as_str(), read.params, read.choices), ("one", size, choices));
        assert_eq!(read.violation.to_string(), "panic: src/main.rs:1:2: out of ideas");
    }
}
