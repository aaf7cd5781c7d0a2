//! The segment's lock (ddss.txt, 5.4): the holder's rank in the header, by compare-and-swap.
//!
//! A lock is a node's: one of its tasks has it at a time, by its turn. So a node's rank is a value unique to the attempt, and a swap of
//! unknown outcome is told by the header once it is resolved. A lock that somebody has is waited for in the home's line. It is never released blindly: always by a swap of what only
//! the holder can have made.

use super::io::{again, swap, word};
use super::segment::{Doubt, Open, Segment, Turn};
use super::service::Ddss;
use super::{DdssError, Header, Model};
use crate::members::Hold;
use crate::transport::OpError;
use weft_verbs::Verbs;

/// A segment whose lock this task has. Its calls take no lock of their own (5.3).
///
/// Dropped without [`Held::unlock`], the lock is given back by a task of the node.
pub struct Held<V: Verbs> {
    ddss: Ddss<V>,
    turn: Turn<V>,
    /// The node's lease is renewed as long as it has a lock.
    _hold: Option<Hold<V>>,
    unlocked: bool,
}

/// What became of a swap of the header.
enum Swapped {
    /// It found this, and was done if that is what it compared with.
    Found(Header),
    /// Its answer was lost. The header is this once the swap cannot be executed any more.
    Resolved(Header),
    /// It was not executed, and will not be.
    Not,
}

impl<V: Verbs> Ddss<V> {
    /// Takes a segment's lock, and waits for it as long as it takes: set a deadline. Who waits is granted it in the order of
    /// asking. Nobody else puts until it is given back
    /// (but under null), and under read and strict nobody else gets.
    ///
    /// # Errors
    ///
    /// The home cannot be reached any more.
    pub async fn lock(&self, segment: &Segment<V>) -> Result<Held<V>, DdssError> {
        let turn = self.turn(&segment.0).await?;
        let hold = self.unless_out(self.leased()).await??;
        while !self.acquire(&turn.open).await? {
            if !turn.open.entered.get() {
                self.enter(&turn.open).await?;
            }
        }
        Ok(Held { ddss: self.clone(), turn, _hold: hold, unlocked: false })
    }

    /// Takes a segment's lock if nobody has it, nor waits for it at this node.
    ///
    /// # Errors
    ///
    /// The home cannot be reached any more.
    pub async fn try_lock(&self, segment: &Segment<V>) -> Result<Option<Held<V>>, DdssError> {
        if segment.0.is_busy() {
            return Ok(None);
        }
        let turn = self.turn(&segment.0).await?;
        let hold = self.unless_out(self.leased()).await??;
        let acquired = self.acquire(&turn.open).await?;
        Ok(acquired.then(|| Held { ddss: self.clone(), turn, _hold: hold, unlocked: false }))
    }

    /// Takes the lock unless somebody has it or waits for a turn; in the node's turn it takes it. Swaps again where somebody has put
    /// meanwhile.
    async fn acquire(&self, open: &Open<V>) -> Result<bool, DdssError> {
        let entered = open.entered.get();
        loop {
            let free = open.last.get().free().marked(entered);
            let held = free.held_by(open.me);
            let now = match self.swap_header(open, Doubt::Takes, free, held).await? {
                Swapped::Found(found) if found == free => return Ok(true),
                Swapped::Found(now) | Swapped::Resolved(now) => now,
                Swapped::Not => continue,
            };
            if now.is_held_by(open.me) {
                return Ok(true);
            }
            if !entered && !now.is_free() {
                return Ok(false);
            }
        }
    }

    /// Gives the lock back, which this node has, and tells the home if somebody waits for that: by the home's line it is its turn.
    pub(super) async fn unlock(&self, open: &Open<V>) -> Result<(), DdssError> {
        let mut held = open.last.get().held_by(open.me);
        // Only what the swap found says whether the home waits: a mark that came later is for others.
        let is_awaited = loop {
            let marked = held.is_marked();
            match self.swap_header(open, Doubt::Gives { marked }, held, held.free()).await? {
                Swapped::Found(found) if found == held => break marked,
                Swapped::Found(now) | Swapped::Resolved(now) if now.is_held_by(open.me) => held = now,
                Swapped::Resolved(_) => break marked,
                // The others have taken it away.
                Swapped::Found(_) => break open.entered.get(),
                Swapped::Not => {}
            }
        };
        open.entered.set(is_awaited);
        if is_awaited { self.leave(open).await } else { Ok(()) }
    }

    /// Swaps the header once.
    async fn swap_header(
        &self,
        open: &Open<V>,
        doubt: Doubt,
        from: Header,
        to: Header,
    ) -> Result<Swapped, DdssError> {
        // Also where there is no memory for it: what it was to give back would stay.
        open.doubt.set(Some(doubt));
        let list = [(swap(open.header(), from, to), self.word_block()?)];
        let swapped = match self.post(open, list).await? {
            Ok([found]) => {
                let found = word(&found)?;
                open.last.set(if found == from { to } else { found });
                Swapped::Found(found)
            }
            Err(OpError::NotExecuted(why)) => {
                again(why)?;
                Swapped::Not
            }
            Err(OpError::Unknown(_)) => {
                self.counts_unknown();
                Swapped::Resolved(self.resolved(open).await?)
            }
        };
        open.doubt.set(None);
        Ok(swapped)
    }
}

impl<V: Verbs> Held<V> {
    /// Whether the lock counts: always where nodes do not agree on who is alive; otherwise as long as this node's lease runs. A
    /// node that was silent for longer than that may find that the lock is another's. Its own puts to the segment are refused then; what
    /// else it does under the lock it guards by this.
    pub fn is_valid(&self) -> bool {
        self.ddss.has_lease()
    }

    /// As [`Ddss::get`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get(&self, into: &mut [u8]) -> Result<u64, DdssError> {
        let open = &self.turn.open;
        open.fits(into.len())?;
        let version = match open.spec.model {
            Model::Null => self.ddss.read_first(open, into).await.map(|()| 0)?,
            _ => self.ddss.latest(open, true, into).await?.unwrap_or_default(),
        };
        self.ddss.0.stats.borrow_mut().gets += 1;
        Ok(version)
    }

    /// As [`Ddss::put`]. The lock stays with this task.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn put(&mut self, value: &[u8]) -> Result<Option<u64>, DdssError> {
        let open = &self.turn.open;
        open.fits(value.len())?;
        // A put of this hold may have been dropped in the middle: the next one writes another slot.
        self.ddss.clear_doubt(open).await?;
        let published = match open.spec.model {
            Model::Null => self.ddss.write_first(open, value).await.map(|()| None)?,
            _ => self.ddss.publish(open, true, value).await?,
        };
        self.ddss.0.stats.borrow_mut().puts += 1;
        Ok(published)
    }

    /// Gives the lock back. Returns once that is so.
    ///
    /// # Errors
    ///
    /// The home cannot be reached any more.
    pub async fn unlock(mut self) -> Result<(), DdssError> {
        // A put of this hold may have been dropped in the middle, and have published its slot.
        self.ddss.clear_doubt(&self.turn.open).await?;
        self.ddss.unlock(&self.turn.open).await?;
        self.unlocked = true;
        Ok(())
    }
}

impl<V: Verbs> Drop for Held<V> {
    fn drop(&mut self) {
        let open = &self.turn.open;
        // Its turn settles that.
        if !self.unlocked && open.doubt.get().is_none() {
            open.doubt.set(Some(Doubt::Takes));
        }
    }
}
