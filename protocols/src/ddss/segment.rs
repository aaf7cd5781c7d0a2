//! What a node knows of a segment that is open there, and whose turn it is at it.

use super::io::lacks_memory;
use super::key::Place;
use super::parties::Party;
use super::queue::Queue;
use super::service::Ddss;
use super::{DdssError, Header, Key, Model, Name, Spec};
use crate::rt::{BufferGuard, BufferPool, leaf};
use crate::transport::Rank;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use weft_verbs::{Nanos, RemoteSlice, Verbs};

/// Most bytes of slots that a get reads to have one of them.
const WINDOW: u32 = 1_024;

/// A segment that is open at a node. Clones are the same.
pub struct Segment<V: Verbs>(pub(super) Rc<Open<V>>);

impl<V: Verbs> Clone for Segment<V> {
    fn clone(&self) -> Segment<V> {
        Segment(Rc::clone(&self.0))
    }
}

impl<V: Verbs> Segment<V> {
    /// What it is.
    pub fn spec(&self) -> Spec {
        self.0.spec
    }

    /// Its key, which other nodes can [attach](super::Ddss::attach).
    pub fn key(&self) -> Key {
        self.0.key()
    }
}

/// What a node knows of a segment.
pub(super) struct Open<V: Verbs> {
    pub name: Name,
    pub home: Party,
    pub me: Rank,
    at: Place,
    pub spec: Spec,
    /// The header as it was seen last: a guess of what it is.
    pub last: Cell<Header>,
    /// Which of the node's own slots it published last.
    own: Cell<u32>,
    /// What was posted and may have changed the header, if nobody knows what became of it.
    pub doubt: Cell<Option<Doubt>>,
    /// A version that was the latest one at a moment.
    pub fresh: Cell<Option<(u64, Nanos)>>,
    /// It is this node's turn by the home's line.
    pub entered: Cell<bool>,
    /// Its home has said that it keeps it, and that this node has a part in it.
    confirmed: Cell<bool>,
    /// Which of the node's own slots was published last is not known: an earlier incarnation had a part in the segment.
    again: Cell<bool>,
    /// The segment is being released, or has been: nothing is posted to it any more.
    closed: Cell<bool>,
    /// Its home has said that it is of an earlier incarnation: nothing is posted to it any more.
    died: Cell<bool>,
    /// Tasks of the node in line for a turn.
    line: Queue,
    /// Blocks for values and windows.
    values: BufferPool<V>,
}

/// A swap of the header whose outcome nobody has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It takes the lock for this node.
    Takes,
    /// It gives it back.
    Gives {
        /// The header was to be marked then: the home waits to be told.
        marked: bool,
    },
    /// It publishes a slot in place of a version.
    Put {
        /// The version that it supersedes.
        version: u64,
        /// The slot.
        slot: u16,
    },
}

impl<V: Verbs> Open<V> {
    /// A segment of which nothing is known yet, at this node.
    pub fn new(me: Rank, key: Key, values: BufferPool<V>) -> Open<V> {
        let Key { home, incarnation, name, spec, at } = key;
        Open {
            name,
            home: Party { rank: home, incarnation },
            me,
            at,
            spec,
            last: Cell::default(),
            own: Cell::new(spec.slots_each().saturating_sub(1)),
            doubt: Cell::default(),
            fresh: Cell::default(),
            entered: Cell::new(false),
            confirmed: Cell::new(false),
            again: Cell::new(false),
            closed: Cell::new(false),
            died: Cell::new(false),
            line: Queue::default(),
            values,
        }
    }

    /// Its key.
    pub fn key(&self) -> Key {
        let Open { name, home: Party { rank: home, incarnation }, at, spec, .. } = *self;
        Key { home, incarnation, name, spec, at }
    }

    /// The header was read. What is seen is not always looked at in its order: a version that was seen does not go back.
    pub fn saw(&self, header: Header) {
        if header.version >= self.last.get().version {
            self.last.set(header);
        }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.at
    }

    /// Where the header is.
    pub fn header(&self) -> RemoteSlice {
        self.at.memory.word(0).unwrap_or(RemoteSlice { len: 0, ..self.at.memory })
    }

