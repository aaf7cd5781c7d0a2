//! Shared receive queues.

use super::qp::gather;
use super::{Place, Sim, SimPd, on_drop};
use crate::hca::{Key, RecvRequest};
use crate::world::World;
use std::fmt;
use std::rc::Rc;
use verbs_trait::{PostError, RecvWr, Result, SharedReceiveQueue, SrqId};

/// A shared receive queue of a simulated adapter.
#[derive(Clone)]
pub struct SimSrq(pub(super) Rc<SrqHandle>);

pub(super) struct SrqHandle {
    pub place: Place,
    _pd: SimPd,
    pub key: Key,
    sges: u32,
}

impl fmt::Debug for SimSrq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimSrq").field(&self.0.key).finish()
    }
}

impl Drop for SrqHandle {
    fn drop(&mut self) {
        on_drop(&self.place.world, |w| w.destroy_srq(self.place.hca, self.key));
    }
}

impl SimSrq {
    pub(super) fn create(pd: &SimPd, depth: u32, sges: u32) -> Result<SimSrq> {
        let place = pd.0.place.clone();
        let sizes = (depth, sges);
        let mut world = place.world.borrow_mut();
        let make = |world: &mut World| world.create_srq(place.node, place.hca, place.ctx, pd.0.key, sizes);
        let key = world.answer(make)?;
        drop(world);
        Ok(SimSrq(Rc::new(SrqHandle { place, _pd: pd.clone(), key, sges })))
    }
}

impl SharedReceiveQueue<Sim> for SimSrq {
    fn id(&self) -> SrqId {
        SrqId(self.0.key.index)
    }

    fn post_recv(&self, list: &[RecvWr<'_, Sim>]) -> std::result::Result<(), PostError> {
        let SrqHandle { place, key, sges, .. } = &*self.0;
        let mut world = place.world.borrow_mut();
        for (posted, wr) in list.iter().enumerate() {
            gather(place, wr.data, *sges)
                .and_then(|data| {
                    let request = RecvRequest { wr_id: wr.wr_id, data };
                    world.answer(|world| world.post_shared(place.node, place.hca, *key, posted == 0, request))
                })
                .map_err(|why| PostError { posted, why })?;
        }
        Ok(())
    }

    fn arm_limit(&self, limit: u32) -> Result<()> {
        let place = &self.0.place;
        place.world.borrow_mut().answer(|world| world.arm_srq(place.node, place.hca, self.0.key, limit))
    }
}
