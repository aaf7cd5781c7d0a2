//! The connection manager's handle.

use super::{Sim, SimContext, SimQp};
use crate::cm::{Manager, Owner, QpRef};
use crate::world::{Around, Recorded};
use std::fmt;
use std::hash::Hash;
use verbs_trait::{
    CmEvent, CmId, ConnParams, ConnectionManager, Nanos, QpState, QueuePair, Result, Service, VerbsError,
};

/// The connection manager of a simulated adapter.
#[derive(Clone)]
pub struct SimCm {
    context: SimContext,
}

impl fmt::Debug for SimCm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimCm").field(&self.context).finish()
    }
}

impl SimCm {
    pub(super) fn open(context: &SimContext) -> Result<SimCm> {
        let ctx = context.place();
        ctx.world.borrow_mut().hca_mut(ctx.hca)?.check_context(ctx.ctx)?;
        Ok(SimCm { context: context.clone() })
    }

    fn call<T: Hash + Recorded>(
        &self,
        f: impl FnOnce(&mut Manager, Nanos, Owner, &mut Around<'_>) -> Result<T>,
    ) -> Result<T> {
        let ctx = self.context.place();
        let mut world = ctx.world.borrow_mut();
        world.answer(|world| {
            world.hca_mut(ctx.hca)?.check_context(ctx.ctx)?;
            let answer =
                world.manager(ctx.hca, |manager, now, around| f(manager, now, Owner(ctx.ctx), around));
            let answer = answer.ok_or(VerbsError::DeviceGone)?;
            world.saw(ctx.node, &answer.as_ref().ok());
            answer
        })
    }

    /// A queue pair that the manager can take: of this context, in state Init.
    fn take(&self, qp: &SimQp, call: &'static str) -> Result<QpRef> {
        if !qp.place().is_that_of(self.context.place()) {
            return Err(VerbsError::Foreign("the queue pair"));
        }
        match qp.state() {
            QpState::Init => {}
            state => return Err(VerbsError::WrongState { call, state }),
        }
        let ctx = self.context.place();
        ctx.world.borrow().qp_ref(ctx.hca, qp.0.key)
    }
}

impl ConnectionManager<Sim> for SimCm {
    fn listen(&self, service: Service) -> Result<()> {
        self.call(|manager, _, owner, _| manager.listen(owner, service))
    }

    fn resolve(&self, node: &str, service: Service) -> Result<CmId> {
        let ctx = self.context.place();
        let ways = ctx.world.borrow().find_peer(ctx.hca, node);
        self.call(|manager, _, owner, _| Ok(manager.resolve(owner, ways, service)))
    }

    fn port(&self, id: CmId) -> Result<u8> {
        self.call(|manager, _, owner, _| manager.port(owner, id))
    }

    fn connect(&self, id: CmId, qp: &SimQp, params: &ConnParams<'_>) -> Result<()> {
        let qp = self.take(qp, "connecting")?;
        self.call(|manager, now, owner, around| manager.connect(now, owner, id, qp, params, around))
    }

    fn accept(&self, id: CmId, qp: &SimQp, params: &ConnParams<'_>) -> Result<()> {
        let qp = self.take(qp, "accepting")?;
        self.call(|manager, now, owner, around| manager.accept(now, owner, id, qp, params, around))
    }

    fn reject(&self, id: CmId, private: &[u8]) -> Result<()> {
        self.call(|manager, now, owner, around| manager.reject(now, owner, id, private, around))
    }

    fn disconnect(&self, id: CmId) -> Result<()> {
        self.call(|manager, now, owner, around| manager.disconnect(now, owner, id, around))
    }

    fn event(&self) -> Option<CmEvent> {
        let ctx = self.context.place();
        ctx.world.borrow_mut().answer(|world| {
            world.hca_mut(ctx.hca).ok()?.check_context(ctx.ctx).ok()?;
            let event = world.manager_event(ctx.hca, Owner(ctx.ctx));
            world.saw(ctx.node, &event);
            event
        })
    }
}
