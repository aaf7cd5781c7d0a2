//! A connection that is made ahead of need, over the rail that is tried first when the one in use breaks.
//!
//! It changes nothing of the rule. Nothing goes over it until an end has fenced and drained its old queue pair: then it asks over
//! it, as it would ask by the connection manager, and the peer answers over it when it has fenced and drained its own. What it
//! saves is the connection manager's exchange in the middle of a stall. It serves once: when it broke, or was refused, the next
//! attempt is the connection manager's.
//!
//! Both ends may ask over it at once. The lower rank's request goes first, as ever, and the higher rank answers that one.

use super::{Action, ConnId, Hello, Link, State};

impl Link {
    /// Whether a connection with this incarnation stands, or has been accepted: the peer knows that it stands.
    pub(in crate::transport) fn stands_with(&self, incarnation: u64) -> bool {
        match self.state {
            State::Up(_) => self.incarnation == Some(incarnation),
            State::Accepting(_, hello) => hello.session == incarnation,
            _ => false,
        }
    }

    pub(super) fn stands_by(&mut self, id: ConnId, actions: &mut Vec<Action>) {
        // The peer's request over it may overtake the connection manager's last word: then it is in use, or about to be.
        if self.id() == Some(id) || self.waiting.is_some_and(|(asked, _)| asked == id) {
            return;
        }
        let of_use = match self.state {
            State::Up(own) => own.map_or(0, |own| own.rail) != id.rail,
            _ => true,
        };
        let older = if of_use { self.standby.replace(id) } else { Some(id) };
        actions.extend(older.filter(|older| Some(*older) != self.standby).map(Action::Disconnect));
    }

    /// The connection that stands by, if it is over the rail that is to be tried.
    pub(super) fn take_standby(&mut self) -> Option<ConnId> {
        let rail = self.rails.next();
        self.standby.take_if(|id| id.rail == rail)
    }

    pub(super) fn drop_standby(&mut self, actions: &mut Vec<Action>) {
        actions.extend(self.standby.take().map(Action::Disconnect));
    }

    pub(super) fn drop_standby_on(&mut self, rail: u8, actions: &mut Vec<Action>) {
        actions.extend(self.standby.take_if(|id| id.rail == rail).map(Action::Disconnect));
    }

    /// The peer asks over the connection over which this end has asked.
    pub(super) fn crossed(&mut self, id: ConnId, hello: Hello, actions: &mut Vec<Action>) {
        if self.me < self.peer {
            // The peer answers this end's.
            return;
        }
        if hello.generation <= self.floor || self.incarnation != Some(hello.session) {
            // It has missed something: the connection manager's requests tell it what.
            return self.broken(true, actions);
        }
        self.state = State::Idle;
        if let Some((older, _)) = self.waiting.replace((id, hello)) {
            actions.push(Action::Reject(older, super::Refusal::Stale { floor: self.floor }));
        }
        self.answer(actions);
    }
}
