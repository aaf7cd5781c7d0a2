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

    /// The attempt or connection failed: the next one goes over the next rail.
    pub(super) fn rail_failed(&mut self) {
        match self.state {
            State::Up(None) => self.rails.failed(0),
            _ => self.id().into_iter().for_each(|id| self.rails.failed(id.rail)),
        }
    }

    /// The port of a rail lost its link. What goes over it ends now, and not after the adapter's retries, if there is
    /// another rail to go over; over the only one, the link may come back before they are exhausted.
    pub(super) fn rail_down(&mut self, rail: u8, actions: &mut Vec<Action>) {
        self.rails.set_down(rail, true);
        self.drop_standby_on(rail, actions);
        let on_it = match self.state {
            State::Up(None) => rail == 0,
            _ => self.id().is_some_and(|id| id.rail == rail),
        };
        if !on_it || !self.rails.has_other(rail) {
            return;
        }
        // The peer need not notice: its port has its link. So this end asks, whether it has something to send or not.
        self.moving = if self.is_up() { self.rails.count() } else { self.moving };
        match self.state {
            State::Resolving(_) => self.leave_dead_attempt(actions),
            _ => self.broken(true, actions),
        }
    }

    /// Gives up an attempt over a rail without a link, where another one has its link.
    pub(super) fn leave_dead_attempt(&mut self, actions: &mut Vec<Action>) {
        let (State::Resolving(Some(id)) | State::Asking(id)) = self.state else { return };
        if !self.rails.is_down(id.rail) || !self.rails.has_other(id.rail) {
            return;
        }
        actions.push(Action::Disconnect(id));
        if let State::Asking(_) = self.state {
            actions.push(Action::Discard);
        }
        self.rail_failed();
        self.pause(actions);
    }
}
