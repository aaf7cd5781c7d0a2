//! The home's side of one lock: a state machine without I/O.

use super::messages::Message;
use crate::locks::Token;
use crate::locks::client::Patience;
use crate::locks::queue::{GrantQueue, OutOfTurn};
use crate::transport::Rank;

/// Tokens that each grant takes: one for its first holder, and one for each application of its node to which
/// an exclusive hold may be handed over.
const TOKENS_A_GRANT: u64 = 256;

/// The home of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Home {
    queue: GrantQueue,
    token: u64,
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
            Message::Request { mode, patience: Patience::Try } if !self.queue.would_grant(mode) => {
                out.push((from, Message::Busy));
            }
            Message::Request { mode, .. } => self.queue.request(from, mode)?,
            Message::Release => self.queue.release(from)?,
            Message::Grant { .. } | Message::Busy => return Err(OutOfTurn),
        }
        while let Some((who, _)) = self.queue.next_grant() {
            self.token += TOKENS_A_GRANT;
            out.push((who, Message::Grant { token: Token(self.token) }));
        }
        Ok(())
    }

    /// Who holds or waits.
    pub(crate) fn entries(&self) -> usize {
        self.queue.holding() + self.queue.waiting()
    }
}
