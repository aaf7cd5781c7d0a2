//! Panics in a world: a protocol, a model or an oracle that gives up.
//!
//! An `expect` that does not hold is the commonest way in which a new protocol fails. What leads to it is known here only, so a panic is
//! caught and told as a [violation](Violation), which is replayed, made short and drawn as any other. Where a panic ends the program
//! (`panic = "abort"`), nothing can be caught: there a hook of the program's own asks what was [under way](under_way).

use super::choices::{Choices, Step};
use super::options::Options;
use super::size::Size;
use super::system::{Described, Violation};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// A run of a world that is under way.
#[derive(Clone, Debug)]
pub struct UnderWay {
    /// The world.
    pub world: String,
    /// Its whole size.
    pub size: Size,
    /// How it is run.
    pub options: Options,
    /// The choices so far; the last of them may not have ended.
    pub choices: Choices,
}

thread_local! {
    /// What this thread runs.
    static RUNS: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
    /// Whether a panic is caught on this thread.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// What the last panic said that was caught.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The run of a world that is under way on this thread, for a panic hook.
pub fn under_way() -> Option<UnderWay> {
    RUNS.with_borrow(Option::clone)
}

/// Runs of this world are under way on this thread until what is returned is dropped.
pub(super) fn begin(world: &(impl Described + ?Sized), options: &Options) -> Begun {
    let (name, size) = (world.name().to_string(), world.size());
    RUNS.set(Some(UnderWay { world: name, size, options: options.clone(), choices: Choices::default() }));
    Begun
}

/// Runs are under way.
pub(super) struct Begun;

impl Drop for Begun {
    fn drop(&mut self) {
        RUNS.set(None);
    }
}

/// The run is at its root.
pub(super) fn note_root() {
    RUNS.with_borrow_mut(|runs| runs.iter_mut().for_each(|runs| runs.choices.0.clear()));
}

/// A choice is about to be taken, after so many others.
pub(super) fn note(after: usize, step: Step) {
    RUNS.with_borrow_mut(|runs| {
        if let Some(UnderWay { choices, .. }) = runs {
            choices.0.truncate(after);
            choices.0.push(step);
        }
    });
}

/// Runs a part of a run.
///
/// # Errors
///
/// It has panicked: what the panic breaks, and the choices that have led to it.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, (Violation, Choices)> {
    install();
    let before = CATCHES.replace(true);
    let came = panic::catch_unwind(AssertUnwindSafe(run));
    CATCHES.set(before);
    came.map_err(|_| {
        let said = SAID.take().unwrap_or_else(|| "somewhere: a hook of the program's own knows".to_string());
        (Violation::panic(said), under_way().map(|runs| runs.choices).unwrap_or_default())
    })
}

/// Drops what a panic has left in some state or other: more may panic.
pub(super) fn drop_broken<T>(broken: T) {
    let _ = caught(|| drop(broken));
}

/// Has what is caught kept in place of printed, but for the way to it where the environment asks for that (`RUST_BACKTRACE`).
fn install() {
    static INSTALLED: Once = Once::new();
    if cfg!(panic = "abort") {
        return;
    }
    INSTALLED.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if !CATCHES.get() {
                return usual(panicked);
            }
            let said = said(panicked);
            let way = Backtrace::capture();
            if way.status() == BacktraceStatus::Captured {
                eprintln!("{said}\n{way}");
            }
            SAID.set(Some(said));
        }));
    });
}

/// Where it was and what it says, in one line.
pub fn said(panicked: &PanicHookInfo<'_>) -> String {
    let payload = panicked.payload();
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let lines: Vec<&str> = text.unwrap_or("it does not say why").lines().map(str::trim).collect();
    let place = panicked.location().map(|place| format!("{place}: ")).unwrap_or_default();
    format!("{place}{}", lines.join("; "))
}
