//! Wait points: where a task waits, it says what it still knows.
//!
//! An explorer asks whether two states are the same. The hidden part of a state is where each task stands and what its
//! local variables hold, and only the task can say that. It does so at the wait itself:
//!
//! ```
//! use weft_protocols::rt::{Rt, WaitPoint};
//! # use weft_verbs::Verbs;
//! #[derive(Hash)]
//! enum At {
//!     Entering { seen: u64 },
//! }
//!
//! async fn guess<V: Verbs>(rt: &Rt<V>, mut seen: u64) {
//!     while seen < 3 {
//!         rt.yield_now().at(At::Entering { seen }).await;
//!         seen += 1;
//!     }
//! }
//! ```
//!
//! - Each function on the way to the wait says its own part, around the call that it awaits; together they are what the
//!   task knows. `at(())` says that a function needs nothing afterwards that is not told elsewhere.
//! - The innermost wait is a *leaf*: one of the runtime's own futures (a completion, a mailbox, a signal, an answer, a
//!   yield). What it waits for is part of the fingerprint of the structure that it belongs to.
//! - A task that says nothing, or that waits for anything but a leaf, counts by all that it has seen: that is never
//!   wrong, and finds fewer states equal. The case that is wrong is a function between others that says nothing while
//!   it still needs a variable; a test of the sources refuses it (`protocols/tests/all/lint.rs`).
//!
//! Nothing is noted unless an explorer [asked](super::Rt::note_waits) for it; then a wait point costs one look at a flag.

use super::fingerprint::StateHasher;
use pin_project_lite::pin_project;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Says what a task knows where it waits; see [`At`].
pub trait WaitPoint: Future + Sized {
    /// The same future, of which explorers are told what its caller still knows while it is pending: where it stands,
    /// and every variable that it needs afterwards.
    fn at<K: Hash>(self, knows: K) -> At<Self, K> {
        At { future: self, knows }
    }
}

impl<F: Future> WaitPoint for F {}

pin_project! {
    /// A future whose caller says what it knows; made by [`WaitPoint::at`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct At<F, K> {
        #[pin]
        future: F,
        knows: K,
    }
}

impl<F: Future, K: Hash> Future for At<F, K> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !NOTES_WAITS.get() {
            return this.future.poll(cx);
        }
        // The outermost function comes first, and it is hashed only if it waits indeed.
        let place = NOTES.with_borrow_mut(|notes| {
            notes.push(Note::Knows(StateHasher::default()));
            notes.len() - 1
        });
        let end = this.future.poll(cx);
        NOTES.with_borrow_mut(|notes| match notes.get_mut(place) {
            Some(note) if end.is_pending() => *note = Note::Knows(StateHasher::of(this.knows)),
            _ => notes.truncate(place),
        });
        end
    }
}

/// The task that runs waits for something that is told by the structure that it belongs to.
pub(crate) fn leaf() {
    if NOTES_WAITS.get() {
        NOTES.with_borrow_mut(|notes| notes.push(Note::Leaf));
    }
}

/// The task that runs is a state machine written by hand: it knows this, and waits for something that is told elsewhere.
pub(crate) fn leaf_at(knows: impl Hash) {
    if NOTES_WAITS.get() {
        let knows = Note::Knows(StateHasher::of(&knows));
        NOTES.with_borrow_mut(|notes| notes.extend([knows, Note::Leaf]));
    }
}

/// What one function says, or that the wait is a leaf.
#[derive(Clone, Copy, Debug)]
enum Note {
    Knows(StateHasher),
    Leaf,
}

/// What a task said when it was polled last, the outermost function first.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Note>);

impl Notes {
    /// A number for all that the task knows: 0 if that is nothing. `None` if it cannot be said.
    pub(crate) fn known(&self) -> Option<u128> {
        let Some((Note::Leaf, said)) = self.0.split_last() else { return None };
        let (mut all, mut any) = (StateHasher::default(), false);
        for note in said {
            let Note::Knows(knows) = note else { return None };
            any |= *knows != StateHasher::default();
            knows.hash(&mut all);
        }
        let known = if any { all.whole() } else { 0 };
        (!said.is_empty()).then_some(known)
    }

    /// Whether no function said anything.
    pub(crate) fn is_silent(&self) -> bool {
        !self.0.iter().any(|note| matches!(note, Note::Knows(_)))
    }
}

// Which task of this thread is being polled has to be found without a handle: protocols' traits have none, and a wait
// point in a test has no runtime. Both are set for one poll and reset after it, so they are no state of a node.
thread_local! {
    static NOTES_WAITS: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// One poll of a task whose waits are noted.
pub(crate) struct Noting {
    /// Those of the poll around this one, if there is one.
    around: (bool, Vec<Note>),
}

impl Noting {
    /// Begins with the room of the task's last notes.
    pub(crate) fn begin(last: Notes) -> Noting {
        let Notes(mut room) = last;
        room.clear();
        Noting { around: (NOTES_WAITS.replace(true), NOTES.replace(room)) }
    }

    /// Ends with what the task said.
    pub(crate) fn end(mut self) -> Notes {
        Notes(NOTES.replace(std::mem::take(&mut self.around.1)))
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        NOTES_WAITS.set(self.around.0);
    }
}