    /// Where a slot's content is.
    pub fn slot(&self, slot: u32) -> RemoteSlice {
        let at = self.spec.slot_at(slot);
        // A header that names a slot beyond the segment is none that a node has published; the adapter refuses what is left.
        let end = at.saturating_add(self.spec.content());
        self.at.memory.slice(at..end).unwrap_or(RemoteSlice { len: 0, ..self.at.memory })
    }

    /// The slots that are read together with one of them.
    pub fn window(&self, slot: u16) -> Window {
        let (first, count) = window_of(self.spec, slot.into());
        let stride = self.spec.stride();
        let len = (count - 1) * stride + self.spec.content();
        let at = self.spec.slot_at(first);
        let from = self
            .at
            .memory
            .slice(at..at.saturating_add(len))
            .unwrap_or(RemoteSlice { len: 0, ..self.at.memory });
        Window { first, count, stride, from }
    }

    /// The slot of the node's own that is written next: the one that it published longest ago.
    pub fn next_slot(&self) -> u16 {
        let next = (self.own.get() + 1) % self.spec.slots_each();
        (self.spec.first_slot(self.me.index() as u32) + next) as u16
    }

    /// A slot of the node's own was published, or another version was in its place: either way all others of the node are older.
    pub fn published(&self, slot: u16) {
        self.own.set(u32::from(slot) - self.spec.first_slot(self.me.index() as u32));
    }

    /// Whether a slot is one of the node's own.
    pub fn is_own(&self, slot: u16) -> bool {
        let first = self.spec.first_slot(self.me.index() as u32);
        (first..first + self.spec.slots_each()).contains(&slot.into())
    }

    /// The home has said that the node has a part in the segment, and whether an earlier incarnation of it had one.
    pub fn takes_part(&self, again: bool) {
        if !self.confirmed.replace(true) {
            self.again.set(again && self.spec.slots_each() > 0);
        }
    }

    /// Whether the home has said that the node has a part in the segment.
    pub fn has_part(&self) -> bool {
        self.confirmed.get()
    }

    /// Whether it is to be found out which of the node's own slots was published last.
    pub fn is_here_again(&self) -> bool {
        self.again.get()
    }

    /// It was found out.
    pub fn knows_slots(&self) {
        self.again.set(false);
    }

    /// A place in the line of the node's tasks; none under null, where nobody waits.
    pub fn in_line(self: &Rc<Self>) -> Option<InLine<V>> {
        (self.spec.model != Model::Null).then(|| InLine::new(self))
    }

    /// Whether some task of the node has its turn.
    pub fn is_busy(&self) -> bool {
        !self.line.is_empty()
    }

    /// Whether a call that was dropped has left something to be found out, or to be given back.
    fn is_unsettled(&self) -> bool {
        self.doubt.get().is_some() || self.entered.get()
    }

    /// From now on its calls end with [`DdssError::Released`].
    pub fn close(&self) {
        self.closed.set(true);
        self.line.wake_all();
    }

    /// From now on its calls end with [`DdssError::Gone`].
    pub fn dies(&self) {
        self.died.set(true);
        self.line.wake_all();
    }

    /// Its calls may have ended: those that wait for a turn are to look.
    pub fn wake_all(&self) {
        self.line.wake_all();
    }

    /// The segment has not been released, and its home has not said that it is gone, as far as this node knows.
    pub fn is_there(&self) -> Result<(), DdssError> {
        match (self.closed.get(), self.died.get()) {
            (true, _) => Err(DdssError::Released),
            (_, true) => Err(DdssError::Gone(self.home.rank)),
            _ => Ok(()),
        }
    }

    /// The segment is there, and the caller's value is as long as it.
    pub fn fits(&self, len: usize) -> Result<(), DdssError> {
        self.is_there()?;
        let size = self.spec.size;
        if size as usize == len { Ok(()) } else { Err(DdssError::Length { size, len }) }
    }

    /// A block for a value or a window.
    pub fn block(&self, len: u32) -> Result<BufferGuard<V>, DdssError> {
        let block = self.values.alloc().map_err(DdssError::Verbs)?;
        Ok(BufferGuard::Block { block, len })
    }
}

