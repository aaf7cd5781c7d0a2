//! What of an execution's oracles an event has accessed, as objects of footprints: two grants that exclude each other, on nodes that have
//! not heard of each other, overlap in one order and not in the other.

use weft_sim::explore::{AccessKind, Footprint, Object};

/// What the oracles judge by, as an object: of a kind that the fabric does not have.
pub(super) const JUDGED: Object = Object(0xff << 56);

/// Which requests have been made, as an object.
const REQUESTS: Object = Object(JUDGED.0 | 1 << 32);

/// What the ends of a node's requests change, as an object.
const fn ended_on(node: u32) -> Object {
    Object(JUDGED.0 | (node as u64 + 1))
}

/// How what the oracles judge by was accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accesses {
    /// But for responses.
    pub kind: Option<AccessKind>,
    /// Of which requests have been made.
    pub requests: Option<AccessKind>,
    /// The nodes whose requests ended by [responses](super::Explored::is_response), a bit each.
    pub responses: u64,
}

impl Accesses {
    /// Adds them to the footprint of an event among so many nodes.
    ///
    /// Requests that begin look at who has ended, and whoever ends changes what is its node's own: so two that end commute, and one
    /// that ends and one that begins do not. All else accesses the whole.
    pub fn push(self, nodes: u32, touched: &mut Footprint) {
        let nodes = 0..nodes.min(u64::BITS);
        if let Some(how) = self.kind {
            touched.push(JUDGED, how);
            nodes.clone().for_each(|node| touched.push(ended_on(node), how));
        }
        if self.responses != 0 {
            touched.push(JUDGED, AccessKind::Read);
            let ended = nodes.filter(|node| self.responses & 1 << node != 0);
            ended.for_each(|node| touched.push(ended_on(node), AccessKind::Write));
        }
        if let Some(how) = self.requests {
            touched.push(REQUESTS, how);
        }
    }
}
