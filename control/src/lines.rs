//! Lines of one kind in the log: so many within some time, and then how many more there were.
//!
//! What others can cause at will would fill a disk otherwise.

use std::fmt::Display;
use std::time::Duration;

/// How many lines are written within [`WINDOW`].
const LINES: u32 = 10;

/// See [`LINES`].
const WINDOW: Duration = Duration::from_secs(10);

/// Lines that begin alike.
#[derive(Debug)]
pub struct Lines {
    what: &'static str,
    window: Duration,
    lines: u32,
}

impl Lines {
    /// None yet; each will begin with `what`.
    pub fn new(what: &'static str) -> Lines {
        Lines { what, window: Duration::ZERO, lines: 0 }
    }

    /// Writes a line, unless there were many.
    pub fn write(&mut self, now: Duration, rest: impl Display) {
        let what = self.what;
        if now >= self.window + WINDOW {
            if self.lines > LINES {
                tracing::warn!("{what} {} more in {} s", self.lines - LINES, WINDOW.as_secs());
            }
            (self.window, self.lines) = (now, 0);
        }
        self.lines += 1;
        if self.lines <= LINES {
            tracing::warn!("{what} {rest}");
        }
    }
}
