//! Exclusive requests: the distributed queue (ncosed.txt, 2.2.2 and 3.2.1), the paper's steps in its order, and
//! the repairs among them. Where nobody shares, this is all there is: [`dqnl`](crate::locks::dqnl).

use super::Wire;
use super::member::{Role, Successor};
use super::messages::{Message, Passed};
use super::seat::{At, Frozen, Seat};
use super::word::Word;
use crate::locks::Mode;

impl<W: Wire> Seat<W> {
    /// 3.2.1, locking protocol, with the numbers of shared requests that 3.2.3 adds.
    pub(super) async fn lock_exclusive(&self) -> Result<(), Frozen> {
        self.member.borrow_mut().turn += 1;
        let frame = self.frame();
        let mut seen = Word::FREE; // step 1: guess that nobody has it
        loop {
            self.set_role(Role::WantsExclusive { over: seen });
            frame.knows(At::Entering { seen });
            let was = self.compare_swap(seen, Word::behind(self.me, 0)).await?;
            if was == seen {
                break;
            }
            seen = was; // step 3: guess again with all that was there, the shared count included
        }
        let (epoch, turn) = (self.epoch(), self.member.borrow().turn);
        match (seen.tail(), seen.shared()) {
            // step 2: nobody had it
            (None, 0) => self.set_role(Role::Holds(Mode::Exclusive)),
            // 3.2.3, step 3: that many shared holders must leave first, and the home counts them
            (None, readers) => self.send(self.home, Message::Wait { epoch, who: self.me, readers }),
            // step 3: behind the old tail, and behind those who want to share after it
            (Some(tail), readers) => self.send(tail, Message::Queue { epoch, readers, turn }),
        }
        frame.knows(At::Queued);
        self.granted().await
    }

    pub(super) async fn try_exclusive(&self) -> Result<bool, Frozen> {
        self.member.borrow_mut().turn += 1;
        self.set_role(Role::Trying);
        let frame = self.frame();
        frame.knows(At::Alone);
        Ok(self.compare_swap(Word::FREE, Word::behind(self.me, 0)).await? == Word::FREE)
    }

    /// 3.2.1, unlocking protocol, repaired: see the module's documentation. `stays` is 1 if this node remains
    /// as one of those who share, to release to the home as they do, and 0 if it leaves.
    pub(super) async fn step_aside(&self, stays: u32) -> Result<(), Frozen> {
        let frame = self.frame();
        self.grant_arrived(); // and from now on whoever arrives is granted at once
        let mut shared = self.member.borrow().served;
        loop {
            let successor = self.member.borrow().successor;
            if let Some(next) = successor {
                // step 1: there is a successor, and those who share before it come first
                frame.knows(At::ServingBefore { next, stays });
                self.until_served(next.readers).await?;
                self.pass_to(next, stays);
                return Ok(());
            }
            // step 2: as far as we know we are the last
            let seen = Word::behind(self.me, shared);
            frame.knows(At::Passing { shared, stays });
            let was = self.compare_swap(seen, Word::shared_only(shared + stays)).await?;
            if was == seen {
                break;
            }
            if was.tail() == Some(self.me) {
                shared = was.shared(); // more who share have come
            } else {
                frame.knows(At::Following { shared, stays });
                self.until_followed().await?; // a successor has come, and is about to say so
            }
        }
        if shared > 0 {
            let epoch = self.epoch();
            self.send(self.home, Message::Kick { epoch });
            frame.knows(At::Kicked { shared });
            self.until_served(shared).await?;
        }
        self.member.borrow_mut().forget_queue();
        Ok(())
    }

    /// Hands the lock to the next in the exclusive queue, or to the home if shared holders come before it.
    fn pass_to(&self, next: Successor, stays: u32) {
        let epoch = {
            let mut member = self.member.borrow_mut();
            member.passed = Some(Passed { who: next.who, turn: next.turn });
            member.forget_queue();
            member.epoch
        };
        match next.readers + stays {
            0 => self.send(next.who, Message::Grant { epoch }),
            readers => self.send(self.home, Message::Wait { epoch, who: next.who, readers }),
        }
    }
}
