//! A node's requests for one lock.

use super::{Message, Wire};
use crate::locks::client::WaitPolicy;
use crate::locks::stats::bump;
use crate::locks::{LockKey, Mode, Token};
use crate::rt::WaitPoint;
use crate::rt::sync::Signal;
use crate::transport::Rank;
use std::cell::Cell;
use std::hash::Hash;
use std::rc::Rc;

/// What the node's request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Asked(WaitPolicy),
    Refused,
    Held(Token),
}

/// A node's requests for one lock. There is one at a time.
pub(crate) struct Requester<W: Wire> {
    wire: Rc<W>,
    key: LockKey,
    home: Rank,
    state: Cell<State>,
    changed: Signal,
}

impl<W: Wire> Requester<W> {
    pub(crate) fn new(wire: Rc<W>, key: LockKey, home: Rank) -> Requester<W> {
        Requester { wire, key, home, state: Cell::new(State::Idle), changed: Signal::new() }
    }

    /// Takes the lock; `None` if it was to be a try, and somebody else has it.
    pub(crate) async fn lock(&self, mode: Mode, policy: WaitPolicy) -> Option<Token> {
        self.state.set(State::Asked(policy));
        self.wire.send(self.home, self.key, Message::Request { mode, policy });
        self.changed.until(|| !matches!(self.state.get(), State::Asked(_))).at(()).await;
        match self.state.get() {
            State::Held(token) => Some(token),
            _ => {
                self.state.set(State::Idle);
                None
            }
        }
    }

    /// Gives the lock back.
    pub(crate) fn unlock(&self) {
        if let State::Held(_) = self.state.replace(State::Idle) {
            self.wire.send(self.home, self.key, Message::Release);
        }
    }

    /// Shares what was held exclusively, from now on.
    pub(crate) fn downgrade(&self) {
        if let State::Held(_) = self.state.get() {
            self.wire.send(self.home, self.key, Message::Downgrade);
        }
    }

    /// Takes the home's answer.
    pub(crate) fn on_message(&self, from: Rank, message: Message) {
        let next = match (self.state.get(), message) {
            (State::Asked(_), Message::Grant { token }) if from == self.home => State::Held(token),
            (State::Asked(WaitPolicy::Try), Message::Busy) if from == self.home => State::Refused,
            _ => return bump(&self.wire.counters().out_of_turn),
        };
        self.state.set(next);
        self.changed.notify();
    }

    /// All that it knows, for explorers.
    pub(crate) fn state(&self) -> impl Hash {
        self.state.get()
    }

    /// Whether the node has anything to do with the lock.
    pub(crate) fn is_taken(&self) -> bool {
        self.state.get() != State::Idle
    }
}
