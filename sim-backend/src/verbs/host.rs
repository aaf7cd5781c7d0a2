//! The machine under a node.

use super::WorldRef;
use crate::NodeId;
use std::fmt;
use weft_verbs::{Clock, Host, Nanos, Work};

/// A node's machine: its clock, its processor's time, its random numbers.
#[derive(Clone)]
pub struct SimHost {
    pub(super) world: WorldRef,
    pub(super) node: NodeId,
}

impl fmt::Debug for SimHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimHost").field(&self.node).finish()
    }
}

impl Clock for SimHost {
    fn now(&self) -> Nanos {
        let node = self.node;
        self.world.borrow_mut().call(move |world| world.local_time(node))
    }
}

impl Host for SimHost {
    fn random(&self) -> u64 {
        let node = self.node;
        self.world.borrow_mut().call(move |world| world.random(node))
    }

    fn spend(&self, work: Work) {
        let node = self.node;
        self.world.borrow_mut().call(move |world| world.spend(node, work));
    }

    fn task(&self, id: u32) {
        if let Some(sanitizer) = self.world.borrow_mut().state.access.sanitizer() {
            sanitizer.task(self.node, id);
        }
    }
}
