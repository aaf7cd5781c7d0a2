//! Completion queues and channels.

use super::{HcaId, Key, Slab};
use crate::NodeId;
use crate::hca::Io;
use crate::in_place::clone_in_place;
use crate::log::Kind;
use crate::log::entry::{Completed, Signaled};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use weft_verbs::{Arm, AsyncEvent, CqId, Done, QpNum, Result, VerbsError, Wait, WcError, WorkCompletion};

/// A completion as the adapter keeps it.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Cqe {
    /// As given when the request was posted.
    pub wr_id: u64,
    /// The queue pair.
    pub qp: QpNum,
    /// Where the queue pair is.
    pub owner: Key,
    /// Send-queue slots that polling this completion frees: its own, and those of the unsignaled requests
    /// before it. 0 for a receive.
    pub frees: u32,
    /// What happened.
    pub result: std::result::Result<Done, WcError>,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    /// Its context.
    pub ctx: u32,
    /// Where it reports to.
    pub channel: Option<Key>,
    /// How many completions it can hold.
    pub capacity: u32,
    /// What it is armed for.
    pub armed: Option<Arm>,
    /// It had no room for a completion, and delivers no more (IBA 11.6.3.1).
    pub overrun: bool,
    /// How many completions were ever queued, and of how many of those footprints have told.
    pub pushed: u32,
    /// See [`Cq::pushed`].
    pub told: u32,
    entries: VecDeque<Cqe>,
    /// Of an untimed world that shows everything in one order: the places of the entries in the order of all that came to the node;
    /// see [`Cq::stamp`].
    stamps: VecDeque<u32>,
}

clone_in_place! { Cq { ctx, channel, capacity, armed, overrun, pushed, told, entries, stamps } }

impl Cq {
    /// An empty queue.
    pub fn new(ctx: u32, channel: Option<Key>, capacity: u32) -> Cq {
        Cq {
            ctx,
            channel,
            capacity,
            armed: None,
            overrun: false,
            pushed: 0,
            told: 0,
            entries: VecDeque::new(),
            stamps: VecDeque::new(),
        }
    }

    /// All that decides what it does next.
    pub fn digest(&self, to: &mut impl Hasher) {
        (self.capacity, self.armed, self.overrun, &self.entries).hash(to);
    }

    /// The same without the identities that its program gave to requests.
    pub fn digest_canonical(&self, to: &mut impl Hasher) {
        (self.capacity, self.armed, self.overrun, self.entries.len()).hash(to);
        for Cqe { wr_id: _, qp, owner, frees, result } in &self.entries {
            (qp, owner, frees, result).hash(to);
        }
    }

    /// How many bytes the messages brought that a queue pair received and that were not polled, oldest first.
    pub fn arrived(&self, qp: QpNum) -> impl Iterator<Item = u32> {
        let of = move |cqe: &&Cqe| cqe.qp == qp && cqe.frees == 0;
        self.entries.iter().filter(of).map(|cqe| cqe.result.map_or(0, |done| done.len))
    }

    /// Whether it holds completions of a queue pair.
    pub fn holds_of(&self, owner: Key) -> bool {
        self.entries.iter().any(|cqe| cqe.owner == owner)
    }

