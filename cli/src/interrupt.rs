//! Ctrl-C. The first asks the run to stop, so that its temporary files go with it; the second does not ask. And a signal that is to end
//! nothing.
//!
//! What whoever started the program had it ignore stays ignored: SIGHUP under `nohup`, SIGINT behind the shell's `&`.

use crate::exit::{Exit, Failure};
use crate::logfile;
use std::future::poll_fn;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A process has one terminal and one set of signal handlers, so these are the program's only global variables.
static STOP: AtomicBool = AtomicBool::new(false);
/// How many signals have come.
static SIGNALS: AtomicU32 = AtomicU32::new(0);
/// Whether the process stays when the second one comes.
static STAYS: AtomicBool = AtomicBool::new(false);
/// Whether the signals were taken over, which is done once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the signals over (SIGINT, SIGTERM and SIGHUP). Where that is refused, they end the process at once, as
/// they do by default.
pub fn install() {
    let _ = take_over(|| {
        STOP.store(true, Ordering::SeqCst);
        if SIGNALS.fetch_add(1, Ordering::SeqCst) > 0 && !STAYS.load(Ordering::SeqCst) {
            logfile::abandon();
            std::process::exit(Exit::Unfinished as i32);
        }
    });
}

/// Ends the process at the first signal, for what leaves nothing behind but files that are being written.
pub fn end_at_once() {
    let _ = take_over(|| {
        logfile::abandon();
        // Nobody may be reading; the exit code tells the same.
        let _ = writeln!(io::stderr(), "weft: interrupted");
        std::process::exit(Exit::Unfinished as i32);
    });
}

/// Has a write beyond the largest file that the process may have end as one to a full disk does: with an error. The signal that comes with
/// it (SIGXFSZ) ends the process by default, and a file server would go down with each client's file that is too large. Where it cannot be
/// taken over, it does that.
pub fn outlive_large_files() {
    let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
    let _within = runtime.enter();
    // A signal that was taken over once stays so.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())));
}

/// Calls this at each signal that is not ignored, on a thread of its own.
fn take_over(and: fn()) -> io::Result<()> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _within = runtime.enter();
        Signals::take()?
    };
    let come = move || {
        runtime.block_on(async {
            loop {
                signals.next().await;
                and();
            }
        });
    };
    thread::Builder::new().name("signals".to_string()).spawn(come).map(drop)
}

/// The signals that ask to stop and are not ignored.
#[derive(Debug)]
pub struct Signals(Vec<Signal>);

impl Signals {
    /// Takes them over, within a runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take() -> io::Result<Signals> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let wanted = kinds.into_iter().filter(|kind| !is_ignored(*kind));
        wanted.map(signal).collect::<io::Result<_>>().map(Signals)
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        poll_fn(|cx| match self.0.iter_mut().any(|signal| signal.poll_recv(cx).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// Whether the process was started with a signal ignored, or has it ignored since.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.is_ok_and(|status| ignores(&status, kind.as_raw_value()))
}

/// What the kernel's page of a process says of a signal: it has a bit for each, from 1.
fn ignores(status: &str, number: i32) -> bool {
    let said = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = said.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    number > 0 && bits.checked_shr(number as u32 - 1).unwrap_or(0) & 1 == 1
}

/// Whether the process stays when another signal comes: it has a command to end, and looks at [`signals`] itself.
pub fn stay(stays: bool) {
    STAYS.store(stays, Ordering::SeqCst);
}

/// How many signals have come that ask to stop.
pub fn signals() -> u32 {
    SIGNALS.load(Ordering::SeqCst)
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

/// Does something that may wait for long on a thread of its own, and does not wait for that once the user asks to stop.
pub fn unless_requested<T: Send + 'static>(
    does: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (tell, done) = sync_channel(1);
    thread::spawn(move || tell.send(does()));
    loop {
        match done.recv_timeout(LOOK) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) if !requested() => {}
            Err(_) => return Err(Failure::interrupted()),
        }
    }
}

/// How often who waits looks whether the user asked to stop.
pub const LOOK: Duration = Duration::from_millis(50);

/// The same, as a run asks it from time to time.
pub fn go_on() -> ControlFlow<()> {
    if requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_kernels_mask() {
        let status = "Name:\tweft\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        let all = [1, 2, 13, 15, 0, 65].map(|number| ignores(status, number));
        assert_eq!(all, [true, false, true, false, false, false]);
        assert!(!ignores("Name:\tweft\n", 1));
    }
}
