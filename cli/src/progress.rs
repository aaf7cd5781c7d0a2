//! Progress on standard error, for anything longer than two seconds.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How long a run may take before it must say that it is alive.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it says so where nobody can watch a bar move.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far something has come: a bar on a terminal, else a line now and then, or nothing.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    next: Instant,
    show: Show,
}

#[derive(Debug)]
enum Show {
    Nothing,
    Lines,
    Bar(Option<ProgressBar>),
}

impl Progress {
    /// Begins. Says nothing before two seconds have passed.
    pub fn begin(quiet: bool) -> Progress {
        let show = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Show::Nothing,
            (false, true) => Show::Bar(None),
            (false, false) => Show::Lines,
        };
        let began = Instant::now();
        Progress { began, next: began + PATIENCE, show }
    }

    /// How far it has come: a share from 0 to 1, and words that say more. The words are made only if shown.
    pub fn at(&mut self, share: f64, words: impl FnOnce() -> String) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let share = share.clamp(0.0, 1.0);
        match &mut self.show {
            Show::Nothing => self.next = now + LINE_EVERY,
            Show::Lines => {
                let seconds = (now - self.began).as_secs();
                let _ =
                    writeln!(io::stderr().lock(), "{:3.0} % after {seconds} s: {}", share * 100.0, words());
                self.next = now + LINE_EVERY;
            }
            Show::Bar(bar) => {
                let bar = bar.get_or_insert_with(new_bar);
                bar.set_position((share * SCALE) as u64);
                bar.set_message(words());
                self.next = now + Duration::from_millis(100);
            }
        }
    }

    /// Clears what was drawn.
    pub fn end(self) {
        if let Show::Bar(Some(bar)) = self.show {
            bar.finish_and_clear();
        }
    }
}

/// The bar's full length.
const SCALE: f64 = 1_000.0;

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:16}] {percent:>3} % {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(SCALE as u64).with_style(style.progress_chars("=> "))
}
