//! What a node still knows: for explorers, which ask whether two states are the same.
//!
//! The hidden part of a program is where its tasks stand, and what their local variables hold. So a task notes it: each
//! function that waits and still needs some of its variables has a [frame](Rt::frame) that says them, and around the wait
//! itself there is a [rest](Rt::rest). All else that a task knows is in structures that are told by themselves. A task
//! that waits without a rest is not at rest, and then neither is its node, whose content is not known: nothing is
//! assumed of it.
//!
//! Nothing of this is done unless an explorer [asked](Rt::tell_content) for it.

use super::ledger::Side;
use super::queue::Queue;
use super::slots::Lease;
use super::{Rt, executor::Executor};
use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use weft_verbs::{MemoryRegion, QpNum, Verbs, WcOp};

/// What an adapter holds of a queue pair's requests, and its program cannot know: said by whoever sees both.
pub trait Unseen {
    /// Send requests that have not ended.
    fn unended_sends(&self, qp: QpNum) -> u32;

    /// Bytes of the n-th message, from 0, that was received and of which the program has not been told.
    fn arrived(&self, qp: QpNum, n: usize) -> Option<u32>;
}

/// A hash of 128 bits, in two lanes: for telling states of one program apart, not for adversaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64, u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }
}

const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Digest {
    /// The hash of all that was written.
    pub fn whole(self) -> u128 {
        u128::from(fold(self.0, 0xa409_3822_299f_31d1)) << 64
            | u128::from(fold(self.1, 0x082e_fa98_ec4e_6c89))
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0xa076_1d64_78bd_642f);
        self.1 = fold(self.1.rotate_left(23) ^ word, 0xe703_7ed1_a0b4_28db);
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.whole() as u64
    }
}

/// What a task has noted, the outermost frame first.
pub(crate) type Stack = Vec<Note>;

/// What a frame says, or a rest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    Knows(Digest),
    Rest,
}

/// The notes of the task that runs.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    on: Cell<bool>,
    stack: RefCell<Stack>,
}

impl Notes {
    fn begin(&self) {
        self.on.set(true);
    }

    pub(crate) fn end(&self) {
        self.on.set(false);
    }

    /// Exchanges the notes for those of another task.
    pub(crate) fn swap(&self, other: &mut Stack) {
        if self.on.get() {
            std::mem::swap(&mut *self.stack.borrow_mut(), other);
        }
    }

    /// The task that runs, a future written by hand, rests and knows this; or it does not rest.
    pub(crate) fn set(&self, what: Option<impl Hash>) {
        if self.on.get() {
            let mut stack = self.stack.borrow_mut();
            stack.clear();
            if let Some(what) = what {
                stack.extend([Note::Knows(digest(&what)), Note::Rest]);
            }
        }
    }
}

/// All that a task at rest knows; `None` if it is not.
pub(crate) fn known(stack: &Stack) -> Option<Digest> {
    let Some((Note::Rest, frames)) = stack.split_last() else { return None };
    let mut all = Digest::default();
    for note in frames {
        let Note::Knows(Digest(a, b)) = note else { return None };
        (a, b).hash(&mut all);
    }
    Some(all)
}

fn digest(what: &impl Hash) -> Digest {
    let mut digest = Digest::default();
    what.hash(&mut digest);
    digest
}

/// A function's part of what its task knows; see [`Rt::frame`].
pub struct Frame<'a>(Option<(&'a Notes, usize)>);

impl<'a> Frame<'a> {
    /// The frame of a function that no explorer listens to.
    pub(crate) const UNHEARD: Frame<'static> = Frame(None);

    fn new(notes: &'a Notes, rests: bool) -> Frame<'a> {
        if !notes.on.get() {
            return Frame(None);
        }
        let mut stack = notes.stack.borrow_mut();
        let depth = stack.len();
        stack.push(if rests { Note::Rest } else { Note::Knows(Digest::default()) });
        Frame(Some((notes, depth)))
    }

    /// Says what the function knows while it awaits what comes next: where it is, and what it still needs then.
    pub fn knows(&self, what: impl Hash) {
        if let Some((notes, depth)) = self.0
            && let Some(note) = notes.stack.borrow_mut().get_mut(depth)
        {
            *note = Note::Knows(digest(&what));
        }
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        // Functions end in their order; those of a task that is dropped have no notes any more.
        if let Some((notes, depth)) = self.0
            && notes.on.get()
        {
            notes.stack.borrow_mut().truncate(depth);
        }
    }
}

impl<V: Verbs> Rt<V> {
    /// From now on tasks note where they rest, so that [`Rt::content`] can say it. Before the first step.
    pub fn tell_content(&self) {
        self.notes().begin();
    }

