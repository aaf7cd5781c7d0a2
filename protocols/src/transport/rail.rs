//! Which of a node's rails a connection goes over: the first that works, in the order of preference.
//!
//! Rail 0 is preferred. After a failure the next in turn is tried, with the pauses of any other attempt in between. A rail
//! whose port is known to have lost its link is passed over as long as there is another one.

use weft_verbs::{CmEvent, CmId};

/// An attempt or a connection as a rail's connection manager knows it. Managers of different rails use the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnId {
    /// The rail.
    pub(super) rail: u8,
    /// The manager's name for it.
    pub(super) id: CmId,
}

impl ConnId {
    /// The attempt of ours that an event of a rail's manager is about; none where a peer asks, which is no attempt of ours.
    pub(super) fn of_own(rail: u8, event: &CmEvent) -> Option<ConnId> {
        match event {
            CmEvent::Resolved { id }
            | CmEvent::Established { id, .. }
            | CmEvent::Rejected { id, .. }
            | CmEvent::Unreachable { id }
            | CmEvent::Disconnected { id } => Some(ConnId { rail, id: *id }),
            CmEvent::Request { .. } => None,
        }
    }
}

/// Rails whose port has lost its link, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Down(u32);

impl Down {
    /// Notes that a rail's port lost its link, or has it again.
    pub(super) fn set(&mut self, rail: u8, down: bool) {
        match down {
            true => self.0 |= 1 << rail,
            false => self.0 &= !(1 << rail),
        }
    }

    /// Whether a rail's port is known to have no link.
    pub(super) fn contains(self, rail: u8) -> bool {
        self.0 >> rail & 1 != 0
    }
}

/// The most rails that a mesh uses.
pub const MOST_RAILS: usize = 8;

/// The rail of the next attempt to reach one peer.
#[derive(Clone, Debug, Hash)]
pub(super) struct RailChoice {
    count: u8,
    /// The best one as long as it works.
    preferred: u8,
    next: u8,
    down: Down,
}

impl RailChoice {
    /// So many rails, of which some are known to be down.
    pub(super) fn new(count: u8, down: Down) -> RailChoice {
        RailChoice { count, preferred: 0, next: 0, down }
    }

    /// How many rails there are.
    pub(super) fn count(&self) -> u8 {
        self.count
    }

    /// The rail to try: the next in turn whose port is not known to be down, or the next where all are.
    pub(super) fn next(&self) -> u8 {
        let mut in_turn = (0..self.count).map(|n| (self.next + n) % self.count);
        in_turn.find(|rail| !self.down.contains(*rail)).unwrap_or(self.next)
    }

    /// The best rail that is not known to be down.
    pub(super) fn best(&self) -> Option<u8> {
        let in_order = std::iter::once(self.preferred).chain(0..self.count);
        in_order.into_iter().find(|rail| !self.down.contains(*rail))
    }

    /// Whether a rail comes before another one in the order of preference.
    pub(super) fn is_better(&self, rail: u8, other: u8) -> bool {
        let order = |rail: u8| (rail != self.preferred, rail);
        order(rail) < order(other)
    }

    /// The best rail as long as it works.
    pub(super) fn preferred(&self) -> u8 {
        self.preferred
    }

    /// From now on this rail is the best one as long as it works.
    pub(super) fn set_preferred(&mut self, rail: u8) {
        self.preferred = rail;
    }

    /// An attempt or a connection over this rail failed.
    pub(super) fn failed(&mut self, rail: u8) {
        self.next = (rail + 1) % self.count;
    }

    /// This rail is to be tried next.
    pub(super) fn prefer(&mut self, rail: u8) {
        self.next = rail;
    }

    /// A rail's port lost its link, or has it again.
    pub(super) fn set_down(&mut self, rail: u8, down: bool) {
        self.down.set(rail, down);
    }

    /// Whether a rail's port is known to have no link.
    pub(super) fn is_down(&self, rail: u8) -> bool {
        self.down.contains(rail)
    }

    /// Whether another rail than this one may work.
    pub(super) fn has_other(&self, rail: u8) -> bool {
        (0..self.count).any(|other| other != rail && !self.down.contains(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_are_tried_in_turn_and_those_without_a_link_are_passed_over() {
        let mut rails = RailChoice::new(3, Down::default());
        assert_eq!(rails.next(), 0);
        rails.failed(0);
        assert_eq!(rails.next(), 1);
        rails.set_down(1, true);
        assert_eq!((rails.next(), rails.best()), (2, Some(0)));
        rails.failed(2);
        assert_eq!(rails.next(), 0);
        rails.set_down(0, true);
        assert_eq!((rails.next(), rails.best(), rails.has_other(2)), (2, Some(2), false));
        rails.set_down(2, true);
        assert_eq!((rails.next(), rails.best()), (0, None), "where all are down, any may be up by then");
    }

    #[test]
    fn the_preferred_rail_is_better_than_any_other() {
        let mut rails = RailChoice::new(3, Down::default());
        assert!(rails.is_better(0, 1) && rails.is_better(1, 2) && !rails.is_better(2, 2));
        rails.set_preferred(2);
        assert_eq!(rails.best(), Some(2));
        assert!(rails.is_better(2, 0) && rails.is_better(0, 1) && !rails.is_better(0, 2));
        rails.set_down(2, true);
        assert_eq!(rails.best(), Some(0));
    }

    #[test]
    fn one_rail_is_always_the_next() {
        let mut rails = RailChoice::new(1, Down::default());
        rails.failed(0);
        rails.set_down(0, true);
        assert_eq!((rails.next(), rails.has_other(0)), (0, false));
    }
}
