//! The connection manager's handle.

use super::{Place, Sim, SimContext, SimQp};
use crate::cm::{Manager, Owner, QpRef};
use crate::world::Around;
use std::fmt;
use std::hash::Hash;
use weft_verbs::{
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
        let &Place { ref world, hca, ctx, .. } = context.place();
        world.borrow_mut().call(move |world| world.hca_mut(hca)?.check_context(ctx))?;
        Ok(SimCm { context: context.clone() })
    }

    fn call<T: Hash + Clone + PartialEq + 'static>(
        &self,
        f: impl Fn(&mut Manager, Nanos, Owner, &mut Around<'_>) -> Result<T> + 'static,
    ) -> Result<T> {
        let &Place { ref world, node, hca, ctx } = self.context.place();
        world.borrow_mut().call(move |world| {
            world.hca_mut(hca)?.check_context(ctx)?;
            let answer = world.manager(hca, |manager, now, around| f(manager, now, Owner(ctx), around));
            let answer = answer.ok_or(VerbsError::DeviceGone)?;
            world.saw(node, &answer.as_ref().ok());
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
        let (hca, key) = (self.context.place().hca, qp.0.key);
        self.context.place().world.borrow_mut().call(move |world| world.qp_ref(hca, key))
    }
}

/// What a side brings into a connection, with bytes of its own: a call may be made again.
fn kept(params: &ConnParams<'_>) -> (ConnParams<'static>, Box<[u8]>) {
    (ConnParams { private: &[], ..*params }, params.private.into())
}

impl ConnectionManager<Sim> for SimCm {
    fn listen(&self, service: Service) -> Result<()> {
        self.call(move |manager, _, owner, _| manager.listen(owner, service))
    }

    fn resolve(&self, node: &str, service: Service) -> Result<CmId> {
        let ctx = self.context.place();
        let of = ctx.node;
        ctx.world.borrow_mut().call(move |world| world.machine(of).give_memory("rdma_create_id"))?;
        let ways = ctx.world.borrow().find_peer(ctx.hca, node);
        self.call(move |manager, _, owner, _| Ok(manager.resolve(owner, ways, service)))
    }

    fn port(&self, id: CmId) -> Result<u8> {
        self.call(move |manager, _, owner, _| manager.port(owner, id))
    }

    fn connect(&self, id: CmId, qp: &SimQp, params: &ConnParams<'_>) -> Result<()> {
        let qp = self.take(qp, "connecting")?;
        let (params, private) = kept(params);
        self.call(move |manager, now, owner, around| {
            let params = ConnParams { private: &private, ..params };
            manager.connect(now, owner, id, qp, &params, around)
        })
    }

    fn accept(&self, id: CmId, qp: &SimQp, params: &ConnParams<'_>) -> Result<()> {
        let qp = self.take(qp, "accepting")?;
        let (params, private) = kept(params);
        self.call(move |manager, now, owner, around| {
            let params = ConnParams { private: &private, ..params };
            manager.accept(now, owner, id, qp, &params, around)
        })
    }

    fn reject(&self, id: CmId, private: &[u8]) -> Result<()> {
        let private = Box::<[u8]>::from(private);
        self.call(move |manager, now, owner, around| manager.reject(now, owner, id, &private, around))
    }

    fn disconnect(&self, id: CmId) -> Result<()> {
        self.call(move |manager, now, owner, around| manager.disconnect(now, owner, id, around))
    }

    fn event(&self) -> Option<CmEvent> {
        let &Place { ref world, node, hca, ctx } = self.context.place();
        world.borrow_mut().call(move |world| {
            world.hca_mut(hca).ok()?.check_context(ctx).ok()?;
            let event = world.manager_event(hca, Owner(ctx));
            world.saw(node, &event);
            event
        })
    }
}
