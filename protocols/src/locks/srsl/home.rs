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
    /// Of the latest grant.
    token: Token,
    /// The latest grant was shared, or has become so.
    shared: bool,
}

impl Home {
    /// Takes a message in, and says what to send. A message that contradicts the protocol changes nothing.
    pub(crate) fn on_message(
        &mut self,
        from: Rank,
        message: Message,
        out: &mut Vec<(Rank, Message)>,
    ) -> Result<(), OutOfTurn> {
        match message {
            Message::Request { mode, policy: WaitPolicy::Try } if !self.queue.would_grant(mode) => {
                out.push((from, Message::Busy));
            }
            Message::Request { mode, .. } => self.queue.request(from, mode)?,
            Message::Release => self.queue.release(from)?,
            Message::Downgrade => {
                self.queue.downgrade(from)?;
                self.token_for(Mode::Shared);
            }
            Message::Grant { .. } | Message::Busy => return Err(OutOfTurn),
        }
        while let Some((who, mode)) = self.queue.next_grant() {
            let token = self.token_for(mode);
            out.push((who, Message::Grant { token }));
        }
        Ok(())
    }

    /// Those who share, one beside the other, have the same token: a guard that has seen it refuses none of
    /// them.
    fn token_for(&mut self, mode: Mode) -> Token {
        if mode == Mode::Exclusive || !self.shared {
            self.token = self.token.of_next_grant();
        }
        self.shared = mode == Mode::Shared;
        self.token
    }

    /// Who holds or waits.
    pub(crate) fn entries(&self) -> usize {
        self.queue.holding() + self.queue.waiting()
    }
}
