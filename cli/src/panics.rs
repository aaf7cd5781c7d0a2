//! Panics in runs of many: a protocol of one's own that gives up sooner than it breaks a promise.
//!
//! Nothing catches a panic, and it ends the program. Which of its runs panicked is known only here: it is told, and the exit code is that
//! of a broken promise, since a run that ends so is a failure that was found.

use crate::exit::Exit;
use crate::logfile;
use std::cell::Cell;
use std::io::{self, Write};
use std::panic;

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

/// Has a panic in a run of many told with its name. All others end as they do anyway.
pub fn install() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        usual(panicked);
        if let Some(name) = running() {
            // Nobody may be reading; the exit code tells the same.
            let _ = writeln!(io::stderr(), "weft: a panic in {name}");
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
