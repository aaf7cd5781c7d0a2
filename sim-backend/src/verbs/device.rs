//! Devices and contexts.

use super::cq::CqHandle;
use super::{Sim, SimChannel, SimCm, SimCq, SimHost, SimOob, SimPd, WorldRef, on_drop, same_context};
use crate::NodeId;
use crate::hca::HcaId;
use std::fmt;
use std::rc::Rc;
use verbs_trait::{AsyncEvent, Caps, Context, Device, DeviceAttr, Gid, PortAttr, Result, VerbsError};

/// A simulated adapter that can be opened.
#[derive(Clone)]
pub struct SimDevice {
    pub(crate) world: WorldRef,
    pub(crate) node: NodeId,
    pub(crate) hca: HcaId,
    pub(crate) name: Rc<str>,
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDevice").field("node", &self.node).field("name", &self.name).finish()
    }
}

impl Device<Sim> for SimDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self) -> Result<SimContext> {
        let ctx = self.world.borrow_mut().hca_mut(self.hca)?.open();
        Ok(SimContext(Rc::new(ContextHandle {
            world: self.world.clone(),
            node: self.node,
            hca: self.hca,
            ctx,
        })))
    }
}

/// An open simulated adapter.
#[derive(Clone)]
pub struct SimContext(pub(super) Rc<ContextHandle>);

pub(super) struct ContextHandle {
    pub world: WorldRef,
    pub node: NodeId,
    pub hca: HcaId,
    pub ctx: u32,
}

impl Drop for ContextHandle {
    fn drop(&mut self) {
        on_drop(&self.world, |w| w.close_context(self.node, self.ctx));
    }
}

impl fmt::Debug for SimContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimContext").field("node", &self.0.node).field("ctx", &self.0.ctx).finish()
    }
}

impl SimContext {
    pub(super) fn place(&self) -> (&WorldRef, HcaId, u32) {
        (&self.0.world, self.0.hca, self.0.ctx)
    }

    pub(super) fn owns(&self, other: &SimContext) -> bool {
        same_context(self.place(), other.place())
    }
}

impl Context<Sim> for SimContext {
    fn device_attr(&self) -> DeviceAttr {
        self.0.world.borrow().device_attr(self.0.hca)
    }

    fn port_attr(&self, port: u8) -> Result<PortAttr> {
        self.0.world.borrow().port_attr(self.0.hca, port)
    }

    fn gid(&self, port: u8, index: u8) -> Result<Gid> {
        self.0.world.borrow().gid(self.0.hca, port, index)
    }

    fn alloc_pd(&self) -> Result<SimPd> {
        SimPd::alloc(self)
    }

    fn create_channel(&self) -> Result<SimChannel> {
        SimChannel::create(self)
    }

    fn create_cq(&self, cqe: u32, channel: Option<&SimChannel>) -> Result<SimCq> {
        CqHandle::create(self, cqe, channel)
    }

    fn async_event(&self) -> Option<AsyncEvent> {
        let mut world = self.0.world.borrow_mut();
        world.hca_mut(self.0.hca).ok()?.async_event(self.0.ctx)
    }

    fn connection_manager(&self) -> Result<SimCm> {
        SimCm::open(self)
    }

    fn out_of_band(&self) -> Result<SimOob> {
        Err(VerbsError::Unsupported(Caps::OUT_OF_BAND))
    }

    fn host(&self) -> SimHost {
        SimHost { world: self.0.world.clone(), node: self.0.node }
    }
}
