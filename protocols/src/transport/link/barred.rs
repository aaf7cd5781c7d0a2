//! Who is refused for good: incarnations of the peer that were expelled, and everybody once this node has retired.

use super::{Action, Link, Refusal, State};
use crate::transport::grounds::Grounds;

impl Link {
    /// Nothing of that incarnation is accepted from now on. What there is of it ends with [`Event::Expelled`](super::Event::Expelled).
    pub(in super::super) fn bars(&mut self, incarnation: u64, grounds: Grounds) {
        match self.barred.iter_mut().find(|(barred, _)| *barred == incarnation) {
            Some((_, known)) if *known == Grounds::default() => *known = grounds,
            Some(_) => {}
            None => self.barred.push((incarnation, grounds)),
        }
    }

    /// What stands with that incarnation ends, and what it asks is refused from now on. So does an attempt of ours that was made for it: it may be there
    /// still and not know that it is out, and what it posts would execute here from the moment when the connection manager connects the queue pair,
    /// before anybody has looked at the answer. What waits for the next incarnation asks anew.
    pub(super) fn expelled(&mut self, incarnation: u64, grounds: Grounds, actions: &mut Vec<Action>) {
        self.bars(incarnation, grounds);
        if self.incarnation == Some(incarnation) {
            self.drop_standby(actions);
        }
        if let Some((id, _)) = self.waiting.take_if(|(_, hello)| hello.session == incarnation) {
            actions.push(Action::Reject(id, Refusal::Expelled(grounds)));
        }
        if self.stands_with(incarnation) {
            let own = self.id();
            self.fence(actions);
            actions.extend(own.map(Action::Disconnect));
            self.state = State::Idle;
        } else if let State::Resolving(_) | State::Asking(_) = self.state
            && self.is_for(incarnation)
        {
            actions.extend(self.id().map(Action::Disconnect));
            if let State::Asking(_) = self.state {
                actions.push(Action::Discard);
            }
            self.pause(actions);
        }
    }

    /// Whether what waits for the peer waits for that incarnation, as far as anybody knows.
    pub(in super::super) fn is_for(&self, incarnation: u64) -> bool {
        self.incarnation.is_none_or(|met| met == incarnation)
    }

    /// Whether what comes over the queue pair that there is, if there is one, may be that incarnation's, as far as anybody knows. Who takes an
    /// attempt of ours is known by its answer only, and the connection manager may have connected the queue pair before anybody looks at
    /// that; or it was connected by other means, and nobody has looked at it.
    pub(in super::super) fn may_be_with(&self, incarnation: u64) -> bool {
        match self.state {
            State::Up(_) | State::Accepting(..) => self.stands_with(incarnation),
            State::Idle | State::Pausing | State::Resolving(_) | State::Asking(_) => true,
        }
    }

    /// Whether a peer that was taken for gone is to be told things again, since that incarnation of it is there: it was never met, so that
    /// nothing that is said now is lost with an earlier one's session.
    pub(in super::super) fn may_admit(&self, incarnation: u64) -> bool {
        self.incarnation.is_none() && self.bar(incarnation).is_none()
    }

    /// On what grounds an incarnation of the peer was expelled, if it was.
    pub(super) fn bar(&self, incarnation: u64) -> Option<Grounds> {
        self.barred.iter().find(|(barred, _)| *barred == incarnation).map(|(_, grounds)| *grounds)
    }

    /// What stands ends, and whatever is asked from now on is refused.
    pub(super) fn retire(&mut self, actions: &mut Vec<Action>) {
        (self.retired, self.moving) = (true, 0);
        self.drop_standby(actions);
        if let Some((id, _)) = self.waiting.take() {
            actions.push(Action::Reject(id, Refusal::Retired));
        }
        if let State::Resolving(own) = self.state {
            actions.extend(own.map(Action::Disconnect));
            self.state = State::Idle;
        }
        self.broken(true, actions);
    }
}
