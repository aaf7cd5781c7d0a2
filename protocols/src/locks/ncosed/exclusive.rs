//! Exclusive requests: the distributed queue (ncosed.txt, 2.2.2 and 3.2.1), the paper's steps in its order, and
//! the repairs among them. Where nobody shares, this is all there is: [`dqnl`](crate::locks::dqnl).

use super::Wire;
use super::messages::{Message, Passed};
use super::requester::{Frozen, Requester, Step};
use super::requester_state::{Role, Successor};
use super::word::Word;
use crate::locks::Mode;
use crate::rt::WaitPoint;

/// What becomes of a node that held exclusively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Afterwards {
    /// It has no hold any more.
    Releases,
    /// It shares, and releases to the home as those do who share.
    Shares,
}

impl Afterwards {
    /// How many shared holders it is.
    const fn readers(self) -> u32 {
        match self {
            Afterwards::Releases => 0,
            Afterwards::Shares => 1,
        }
    }
}

impl<W: Wire> Requester<W> {
    /// 3.2.1, locking protocol, with the numbers of shared requests that 3.2.3 adds.
    pub(super) async fn lock_exclusive(&self) -> Result<(), Frozen> {
        self.state.borrow_mut().turn += 1;
        let mut seen = Word::FREE; // step 1: guess that nobody has it
        loop {
            self.set_role(Role::WantsExclusive { over: seen });
            let was = self.compare_swap(seen, Word::behind(self.me, 0)).at(Step::Entering { seen }).await?;
            if was == seen {
                break;
            }
            seen = was; // step 3: guess again with all that was there, the shared count included
        }
        let (epoch, turn) = (self.epoch(), self.state.borrow().turn);
        match (seen.tail(), seen.shared()) {
            // step 2: nobody had it
            (None, 0) => self.state.borrow_mut().hold(Mode::Exclusive),
            // 3.2.3, step 3: that many shared holders must leave first, and the home counts them
            (None, readers) => self.send_home(Message::Wait { epoch, who: self.me, readers }),
            // step 3: behind the old tail, and behind those who want to share after it
            (Some(tail), readers) => self.send(tail, Message::Queue { epoch, readers, turn }),
        }
        self.granted().at(Step::Queued).await
    }

    pub(super) async fn try_exclusive(&self) -> Result<bool, Frozen> {
        self.state.borrow_mut().turn += 1;
        self.set_role(Role::Trying);
        let was = self.compare_swap(Word::FREE, Word::behind(self.me, 0)).at(Step::Alone).await?;
        Ok(was == Word::FREE)
    }

    /// 3.2.1, unlocking protocol, repaired: see the module's documentation. `then` says whether
    /// this node remains as one of those who share.
    pub(super) async fn unlock_exclusive(&self, then: Afterwards) -> Result<(), Frozen> {
        self.grant_arrived(); // and from now on whoever arrives is granted at once
        let mut shared = self.state.borrow().served;
        loop {
            let successor = self.state.borrow().successor;
            if let Some(next) = successor {
                // step 1: there is a successor, and those who share before it come first
                self.until_served(next.readers).at(Step::ServingBefore { next, then }).await?;
                self.pass_to(next, then);
                return Ok(());
            }
            // step 2: as far as we know we are the last
            let seen = Word::behind(self.me, shared);
            let left = Word::shared_only(shared + then.readers());
            let was = self.compare_swap(seen, left).at(Step::Passing { shared, then }).await?;
            if was == seen {
                break;
            }
            if was.tail() == Some(self.me) {
                shared = was.shared(); // more who share have come
            } else {
                // a successor has come, and is about to say so
                self.until_followed().at(Step::Following { shared, then }).await?;
            }
        }
        if shared > 0 {
            let epoch = self.epoch();
            self.send_home(Message::RetryReset { epoch });
            self.until_served(shared).at(Step::AskedRetry { shared }).await?;
        }
        self.state.borrow_mut().forget_queue();
        Ok(())
    }

    /// Hands the lock to the next in the exclusive queue, or to the home if shared holders come before it.
    fn pass_to(&self, next: Successor, then: Afterwards) {
        let epoch = {
            let mut state = self.state.borrow_mut();
            state.passed = Some(Passed { who: next.who, turn: next.turn });
            state.forget_queue();
            state.epoch
        };
        match next.readers + then.readers() {
            0 => self.send(next.who, Message::Grant { epoch }),
            readers => self.send_home(Message::Wait { epoch, who: next.who, readers }),
        }
    }
}
