//! Devices and contexts.

use super::cq::CqHandle;
use super::{Place, Sim, SimChannel, SimCm, SimCq, SimDisk, SimHost, SimOob, SimPd, WorldRef, on_drop};
use crate::NodeId;
use crate::hca::HcaId;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{AsyncEvent, Context, Device, DeviceAttr, Gid, PortAttr, Result};

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
        let (world, node, hca) = (self.world.clone(), self.node, self.hca);
        let ctx = world.borrow_mut().call(move |world| Ok(world.hca_mut(hca)?.open()))?;
        Ok(SimContext(Rc::new(ContextHandle(Place { world, node, hca, ctx }))))
    }
}

/// An open simulated adapter.
#[derive(Clone)]
pub struct SimContext(pub(super) Rc<ContextHandle>);

pub(super) struct ContextHandle(Place);

impl Drop for ContextHandle {
    fn drop(&mut self) {
        let (hca, ctx) = (self.0.hca, self.0.ctx);
        on_drop(&self.0.world, move |w| w.close_context(hca, ctx));
    }
}

impl fmt::Debug for SimContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimContext")
            .field("node", &self.place().node)
            .field("ctx", &self.place().ctx)
            .finish()
    }
}

impl SimContext {
    pub(super) fn place(&self) -> &Place {
        &self.0.0
    }
}

impl Context<Sim> for SimContext {
    fn device_attr(&self) -> DeviceAttr {
        self.place().world.borrow().device_attr(self.place().hca)
    }

    fn port_attr(&self, port: u8) -> Result<PortAttr> {
        let &Place { ref world, node, hca, .. } = self.place();
        world.borrow_mut().call(move |world| world.port_attr(node, hca, port))
    }

    fn gid(&self, port: u8, index: u8) -> Result<Gid> {
        self.place().world.borrow().gid(self.place().hca, port, index)
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
        let &Place { ref world, node, hca, ctx } = self.place();
        world.borrow_mut().call(move |world| {
            world.hca_mut(hca).ok()?;
            let event = world.device_event(hca, ctx)?;
            world.saw(node, &event);
            Some(event)
        })
    }

    fn connection_manager(&self) -> Result<SimCm> {
        SimCm::open(self)
    }

    fn out_of_band(&self) -> Result<SimOob> {
        SimOob::open(self)
    }

    fn disk(&self) -> Result<SimDisk> {
        SimDisk::open(self)
    }

    fn host(&self) -> SimHost {
        SimHost { world: self.place().world.clone(), node: self.place().node }
    }
}