    /// How many completions it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of the oldest completion that it holds, or of the next to come.
    pub fn oldest(&self) -> u32 {
        self.pushed.wrapping_sub(self.entries.len() as u32)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Gives the completions that have none yet the next places in the order of all that came to the node.
    pub fn stamp(&mut self, next: &mut u32) {
        while self.stamps.len() < self.entries.len() {
            self.stamps.push_back(*next);
            *next += 1;
        }
    }

    /// How many of the completions that it holds came before a place in that order. Those without one came before there were any.
    pub fn before(&self, place: u32) -> usize {
        let stamped = self.stamps.iter().take_while(|stamp| **stamp < place).count();
        self.entries.len() - self.stamps.len() + stamped
    }

    /// The places that were given, oldest first.
    pub fn stamps(&self) -> impl Iterator<Item = u32> {
        self.stamps.iter().copied()
    }
}

/// A completion channel: the queues that raised an event, oldest first.
#[derive(Debug, Default, Hash)]
pub struct Channel {
    /// The events not yet taken.
    pub events: VecDeque<CqId>,
}

clone_in_place! { Channel { events } }

/// What happened on a machine, mostly at an adapter since its node last looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// A completion was queued.
    pub completion: bool,
    /// A completion channel got an event.
    pub channel: bool,
    /// An asynchronous event or one of a connection was raised: it ends any wait.
    pub event: bool,
    /// Something else ends any wait: a call of a disk has ended, a stream is ready.
    pub urgent: bool,
    /// The first packet came on a queue pair that is only ready to receive.
    pub established: Option<QpNum>,
}

impl News {
    /// Whether there is any.
    #[inline]
    pub const fn is_some(&self) -> bool {
        self.completion | self.channel | self.event | self.urgent | self.established.is_some()
    }
}

/// The completion side of an adapter: queues, channels, asynchronous events by context.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Completions {
    /// What is new for the node.
    pub news: News,
    /// Completions queued in all queues.
    pub queued: u32,
    /// Channel events not taken, of all channels.
    pub signals: u32,
    /// The queues.
    pub cqs: Slab<Cq>,
    /// Queues that overran, whose queue pairs are still to be moved to the error state.
    pub overrun: Vec<Key>,
    /// Those whose queue pairs were, with these, until footprints have told of it.
    pub overran: Vec<(Key, Vec<Key>)>,
    /// The channels.
    pub channels: Slab<Channel>,
    /// Asynchronous events not yet taken, by context.
    pub events: Vec<VecDeque<AsyncEvent>>,
    /// Contexts below this number died with the node: nobody tells them anything.
    pub first_ctx: u32,
}

clone_in_place! { Completions { cqs, channels, events, news, queued, signals, overrun, overran, first_ctx } }

