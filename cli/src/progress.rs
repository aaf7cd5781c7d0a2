//! Progress on standard error, for anything longer than two seconds.
//!
//! A thread shows it, so that also work which says nothing for long is seen to be alive.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a run may take before it must say that it is alive.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it says so where nobody can watch a bar move.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How often a bar moves.
const MOVE_EVERY: Duration = Duration::from_millis(100);

/// Shows how far something has come until it is dropped: a bar on a terminal, else a line now and then, or nothing.
#[derive(Debug)]
pub struct Progress(Option<Shown>);

#[derive(Debug)]
struct Shown {
    far: Arc<Mutex<Far>>,
    /// Until then what was told is new enough.
    fresh: Instant,
    /// Nothing is sent: it is over once this is dropped.
    goes_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How far it has come.
#[derive(Clone, Debug, Default)]
struct Far {
    /// From 0 to 1, if it is known.
    share: Option<f64>,
    words: String,
}

impl Progress {
    /// Begins. Says nothing before two seconds have passed.
    pub fn begin(quiet: bool) -> Progress {
        if quiet {
            return Progress(None);
        }
        let far = Arc::new(Mutex::new(Far::default()));
        let (goes_on, is_over) = channel();
        let shared = Arc::clone(&far);
        let shows = move || match io::stderr().is_terminal() {
            true => draw(&shared, &is_over),
            false => every(PATIENCE, LINE_EVERY, &is_over, |after| {
                // Nobody may be reading.
                let _ = writeln!(io::stderr().lock(), "{}", line(&lock(&shared), after));
            }),
        };
        // Without a thread there is no progress, and the work goes on.
        let thread = thread::Builder::new().name("progress".to_string()).spawn(shows).ok();
        Progress(Some(Shown { far, fresh: Instant::now(), goes_on: Some(goes_on), thread }))
    }

    /// How far it has come: a share from 0 to 1 if it is known, and words that say more. Told as often as may be: the words are made
    /// only now and then.
    pub fn at(&mut self, share: impl Into<Option<f64>>, words: impl FnOnce() -> String) {
        if self.0.as_ref().is_some_and(|shown| shown.fresh <= Instant::now()) {
            self.step(share, &words());
        }
    }

    /// The same at the beginning of something that may say nothing more for long.
    pub fn step(&mut self, share: impl Into<Option<f64>>, words: &str) {
        let Some(shown) = &mut self.0 else { return };
        let share = share.into().map(|share| share.clamp(0.0, 1.0));
        *lock(&shown.far) = Far { share, words: words.to_string() };
        shown.fresh = Instant::now() + MOVE_EVERY;
    }

    /// Clears what was drawn.
    pub fn end(self) {}
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.goes_on = None;
        self.thread.take().map(JoinHandle::join);
    }
}

fn lock(far: &Mutex<Far>) -> MutexGuard<'_, Far> {
    far.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows something after a first wait and then again and again, with how long it has been, until it is over.
fn every(first: Duration, then: Duration, is_over: &Receiver<()>, mut show: impl FnMut(Duration)) {
    let (began, mut wait) = (Instant::now(), first);
    while is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        show(began.elapsed());
        wait = then;
    }
}

fn line(Far { share, words }: &Far, after: Duration) -> String {
    let percent = share.map_or_else(String::new, |share| format!("{:3.0} % ", share * 100.0));
    let colon = if words.is_empty() { "" } else { ": " };
    format!("{percent}after {} s{colon}{words}", after.as_secs())
}

/// The bar's full length.
const SCALE: f64 = 1_000.0;

fn draw(far: &Mutex<Far>, is_over: &Receiver<()>) {
    let mut drawn = None;
    every(PATIENCE, MOVE_EVERY, is_over, |after| {
        let Far { share, words } = lock(far).clone();
        let bar = drawn.get_or_insert_with(|| ProgressBar::new(SCALE as u64));
        let bar = &*bar;
        bar.set_style(style(share.is_some()));
        bar.set_position((share.unwrap_or(0.0) * SCALE) as u64);
        bar.set_message(if words.is_empty() { format!("after {} s", after.as_secs()) } else { words });
    });
    drawn.iter().for_each(ProgressBar::finish_and_clear);
}

fn style(has_share: bool) -> ProgressStyle {
    let template = if has_share { "[{bar:16}] {percent:>3} % {wide_msg}" } else { "{wide_msg}" };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_says_nothing_is_told_to_go_on_until_it_is_over() {
        let (goes_on, is_over) = channel();
        let (tell, told) = channel();
        let short = Duration::from_millis(1);
        let show = move |after| {
            let _ = tell.send(after);
        };
        let thread = thread::spawn(move || every(short, short, &is_over, show));
        let said = [told.recv().expect("a first time"), told.recv().expect("and again")];
        assert!(short <= said[0] && said[0] < said[1], "{said:?}");
        drop(goes_on);
        thread.join().expect("it ends");
    }

    #[test]
    fn a_line_says_what_is_known_and_nothing_else() {
        let line = |share, words: &str| line(&Far { share, words: words.to_string() }, PATIENCE);
        assert_eq!(line(Some(0.5), "3 bytes"), " 50 % after 2 s: 3 bytes");
        assert_eq!(line(None, "3 bytes"), "after 2 s: 3 bytes");
        assert_eq!(line(None, ""), "after 2 s");
    }
}
