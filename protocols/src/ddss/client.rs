//! Get and put.

use super::service::{Ddss, Open, Segment};
use super::{DdssError, Header, Model};
use crate::transport::{NotExecuted, OpError};
use weft_verbs::{RemoteSlice, Verbs};

impl<V: Verbs> Ddss<V> {
    /// Reads a segment into `into`, which is as long as the segment. Under all models but null, it is the whole value of one
    /// put, which nothing that completed before the call had superseded; its version is returned.
    ///
    /// Reads again where somebody publishes meanwhile: each time, somebody else's put has completed.
    ///
    /// # Errors
    ///
    /// The segment is of another size, or its home cannot be reached any more.
    pub async fn get(&self, segment: &Segment, into: &mut [u8]) -> Result<u64, DdssError> {
        Ok(self.get_if_newer(segment, None, into).await?.unwrap_or_default())
    }

    /// Reads a segment unless it is at the version that the caller has: then no data are moved, and there is no version
    /// (ddss.txt, 5.3: the version model).
    ///
    /// # Errors
    ///
    /// The segment is of another size, or its home cannot be reached any more.
    pub async fn get_if_newer(
        &self,
        segment: &Segment,
        held: Option<u64>,
        into: &mut [u8],
    ) -> Result<Option<u64>, DdssError> {
        let open = &*segment.0;
        fits(open, into.len())?;
        if open.spec.model == Model::Null {
            self.read(open, slot(open, 0), into).await?;
            self.0.stats.borrow_mut().gets += 1;
            return Ok(Some(0));
        }
        let mut header = self.header(open).await?;
        loop {
            if held == Some(header.version) {
                self.0.stats.borrow_mut().unchanged += 1;
                return Ok(None);
            }
            self.read(open, slot(open, header.slot), into).await?;
            // The slot is written again only after another one was published.
            let now = self.header(open).await?;
            if now == header {
                self.0.stats.borrow_mut().gets += 1;
                return Ok(Some(header.version));
            }
            self.0.stats.borrow_mut().get_retries += 1;
            header = now;
        }
    }

    /// Makes `value`, which is as long as the segment, the segment's value. Returns its version; none under null, and where
    /// a later put may have taken its place before anybody saw it.
    ///
    /// # Errors
    ///
    /// The segment is of another size, or its home cannot be reached any more: then nothing was published.
    pub async fn put(&self, segment: &Segment, value: &[u8]) -> Result<Option<u64>, DdssError> {
        let open = &*segment.0;
        fits(open, value.len())?;
        if open.spec.model == Model::Null {
            self.write(open, slot(open, 0), value).await?;
            self.0.stats.borrow_mut().puts += 1;
            return Ok(None);
        }
        open.turn.until(|| !open.busy.get()).await;
        open.busy.set(true);
        let turn = Turn(open);
        let published = self.publish(open, value).await;
        drop(turn);
        self.0.stats.borrow_mut().puts += u64::from(published.is_ok());
        published
    }

    /// Writes the free slot, and publishes it.
    async fn publish(&self, open: &Open, value: &[u8]) -> Result<Option<u64>, DdssError> {
        // Read within this put: what is found later, and is newer, was published meanwhile. A put of this node that was dropped
        // in the middle has published before this, or never will: the adapter executes in order, and a new connection
        // begins when the responder has fenced the old one.
        let mut header = self.header(open).await?;
        let first = 1 + 2 * self.0.mesh.me().index() as u16;
        let free = if header.slot == first { first + 1 } else { first };
        self.write(open, slot(open, free), value).await?;
        loop {
            let next = header.next(free);
            match self.0.mesh.compare_swap(open.home, open.at, header.word(), next.word()).await {
                Ok(found) if found == header.word() => return Ok(Some(next.version)),
                Ok(found) => {
                    self.0.stats.borrow_mut().swap_misses += 1;
                    header = Header::from_word(found);
                }
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {
                    self.0.stats.borrow_mut().unknown_outcomes += 1;
                    let now = self.resolved(open).await?;
                    if now == next {
                        return Ok(Some(next.version));
                    }
                    if now.version > header.version {
                        // Published and superseded, or never: nobody can know, and both are a put whose value the next one
                        // replaced at once, during this call.
                        return Ok(None);
                    }
                    header = now;
                }
            }
        }
    }

    /// The header once nothing that was sent before can change it any more.
    async fn resolved(&self, open: &Open) -> Result<Header, DdssError> {
        loop {
            match self.0.mesh.resolve_outcomes(open.home).await {
                Ok(()) => return self.header(open).await,
                Err(why) => again(why)?,
            }
        }
    }

    async fn header(&self, open: &Open) -> Result<Header, DdssError> {
        let mut word = [0; 8];
        self.read(open, open.at, &mut word).await?;
        Ok(Header::from_word(u64::from_ne_bytes(word)))
    }

    /// A read that failed changed nothing: it is done again.
    async fn read(&self, open: &Open, from: RemoteSlice, into: &mut [u8]) -> Result<(), DdssError> {
        loop {
            match self.0.mesh.read(open.home, from, into).await {
                Ok(()) => return Ok(()),
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {}
            }
        }
    }

    /// A write of unknown outcome may be executed late. It is done again once that cannot be: then the late one, if it came,
    /// wrote the same bytes before.
    async fn write(&self, open: &Open, to: RemoteSlice, value: &[u8]) -> Result<(), DdssError> {
        loop {
            match self.0.mesh.write(open.home, to, value).await {
                Ok(()) => return Ok(()),
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {
                    self.0.stats.borrow_mut().unknown_outcomes += 1;
                    self.resolved(open).await?;
                }
            }
        }
    }
}

/// A put's turn at a segment; the next one's begins when it ends.
struct Turn<'a>(&'a Open);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.turn.notify();
    }
}

/// What was not executed because a connection broke is tried again, on the next one.
fn again(why: NotExecuted) -> Result<(), DdssError> {
    match why {
        NotExecuted::Failed(_) => Ok(()),
        NotExecuted::Closed => Err(DdssError::Closed),
        other => Err(DdssError::NotExecuted(other)),
    }
}

fn fits(open: &Open, len: usize) -> Result<(), DdssError> {
    let size = open.spec.size;
    if size as usize == len { Ok(()) } else { Err(DdssError::Length { size, len }) }
}

/// Where a slot's value is.
fn slot(open: &Open, slot: u16) -> RemoteSlice {
    let at = open.spec.slot_at(slot.into());
    // A header that names a slot beyond the segment is none that a node has published; the adapter refuses what is left.
    open.at.slice(at..at.saturating_add(open.spec.size)).unwrap_or(RemoteSlice { len: 0, ..open.at })
}
