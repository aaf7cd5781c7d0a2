//! Completion channels and completion queues.

use super::{Place, SimContext, on_drop};
use crate::hca::Key;
use crate::world::World;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{Arm, CompletionChannel, CompletionQueue, CqId, Result, VerbsError, WorkCompletion};

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
        let (hca, key) = (self.place.hca, self.key);
        on_drop(&self.place.world, move |w| w.destroy_channel(hca, key));
    }
}

impl SimChannel {
    pub(super) fn create(context: &SimContext) -> Result<SimChannel> {
        let place = context.place().clone();
        let (hca, ctx) = (place.hca, place.ctx);
        let key = place.world.borrow_mut().call(move |world| world.create_channel(hca, ctx))?;
        Ok(SimChannel(Rc::new(ChannelHandle { place, _context: context.clone(), key })))
    }
}

impl CompletionChannel for SimChannel {
    fn event(&self) -> Option<CqId> {
        let Place { world, node, hca, .. } = &self.0.place;
        let (node, hca, key) = (*node, *hca, self.0.key);
        world.borrow_mut().call(move |world| world.channel_event(node, hca, key))
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
        let (hca, key) = (self.place.hca, self.key);
        on_drop(&self.place.world, move |w| w.destroy_cq(hca, key));
    }
}

impl CqHandle {
    pub(super) fn create(context: &SimContext, cqe: u32, channel: Option<&SimChannel>) -> Result<SimCq> {
        if channel.is_some_and(|c| !c.0.place.is_that_of(context.place())) {
            return Err(VerbsError::Foreign("the completion channel"));
        }
        let ctx = context.place();
        let reports_to = channel.map(|c| c.0.key);
        let &Place { ref world, node, hca, ctx: of } = ctx;
        let create = move |world: &mut World| world.create_cq(node, hca, of, cqe, reports_to);
        let key = world.borrow_mut().call(create)?;
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
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        world.borrow_mut().call_into(out, move |world, out| world.poll_cq(node, hca, key, out, max))
    }

    fn arm(&self, next: Arm) -> Result<()> {
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        world.borrow_mut().call(move |world| world.arm_cq(node, hca, key, next))
    }

    fn capacity(&self) -> u32 {
        let (hca, key) = (self.0.place.hca, self.0.key);
        self.0.place.world.borrow_mut().call(move |world| world.cq_capacity(hca, key))
    }

    fn resize(&self, cqe: u32) -> Result<()> {
        let (hca, key) = (self.0.place.hca, self.0.key);
        self.0.place.world.borrow_mut().call(move |world| world.resize_cq(hca, key, cqe))
    }
}