    /// As long as this lives, its caller knows what it [says](Frame::knows) there, and what the frames around it say.
    pub fn frame(&self) -> Frame<'_> {
        Frame::new(self.notes(), false)
    }

    /// As long as this lives, the task knows nothing but what its frames say: to be held while it awaits one thing that
    /// is told elsewhere.
    pub fn rest(&self) -> Frame<'_> {
        Frame::new(self.notes(), true)
    }

    /// Where tasks note what they know.
    pub(crate) fn notes(&self) -> &Notes {
        self.inner.executor.notes()
    }

    /// Adds what the runtime's tasks know to a hash, between two steps. False if that cannot be said: a task is not at
    /// rest, or waits for a time, or has something to do. What is outstanding is told by its [queue](Queue::content).
    pub fn content(&self, to: &mut impl Hasher) -> bool {
        (self.is_closed(), self.inner.arming.get(), self.inner.looked.get()).hash(to);
        self.inner.cqs.borrow().content(to);
        let executor: &Executor = &self.inner.executor;
        let quiet = self.inner.timers.borrow().alive() == 0 && !executor.has_ready();
        quiet && executor.content(to)
    }

    /// How many requests are known to the runtime: as many as its queues tell of, or some are in nobody's content.
    pub fn requests_known(&self) -> usize {
        self.inner.requests.borrow().slots.in_use()
    }
}

impl<V: Verbs> Queue<V> {
    /// Adds what is outstanding to a hash: in order, and without the names of requests and places in memory, since
    /// requests of one queue end in order. Says how many there are.
    pub fn content(&self, unseen: &impl Unseen, to: &mut impl Hasher) -> usize {
        let num = self.num();
        let rt = self.rt();
        let requests = &mut *rt.inner.requests.borrow_mut();
        let (ledgers, slots) = (&requests.ledgers, &mut requests.slots);
        let (ledger, id) = (ledgers, self.id());
        (num, self.is_fenced(), ledger.is_broken(id), ledger.unsignaled_tail(id)).hash(to);
        let (sends, receives) = (ledger.outstanding(id, Side::Send), ledger.outstanding(id, Side::Receive));
        (sends.len(), receives.len(), ledger.watchers(id)).hash(to);
        let ended = sends.len().saturating_sub(unseen.unended_sends(num) as usize);
        for (n, &request) in sends.iter().enumerate() {
            slots.tell(request, to, |op, lease| {
                let fetched = matches!(op, WcOp::CompareSwap | WcOp::FetchAdd | WcOp::Read);
                if fetched && n < ended { lease.len() } else { 0 }
            });
        }
        for (n, &request) in receives.iter().enumerate() {
            slots.tell(request, to, |_, _| unseen.arrived(num, n).unwrap_or(0));
        }
        sends.len() + receives.len()
    }
}

impl<V: Verbs> Lease<V> {
    /// Its length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Lease::Nothing => 0,
            Lease::Range { len, .. } | Lease::Block { len, .. } => *len,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a range of its bytes to a hash, as far as it has them.
    pub fn content(&self, range: Range<u32>, to: &mut impl Hasher) {
        let mut piece = [0; 64];
        let end = range.end.min(self.len());
        for at in (range.start..end).step_by(piece.len()) {
            let piece = &mut piece[..(end - at).min(64) as usize];
            let read = match self {
                Lease::Nothing => Ok(()),
                Lease::Block { block, .. } => block.read(at, piece),
                Lease::Range { mr, at: from, .. } => mr.read((from + at) as usize, piece),
            };
            (read.is_ok(), piece).hash(to);
        }
    }
}
