//! Lines of one kind in the log: so many within some time, and at its end how many more there were.
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
        self.flush(now);
        if now >= self.window + WINDOW {
            (self.window, self.lines) = (now, 0);
        }
        self.lines += 1;
        let are_few = self.lines <= LINES;
        if are_few {
            tracing::warn!("{} {rest}", self.what);
        }
        are_few
    }

    /// When [`Lines::flush`] has something to write.
    pub fn deadline(&self) -> Option<Duration> {
        (self.lines > LINES).then_some(self.window + WINDOW)
    }

    /// Writes how many lines there were no place for, once their time is over.
    pub fn flush(&mut self, now: Duration) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            tracing::warn!("{} {} more in {} s", self.what, self.lines - LINES, WINDOW.as_secs());
            self.lines = 0;
        }
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

    #[test]
    fn what_had_no_place_is_counted_once_when_its_time_is_over() {
        let mut lines = Lines::new("refused");
        let at = |seconds| Duration::from_secs(seconds);
        for count in 1..=11 {
            assert_eq!(lines.deadline(), None, "line {count} has a place");
            lines.write(at(10), "one");
        }
        lines.flush(at(19));
        assert_eq!(lines.deadline(), Some(at(20)));
        lines.flush(at(20));
        assert_eq!(lines.deadline(), None);
    }
}
