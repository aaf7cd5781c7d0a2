//! What a link does about its rails: which one it goes back to, and what it does when one is lost.

use super::{Action, Link, State};

impl Link {
    /// The best rail as long as it works.
    pub(in crate::transport) fn preferred(&self) -> u8 {
        self.rails.preferred()
    }

    /// The best rail that may work, if it is better than the one on which the connection stands.
    pub(in crate::transport) fn better_rail(&self) -> Option<u8> {
        let State::Up(id) = self.state else { return None };
        self.rails.best().filter(|best| self.rails.is_better(*best, id.map_or(0, |id| id.rail)))
    }

    /// The rail to which this end has the connection come back by itself. The end that asked for the connection does so, and the
    /// other one leaves it where it is: two that differ about which rail is the best would move it to and fro for ever.
    pub(in crate::transport) fn returns_to(&self) -> Option<u8> {
        self.better_rail().filter(|_| self.asked)
    }

    /// The rail that is tried first when the connection that stands breaks, if it is another one whose port is not known to have no
    /// link.
    pub(in crate::transport) fn next_rail(&self) -> Option<u8> {
        let State::Up(id) = self.state else { return None };
        let rail = id.map_or(0, |id| id.rail);
        let mut rails = self.rails.clone();
        rails.failed(rail);
        Some(rails.next()).filter(|next| *next != rail && !rails.is_down(*next))
    }

    /// The rail of the attempt or connection.
    fn rail(&self) -> Option<u8> {
        match self.state {
            State::Up(None) => Some(0),
            _ => self.id().map(|id| id.rail),
        }
    }

    /// The attempt or connection failed: the next one goes over the next rail.
    pub(super) fn rail_failed(&mut self) {
        self.rail().into_iter().for_each(|rail| self.rails.failed(rail));
    }

    /// The port of a rail lost its link, or its device failed. A connection that stands by there is not given up for that: nothing goes over
    /// it, its queue pair is there when the link is, and the peer, which may be the one that makes them, knows nothing of this port.
    pub(super) fn rail_down(&mut self, rail: u8, actions: &mut Vec<Action>) {
        self.rails.set_down(rail, true);
        self.leave_dead_rail(actions);
    }

    /// What goes over a rail without a link ends now, and not after the adapter's retries, if there is another rail to go over; over the
    /// only one, the link may come back before they are exhausted.
    pub(super) fn leave_dead_rail(&mut self, actions: &mut Vec<Action>) {
        if !self.rail().is_some_and(|rail| self.rails.is_down(rail) && self.rails.has_other(rail)) {
            return;
        }
        // The peer need not notice: its port has its link. So this end asks, whether it has something to send or not.
        self.moving = if self.is_up() { self.rails.count() } else { self.moving };
        match self.state {
            State::Resolving(own) => {
                actions.extend(own.map(Action::Disconnect));
                self.rail_failed();
                self.pause(actions);
            }
            _ => self.broken(true, actions),
        }
    }
}
