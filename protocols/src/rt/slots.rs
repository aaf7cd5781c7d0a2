//! Completion slots: what becomes of a posted request, and who holds its memory until then.
//!
//! A slot is made with the post and lives until the request has completed, was retired by a later completion
//! of its queue, or its queue pair was destroyed. Until then it **guards** the request's memory: the task that
//! awaited the request may go away, but the adapter must not be left with memory that was given to someone else.
//! `wr_id` is the slot's index and generation, so that a completion finds its slot without hashing, and one
//! that comes too late finds nothing.

use super::ledger::{Ledgers, QueueId, Side};
use super::memory::Block;
use super::sync::wake_kept;
use super::wait_point::leaf;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thiserror::Error;
use weft_verbs::{Done, MemoryRegion, QpNum, Sge, Verbs, WcError, WcOp, WorkCompletion};

/// Why a posted request has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// It completed in error.
    #[error("{0}")]
    Status(#[from] WcError),
    /// Its queue pair was destroyed first, so that it never completes.
    #[error("the queue pair was destroyed before the request completed")]
    Destroyed,
}

/// What became of a request.
pub type Outcome = Result<Done, Failed>;

/// The memory of a posted request, kept from other users until the request has ended.
pub enum BufferGuard<V: Verbs> {
    /// None: no payload, or one that the post copied.
    Nothing,
    /// A range of a region.
    Range {
        /// The region, kept registered.
        mr: V::Mr,
        /// First byte.
        at: u32,
        /// Length in bytes.
        len: u32,
    },
    /// The first bytes of a pool's block.
    Block {
        /// The block, kept from other users.
        block: Block<V>,
        /// Length in bytes.
        len: u32,
    },
}

impl<V: Verbs> BufferGuard<V> {
    /// The range as a scatter or gather entry.
    pub(super) fn sge(&self) -> Option<Sge<'_, V::Mr>> {
        match self {
            BufferGuard::Nothing => None,
            BufferGuard::Range { mr, at, len } => Some(Sge { mr, at: *at, len: *len }),
            BufferGuard::Block { block, len } => Some(block.sge(*len)),
        }
    }

    /// A copy of its bytes.
    pub(crate) fn bytes(&self) -> weft_verbs::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len() as usize];
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes out, from one of its bytes on.
    pub(crate) fn read_at(&self, at: u32, into: &mut [u8]) -> weft_verbs::Result<()> {
        match self {
            BufferGuard::Nothing => Ok(()),
            BufferGuard::Range { mr, at: from, .. } => mr.read((from + at) as usize, into),
            BufferGuard::Block { block, .. } => block.read(at, into),
        }
    }

    /// Writes from one of its bytes on.
    pub(crate) fn write_at(&self, at: u32, bytes: &[u8]) -> weft_verbs::Result<()> {
        match self {
            BufferGuard::Nothing => Ok(()),
            BufferGuard::Range { mr, at: from, .. } => mr.write((from + at) as usize, bytes),
            BufferGuard::Block { block, .. } => block.write(at, bytes),
        }
    }

    /// The same memory, guarded once more.
    pub(crate) fn share(&self) -> BufferGuard<V> {
        match self {
            BufferGuard::Nothing => BufferGuard::Nothing,
            BufferGuard::Range { mr, at, len } => BufferGuard::Range { mr: mr.clone(), at: *at, len: *len },
            BufferGuard::Block { block, len } => BufferGuard::Block { block: block.clone(), len: *len },
        }
    }

    fn holds_memory(&self) -> bool {
        !matches!(self, BufferGuard::Nothing)
    }
}

/// A completed request, as a [`CompletionSink`] delivers it.
pub struct Completed<V: Verbs> {
    /// As given with the post.
    pub tag: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// Its memory, which is the receiver's again.
    pub buffer: BufferGuard<V>,
}

struct SinkState<V: Verbs> {
    queue: VecDeque<Completed<V>>,
    waker: Option<Waker>,
}

/// Where completions of many requests are gathered, in the order of completion, for one task that serves
/// them all. Clones are the same sink.
pub struct CompletionSink<V: Verbs>(Rc<RefCell<SinkState<V>>>);

impl<V: Verbs> Clone for CompletionSink<V> {
    fn clone(&self) -> Self {
        CompletionSink(Rc::clone(&self.0))
    }
}

impl<V: Verbs> Default for CompletionSink<V> {
    fn default() -> Self {
        CompletionSink(Rc::new(RefCell::new(SinkState { queue: VecDeque::new(), waker: None })))
    }
}

impl<V: Verbs> CompletionSink<V> {
    /// An empty sink.
    pub fn new() -> CompletionSink<V> {
        CompletionSink::default()
    }

    /// Takes the oldest completion, if there is one.
    pub fn take(&self) -> Option<Completed<V>> {
        self.0.borrow_mut().queue.pop_front()
    }

