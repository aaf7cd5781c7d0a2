//! Shared receive queues: receive requests that many queue pairs draw from (IBA 10.2.9).
//!
//! A queue pair draws a request when a message begins that needs one, and holds it as if it had been its own from
//! then on: an error of the queue pair flushes what it has drawn, and nothing else.

use super::qp::Qp;
use super::wqe::RecvWqe;
use super::{Hardware, Io, Key, RecvRequest};
use crate::in_place::clone_in_place;
use std::collections::VecDeque;
use weft_verbs::{AsyncEvent, Nanos, Result, SrqId, VerbsError};

/// A shared receive queue.
#[derive(Debug, Hash)]
pub struct Srq {
    ctx: u32,
    pd: Key,
    depth: u32,
    /// Fewer requests than this raise an event, once; 0 is not armed.
    limit: u32,
    queue: VecDeque<RecvWqe>,
}

clone_in_place! { Srq { ctx, pd, depth, limit, queue } }

impl Hardware {
    /// A shared receive queue with room for so many requests.
    pub fn create_srq(&mut self, ctx: u32, pd: Key, depth: u32) -> Result<Key> {
        let limit = self.limits.max_srq;
        if self.srqs.len() >= limit {
            return Err(VerbsError::Exhausted { what: "shared receive queue", limit: u64::from(limit) });
        }
        Ok(self.srqs.insert(Srq { ctx, pd, depth, limit: 0, queue: VecDeque::new() }))
    }

    /// Destroys a shared receive queue: what is posted to it vanishes without a completion.
    pub fn destroy_srq(&mut self, srq: Key, io: &mut Io<'_>) {
        if let Some(queue) = self.srqs.remove(srq) {
            self.watch_shared_end(srq, io);
            self.drop_receives(queue, io);
        }
    }

    /// Drops all shared receive queues, when the node crashes.
    pub(super) fn drop_srqs(&mut self, io: &mut Io<'_>) {
        for srq in self.srqs.drain() {
            self.drop_receives(srq, io);
        }
    }

    fn drop_receives(&mut self, srq: Srq, io: &mut Io<'_>) {
        for wqe in srq.queue {
            self.memory.release(&wqe.data, io.brought);
            self.outstanding -= 1;
        }
    }

    /// Queues a receive request at the processor's time `at`.
    pub fn post_shared(&mut self, at: Nanos, srq: Key, request: RecvRequest, io: &mut Io<'_>) -> Result<()> {
        let queue = self.srqs.get_mut(srq).ok_or(VerbsError::DeviceGone)?;
        if queue.queue.len() >= queue.depth as usize {
            return Err(VerbsError::QueueFull { queue: "shared receive", depth: queue.depth });
        }
        self.watch_shared(at, srq, &request, io);
        self.outstanding += 1;
        let queue = self.srqs.get_mut(srq).ok_or(VerbsError::DeviceGone)?;
        queue.queue.push_back(RecvWqe {
            wr_id: request.wr_id,
            len: request.data.len(),
            wrong: self.memory.take_hold(&request.data, queue.pd, true),
            data: request.data,
        });
        Ok(())
    }

    /// Asks for one event once fewer than `limit` requests are left, which may be now.
    pub fn arm_srq(&mut self, srq: Key, limit: u32, io: &mut Io<'_>) -> Result<()> {
        let queue = self.srqs.get_mut(srq).ok_or(VerbsError::DeviceGone)?;
        let (value, bound) = (u64::from(limit), u64::from(queue.depth));
        if value > bound {
            return Err(VerbsError::TooLarge { what: "the limit of a shared receive queue", value, bound });
        }
        queue.limit = limit;
        self.note_limit(srq, io);
        Ok(())
    }

    fn note_limit(&mut self, srq: Key, io: &mut Io<'_>) {
        let Some(queue) = self.srqs.get_mut(srq) else { return };
        if queue.queue.len() < queue.limit as usize {
            queue.limit = 0;
            let ctx = queue.ctx;
            self.completions.raise(self.node, ctx, AsyncEvent::SrqLimit(SrqId(srq.index)), io);
        }
    }
}

impl Qp {
    /// Whether its receives come from a shared queue.
    pub(super) fn has_shared_receives(&self) -> bool {
        self.new.srq.is_some()
    }

    /// Whether a receive request is at hand, of its own or drawn now.
    #[inline]
    pub(super) fn has_receive(&mut self, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        !self.rq.queue.is_empty() || (self.new.srq.is_some() && self.draw(hw, io))
    }

    fn draw(&mut self, hw: &mut Hardware, io: &mut Io<'_>) -> bool {
        let Some(srq) = self.new.srq else { return false };
        let Some(wqe) = hw.srqs.get_mut(srq).and_then(|srq| srq.queue.pop_front()) else { return false };
        self.watch_draw(srq, hw, io);
        self.rq.queue.push_back(wqe);
        hw.note_limit(srq, io);
        true
    }

    /// The room in bytes of the receive request that the next message will get, without drawing it.
    pub(super) fn next_room(&self, hw: &Hardware) -> Option<u64> {
        let shared = || hw.srqs.get(self.new.srq?)?.queue.front();
        self.rq.queue.front().or_else(shared).map(|wqe| wqe.len)
    }

    /// A queue pair in error draws no more (IBA 11.6.3.2, last work request reached).
    pub(super) fn note_last_receive(&self, hw: &mut Hardware, io: &mut Io<'_>) {
        if self.new.srq.is_some() {
            hw.completions.raise(hw.node, self.ctx, AsyncEvent::LastWqe(self.num), io);
        }
    }
}