/// The longest value or window of a segment.
pub(super) fn longest(spec: Spec) -> u32 {
    let (_, count) = window_of(spec, 1);
    (count * spec.stride()).max(spec.content())
}

/// The first of the slots that are read together with one of them, and how many they are.
fn window_of(spec: Spec, slot: u32) -> (u32, u32) {
    let each = spec.slots_each();
    let wide = each > 0 && slot > 0 && each * spec.stride() <= WINDOW;
    if wide { (slot - (slot - 1) % each, each) } else { (slot, 1) }
}

/// Slots that are read together: a node's own, if they are short, since its next put is in another one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    first: u32,
    count: u32,
    stride: u32,
    pub from: RemoteSlice,
}

impl Window {
    /// Where a slot's content begins in the window, if it is there.
    pub fn offset(&self, slot: u16) -> Option<u32> {
        let nth = u32::from(slot).checked_sub(self.first)?;
        (nth < self.count).then_some(nth * self.stride)
    }
}

/// A task's turn at a segment among those of its node, one of which at a time changes a header; the next one's begins when it ends. What
/// its call leaves in doubt, since it failed or was dropped in the middle, is settled in a turn of its own.
pub(super) struct Turn<V: Verbs> {
    pub open: Rc<Open<V>>,
    /// Given back behind the rest.
    _place: InLine<V>,
    /// None in the turn that settles: it tries once, and the next call tries again.
    settles: Option<Ddss<V>>,
}

impl<V: Verbs> Ddss<V> {
    /// Waits for the task's turn, in which nothing is in doubt.
    pub(super) async fn turn(&self, open: &Rc<Open<V>>) -> Result<Turn<V>, DdssError> {
        self.turn_at(InLine::new(open)).await
    }

    /// The same, at a place that the task has in the line. Who has the turn may keep it, so that the wait ends with the segment, too.
    pub(super) async fn turn_at(&self, place: InLine<V>) -> Result<Turn<V>, DdssError> {
        let open = Rc::clone(&place.open);
        let turn = Turn::next(place, Some(self.clone()), || open.is_there().and_then(|()| self.check(&open)));
        let turn = turn.await?;
        self.settle(&turn.open).await?;
        Ok(turn)
    }
}

impl<V: Verbs> Turn<V> {
    /// The turn of a place, unless the wait for it ends with an error.
    async fn next(
        place: InLine<V>,
        settles: Option<Ddss<V>>,
        goes_on: impl Fn() -> Result<(), DdssError>,
    ) -> Result<Turn<V>, DdssError> {
        let InLine { open, number } = &place;
        poll_fn(|cx| {
            if open.line.is_first(*number) {
                return Poll::Ready(Ok(()));
            }
            open.line.watch(*number, cx);
            if let Err(why) = goes_on() {
                return Poll::Ready(Err(why));
            }
            leaf();
            Poll::Pending
        })
        .await?;
        Ok(Turn { open: Rc::clone(open), _place: place, settles })
    }
}

/// A task's place in the line, until it is dropped.
pub(super) struct InLine<V: Verbs> {
    open: Rc<Open<V>>,
    number: u64,
}

impl<V: Verbs> InLine<V> {
    fn new(open: &Rc<Open<V>>) -> InLine<V> {
        InLine { open: Rc::clone(open), number: open.line.enter() }
    }
}

impl<V: Verbs> Drop for InLine<V> {
    fn drop(&mut self) {
        self.open.line.leave(self.number);
    }
}

impl<V: Verbs> Drop for Turn<V> {
    fn drop(&mut self) {
        if let Some(ddss) = self.settles.take().filter(|_| self.open.is_unsettled()) {
            let open = Rc::clone(&self.open);
            drop(ddss.0.rt.clone().spawn(async move {
                // Whatever has become of the segment: somebody may wait for what is given back.
                let _turn = Turn::next(InLine::new(&open), None, || Ok(())).await;
                // A node that is shut down owes nothing.
                while ddss.settle(&open).await.is_err_and(|why| lacks_memory(&why)) {
                    ddss.until_there_may_be_memory().await;
                }
            }));
        }
    }
}
