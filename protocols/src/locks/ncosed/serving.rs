//! What a home does for those who share, while an epoch lasts.
//!
//! Two things: it counts the releases of shared holders for whoever must wait for them (3.2.3, step 4), and it
//! resets the shared count when nobody is left (3.2.2, unlocking, step 2). In DQNL there is nothing to do.

use super::home::{Action, Actions};
use super::messages::{Epoch, Message};
use super::word::Word;
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// While an epoch lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Serving {
    /// Shared holders that released and are not accounted for.
    released: u32,
    /// Who comes next, and how many shared holders must release before it.
    waiting: Option<(Rank, u32)>,
    /// The compare-and-swap that resets the count is out, with that many releases.
    resetting: Option<u32>,
    /// A reset is pointless with fewer releases than that.
    worth_trying: u32,
    /// A retry was asked for while the reset was out.
    retry_asked: bool,
}

impl Serving {
    pub(super) fn take(&mut self, message: Message, out: &mut Actions) {
        match message {
            Message::Release { .. } => self.released += 1,
            Message::RetryReset { .. } if self.resetting.is_some() => self.retry_asked = true,
            Message::RetryReset { .. } => self.worth_trying = 0,
            Message::Wait { who, readers, .. } if self.waiting.is_none() => {
                self.waiting = Some((who, readers));
            }
            _ => out.push(Action::OutOfTurn),
        }
    }

    pub(super) fn serve(&mut self, epoch: Epoch, at: RemoteSlice, out: &mut Actions) {
        if self.resetting.is_some() {
            // Until it is known how many releases it spends, nothing else may spend them.
            return;
        }
        if let Some((who, readers)) = self.waiting {
            if self.released >= readers {
                // 3.2.3, step 4
                self.released -= readers;
                self.waiting = None;
                self.worth_trying = 0;
                out.push(Action::Send(who, Message::Grant { epoch }));
            }
        } else if self.released > 0 && self.released >= self.worth_trying {
            // 3.2.2, unlocking, step 2: right if nobody else is counted, and harmless if somebody is
            self.resetting = Some(self.released);
            let compare = Word::shared_only(self.released);
            out.push(Action::Swap { at, compare, swap: Word::FREE });
        }
    }

    pub(super) fn reset_came_home(&mut self, was: Word) {
        let Some(spent) = self.resetting.take() else { return };
        self.worth_trying = if was == Word::shared_only(spent) {
            self.released -= spent;
            0
        } else if self.retry_asked {
            0
        } else if was.tail().is_none() {
            // Every one of those will release, or be waited for by name.
            was.shared()
        } else {
            // A holder that released was sent to an exclusive holder, or is before one: that one asks for a retry when
            // it releases, or a wait for its successor comes.
            u32::MAX
        };
        self.retry_asked = false;
    }

    /// Releases that are not accounted for.
    pub(super) fn unspent(&self) -> u32 {
        self.released
    }

    /// Whether somebody waits for shared holders.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether the compare-and-swap that resets the count is out.
    pub(super) fn is_resetting(&self) -> bool {
        self.resetting.is_some()
    }
}
