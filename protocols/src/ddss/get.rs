//! Get.

use super::io::{again, content, swap, word};
use super::line::MOST_MISSES;
use super::segment::{Doubt, Open, Segment};
use super::service::Ddss;
use super::{DdssError, Header, Model};
use crate::transport::OpError;
use std::rc::Rc;
use weft_verbs::{Nanos, SendOp, Verbs};

/// How often a look may take longer than temporal allows before a get gives up.
const MOST_LATE: u32 = 8;

impl<V: Verbs> Ddss<V> {
    /// Reads a segment into `into`, which is as long as the segment, and returns the version that was read. Under all models but
    /// null it is the whole value of one put, which nothing that completed before the call had superseded.
    ///
    /// One round trip if the node that put last is the one that was seen to put before, as a rule; two otherwise. Reads again
    /// where somebody publishes meanwhile: each time, somebody else's put has completed. Under read and strict it waits while
    /// somebody has the segment's lock.
    ///
    /// # Errors
    ///
    /// The segment is of another size, has been released, or its home has died or cannot be reached any more; the others go on without this
    /// node. Under temporal [`DdssError::Slow`], if the home answers so slowly that no value is good when it comes.
    pub async fn get(&self, segment: &Segment<V>, into: &mut [u8]) -> Result<u64, DdssError> {
        Ok(self.get_if_newer(segment, None, into).await?.unwrap_or_default())
    }

    /// Reads a segment unless the version that the caller has is good enough under the segment's model: then no data are moved,
    /// and there is no version. Under version, that is the latest one; under delta one that is at most so many versions behind;
    /// under temporal one that was the latest within the time, for which the home need not even be asked (ddss.txt, 4 and 5.3).
    /// Under other models no version is.
    ///
    /// # Errors
    ///
    /// As of [`Ddss::get`].
    pub async fn get_if_newer(
        &self,
        segment: &Segment<V>,
        held: Option<u64>,
        into: &mut [u8],
    ) -> Result<Option<u64>, DdssError> {
        let open = &segment.0;
        open.fits(into.len())?;
        let held = held.filter(|_| open.spec.model.keeps_copies());
        if let Some(held) = held
            && (self.is_fresh(open, held) || self.is_near(open, held).await?)
        {
            self.0.stats.borrow_mut().unchanged += 1;
            return Ok(None);
        }
        let version = match open.spec.model {
            Model::Null => self.read_first(open, into).await.map(|()| 0)?,
            Model::Read => self.get_alone(open, into).await?,
            _ => match self.latest(open, false, into).await? {
                Some(version) => version,
                None => {
                    let _turn = self.turn(open).await?;
                    self.get_entered(open, into).await?
                }
            },
        };
        self.0.stats.borrow_mut().gets += 1;
        Ok(Some(version))
    }

