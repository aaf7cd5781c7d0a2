//! Completion channels and completion queues.

use super::{Place, SimContext, on_drop};
use crate::hca::Key;
use crate::world::World;
use std::fmt;
use std::rc::Rc;
use verbs_trait::{Arm, CompletionChannel, CompletionQueue, CqId, Result, VerbsError, WorkCompletion};

/// A completion channel of a simulated adapter.
#[derive(Clone)]
pub struct SimChannel(Rc<ChannelHandle>);

struct ChannelHandle {
    place: Place,
    _context: SimContext,
    key: Key,
}

impl fmt::Debug for SimChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimChannel").field(&self.0.key).finish()
    }
}

impl Drop for ChannelHandle {
    fn drop(&mut self) {
        let ctx = &self.place;
        on_drop(&ctx.world, |w| w.destroy_channel(ctx.hca, self.key));
    }
}

impl SimChannel {
    pub(super) fn create(context: &SimContext) -> Result<SimChannel> {
        let place = context.place().clone();
        let key = place.world.borrow_mut().answer(|world| world.create_channel(place.hca, place.ctx))?;
        Ok(SimChannel(Rc::new(ChannelHandle { place, _context: context.clone(), key })))
    }
}

impl CompletionChannel for SimChannel {
    fn event(&self) -> Option<CqId> {
        let ctx = &self.0.place;
        ctx.world.borrow_mut().answer(|world| world.channel_event(ctx.node, ctx.hca, self.0.key))
    }
}

/// A completion queue of a simulated adapter.
#[derive(Clone)]
pub struct SimCq(pub(super) Rc<CqHandle>);

pub(super) struct CqHandle {
    pub place: Place,
    _context: SimContext,
    pub key: Key,
    /// Keeps the channel alive as long as the queue may report to it.
    _channel: Option<SimChannel>,
}

impl fmt::Debug for SimCq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimCq").field(&self.0.key).finish()
    }
}

impl Drop for CqHandle {
    fn drop(&mut self) {
        let ctx = &self.place;
        on_drop(&ctx.world, |w| w.destroy_cq(ctx.hca, self.key));
    }
}

impl CqHandle {
    pub(super) fn create(context: &SimContext, cqe: u32, channel: Option<&SimChannel>) -> Result<SimCq> {
        if channel.is_some_and(|c| !c.0.place.is_that_of(context.place())) {
            return Err(VerbsError::Foreign("the completion channel"));
        }
        let ctx = context.place();
        let reports_to = channel.map(|c| c.0.key);
        let mut world = ctx.world.borrow_mut();
        let key = world.answer(|world| world.create_cq(ctx.node, ctx.hca, ctx.ctx, cqe, reports_to))?;
        drop(world);
        Ok(SimCq(Rc::new(CqHandle {
            place: ctx.clone(),
            _context: context.clone(),
            key,
            _channel: channel.cloned(),
        })))
    }
}

impl CompletionQueue for SimCq {
    fn id(&self) -> CqId {
        CqId(self.0.key.index)
    }

    fn poll(&self, out: &mut Vec<WorkCompletion>, max: usize) -> Result<usize> {
        let ctx = &self.0.place;
        let poll = |world: &mut World, out: &mut _| world.poll_cq(ctx.node, ctx.hca, self.0.key, out, max);
        ctx.world.borrow_mut().poll_taped(out, poll)
    }

    fn arm(&self, next: Arm) -> Result<()> {
        let ctx = &self.0.place;
        ctx.world.borrow_mut().answer(|world| world.arm_cq(ctx.node, ctx.hca, self.0.key, next))
    }

    fn capacity(&self) -> u32 {
        let ctx = &self.0.place;
        ctx.world.borrow_mut().answer(|world| world.cq_capacity(ctx.hca, self.0.key))
    }

    fn resize(&self, cqe: u32) -> Result<()> {
        let ctx = &self.0.place;
        ctx.world.borrow_mut().answer(|world| world.resize_cq(ctx.hca, self.0.key, cqe))
    }
}
