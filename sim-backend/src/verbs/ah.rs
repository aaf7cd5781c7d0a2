//! Address handles: where datagrams go.

use super::SimPd;
use crate::hca::Address;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{Path, Result};

/// The address of a peer for datagrams.
#[derive(Clone)]
pub struct SimAh(Rc<AhHandle>);

struct AhHandle {
    pd: SimPd,
    address: Address,
}

impl fmt::Debug for SimAh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimAh").field(&self.0.address).finish()
    }
}

impl SimAh {
    pub(super) fn create(pd: &SimPd, path: &Path) -> Result<SimAh> {
        let place = &pd.0.place;
        let address = {
            let mut world = place.world.borrow_mut();
            world.call_is_unrepeatable();
            world.address(place.node, place.hca, path)?
        };
        Ok(SimAh(Rc::new(AhHandle { pd: pd.clone(), address })))
    }

    pub(super) fn address(&self) -> Address {
        self.0.address
    }

    /// Whether it belongs to a protection domain (IBA 10.2.3: queue pair and address handle must agree on it).
    pub(super) fn is_of(&self, pd: &SimPd) -> bool {
        Rc::ptr_eq(&self.0.pd.0, &pd.0)
    }
}
