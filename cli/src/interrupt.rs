//! Ctrl-C. The first asks the run to stop, so that its temporary files go with it; the second does not ask.

use crate::exit::Exit;
use crate::logfile;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A process has one terminal and one set of signal handlers, so this is the program's one global variable.
static STOP: AtomicBool = AtomicBool::new(false);

/// Takes the signals over (SIGINT, SIGTERM and SIGHUP). Where that is refused, they end the process at once, as
/// they do by default.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            logfile::abandon();
            std::process::exit(Exit::Unfinished as i32);
        }
    });
}

/// Ends the process at the first signal, for what leaves nothing behind.
pub fn end_at_once() {
    let _ = ctrlc::set_handler(|| {
        // Nobody may be reading; the exit code tells the same.
        let _ = writeln!(io::stderr(), "weft: interrupted");
        std::process::exit(Exit::Unfinished as i32);
    });
}

/// Asks the run to stop, as the user would.
pub fn request() {
    STOP.store(true, Ordering::SeqCst);
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Waits until the user asks to stop.
pub async fn waited_for() {
    while !requested() {
        tokio::time::sleep(LOOK).await;
    }
}

/// How often who waits looks whether the user asked to stop.
pub const LOOK: Duration = Duration::from_millis(50);

/// The same, as a run asks it from time to time.
pub fn go_on() -> ControlFlow<()> {
    if requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