impl Completions {
    /// Whether there is something to pass on: to the node, or to the queue pairs of a queue that overran.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.is_some() | !self.overrun.is_empty()
    }

    /// Queues a completion, and raises the event that the queue was armed for.
    #[inline]
    pub fn push(&mut self, place: (NodeId, HcaId), cq: Key, cqe: Cqe, solicited: bool, io: &mut Io<'_>) {
        let Some(queue) = self.cqs.get_mut(cq) else { return };
        if queue.overrun {
            return;
        }
        if queue.entries.len() >= queue.capacity as usize {
            return self.overrun(place, cq, io);
        }
        if io.log.is_on() {
            log_completion(place.0, cq, &cqe, io);
        }
        queue.entries.push_back(cqe);
        queue.pushed = queue.pushed.wrapping_add(1);
        self.queued += 1;
        self.news.completion = true;
        let wanted = match queue.armed {
            None => false,
            Some(Arm::Next) => true,
            Some(Arm::Solicited) => solicited || cqe.result.is_err(),
        };
        if wanted {
            queue.armed = None;
            if let Some(channel) = queue.channel {
                self.signal(place.0, channel, cq, io);
            }
        }
    }

    fn signal(&mut self, node: NodeId, channel: Key, cq: Key, io: &mut Io<'_>) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.events.push_back(CqId(cq.index));
            self.signals += 1;
            self.news.channel = true;
            io.log.entry(io.now, node, Kind::Event, &Signaled { cq: cq.index });
        }
    }

    #[cold]
    fn overrun(&mut self, place: (NodeId, HcaId), cq: Key, io: &mut Io<'_>) {
        let Some(queue) = self.cqs.get_mut(cq) else { return };
        queue.overrun = true;
        let ctx = queue.ctx;
        self.overrun.push(cq);
        self.raise(place.0, ctx, AsyncEvent::CqError(CqId(cq.index)), io);
    }

    /// Raises an asynchronous event.
    pub fn raise(&mut self, node: NodeId, ctx: u32, event: AsyncEvent, io: &mut Io<'_>) {
        if let Some(queue) = self.events.get_mut(ctx as usize) {
            queue.push_back(event);
            self.news.event = true;
            io.log.line(io.now, node, Kind::Async, format_args!("{event:?}"));
        }
    }

    /// Raises an asynchronous event that concerns everybody.
    pub fn raise_all(&mut self, node: NodeId, event: AsyncEvent, io: &mut Io<'_>) {
        for ctx in self.first_ctx..self.events.len() as u32 {
            self.raise(node, ctx, event, io);
        }
    }

    /// Takes up to `max` completions; `taken` learns of each whose it was, and how many slots of its send queue
    /// are free now: 0 for a receive.
    pub fn poll(
        &mut self,
        cq: Key,
        out: &mut Vec<WorkCompletion>,
        max: usize,
        mut taken: impl FnMut(Key, u32),
    ) -> Result<usize> {
        let queue = self.cqs.get_mut(cq).ok_or(VerbsError::DeviceGone)?;
        if queue.overrun {
            return Err(VerbsError::CqOverrun);
        }
        let n = max.min(queue.entries.len());
        for _ in 0..n {
            let Some(cqe) = queue.entries.pop_front() else { break };
            queue.stamps.pop_front();
            taken(cqe.owner, cqe.frees);
            out.push(WorkCompletion { wr_id: cqe.wr_id, qp: cqe.qp, result: cqe.result });
        }
        if queue.entries.is_empty() {
            // Begins again at the front of its memory, the part that the caches hold.
            queue.entries.clear();
        }
        self.queued -= n as u32;
        Ok(n)
    }

    /// Drops what a queue pair left in a queue, as adapters do when it is reset or destroyed.
    pub fn forget(&mut self, cq: Key, owner: Key) {
        if let Some(queue) = self.cqs.get_mut(cq) {
            let before = queue.entries.len();
            if !queue.stamps.is_empty() {
                let mut owners = queue.entries.iter().map(|cqe| cqe.owner);
                queue.stamps.retain(|_| owners.next() != Some(owner));
            }
            queue.entries.retain(|cqe| cqe.owner != owner);
            self.queued -= (before - queue.entries.len()) as u32;
        }
    }

    /// Destroys a queue with its events.
    pub fn destroy_cq(&mut self, cq: Key) {
        if let Some(queue) = self.cqs.remove(cq) {
            self.queued -= queue.entries.len() as u32;
            if let Some(channel) = queue.channel.and_then(|c| self.channels.get_mut(c)) {
                let before = channel.events.len();
                channel.events.retain(|&id| id != CqId(cq.index));
                self.signals -= (before - channel.events.len()) as u32;
            }
        }
    }

    /// Destroys a channel.
    pub fn destroy_channel(&mut self, channel: Key) {
        if let Some(channel) = self.channels.remove(channel) {
            self.signals -= channel.events.len() as u32;
        }
    }

    /// Whether something is left that ends a wait of this style at once.
    pub fn left(&self, style: Wait) -> bool {
        match style {
            Wait::Poll => self.queued > 0,
            Wait::Notify => self.signals > 0,
        }
    }

    /// Takes a channel's oldest event.
    pub fn take_signal(&mut self, channel: Key) -> Option<CqId> {
        let event = self.channels.get_mut(channel)?.events.pop_front()?;
        self.signals -= 1;
        Some(event)
    }
}

#[cold]
fn log_completion(node: NodeId, cq: Key, cqe: &Cqe, io: &mut Io<'_>) {
    let result = cqe.result.map(|done| (done.op, done.len));
    let details = Completed { cq: cq.index, qp: cqe.qp, wr: cqe.wr_id, result };
    io.log.entry(io.now, node, Kind::Complete, &details);
}
