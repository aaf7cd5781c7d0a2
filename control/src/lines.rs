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

    /// Writes a line, unless there were many. Returns whether it did.
    pub fn write(&mut self, now: Duration, rest: impl Display) -> bool {
        let what = self.what;
        if now >= self.window + WINDOW {
            if self.lines > LINES {
                tracing::warn!("{what} {} more in {} s", self.lines - LINES, WINDOW.as_secs());
            }
            (self.window, self.lines) = (now, 0);
        }
        self.lines += 1;
        let are_few = self.lines <= LINES;
        if are_few {
            tracing::warn!("{what} {rest}");
        }
        are_few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_are_written_in_ten_seconds_and_it_is_told_of_each_whether_it_was() {
        let mut lines = Lines::new("refused");
        let mut written =
            |seconds, count| (0..count).filter(|_| lines.write(Duration::from_secs(seconds), "one")).count();
        assert_eq!([written(0, 16), written(9, 1), written(10, 3)], [10, 0, 3]);
    }
}
