//! Completion channels and completion queues.

use crate::device::{ContextInner, HwContext};
use crate::ffi::{self, RawWc, WcRoom};
use crate::ledger::Hold;
use crate::reactor::Hint;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use weft_verbs::{Arm, CompletionChannel, CompletionQueue, CqId, Result, VerbsError, WorkCompletion};

/// A completion channel.
#[derive(Clone)]
pub struct HwChannel(Rc<ChannelHandle>);

struct ChannelHandle {
    raw: Rc<ffi::Channel>,
    hint: Hint,
    /// Events that its queues were armed for and that did not come, or more.
    expected: Cell<u32>,
    context: Rc<ContextInner>,
}

impl fmt::Debug for HwChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwChannel").field(&self.0.raw.fd()).finish()
    }
}

impl Drop for ChannelHandle {
    fn drop(&mut self) {
        self.context.reactor.forget(self.raw.fd());
    }
}

impl HwChannel {
    pub(crate) fn create(context: &HwContext) -> Result<HwChannel> {
        let raw = Rc::new(ffi::Channel::create(&context.0.raw)?);
        let hint = context.0.reactor.watch(raw.fd())?;
        Ok(HwChannel(Rc::new(ChannelHandle { raw, hint, expected: Cell::new(0), context: Rc::clone(&context.0) })))
    }
}

impl CompletionChannel for HwChannel {
    fn event(&self) -> Option<CqId> {
        let ChannelHandle { raw, hint, expected, .. } = &*self.0;
        let more = expected.get().checked_sub(1)?;
        let id = hint.ask(|| raw.event())?;
        expected.set(more);
        Some(CqId(id))
    }
}

/// A completion queue.
#[derive(Clone)]
pub struct HwCq(pub(crate) Rc<CqHandle>);

pub(crate) struct CqHandle {
    id: u32,
    /// Completions were lost: no more are delivered.
    overrun: Cell<bool>,
    /// A completion that a look has taken out, and no poll yet.
    ahead: Cell<Option<RawWc>>,
    /// Whether one of these two is the case: all that a poll looks at.
    unusual: Cell<bool>,
    /// An empty list, kept for its allocation.
    released: RefCell<Vec<Hold>>,
    context: Rc<ContextInner>,
    pub(crate) raw: Rc<ffi::Cq>,
    channel: Option<HwChannel>,
}

impl fmt::Debug for HwCq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwCq").field(&self.0.id).finish()
    }
}

impl Drop for CqHandle {
    fn drop(&mut self) {
        self.context.delist_cq(self.id);
    }
}

impl CqHandle {
    /// Whether a poll would bring something. The adapter's queue cannot be looked at without taking from it, so what
    /// is taken waits for the next poll; its request's place stays taken until then.
    pub(crate) fn has_completions(&self) -> bool {
        let mut ahead = self.ahead.get();
        if ahead.is_none() {
            let mut room = WcRoom::new();
            // An error is for the poll to report.
            ahead = match self.raw.poll(&mut room, 1) {
                Ok(seen) => seen.first().copied(),
                Err(_) => return true,
            };
            self.ahead.set(ahead);
            self.unusual.set(self.unusual.get() || ahead.is_some());
        }
        ahead.is_some()
    }

    /// Ends the requests of these completions: how many there were to tell of.
    #[inline]
    fn settle(&self, seen: &[RawWc], out: &mut Vec<WorkCompletion>) -> usize {
        let (before, ledgers) = (out.len(), &self.context.ledgers);
        for wc in seen {
            // Released outside of the borrow, for memory that an application brought may run the application's code.
            let hold = ledgers.borrow_mut().complete(wc, out);
            hold.release();
        }
        let aside = ledgers.borrow_mut().put_aside(|| self.released.take());
        if let Some(aside) = aside {
            self.release(aside);
        }
        out.len() - before
    }

    /// A poll of a queue that overran, or that was looked into.
    #[cold]
    fn poll_unusual(&self, out: &mut Vec<WorkCompletion>, max: usize) -> Result<usize> {
        if self.overrun.get() {
            return Err(VerbsError::CqOverrun);
        }
        if max == 0 {
            return Ok(0);
        }
        self.unusual.set(false);
        Ok(self.ahead.take().map_or(0, |wc| self.settle(&[wc], out)))
    }

    /// Releases what requests held, and keeps the list's allocation.
    #[inline(never)]
    fn release(&self, mut aside: Vec<Hold>) {
        aside.drain(..).for_each(Hold::release);
        self.released.replace(aside);
    }

    /// The adapter said so.
    pub(crate) fn overran(&self) {
        self.overrun.set(true);
        self.unusual.set(true);
    }
}

impl HwCq {
    pub(crate) fn create(context: &HwContext, cqe: u32, channel: Option<&HwChannel>) -> Result<HwCq> {
        let context = &context.0;
        check_cqe(cqe, context.limits.max_cqe)?;
        if channel.is_some_and(|c| !c.0.raw.is_in(&context.raw)) {
            return Err(VerbsError::Foreign("the completion channel"));
        }
        let id = context.fresh_id();
        let raw = ffi::Cq::create(&context.raw, cqe, id, channel.map(|c| &c.0.raw))?;
        let handle = Rc::new(CqHandle {
            id,
            overrun: Cell::new(false),
            ahead: Cell::new(None),
            unusual: Cell::new(false),
            released: RefCell::default(),
            context: Rc::clone(context),
            raw: Rc::new(raw),
            channel: channel.cloned(),
        });
        context.enlist_cq(id, &handle);
        Ok(HwCq(handle))
    }
}

fn check_cqe(cqe: u32, bound: u32) -> Result<()> {
    let what = "the number of completions";
    match cqe {
        0 => Err(VerbsError::Invalid("a completion queue needs room for one completion at least")),
        _ if cqe > bound => Err(VerbsError::TooLarge { what, value: cqe.into(), bound: bound.into() }),
        _ => Ok(()),
    }
}

impl CompletionQueue for HwCq {
    fn id(&self) -> CqId {
        CqId(self.0.id)
    }

    #[inline]
    fn poll(&self, out: &mut Vec<WorkCompletion>, max: usize) -> Result<usize> {
        let this = &*self.0;
        let mut count = if this.unusual.get() { this.poll_unusual(out, max)? } else { 0 };
        let mut room = WcRoom::new();
        while count < max {
            let wanted = (max - count).min(WcRoom::MOST);
            let seen = this.raw.poll(&mut room, wanted)?;
            if seen.is_empty() {
                break;
            }
            count += this.settle(seen, out);
            if seen.len() < wanted {
                break;
            }
        }
        if count > 0 && this.context.unconfirmed.get() {
            this.context.confirm(&out[out.len() - count..]);
        }
        Ok(count)
    }

    fn arm(&self, next: Arm) -> Result<()> {
        let Some(channel) = &self.0.channel else {
            return Err(VerbsError::Invalid("a completion queue without a channel cannot be armed"));
        };
        channel.0.expected.set(channel.0.expected.get().saturating_add(1));
        self.0.raw.arm(next == Arm::Solicited)
    }

    fn capacity(&self) -> u32 {
        self.0.raw.capacity()
    }

    fn resize(&self, cqe: u32) -> Result<()> {
        check_cqe(cqe, self.0.context.limits.max_cqe)?;
        self.0.raw.resize(cqe)
    }
}
