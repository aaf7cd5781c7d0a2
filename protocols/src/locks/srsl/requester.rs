//! A node's requests for one lock.

use super::requester_state::{RequesterState, Say, Stage};
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

/// Why there is no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was to be a try, and somebody else has it.
    Busy,
    /// Nothing will be granted to this node any more: it was left out of the membership, or has closed its mesh.
    Over,
}

/// A node's requests for one lock. There is one at a time.
pub(crate) struct Requester<W: Wire> {
    wire: Rc<W>,
    key: LockKey,
    state: Cell<RequesterState>,
    changed: Signal,
}

impl<W: Wire> Requester<W> {
    /// `home` is none while the node is in no view of the membership.
    pub(crate) fn new(wire: Rc<W>, key: LockKey, home: Option<Rank>) -> Requester<W> {
        Requester { wire, key, state: Cell::new(RequesterState::new(home)), changed: Signal::new() }
    }

    /// Takes the lock, however long that takes if it is no try.
    pub(crate) async fn lock(&self, mode: Mode, policy: WaitPolicy) -> Result<Token, Refused> {
        loop {
            self.change(|state| state.ask(mode, policy));
            self.changed.until(|| !matches!(self.stage(), Stage::Asked(..))).at(()).await;
            match self.stage() {
                Stage::Held(_, token) => return Ok(token),
                // The view was lost after the grant.
                Stage::Idle => {}
                Stage::Refused | Stage::Asked(..) => {
                    self.change(RequesterState::unlock);
                    return Err(if self.state.get().over { Refused::Over } else { Refused::Busy });
                }
            }
        }
    }

    /// Gives the lock back.
    pub(crate) fn unlock(&self) {
        self.change(RequesterState::unlock);
    }

    /// Shares what was held exclusively, from now on.
    pub(crate) fn downgrade(&self) {
        self.change(RequesterState::downgrade);
    }

    /// Takes the home's answer.
    pub(crate) fn on_message(&self, from: Rank, message: Message) {
        let mut state = self.state.get();
        match state.on_message(from, message) {
            Ok(()) => {
                self.state.set(state);
                self.changed.notify();
            }
            Err(_) => bump(&self.wire.counters().out_of_turn),
        }
    }

    // Views of the membership.

    /// A view begins, in which `home` keeps the lock: it is told what this node has or wants.
    pub(crate) fn view_begins(&self, home: Rank) {
        self.change(|state| state.view_begins(home));
    }

    /// The view is lost. What was held is not held any more; whether something was.
    pub(crate) fn view_lost(&self) -> bool {
        let mut state = self.state.get();
        let held = state.view_lost();
        self.state.set(state);
        held
    }

    /// Nothing will be granted to this node any more: nothing is waited for.
    pub(crate) fn give_up(&self) {
        let mut state = self.state.get();
        let waited = state.give_up();
        self.state.set(state);
        if waited {
            self.changed.notify();
        }
    }

    fn change(&self, change: impl FnOnce(&mut RequesterState) -> Say) {
        let mut state = self.state.get();
        let say = change(&mut state);
        self.state.set(state);
        if let Some((home, message)) = say {
            self.wire.send(home, self.key, message);
        }
    }

    fn stage(&self) -> Stage {
        self.state.get().stage
    }

    /// All that it knows, for explorers.
    pub(crate) fn state(&self) -> impl Hash {
        self.state.get()
    }

    /// Whether the node has anything to do with the lock.
    pub(crate) fn is_taken(&self) -> bool {
        self.stage() != Stage::Idle
    }
}