    /// Reads the version that is `back` versions before the current one, at most as many as the segment's delta; what is before
    /// the first is the first (ddss.txt, 5.3: applications can ask for previous versions). Returns its number. Under models that keep no
    /// earlier version none is before the current one, and this is [`Ddss::get`].
    ///
    /// # Errors
    ///
    /// The segment does not keep so many versions, or as of [`Ddss::get`].
    pub async fn get_earlier(
        &self,
        segment: &Segment<V>,
        back: u8,
        into: &mut [u8],
    ) -> Result<u64, DdssError> {
        let open = &segment.0;
        open.fits(into.len())?;
        let behind = open.spec.model.behind();
        if back > behind {
            return Err(DdssError::NotKept { back, behind });
        }
        // Where no earlier version is kept the current one is got as the model has it: under read and strict while nobody has the lock.
        if behind == 0 {
            return self.get(segment, into).await;
        }
        'again: loop {
            let look = self.look(open).await?;
            let current = look.before;
            if !current.publishes_as(look.after) || !look.has(current) {
                self.0.stats.borrow_mut().get_retries += 1;
                continue;
            }
            let wanted = current.version.saturating_sub(back.into());
            let mut at = current;
            let mut before = look.value(current, open, into)?;
            while at.version > wanted {
                at = Header::from_word(before);
                let (slot, now) = self.slot_and_header(open, at.slot).await?;
                // A node writes a slot again once the versions since then are more than are kept.
                if now.version - at.version > u64::from(behind) {
                    self.0.stats.borrow_mut().get_retries += 1;
                    continue 'again;
                }
                before = content(&slot, 0, open, into)?;
            }
            self.0.stats.borrow_mut().gets += 1;
            return Ok(at.version);
        }
    }

    /// Whether a version was seen to be the latest so short a time ago that it is good for the model.
    fn is_fresh(&self, open: &Open<V>, held: u64) -> bool {
        open.fresh.get().is_some_and(|(version, at)| version == held && self.is_within(open, at))
    }

    /// Whether a moment is so short a time ago that what was the latest then is good for the model.
    fn is_within(&self, open: &Open<V>, at: Nanos) -> bool {
        self.0.rt.now() - at < open.spec.model.patience()
    }

    /// Whether a version is near enough to the latest one, by the header.
    async fn is_near(&self, open: &Open<V>, held: u64) -> Result<bool, DdssError> {
        let began = self.0.rt.now();
        let latest = self.header(open).await?.version;
        if latest == held {
            open.fresh.set(Some((held, began)));
        }
        Ok(match open.spec.model {
            Model::Temporal(_) => self.is_fresh(open, held),
            // A version that is not there yet is of an earlier segment that had the name.
            model => latest.checked_sub(held).is_some_and(|back| back <= model.behind().into()),
        })
    }

    /// As [`Ddss::get`], but under temporal however slowly the home answers: for who wants to know what is there, and not how old it is.
    pub(super) async fn get_at_leisure(
        &self,
        segment: &Segment<V>,
        into: &mut [u8],
    ) -> Result<u64, DdssError> {
        let open = &segment.0;
        if !matches!(open.spec.model, Model::Temporal(_)) {
            return self.get(segment, into).await;
        }
        open.fits(into.len())?;
        // As who has the lock gets it, whose value is never too old.
        let version = self.latest(open, true, into).await?.unwrap_or_default();
        self.0.stats.borrow_mut().gets += 1;
        Ok(version)
    }

    /// Reads the latest value; nothing under strict while somebody else has the lock, and under temporal none that came later than the
    /// model's time allows. The holder of the lock, or of a turn, is not kept from it: nobody supersedes what it gets.
    pub(super) async fn latest(
        &self,
        open: &Open<V>,
        holds: bool,
        into: &mut [u8],
    ) -> Result<Option<u64>, DdssError> {
        let mut late = 0;
        loop {
            let look = self.look(open).await?;
            let header = look.before;
            // The slot is written again only after another one was published.
            if !header.publishes_as(look.after) {
                self.0.stats.borrow_mut().get_retries += 1;
                continue;
            }
            let locked = header.holder != 0 && look.after.holder != 0;
            if open.spec.model == Model::Strict && locked && !holds {
                return Ok(None);
            }
            if !look.has(header) {
                self.0.stats.borrow_mut().wrong_guesses += 1;
                continue;
            }
            // To copy a long value takes its time, too.
            look.value(header, open, into)?;
            if !holds && matches!(open.spec.model, Model::Temporal(_)) && !self.is_within(open, look.began) {
                late += 1;
                if late == MOST_LATE {
                    return Err(DdssError::Slow);
                }
                continue;
            }
            open.fresh.set(Some((header.version, look.began)));
            return Ok(Some(header.version));
        }
    }

    /// Reads the latest value with the segment's lock: taken, read and given back in one list. The read need not wait for the
    /// first swap, since it changes nothing; the last one compares with what only the first can have made.
    ///
    /// When an answer is lost, the home's adapter executes the reads behind it once more, and the swaps not (IBA 9.7.4.1.2): then the lock
    /// has been given back already, and others may have put. So the header is read behind the value: if it still publishes
    /// what it published under the lock, nobody has put since.
    ///
    /// A send queue that is too short for the list leaves the home's line.
    async fn get_alone(&self, open: &Rc<Open<V>>, into: &mut [u8]) -> Result<u64, DdssError> {
        let _turn = self.turn(open).await?;
        let mut misses = 0;
        let fits = self.0.mesh.longest_list(open.home.rank) >= 4;
        while fits && misses < MOST_MISSES && open.last.get().is_free() {
            let free = open.last.get();
            let (held, window) = (free.held_by(open.me), open.window(free.slot));
            let list = [
                (swap(open.header(), free, held), self.word_block()?),
                (SendOp::Read { from: window.from }, open.block(window.from.len)?),
                (SendOp::Read { from: open.header() }, self.word_block()?),
                (swap(open.header(), held, free), self.word_block()?),
            ];
            open.doubt.set(Some(Doubt::Takes));
            let outcome = self.post(open, list).await?;
            match outcome {
                Ok([found, slots, behind, last]) => {
                    open.doubt.set(None);
                    let (found, behind, last) = (word(&found)?, word(&behind)?, word(&last)?);
                    if found == free {
                        // The home has marked the header meanwhile.
                        if last != held {
                            open.last.set(last);
                            self.unlock(open).await?;
                        }
                        if behind.publishes_as(free) {
                            content(&slots, window.offset(free.slot).unwrap_or_default(), open, into)?;
                            return Ok(free.version);
                        }
                        self.0.stats.borrow_mut().get_retries += 1;
                        open.last.set(behind);
                        continue;
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
                    self.counts_unknown();
                    self.settle(open).await?;
                }
            }
        }
        self.get_entered(open, into).await
    }

    /// Reads the latest value in a turn by the home's line: nobody else changes the header.
    async fn get_entered(&self, open: &Open<V>, into: &mut [u8]) -> Result<u64, DdssError> {
        self.enter(open).await?;
        let version = self.latest(open, true, into).await;
        self.leave(open).await?;
        Ok(version?.unwrap_or_default())
    }
}