    /// Whether there is none to take.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().queue.is_empty()
    }

    /// Waits for the oldest completion. For one task at a time.
    pub async fn next(&self) -> Completed<V> {
        poll_fn(|cx| {
            if self.poll_ready(cx).is_pending() {
                leaf();
                return Poll::Pending;
            }
            self.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Ready as soon as there is a completion to take.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        if !state.queue.is_empty() {
            return Poll::Ready(());
        }
        wake_kept(&mut state.waker, cx);
        Poll::Pending
    }

    fn put(&self, completed: Completed<V>) -> Option<Waker> {
        let mut state = self.0.borrow_mut();
        state.queue.push_back(completed);
        state.waker.take()
    }
}

/// Who is told of a request's end.
pub(super) enum Target<V: Verbs> {
    /// Nobody: it was posted so, or whoever awaited it went away.
    Nobody,
    /// A future, once it has been polled.
    Future(Option<Waker>),
    /// A sink.
    Sink(CompletionSink<V>, u64),
}

/// A request as the slot is made for it.
pub(super) struct Posted<V: Verbs> {
    pub(super) queue: QueueId,
    pub(super) side: Side,
    pub(super) op: WcOp,
    pub(super) guard: BufferGuard<V>,
    pub(super) target: Target<V>,
}

enum State<V: Verbs> {
    Free,
    Pending(Posted<V>),
    /// Completed; the future has not looked yet.
    Done(Outcome, BufferGuard<V>),
}

struct Slot<V: Verbs> {
    generation: u32,
    state: State<V>,
}

/// What is left to do after the table was changed, outside of its borrow.
pub(super) enum Effect<V: Verbs> {
    Nothing,
    Wake(Waker),
    Release(BufferGuard<V>),
}

impl<V: Verbs> Effect<V> {
    pub(super) fn apply(self) {
        match self {
            Effect::Nothing => {}
            Effect::Wake(waker) => waker.wake(),
            Effect::Release(guard) => drop(guard),
        }
    }
}

/// All slots of a node.
pub(super) struct Slots<V: Verbs> {
    slots: Vec<Slot<V>>,
    free: Vec<u32>,
}

impl<V: Verbs> Default for Slots<V> {
    fn default() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }
}

/// The least room that is made.
const FEW: usize = 32;

