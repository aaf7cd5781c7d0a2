//! What a node has to do with one lock: a state machine without I/O. What it says it says to the lock's home.

use super::messages::Message;
use crate::locks::client::WaitPolicy;
use crate::locks::queue::OutOfTurn;
use crate::locks::{Mode, Token};
use crate::transport::Rank;

/// What the node's request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Asked(Mode, WaitPolicy),
    Refused,
    Held(Mode, Token),
}

/// A node's side of one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequesterState {
    /// None while the node is in no view of the membership. Then nothing is said, and what stands when there is one is reported.
    pub(super) home: Option<Rank>,
    pub(super) stage: Stage,
    /// Nothing will be granted to this node any more: it was left out of the membership, or has closed its mesh.
    pub(super) over: bool,
}

/// What to say, to whom.
pub(super) type Say = Option<(Rank, Message)>;

impl RequesterState {
    pub(super) const fn new(home: Option<Rank>) -> RequesterState {
        RequesterState { home, stage: Stage::Idle, over: false }
    }

    fn say(&self, message: Message) -> Say {
        self.home.map(|home| (home, message))
    }

    /// Asks for the lock.
    pub(super) fn ask(&mut self, mode: Mode, policy: WaitPolicy) -> Say {
        if self.over {
            self.stage = Stage::Refused;
            return None;
        }
        self.stage = Stage::Asked(mode, policy);
        self.say(Message::Request { mode, policy })
    }

    /// Gives the lock back.
    pub(super) fn unlock(&mut self) -> Say {
        let held = matches!(self.stage, Stage::Held(..));
        self.stage = Stage::Idle;
        self.say(Message::Release).filter(|_| held)
    }

    /// Shares what was held exclusively, from now on.
    pub(super) fn downgrade(&mut self) -> Say {
        let Stage::Held(Mode::Exclusive, token) = self.stage else { return None };
        self.stage = Stage::Held(Mode::Shared, token.of_next_grant());
        self.say(Message::Downgrade)
    }

    /// Takes the home's answer.
    pub(super) fn on_message(&mut self, from: Rank, message: Message) -> Result<(), OutOfTurn> {
        let is_home = self.home == Some(from);
        self.stage = match (self.stage, message) {
            (Stage::Asked(mode, _), Message::Grant { token }) if is_home => Stage::Held(mode, token),
            (Stage::Asked(_, WaitPolicy::Try), Message::Busy) if is_home => Stage::Refused,
            _ => return Err(OutOfTurn),
        };
        Ok(())
    }

    // Views of the membership.

    /// What the home of a view that begins is told.
    pub(super) fn report(&self) -> Say {
        match self.stage {
            Stage::Asked(mode, policy) => self.say(Message::Request { mode, policy }),
            Stage::Held(mode, token) => self.say(Message::Holds { mode, token }),
            Stage::Idle | Stage::Refused => None,
        }
    }

    /// A view begins, in which `home` keeps the lock.
    pub(super) fn view_begins(&mut self, home: Rank) -> Say {
        self.home = Some(home);
        self.report()
    }

    /// The view is lost. What was held is not held any more; whether something was.
    pub(super) fn view_lost(&mut self) -> bool {
        self.home = None;
        let held = matches!(self.stage, Stage::Held(..));
        if held {
            self.stage = Stage::Idle;
        }
        held
    }

    /// Nothing will be granted to this node any more: nothing is waited for. Whether something was.
    pub(super) fn give_up(&mut self) -> bool {
        self.over = true;
        let waited = matches!(self.stage, Stage::Asked(..));
        if waited {
            self.stage = Stage::Refused;
        }
        waited
    }
}
