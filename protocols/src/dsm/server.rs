//! What a node does when a manager orders it to share a minipage or to give it up: a state machine without I/O
//! (kernel-dsm.txt, 2.2: "the server").
//!
//! An order is carried out at once, even while a request of this node's own for the minipage waits: the manager serves requests
//! one after the other, and this one is earlier. Two things can hold it up. Accesses that waited for the grant and are not
//! executed yet: if a grant could be taken back before, two nodes that write the same minipage could rob each other for ever. And
//! claims, which have the minipage until they end.

use super::memory::Page;
use super::messages::Access;
use super::shared::PageId;
use crate::transport::Rank;
use std::collections::BTreeMap;
use weft_verbs::RemoteSlice;

/// What a manager orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    pub page: PageId,
    /// The requestor, and the number of its request.
    pub to: Rank,
    pub id: u32,
    /// What the node may keep.
    pub keep: Access,
    /// The data go to the requestor, there.
    pub transfer: Option<RemoteSlice>,
    /// How many notices the requestor gets in all.
    pub notices: u16,
    /// The version that the requestor will have.
    pub version: u64,
}

/// What to do about an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Carry it out.
    Now,
    /// Later: the server keeps it.
    Later,
    /// The node has not what the manager thinks that it has.
    OutOfTurn,
}

/// The orders that wait.
#[derive(Debug, Default)]
pub(super) struct Server {
    later: BTreeMap<PageId, Vec<Order>>,
}

impl Server {
    /// An order arrives, for a minipage that the node has like this and whose threads have claimed it so.
    pub fn on_order(&mut self, order: Order, has: Page, pinned: Access, grants_stay: bool) -> Verdict {
        // A write raises the version, and takes everything away.
        let had = order.version.wrapping_sub(u64::from(order.keep == Access::Invalid));
        if has.access == Access::Invalid || has.version != had {
            return Verdict::OutOfTurn;
        }
        if is_held_up(&order, has, pinned, grants_stay) {
            self.later.entry(order.page).or_default().push(order);
            return Verdict::Later;
        }
        Verdict::Now
    }

    /// An access that waited for a grant is executed, or a claim has ended: the orders that nothing holds up any more.
    pub fn on_free(&mut self, page: PageId, has: Page, pinned: Access, grants_stay: bool) -> Vec<Order> {
        let Some(later) = self.later.get_mut(&page) else { return Vec::new() };
        let now = later.extract_if(.., |order| !is_held_up(order, has, pinned, grants_stay)).collect();
        if later.is_empty() {
            self.later.remove(&page);
        }
        now
    }

    /// An epoch begins: no order of the one before counts any more. Gives the minipages for which one waited.
    pub fn clear(&mut self) -> Vec<PageId> {
        std::mem::take(&mut self.later).into_keys().collect()
    }

    /// Whether an order waits for a minipage.
    pub fn waits_for(&self, page: PageId) -> bool {
        self.later.contains_key(&page)
    }

    /// Orders that wait.
    pub fn waiting(&self) -> u64 {
        self.later.values().map(|orders| orders.len() as u64).sum()
    }
}

/// Whether accesses or claims of this node need what the order takes away.
fn is_held_up(order: &Order, has: Page, pinned: Access, grants_stay: bool) -> bool {
    (grants_stay && has.owed > 0 && order.keep < has.access) || order.keep < pinned
}

#[cfg(test)]
mod tests {
    use super::super::shared::ObjectId;
    use super::*;

    const PAGE: PageId = PageId { object: ObjectId(0), index: 3 };

    fn order(keep: Access, version: u64) -> Order {
        Order { page: PAGE, to: Rank::from_index(1), id: 0, keep, transfer: None, notices: 1, version }
    }

    fn page(access: Access, owed: u32) -> Page {
        Page { access, version: 4, owed, ..Page::default() }
    }

    #[test]
    fn an_order_waits_for_accesses_that_waited_for_the_grant() {
        let mut server = Server::default();
        let (share, give_up) = (order(Access::Read, 4), order(Access::Invalid, 5));
        let mut comes = |order, has| server.on_order(order, has, Access::Invalid, true);
        assert_eq!(comes(share, page(Access::Write, 0)), Verdict::Now);
        assert_eq!(comes(share, page(Access::Read, 2)), Verdict::Now, "it takes nothing away");
        assert_eq!(comes(give_up, page(Access::Read, 2)), Verdict::Later);
        assert_eq!(comes(share, page(Access::Write, 1)), Verdict::Later);
        assert!(server.waits_for(PAGE) && server.waiting() == 2);
        let executed = page(Access::Read, 0);
        assert_eq!(server.on_free(PAGE, executed, Access::Invalid, true), [give_up, share]);
        assert_eq!((server.waiting(), server.waits_for(PAGE)), (0, false));
    }

    #[test]
    fn an_order_waits_for_claims_that_it_would_disturb() {
        let mut server = Server::default();
        let (share, give_up) = (order(Access::Read, 4), order(Access::Invalid, 5));
        let has = page(Access::Write, 0);
        assert_eq!(server.on_order(share, has, Access::Read, true), Verdict::Now, "a reader may share");
        assert_eq!(server.on_order(share, has, Access::Write, true), Verdict::Later);
        assert_eq!(server.on_order(give_up, has, Access::Read, true), Verdict::Later);
        assert_eq!(server.on_free(PAGE, has, Access::Read, true), [share]);
        assert_eq!(server.on_free(PAGE, has, Access::Invalid, true), [give_up]);
    }

    #[test]
    fn what_the_node_has_not_it_cannot_give_up() {
        let mut server = Server::default();
        for (order, has) in [
            (order(Access::Read, 4), page(Access::Invalid, 0)),
            (order(Access::Read, 5), page(Access::Write, 0)),
            (order(Access::Invalid, 4), page(Access::Write, 0)),
        ] {
            assert_eq!(server.on_order(order, has, Access::Invalid, true), Verdict::OutOfTurn);
        }
    }
}