fn wr_id(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

impl<V: Verbs> Slots<V> {
    /// Makes room for so many more requests, and at first for a few besides, which will follow.
    pub(super) fn reserve(&mut self, more: usize) {
        let few = if self.slots.is_empty() { FEW } else { 0 };
        let missing = more.saturating_sub(self.free.len()).max(few);
        self.slots.reserve(missing);
        // All of them may be free at once.
        self.free.reserve(self.slots.len() + missing - self.free.len());
    }

    /// The identity that the next [`Slots::fill`] gives out. Two steps, because the post needs the identity
    /// and may be refused.
    pub(super) fn next_id(&self) -> u64 {
        match self.free.last() {
            Some(&index) => wr_id(index, self.slots[index as usize].generation),
            None => wr_id(self.slots.len() as u32, 0),
        }
    }

    /// The identity that the `nth` call of [`Slots::fill`] from now on gives out, counted from 0.
    pub(super) fn coming_id(&self, nth: usize) -> u64 {
        match self.free.len().checked_sub(nth + 1) {
            Some(at) => wr_id(self.free[at], self.slots[self.free[at] as usize].generation),
            None => wr_id((self.slots.len() + nth - self.free.len()) as u32, 0),
        }
    }

    /// Takes the slot named by [`Slots::next_id`] for a request that was accepted.
    pub(super) fn fill(&mut self, posted: Posted<V>) {
        match self.free.pop() {
            Some(index) => self.slots[index as usize].state = State::Pending(posted),
            None => self.slots.push(Slot { generation: 0, state: State::Pending(posted) }),
        }
    }

    fn find(&mut self, id: u64) -> Option<(u32, &mut Slot<V>)> {
        let index = id as u32;
        let slot = self.slots.get_mut(index as usize)?;
        (slot.generation == (id >> 32) as u32).then_some((index, slot))
    }

    fn vacate(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Free;
        self.free.push(index);
    }

    /// Whose a pending request is.
    pub(super) fn owner(&mut self, id: u64) -> Option<(QueueId, Side)> {
        match &self.find(id)?.1.state {
            State::Pending(posted) => Some((posted.queue, posted.side)),
            _ => None,
        }
    }

    /// Ends a request. `None` stands for the success that a later completion of the same queue implies.
    pub(super) fn resolve(&mut self, id: u64, outcome: Option<Outcome>) -> Effect<V> {
        let Some((index, slot)) = self.find(id) else { return Effect::Nothing };
        let posted = match std::mem::replace(&mut slot.state, State::Free) {
            State::Pending(posted) => posted,
            other => {
                slot.state = other;
                return Effect::Nothing;
            }
        };
        let outcome = outcome.unwrap_or(Ok(Done { op: posted.op, len: 0, imm: None, from: None }));
        match posted.target {
            Target::Nobody => {
                self.vacate(index);
                Effect::Release(posted.guard)
            }
            Target::Future(waker) => {
                slot.state = State::Done(outcome, posted.guard);
                waker.map_or(Effect::Nothing, Effect::Wake)
            }
            Target::Sink(sink, tag) => {
                self.vacate(index);
                let completed = Completed { tag, outcome, buffer: posted.guard };
                sink.put(completed).map_or(Effect::Nothing, Effect::Wake)
            }
        }
    }

    /// Ends a pending request of whose end no sink is told any more, because the runtime is closed.
    pub(super) fn abandon(&mut self, id: u64) -> Effect<V> {
        let Some((index, slot)) = self.find(id) else { return Effect::Nothing };
        if !matches!(&slot.state, State::Pending(Posted { target: Target::Sink(..), .. })) {
            return self.resolve(id, Some(Err(Failed::Destroyed)));
        }
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Pending(Posted { guard, .. }) => {
                self.vacate(index);
                Effect::Release(guard)
            }
            _ => Effect::Nothing,
        }
    }

    /// The outcome for the future that awaits it, or its waker kept.
    pub(super) fn poll(&mut self, id: u64, cx: &mut Context<'_>) -> Poll<(Outcome, BufferGuard<V>)> {
        let Some((index, slot)) = self.find(id) else {
            return Poll::Ready((Err(Failed::Destroyed), BufferGuard::Nothing));
        };
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Done(outcome, guard) => {
                self.vacate(index);
                Poll::Ready((outcome, guard))
            }
            State::Pending(mut posted) => {
                match &mut posted.target {
                    Target::Future(waker) => wake_kept(waker, cx),
                    other => *other = Target::Future(Some(cx.waker().clone())),
                }
                slot.state = State::Pending(posted);
                Poll::Pending
            }
            State::Free => Poll::Ready((Err(Failed::Destroyed), BufferGuard::Nothing)),
        }
    }

    /// The future went away. The request goes on, and its memory stays guarded until it ends.
    pub(super) fn orphan(&mut self, id: u64) -> Effect<V> {
        let Some((index, slot)) = self.find(id) else { return Effect::Nothing };
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Pending(mut posted) => {
                posted.target = Target::Nobody;
                slot.state = State::Pending(posted);
                Effect::Nothing
            }
            State::Done(_, guard) => {
                self.vacate(index);
                Effect::Release(guard)
            }
            State::Free => Effect::Nothing,
        }
    }

    /// Adds a request to a hash, with as many bytes of its memory as `bytes` says.
    pub(super) fn tell(
        &mut self,
        id: u64,
        to: &mut impl Hasher,
        bytes: impl FnOnce(WcOp, &BufferGuard<V>) -> u32,
    ) {
        let Some((_, Slot { state: State::Pending(posted), .. })) = self.find(id) else { return };
        let Posted { op, guard, target, .. } = posted;
        match target {
            Target::Nobody => 0u64.hash(to),
            Target::Future(waker) => (1u64, waker.is_some()).hash(to),
            Target::Sink(_, tag) => (2u64, tag).hash(to),
        }
        (*op, guard.len()).hash(to);
        guard.hash_bytes(0..bytes(*op, guard), to);
    }

    /// A buffer of a shared queue was drawn by this queue pair: so the sink is told.
    fn drawn(&mut self, id: u64, by: QpNum) {
        if let Some((_, Slot { state: State::Pending(Posted { target: Target::Sink(_, tag), .. }), .. })) =
            self.find(id)
        {
            *tag = u64::from(by.0);
        }
    }

    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn guards(&self) -> usize {
        let held = |slot: &&Slot<V>| match &slot.state {
            State::Pending(posted) => posted.guard.holds_memory(),
            State::Done(_, guard) => guard.holds_memory(),
            State::Free => false,
        };
        self.slots.iter().filter(held).count()
    }
}

/// The slots and the ledgers, which change together.
pub(super) struct Requests<V: Verbs> {
    pub(super) slots: Slots<V>,
    pub(super) ledgers: Ledgers,
}

impl<V: Verbs> Default for Requests<V> {
    fn default() -> Self {
        Requests { slots: Slots::default(), ledgers: Ledgers::default() }
    }
}

/// Resolves what a completion says: its own request and, before it, the unsignaled ones of the same queue that
/// it implies (IBA 10.8.5.1: a completion retires all earlier requests of its send queue).
pub(super) fn complete<V: Verbs>(requests: &RefCell<Requests<V>>, completion: &WorkCompletion) {
    let id = completion.wr_id;
    loop {
        let (effect, watchers) = {
            let Requests { slots, ledgers } = &mut *requests.borrow_mut();
            let Some((queue, side)) = slots.owner(id) else {
                // Of a queue pair that was destroyed; resolved then.
                return;
            };
            match ledgers.retire_next(queue, side, id) {
                Some(earlier) => (slots.resolve(earlier, None), None),
                None => {
                    if side == Side::Shared {
                        slots.drawn(id, completion.qp);
                    }
                    let effect = slots.resolve(id, Some(completion.result.map_err(Failed::Status)));
                    (effect, Some(ledgers.progress(queue, side, completion.result.is_ok())))
                }
            }
        };
        effect.apply();
        if let Some(watchers) = watchers {
            return watchers.wake();
        }
    }
}
