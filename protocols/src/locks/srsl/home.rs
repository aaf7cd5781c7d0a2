//! The home's side of one lock: a state machine without I/O.

use super::messages::Message;
use crate::locks::client::WaitPolicy;
use crate::locks::queue::{GrantQueue, OutOfTurn};
use crate::locks::{Mode, Token};
use crate::transport::Rank;

/// The home of one lock.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Home {
    queue: GrantQueue,
    /// Who is in the queue and does not want to wait for others: until it is known whether the lock is free.
    tries: Vec<Rank>,
    /// Of the latest grant.
    token: Token,
    /// The latest grant was shared, or has become so.
    shared: bool,
}

/// Whether a home may grant, and above which token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// It may.
    Grant {
        /// Tokens of grants that do not join others are above it.
        above: Token,
    },
    /// Not yet: not all members have reported what they hold, or some who left may still hold.
    Wait,
    /// Not in this view, which has no token left for the lock.
    NotInThisView,
}

impl Home {
    /// Takes a message in, and says what to send. A message that contradicts the protocol changes nothing.
    pub(crate) fn on_message(
        &mut self,
        from: Rank,
        message: Message,
        may: May,
        out: &mut Vec<(Rank, Message)>,
    ) -> Result<(), OutOfTurn> {
        match message {
            Message::Request { mode, policy: WaitPolicy::Try } if self.is_taken(mode, may) => {
                out.push((from, Message::Busy));
            }
            Message::Request { mode, policy } => {
                self.queue.request(from, mode)?;
                if policy == WaitPolicy::Try && may == May::Wait {
                    self.tries.push(from);
                }
            }
            Message::Release => self.queue.release(from)?,
            Message::Downgrade => {
                self.queue.downgrade(from)?;
                self.token_for(Mode::Shared, Token::default());
            }
            Message::Holds { mode, token } => {
                self.queue.hold(from, mode)?;
                self.token = self.token.max(token);
                self.shared = mode == Mode::Shared;
            }
            Message::Grant { .. } | Message::Busy | Message::Reported { .. } => return Err(OutOfTurn),
        }
        self.grant(may, out);
        Ok(())
    }

    /// Whether it is known that a request made now would have to wait.
    fn is_taken(&self, mode: Mode, may: May) -> bool {
        match may {
            May::Grant { .. } => !self.queue.would_grant(mode),
            May::Wait => false,
            May::NotInThisView => true,
        }
    }

    /// Grants what is due, if it may, and refuses tries that would have to wait for others.
    pub(crate) fn grant(&mut self, may: May, out: &mut Vec<(Rank, Message)>) {
        if may == May::Wait {
            return;
        }
        self.grant_due(may, out);
        let tries = std::mem::take(&mut self.tries);
        while let Some(who) = self.queue.first_waiting(|who| tries.contains(&who)) {
            self.queue.withdraw(who);
            out.push((who, Message::Busy));
            // Who waited behind it, another try maybe, need not wait any more.
            self.grant_due(may, out);
        }
    }

    fn grant_due(&mut self, may: May, out: &mut Vec<(Rank, Message)>) {
        let May::Grant { above } = may else { return };
        while let Some((who, mode)) = self.queue.next_grant() {
            let token = self.token_for(mode, above);
            out.push((who, Message::Grant { token }));
        }
    }

    /// Those who share, one beside the other, have the same token: a guard that has seen it refuses none of
    /// them.
    fn token_for(&mut self, mode: Mode, above: Token) -> Token {
        if mode == Mode::Exclusive || !self.shared {
            self.token = self.token.max(above).of_next_grant();
        }
        self.shared = mode == Mode::Shared;
        self.token
    }

    /// The token of the latest grant.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Goes on from what the same node kept of the lock in the last view, of which these left.
    pub(crate) fn follow(&mut self, before: &Home, left: &[Rank]) {
        self.queue.follow(&before.queue, left);
        if before.token >= self.token {
            (self.token, self.shared) = (before.token, before.shared);
        }
    }

    /// Whether one who left may still hold.
    pub(crate) fn is_held_by_the_dead(&self) -> bool {
        self.queue.is_held_by_the_dead()
    }

    /// The leases of all who left have run out.
    pub(crate) fn forget_the_dead(&mut self) {
        self.queue.forget_the_dead();
    }

    /// Who holds or waits.
    pub(crate) fn entries(&self) -> usize {
        self.queue.holding() + self.queue.waiting()
    }
}
