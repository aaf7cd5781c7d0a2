//! Put.

use super::io::{again, filled, swap, word};
use super::line::MOST_MISSES;
use super::segment::{Doubt, InLine, Open, Segment};
use super::service::Ddss;
use super::{DdssError, Header};
use crate::rt::BufferGuard;
use crate::transport::OpError;
use weft_verbs::{SendOp, Verbs};

impl<V: Verbs> Ddss<V> {
    /// Makes `value`, which is as long as the segment, the segment's value. Returns its version; none under null.
    ///
    /// One round trip if nobody has put since this node looked last, two otherwise. A put that others come before twice, or that
    /// finds the segment locked, waits for its turn in the home's line; under null nobody waits.
    ///
    /// # Errors
    ///
    /// The segment is of another size, or has used up its versions: then nothing was published. [`DdssError::Unknown`], or that its home
    /// cannot be reached any more, as [`DdssError::Gone`] and [`DdssError::Out`] say: then nobody can know whether something was.
    pub async fn put(&self, segment: &Segment<V>, value: &[u8]) -> Result<Option<u64>, DdssError> {
        self.put_at(segment.0.in_line(), segment, value).await
    }

    /// The same, of a call that has its place in the line of the node's tasks, if it needs one.
    pub(super) async fn put_at(
        &self,
        place: Option<InLine<V>>,
        segment: &Segment<V>,
        value: &[u8],
    ) -> Result<Option<u64>, DdssError> {
        let open = &segment.0;
        open.fits(value.len())?;
        let published = match place {
            None => self.write_first(open, value).await.map(|()| None)?,
            Some(place) => {
                let _turn = self.turn_at(place).await?;
                let published = self.publish(open, false, value).await;
                if open.entered.get() {
                    // What is published is so, whether its home can be told or not that the turn is over.
                    drop(self.leave(open).await);
                }
                published?
            }
        };
        self.0.stats.borrow_mut().puts += 1;
        Ok(published)
    }

    /// Writes a slot that nobody reads, and publishes it by a swap of the header behind that, in one list: the adapter executes
    /// no swap behind a write that has failed. Asks for a turn if that is called for; the caller gives it back.
    pub(super) async fn publish(
        &self,
        open: &Open<V>,
        holds: bool,
        value: &[u8],
    ) -> Result<Option<u64>, DdssError> {
        self.take_part(open).await?;
        if open.is_here_again() {
            self.find_slots(open).await?;
        }
        let slot = open.next_slot();
        let (mut written, mut misses) = (false, 0);
        loop {
            let header = open.last.get();
            if !holds && !open.entered.get() && (!header.is_free() || misses >= MOST_MISSES) {
                self.enter(open).await?;
                continue;
            }
            if header.version == Header::LAST {
                return Err(DdssError::UsedUp);
            }
            let next = header.next(slot);
            let (found, swap) = (self.word_block()?, swap(open.header(), header, next));
            // What stands before a value is the header that it supersedes, so that it is written anew for each guess.
            let content =
                if written && open.spec.prefix() == 0 { None } else { Some(content(open, header, value)?) };
            let began = self.0.rt.now();
            open.doubt.set(Some(Doubt::Put { version: header.version, slot }));
            let outcome = match content {
                None => self.post(open, [(swap, found)]).await?.map(|[found]| found),
                Some(content) => {
                    let write = SendOp::Write { to: open.slot(slot.into()), imm: None };
                    let list = [(write, content), (swap, found)];
                    self.post(open, list).await?.map(|[_, found]| found)
                }
            };
            match outcome {
                Ok(found) => {
                    open.doubt.set(None);
                    written = true;
                    let found = word(&found)?;
                    if found == header {
                        open.last.set(next);
                        open.published(slot);
                        open.fresh.set(Some((next.version, began)));
                        return Ok(Some(next.version));
                    }
                    self.0.stats.borrow_mut().swap_misses += 1;
                    misses += 1;
                    open.last.set(found);
                }
                Err(OpError::NotExecuted(why)) => {
                    open.doubt.set(None);
                    again(why)?;
                }
                Err(OpError::Unknown(_)) => {
                    if self.has_published(open, holds, next).await? {
                        return Ok(Some(next.version));
                    }
                    // The next version is somebody else's, or there is none: it was never published.
                    written = false;
                }
            }
        }
    }

    /// Whether a swap that was to publish the next version, and whose outcome is unknown, has done so.
    ///
    /// # Errors
    ///
    /// It may have, and have been superseded since: nobody can know.
    async fn has_published(&self, open: &Open<V>, holds: bool, next: Header) -> Result<bool, DdssError> {
        self.counts_unknown();
        let now = self.resolved(open).await?;
        open.doubt.set(None);
        if now.publishes_as(next) {
            open.published(next.slot);
            return Ok(true);
        }
        // Nobody else publishes while this node has the lock or a turn: the header was further on before, and the swap did nothing.
        let is_alone = if holds { now.is_held_by(open.me) } else { open.entered.get() };
        if now.version > next.version && !is_alone {
            // Published and superseded, or never. (Nor would it be true that the next put replaced it at once, where that was one under
            // the lock: nobody else puts meanwhile.)
            open.published(next.slot);
            return Err(DdssError::Unknown);
        }
        Ok(false)
    }

    /// Finds out which of its own slots a node published last whose earlier incarnation had a part in the segment. Nothing of that one's
    /// lands any more, so that the others' puts alone change what is read here. If none of its slots is among the versions that are kept,
    /// any may be written next. Otherwise the one behind the last: a node writes its slots in turn, so that one was published
    /// longest ago.
    async fn find_slots(&self, open: &Open<V>) -> Result<(), DdssError> {
        let behind = u64::from(open.spec.model.behind());
        let mut at = self.header(open).await?;
        let first = at.version.saturating_sub(behind);
        while !open.is_own(at.slot) && at.version > first {
            let (slot, now) = self.slot_and_header(open, at.slot).await?;
            // It is not kept any more, nor is anything older.
            if now.version - at.version > behind {
                break;
            }
            at = Header::from_word(super::io::before(&slot)?);
        }
        if open.is_own(at.slot) {
            open.published(at.slot);
        }
        open.knows_slots();
        Ok(())
    }
}

/// A slot's content: the value and, under delta, the header that it supersedes.
fn content<V: Verbs>(open: &Open<V>, header: Header, value: &[u8]) -> Result<BufferGuard<V>, DdssError> {
    let (block, prefix) = (open.block(open.spec.content())?, open.spec.prefix());
    let block = filled(block, prefix, value)?;
    if prefix == 0 { Ok(block) } else { filled(block, 0, &header.word().to_ne_bytes()) }
}
