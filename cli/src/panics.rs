//! Panics in runs: a protocol of one's own that gives up sooner than it breaks a promise.
//!
//! In an explored world a panic is a violation, but not where it ends the program (`panic = "abort"`), and none is caught in other runs. Which
//! run has panicked is known only here: it is told, a world's is saved, and the exit code is that of a broken promise, since a
//! run that ends so is a failure that was found.

use crate::exit::Exit;
use crate::logfile;
use std::cell::Cell;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;

/// What a panic has ended, if somebody knows more than a number.
pub type Tells = fn(&PanicHookInfo<'_>) -> Option<String>;

/// Who is asked.
static TELLS: OnceLock<Tells> = OnceLock::new();

/// From now on this is asked of a panic as well.
pub fn ask(tells: Tells) {
    let _ = TELLS.set(tells);
}

/// What a run of a number is, and how it is run alone.
pub type Name = fn(u64) -> String;

thread_local! {
    /// What this thread runs, if it is one run of many.
    static RUNS: Cell<Option<(Name, u64)>> = const { Cell::new(None) };
}

/// Runs something that a panic is to name.
pub fn named<T>(name: Name, number: u64, run: impl FnOnce() -> T) -> T {
    RUNS.set(Some((name, number)));
    let came = run();
    RUNS.set(None);
    came
}

/// The name of a seed.
pub fn seed(number: u64) -> String {
    format!("seed {number} (the same command with --seeds {number}..{} runs it alone)", number + 1)
}

/// Has a panic in a run of many told with its name, and one in a world with what led to it. All others end as they do anyway.
pub fn install() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        usual(panicked);
        let of_many = running().map(|name| format!("a panic in {name}"));
        let more = TELLS.get().and_then(|tells| tells(panicked));
        let told: Vec<String> = of_many.into_iter().chain(more).collect();
        if !told.is_empty() {
            // Nobody may be reading; the exit code tells the same.
            let _ = writeln!(io::stderr(), "weft: {}", told.join("\nweft: "));
            logfile::abandon();
            std::process::exit(Exit::Violated as i32);
        }
    }));
}

/// The name of what this thread runs.
pub fn running() -> Option<String> {
    RUNS.get().map(|(name, number)| name(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_many_has_a_name_as_long_as_it_runs() {
        assert_eq!(running(), None);
        let name = named(seed, 17, running).expect("it runs");
        assert_eq!(name, "seed 17 (the same command with --seeds 17..18 runs it alone)");
        assert_eq!(running(), None);
    }
}
