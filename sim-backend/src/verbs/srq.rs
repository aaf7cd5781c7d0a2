//! Shared receive queues.

use super::qp::gather;
use super::{Place, Sim, SimPd, on_drop};
use crate::hca::{Key, RecvRequest};
use crate::world::World;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{PostError, RecvWr, Result, SharedReceiveQueue, SrqId};

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
        let (hca, key) = (self.place.hca, self.key);
        on_drop(&self.place.world, move |w| w.destroy_srq(hca, key));
    }
}

impl SimSrq {
    pub(super) fn create(pd: &SimPd, depth: u32, sges: u32) -> Result<SimSrq> {
        let place = pd.0.place.clone();
        let sizes = (depth, sges);
        let (&Place { node, hca, ctx, .. }, of) = (&place, pd.0.key);
        let make = move |world: &mut World| world.create_srq(node, hca, ctx, of, sizes);
        let key = place.world.borrow_mut().call(make)?;
        Ok(SimSrq(Rc::new(SrqHandle { place, _pd: pd.clone(), key, sges })))
    }
}

impl SharedReceiveQueue<Sim> for SimSrq {
    fn id(&self) -> SrqId {
        SrqId(self.0.key.index)
    }

    fn post_recv(&self, list: &[RecvWr<'_, Sim>]) -> std::result::Result<(), PostError> {
        let &SrqHandle { ref place, key, sges, .. } = &*self.0;
        let (node, hca) = (place.node, place.hca);
        let mut world = place.world.borrow_mut();
        for (posted, wr) in list.iter().enumerate() {
            gather(place, wr.data, sges)
                .and_then(|data| {
                    let request = RecvRequest { wr_id: wr.wr_id, data };
                    let post = move |world: &mut World, request, _: &[u8]| {
                        world.post_shared(node, hca, key, posted == 0, request)
                    };
                    world.call_with(request, &[], post)
                })
                .map_err(|why| PostError { posted, why })?;
        }
        Ok(())
    }

    fn arm_limit(&self, limit: u32) -> Result<()> {
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        world.borrow_mut().call(move |world| world.arm_srq(node, hca, key, limit))
    }
}
